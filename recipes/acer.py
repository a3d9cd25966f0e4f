"""Actor-critic with experience replay, for discrete or continuous actions.

    rlkit-sac train acer
    rlkit-sac train acer --config pendulum --seed 1
    rlkit-sac train acer --env.id Acrobot-v1 --collector.total_frames 200000
    rlkit-sac train acer --update.n_times_replay 8 --update.poisson false
    rlkit-sac train acer --seeds 0,1,2 --jobs 2

Each batch of segments gives an on-policy update, then some updates from replay. Tables, checkpoints
and figures go to a run directory. ``--help all`` lists every option.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from torch.optim import Adam, Optimizer, RMSprop
from torchrl.envs import EnvBase
from torchrl.objectives import SoftUpdate

from rlkit_sac import envs, modules, runs
from rlkit_sac.config import (
    ACERCollectorConfig,
    ACERLossConfig,
    ACERNetworkConfig,
    ACERReplayConfig,
    ACERUpdateConfig,
    ACERWarmStartConfig,
    BaseRunConfig,
    EnvConfig,
    EvaluationConfig,
    NormalizationConfig,
)
from rlkit_sac.data import TrajectorySampler, example_transition, random_shift
from rlkit_sac.objectives import ACERLoss
from rlkit_sac.updates import LossStep, ReplaySchedule, TargetStep, Update


@dataclass
class ACERConfig(BaseRunConfig):
    """A run of actor-critic with experience replay, as published; the defaults learn CartPole-v1.

    Without ``--config``, ``configs/acer/default.yaml`` changes some of these options.
    """

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="CartPole-v1", num_envs=8))
    collector: ACERCollectorConfig = field(
        default_factory=lambda: ACERCollectorConfig(total_frames=120_000)
    )
    replay: ACERReplayConfig = field(default_factory=ACERReplayConfig)
    network: ACERNetworkConfig = field(default_factory=ACERNetworkConfig)
    normalization: NormalizationConfig = field(default_factory=NormalizationConfig)
    loss: ACERLossConfig = field(default_factory=lambda: ACERLossConfig(reward_scale=0.1))
    update: ACERUpdateConfig = field(default_factory=ACERUpdateConfig)
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(interval=10_000))
    warm_start: ACERWarmStartConfig = field(default_factory=ACERWarmStartConfig)
    compile: Literal["auto"] | bool = "auto"
    """Compile the updates, on-policy and from replay: true from the first on, false never, auto
    after five thousand."""

    # So many small updates take as long as compiling.
    uncompiled_updates: ClassVar[int] = 5_000

    @property
    def row_length(self) -> int:
        """Frames of a segment."""
        return self.collector.t_max

    def planned_updates(self) -> float:
        """Return the approximate number of updates in the run."""
        batches = self.collector.total_frames / self.collector.batch_frames(self.batch_envs)
        return batches * (self.update.n_times_replay + (not self.update.disable_online_update))

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        start = self.update.replay_start_size
        batches = 2 * self.collector.batch_frames(self.batch_envs)
        if self.replay.capacity < max(batches, start):
            text = (
                f"must hold two batches of env.num_envs x collector.t_max frames ({batches}) and "
                f"update.replay_start_size ({start}), got {self.replay.capacity}"
            )
            yield "replay.capacity", text
        frames = -(-self.collector.total_frames // (batches // 2)) * (batches // 2)
        if self.update.disable_online_update and start > frames:
            text = (
                "must be within collector.total_frames where update.disable_online_update is true, "
                f"or nothing is learned, got {start}"
            )
            yield "update.replay_start_size", text


def make_networks(
    kind: modules.ActionKind, sizes: dict[str, Any], config: ACERNetworkConfig
) -> dict[str, Any]:
    """Make actor and critic, or both on one trunk, as keyword arguments of the loss."""
    layers, build = config.critic_arguments(), partial(runs.build_network, config)
    if kind == "discrete":
        policy = config.actor_arguments("log_std")
        if config.shared_trunk:
            return {"actor_critic": build(modules.categorical_actor_critic, **sizes, **policy)}
        actor, critic = (
            build(modules.categorical_actor, **sizes, **policy),
            build(modules.action_value_critic, **sizes, **layers),
        )
        return {"actor_network": actor, "critic_network": critic}
    policy = config.actor_arguments()
    if config.shared_trunk:
        both = build(
            modules.gaussian_actor_critic, **sizes, **policy, num_samples=config.num_samples
        )
        return {"actor_critic": both}
    critic = modules.StochasticDuelingNetwork(
        build(
            modules.state_critic,
            observation_dim=sizes["observation_dim"],
            memory=sizes["memory"],
            **layers,
        ),
        build(modules.state_action_critic, **sizes, **layers),
        config.num_samples,
    )
    return {
        "actor_network": build(modules.gaussian_actor, **sizes, **policy),
        "critic_network": critic,
    }


def build(config: ACERConfig, env: EnvBase) -> runs.Parts:
    """Make the loss, update, replay buffer and collector for an environment."""
    device = env.device

    # Networks and loss.
    kind: modules.ActionKind = "discrete" if envs.has_discrete_actions(env) else "continuous"
    envs.check_scalar_reward(env)
    sizes: dict[str, Any] = {"observation_dim": runs.observation_inputs(config.network, env)}
    if kind == "discrete":
        sizes["num_actions"] = envs.discrete_action_count(env)
    else:
        sizes["action_dim"] = len(envs.continuous_action_bounds(env)[0])
    networks = make_networks(
        kind, sizes | {"memory": runs.memory_options(config.network, env)}, config.network
    )
    loss_module = ACERLoss(
        **{name: network.to(device) for name, network in networks.items()},
        burn_in=config.replay.burn_in,
        diagnostics=True,
        **config.loss.arguments(),
        **runs.make_normalizers(config.normalization, env, gamma=config.loss.gamma),
    )
    loss_module.set_keys(action_mask=envs.action_mask_key(env))

    # One optimizer for all networks; the target network is the average policy.
    parameters, lr = loss_module.parameters(), config.update.lr
    optimizer: Optimizer
    if config.update.optimizer == "adam":
        fused = device.type in ("cpu", "cuda")
        optimizer = Adam(parameters, lr=lr, eps=config.update.adam_eps, fused=fused)
    else:
        alpha, eps = config.update.rmsprop_alpha, config.update.rmsprop_eps
        optimizer = RMSprop(parameters, lr=lr, alpha=alpha, eps=eps)
    update = Update(
        loss_module,
        {"all": optimizer},
        [LossStep(("loss_actor", "loss_critic", "loss_entropy"), ("all",)), TargetStep()],
        target_updater=SoftUpdate(loss_module, tau=config.update.target_update_tau),
        compile_from=runs.first_compiled_update(config, device),
        group=runs.learner_group(),
        **config.update.arguments(),
    )
    runs.warm_start(loss_module, config, env)

    # Replay of segments, and collection; both store the distribution that each action is from.
    random_policy = modules.RandomBehavior(
        env.full_action_spec_unbatched["action"], mask_key=envs.action_mask_key(env)
    )
    policy = loss_module.policy()
    stored = [*runs.stored_keys(config, loss_module), "is_init"]
    sampler = TrajectorySampler(
        config.collector.t_max, capacity=config.replay.capacity, **config.replay_layout()
    )
    replay = runs.make_replay(
        config,
        env,
        example_transition(env, stored, policy=policy, random_policy=random_policy),
        sampler=sampler,
    )
    collector = runs.make_run_collector(config, env, policy, update, random_policy=random_policy)
    return runs.Parts(loss_module, update, replay, collector)


def main(config: ACERConfig, session: runs.Session | None = None) -> Path:
    """Train, evaluate and save a policy, and return the run directory."""
    with runs.make_envs(config, session) as (env, eval_env, session):
        parts = build(config, env)
        loss_module, update, replay, collector = parts
        stored = [*runs.stored_keys(config, loss_module), "is_init"]
        segment_keys, layout = [*stored, *loss_module.state_keys], envs.observation_layout(env)
        replays = ReplaySchedule(
            n_times_replay=config.update.n_times_replay,
            poisson=config.update.poisson,
            replay_start_size=config.update.replay_start_size,
            group=update.group,
        )

        with runs.training_run(
            config,
            session,
            parts,
            recipe="acer",
            eval_env=eval_env,
        ) as run:
            for batch in collector:
                segments = batch.select(*segment_keys)
                is_random = run.frames < config.collector.init_random_frames
                replay.extend(segments.select(*stored).reshape(-1))
                run.collected(batch)
                if not (is_random or config.update.disable_online_update):
                    # The policy behind a batch of asynchronous workers is a few updates old.
                    loss_module.on_policy = not config.workers.is_async
                    run.updated(update(segments))
                loss_module.on_policy = False
                # Only now, since the on-policy update is of the policy that acted.
                loss_module.update_normalizers(batch)
                for _ in range(replays.due(len(replay))):
                    sample = random_shift(replay.sample(), layout, config.update.random_shift)
                    run.updated(update(sample))
                run.write_metrics_if_due()
                best = run.evaluate_if_due()
                run.save_if_due(best=best)
    return run.path


if __name__ == "__main__":
    runs.run_recipe(main, ACERConfig)
