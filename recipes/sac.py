"""Soft actor-critic for continuous actions.

    python recipes/sac.py
    python recipes/sac.py --config recipes/configs/sac/halfcheetah.yaml --seed 1
    python recipes/sac.py --env.id InvertedPendulum-v5 --collector.total_frames 15000
    python recipes/sac.py --seeds 0,1,2 --jobs 2
    python recipes/sac.py --resume runs/sac/Pendulum-v1/<run> --collector.total_frames 20000

The data's way: environment, collector, replay, sample, loss, update; beside it evaluation, logs and
checkpoints in the run directory. ``--help`` lists every option.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
from torchrl.envs import EnvBase

from rlkit_sac.data import check_finite, example_transition, make_collector, make_replay_buffer
from rlkit_sac.envs import (
    SavedEpisodes,
    check_scalar_reward,
    closing,
    continuous_action_bounds,
    make_env,
    observation_dim,
)
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.training import (
    Check,
    CheckpointConfig,
    Checkpoints,
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
    Seed,
    TrainingLog,
    UpdateConfig,
    UpdateSchedule,
    WarmStartConfig,
    begin_run,
    check_config,
    check_resume,
    check_warm_start,
    deferred_signals,
    evaluate,
    evaluation_seed,
    flat_config,
    make_update,
    open_run,
    policy_files,
    report,
    resolve_device,
    run_recipe,
    seed_everything,
    standard_checks,
    warm_start,
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
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    resume: str | None = None
    """Run directory to go on with, or one of its checkpoints; it brings its own options along."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:<index> or mps."""
    num_threads: PositiveInt = 1
    """PyTorch's CPU threads: two are faster on an idle machine, far slower on a busy one."""

    def checks(self) -> list[Check]:
        """What the machine, the task and the run to go on with must fulfill."""
        task = [continuous_action_bounds, observation_dim, check_scalar_reward]
        source = (
            Check(("warm_start.run",), lambda: check_warm_start(self.warm_start))
            if self.resume is None
            else Check(("resume",), lambda: check_resume(self))
        )
        return [*standard_checks(self, task=task), source]


def main(config: SACConfig) -> Path:
    """Train, evaluate and save; returns the run directory."""
    check_config(config)
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
    if config.resume is None:
        warm_start(loss_module, config.warm_start)

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
        frames_per_batch=config.collector.batch_frames(config.env.num_envs),
        init_random_frames=config.collector.init_random_frames,
    )
    updates = UpdateSchedule(
        learning_starts=config.collector.learning_starts, utd_ratio=config.update.utd_ratio
    )
    metrics = Every(config.logging.interval)
    evaluations = Every(config.evaluation.interval)
    judge = partial(
        evaluate,
        policy,
        eval_env,
        episodes=config.evaluation.episodes,
        seed=evaluation_seed(config.seed),
        deterministic=config.evaluation.deterministic,
    )

    with (
        open_run(config, recipe="sac") as run,
        ProgressBar(total_frames, enabled=config.logging.progress) as progress,
    ):
        log = TrainingLog(run, progress, update.scalar_names, started=started)
        checkpoints = Checkpoints(
            run.path,
            {
                "loss": loss_module,
                "update": update,
                "collector": collector,
                "eval_env": SavedEpisodes(eval_env),
                "log": log,
                "run": run,
            },
            replay,
            policy=partial(
                policy_files, policy, builder="tanh_gaussian_actor", arguments=policy_arguments
            ),
            config=flat_config(config),
            **asdict(config.checkpoint),
        )
        begin_run(
            run,
            config,
            checkpoints,
            device=str(device),
            num_threads=config.num_threads,
            target_entropy=loss_module.target_entropy,
            parameters=sum(p.numel() for p in loss_module.parameters()),
        )
        with deferred_signals() as stop:
            for batch in collector:
                before = log.frames
                transitions = batch.select(*loss_module.in_keys)
                check_finite(transitions, frames=before)
                replay.extend(transitions.reshape(-1))
                log.collected(batch)
                for _ in range(updates.due(log.frames, made=log.updates)):
                    log.updated(update(replay.sample()))
                if metrics.due(before, log.frames):
                    log.write_metrics()
                best = evaluations.due(before, log.frames) and log.evaluated(judge())
                preferred = collector.between_episodes()
                if best or stop or checkpoints.due(log.frames, preferred=preferred):
                    checkpoints.save(log.frames)
                stop.obey()
            checkpoints.save(log.frames)
            stop.obey()
        # What the end alone brings comes after the checkpoint: a longer run would not have it.
        if run.metrics.last != log.frames:
            log.write_metrics()
        if run.evaluations.last != log.frames:
            log.evaluated(judge())

    print(report(run, log))
    return run.path


if __name__ == "__main__":
    run_recipe(main, SACConfig)
