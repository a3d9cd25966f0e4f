"""Soft actor-critic for actions that are discrete and continuous at once.

    rlkit-sac train hybrid_sac
    rlkit-sac train hybrid_sac --config hard_move --seed 1
    rlkit-sac train hybrid_sac --env.id Moving-v0 --collector.total_frames 60000
    rlkit-sac train hybrid_sac --loss.target_entropy [0.3,neg_dim] --loss.parameter_mask true
    rlkit-sac train hybrid_sac --seeds 0,1,2 --jobs 2

Tables, checkpoints and figures go to a run directory. ``--help all`` lists every option.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torch.optim import Adam
from torchrl.envs import EnvBase
from torchrl.objectives import SoftUpdate

from rlkit_sac import runs
from rlkit_sac.config import (
    EnvConfig,
    HybridLossConfig,
    HybridNetworkConfig,
    PriorConfig,
    ReplayConfig,
    RunConfig,
)
from rlkit_sac.data import example_transition, random_shift
from rlkit_sac.envs import (
    action_mask_key,
    hybrid_action_bounds,
    observation_layout,
    parameter_mask,
    reward_dim,
)
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import hybrid_critic, tanh_gaussian_actor
from rlkit_sac.objectives import HybridSACLoss
from rlkit_sac.updates import Update, UpdateSchedule


@dataclass
class HybridSACConfig(RunConfig):
    """A run of hybrid soft actor-critic, as published.

    Without ``--config``, ``configs/hybrid_sac/default.yaml`` changes some of these options.
    """

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="Platform-v0"))
    replay: ReplayConfig = field(
        default_factory=lambda: ReplayConfig(capacity=100_000, batch_size=128)
    )
    prior: PriorConfig = field(default_factory=lambda: PriorConfig(kind="none"))
    network: HybridNetworkConfig = field(
        default_factory=lambda: HybridNetworkConfig(num_cells=[128, 128])
    )
    loss: HybridLossConfig = field(default_factory=HybridLossConfig)

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if self.critic_keys:
            yield (
                "network.critic_keys",
                "must be null, since the critics choose the discrete action",
            )


def build(config: HybridSACConfig, env: EnvBase) -> runs.Parts:
    """Make the loss, update, replay buffer and collector for an environment."""
    device = env.device

    # Networks and loss.
    num_actions, action_low, action_high = hybrid_action_bounds(env)
    memory = runs.memory_options(config.network, env)
    actor = runs.build_network(
        config.network,
        tanh_gaussian_actor,
        observation_dim=runs.observation_inputs(config.network, env),
        memory=memory,
        action_low=action_low,
        action_high=action_high,
        action_key=("action", "continuous"),
        **config.network.actor_arguments(),
    ).to(device)
    critic = runs.build_network(
        config.network,
        hybrid_critic,
        observation_dim=runs.critic_inputs(config.network, env),
        memory=memory,
        action_dim=len(action_low),
        num_actions=num_actions,
        reward_dim=reward_dim(env),
        **config.network.critic_arguments(),
    ).to(device)
    loss_options, mask = config.loss.arguments(), parameter_mask(env)
    if config.loss.parameter_mask and mask is None:
        raise ConfigError(
            "loss.parameter_mask: is true, but the task's discrete actions do not have continuous "
            "parameters of their own: leave it false"
        )
    loss_options["parameter_mask"] = mask if config.loss.parameter_mask else None
    loss_module = HybridSACLoss(
        actor,
        critic,
        action_spec=env.full_action_spec_unbatched,
        prior_network=runs.make_prior(config.prior, env),
        encoder_network=runs.shared_encoder(config.network, env),
        burn_in=config.replay.burn_in,
        diagnostics=True,
        **loss_options,
        **runs.make_normalizers(config.normalization, env, gamma=config.loss.gamma),
    )
    loss_module.set_keys(action_mask=action_mask_key(env))

    # Optimizers, and the order of their steps.
    groups = runs.parameter_groups(loss_module)
    learning_rates = {
        "actor": config.update.lr_actor,
        "qvalue": config.update.lr_qvalue,
        "alpha": config.update.lr_alpha,
    }
    fused = device.type in ("cpu", "cuda")
    optimizers = {
        name: Adam(group, lr=learning_rates[name], eps=config.update.adam_eps, fused=fused)
        for name, group in groups.items()
    }
    update = Update(
        loss_module,
        optimizers,
        runs.update_steps(config.update, groups, learning_starts=config.collector.learning_starts),
        target_updater=SoftUpdate(loss_module, tau=config.update.target_update_tau),
        compile_from=runs.first_compiled_update(config, device),
        group=runs.learner_group(),
        **config.update.arguments(),
    )
    runs.warm_start(loss_module, config, env)

    # Replay and collection.
    policy = loss_module.policy()
    stored = runs.stored_keys(config, loss_module)
    replay = runs.make_replay(config, env, example_transition(env, stored, policy=policy))
    collector = runs.make_run_collector(config, env, policy, update)
    return runs.Parts(loss_module, update, replay, collector)


def main(config: HybridSACConfig, session: runs.Session | None = None) -> Path:
    """Train, evaluate and save a policy, and return the run directory."""
    with runs.make_envs(config, session) as (env, eval_env, session):
        parts = build(config, env)
        loss_module, update, replay, collector = parts
        layout, stored = observation_layout(env), runs.stored_keys(config, loss_module)
        updates = UpdateSchedule(
            learning_starts=config.collector.learning_starts, utd_ratio=config.update.utd_ratio
        )

        with runs.training_run(
            config,
            session,
            parts,
            recipe="hybrid_sac",
            eval_env=eval_env,
            target_entropy_discrete=loss_module.target_entropy_discrete,
            target_entropy_continuous=loss_module.target_entropy_continuous,
        ) as run:
            for batch in collector:
                loss_module.update_normalizers(batch)
                replay.extend(batch.select(*stored).reshape(-1))
                run.collected(batch)
                for _ in range(updates.due(run.frames, made=run.updates)):
                    sample = random_shift(replay.sample(), layout, config.update.random_shift)
                    run.updated(update(sample))
                    replay.update_tensordict_priority(sample)  # from the td_error of the loss
                run.write_metrics_if_due()
                best = run.evaluate_if_due()
                run.save_if_due(best=best)
    return run.path


if __name__ == "__main__":
    runs.run_recipe(main, HybridSACConfig)
