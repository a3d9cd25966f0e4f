"""Soft actor-critic for continuous actions.

    python recipes/sac.py
    python recipes/sac.py --config recipes/configs/sac/halfcheetah.yaml --seed 1
    python recipes/sac.py --env.id InvertedPendulum-v5 --collector.total_frames 15000

The data's way: environment, collector, replay, sample, loss, update; beside it evaluation, logs and
the final policy in the run directory. ``--help`` lists every option.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torchrl.envs import EnvBase

from rlkit_sac.data import check_finite, example_transition, make_collector, make_replay_buffer
from rlkit_sac.envs import (
    check_scalar_reward,
    closing,
    continuous_action_bounds,
    make_env,
    observation_dim,
)
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.training import (
    CollectorConfig,
    EnvConfig,
    EvaluationConfig,
    Every,
    LoggingConfig,
    LossConfig,
    NetworkConfig,
    PositiveInt,
    ProgressBar,
    ReplayConfig,
    RunDirectory,
    Seed,
    TrainingLog,
    UpdateConfig,
    UpdateSchedule,
    evaluate,
    evaluation_seed,
    make_update,
    report,
    resolve_device,
    run_recipe,
    save_policy,
    seed_everything,
)


@dataclass
class SACConfig:
    """A run of soft actor-critic; the defaults learn Pendulum-v1 in a few CPU minutes."""

    env: EnvConfig = field(default_factory=EnvConfig)
    collector: CollectorConfig = field(default_factory=CollectorConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    update: UpdateConfig = field(default_factory=UpdateConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: Seed = 0
    """Seed of networks, environments, sampling and replay."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:<index> or mps."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads: two are faster on an idle machine, far slower on a busy one."""


def main(config: SACConfig) -> Path:
    """Train, evaluate and save; returns the run directory."""
    torch.set_num_threads(config.num_threads)
    seed_everything(config.seed)
    task = {
        "env_id": config.env.id,
        "rescale_actions": config.env.rescale_actions,
        "max_episode_steps": config.env.max_episode_steps,
        "kwargs": config.env.kwargs,
        "device": resolve_device(config.device),
    }
    copies = {"num_envs": config.env.num_envs, "parallel": config.env.parallel}
    with (
        closing(make_env(**task, **copies, seed=config.seed)) as env,
        closing(make_env(**task)) as eval_env,
    ):
        return train(config, env, eval_env)


def train(config: SACConfig, env: EnvBase, eval_env: EnvBase) -> Path:
    """Train in one environment, be judged in another; returns the run directory."""
    started = time.perf_counter()
    device = env.device
    check_scalar_reward(env)

    # Networks and loss.
    action_low, action_high = continuous_action_bounds(env)
    sizes = {"observation_dim": observation_dim(env)}
    policy_arguments = sizes | {"action_low": action_low, "action_high": action_high}
    policy_arguments |= asdict(config.network)
    actor = tanh_gaussian_actor(**policy_arguments).to(device)
    critic = state_action_critic(
        **sizes,
        action_dim=len(action_low),
        num_cells=config.network.num_cells,
        activation=config.network.activation,
    ).to(device)
    loss_module = ContinuousSACLoss(actor, critic, diagnostics=True, **asdict(config.loss))
    policy = loss_module.policy()
    update = make_update(loss_module, config.update)

    # Replay and collection.
    replay = make_replay_buffer(
        example_transition(env, loss_module.in_keys),
        **asdict(config.replay),
        device=device,
    )
    total_frames = config.collector.total_frames
    collector = make_collector(
        env,
        policy,
        total_frames=total_frames,
        frames_per_batch=config.collector.frames_per_batch,
        init_random_frames=config.collector.init_random_frames,
    )
    updates = UpdateSchedule(
        learning_starts=config.collector.learning_starts, utd_ratio=config.update.utd_ratio
    )
    metrics = Every(config.logging.interval, total_frames=total_frames)
    evaluations = Every(config.evaluation.interval, total_frames=total_frames)

    with (
        RunDirectory.create(
            config, recipe="sac", task=config.env.id, seed=config.seed, root=config.logging.dir
        ) as run,
        ProgressBar(total_frames, enabled=config.logging.progress) as progress,
    ):
        run.update_info(
            device=str(device),
            num_threads=config.num_threads,
            target_entropy=loss_module.target_entropy,
            parameters=sum(p.numel() for p in loss_module.parameters()),
        )
        log = TrainingLog(run, progress, update.scalar_names, started=started)
        for batch in collector:
            transitions = batch.select(*loss_module.in_keys)
            check_finite(transitions, frames=log.frames)
            replay.extend(transitions.reshape(-1))
            log.collected(batch)
            for _ in range(updates.due(log.frames)):
                log.updated(update(replay.sample()))
            if metrics.due(log.frames):
                log.write_metrics()
            if evaluations.due(log.frames):
                result = evaluate(
                    policy,
                    eval_env,
                    episodes=config.evaluation.episodes,
                    seed=evaluation_seed(config.seed),
                    deterministic=config.evaluation.deterministic,
                )
                log.evaluated(result)
        save_policy(
            run.checkpoints / f"step_{log.frames}",
            policy,
            builder="tanh_gaussian_actor",
            arguments=policy_arguments,
        )
        run.update_info(frames=log.frames, updates=log.updates)

    print(report(run, log))
    return run.path


if __name__ == "__main__":
    run_recipe(main, SACConfig)
