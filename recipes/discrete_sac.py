"""Soft actor-critic for discrete actions; the critics are the policy, or train an actor.

    rlkit-sac train discrete_sac
    rlkit-sac train discrete_sac --config acrobot --seed 1
    rlkit-sac train discrete_sac --env.id LunarLander-v3 --collector.total_frames 200000
    rlkit-sac train discrete_sac --actor true --loss.target_entropy scaled_log_k
    rlkit-sac train discrete_sac --seeds 0,1,2 --jobs 2

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
    DiscreteLossConfig,
    DiscreteUpdateConfig,
    EnvConfig,
    NetworkConfig,
    PriorConfig,
    ReplayConfig,
    RunConfig,
)
from rlkit_sac.data import example_transition, random_shift
from rlkit_sac.envs import action_mask_key, discrete_action_count, observation_layout, reward_dim
from rlkit_sac.modules import action_value_critic, categorical_actor
from rlkit_sac.objectives import DiscreteSACLoss
from rlkit_sac.updates import Update, UpdateSchedule


@dataclass
class DiscreteSACConfig(RunConfig):
    """A run of discrete soft actor-critic, as published.

    Without ``--config``, ``configs/discrete_sac/default.yaml`` changes some of these options.
    """

    env: EnvConfig = field(default_factory=lambda: EnvConfig(id="CartPole-v1"))
    replay: ReplayConfig = field(
        default_factory=lambda: ReplayConfig(capacity=100_000, batch_size=128)
    )
    prior: PriorConfig = field(default_factory=lambda: PriorConfig(kind="none"))
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(num_cells=[128, 128]))
    loss: DiscreteLossConfig = field(default_factory=DiscreteLossConfig)
    # With the usual tau of 0.005, values rise too slowly for the long episodes of CartPole.
    update: DiscreteUpdateConfig = field(
        default_factory=lambda: DiscreteUpdateConfig(target_update_tau=0.05)
    )
    actor: bool = False
    """Train a categorical actor, which is the policy then instead of the critics."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        names = {name for entry in self.update.step_groups() for name in entry}
        yield from super().errors()
        if self.actor and not {"joint", "actor"} & names:
            yield "update.order", "must also name 'actor', or set actor to false"
        if self.critic_keys and not self.actor:
            text = "must be null, since the critics are the policy; or set actor to true"
            yield "network.critic_keys", text
        if "actor" in names and not self.actor:
            yield "update.order", "names 'actor', but there is none: set actor to true"
        if self.prior.warm_start and not self.actor:
            yield "prior.warm_start", "needs an actor: set actor to true"
        if self.prior.kind != "none" and "target_entropy" in self.loss.schedules:
            yield "loss.schedules", "must name target_kld_discrete in place of target_entropy here"


def build(config: DiscreteSACConfig, env: EnvBase) -> runs.Parts:
    """Make the loss, update, replay buffer and collector for an environment."""
    device = env.device

    # Networks and loss.
    sizes = {
        "num_actions": discrete_action_count(env),
        "memory": runs.memory_options(config.network, env),
    }
    critic = runs.build_network(
        config.network,
        action_value_critic,
        observation_dim=runs.critic_inputs(config.network, env),
        **sizes,
        reward_dim=reward_dim(env),
        **config.network.critic_arguments(),
    ).to(device)
    actor = None
    if config.actor:
        actor = runs.build_network(
            config.network,
            categorical_actor,
            observation_dim=runs.observation_inputs(config.network, env),
            **sizes,
            **config.network.actor_arguments(),
        ).to(device)
    loss_module = DiscreteSACLoss(
        critic,
        actor,
        action_spec=env.full_action_spec_unbatched["action"],
        prior_network=runs.make_prior(config.prior, env),
        encoder_network=runs.shared_encoder(config.network, env),
        burn_in=config.replay.burn_in,
        diagnostics=True,
        **config.loss.arguments(),
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


def main(config: DiscreteSACConfig, session: runs.Session | None = None) -> Path:
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
            recipe="discrete_sac",
            eval_env=eval_env,
            target_entropy=loss_module.target_entropy,
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
    runs.run_recipe(main, DiscreteSACConfig)
