"""Soft actor-critic for continuous actions, kept close to a prior policy.

    rlkit-sac train kl_prior_sac
    rlkit-sac train kl_prior_sac --prior.kind same_action --loss.target_kld_per_dim 1
    rlkit-sac train kl_prior_sac --prior.kind policy --prior.run runs/sac/Pendulum-v1/<run>
    rlkit-sac train kl_prior_sac --config pendulum_controller
    rlkit-sac train kl_prior_sac --seeds 0,1,2 --jobs 2

The loss holds a frozen copy of the prior, and tunes the temperature to a divergence from it.
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
from rlkit_sac.config import ContinuousLossConfig, GaussianNetworkConfig, PriorConfig, RunConfig
from rlkit_sac.data import example_transition, random_shift
from rlkit_sac.envs import continuous_action_bounds, observation_layout, reward_dim
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.updates import Update, UpdateSchedule


@dataclass
class KLPriorSACConfig(RunConfig):
    """A run of soft actor-critic with a prior, as published.

    Without ``--config``, ``configs/kl_prior_sac/default.yaml`` changes some of these options.
    """

    prior: PriorConfig = field(default_factory=PriorConfig)
    network: GaussianNetworkConfig = field(default_factory=GaussianNetworkConfig)
    loss: ContinuousLossConfig = field(default_factory=ContinuousLossConfig)

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if self.prior.kind == "none":
            yield "prior.kind", "must not be none: without a prior, train sac"


def build(config: KLPriorSACConfig, env: EnvBase) -> runs.Parts:
    """Make the loss, update, replay buffer and collector for an environment."""
    device = env.device

    # Networks, prior and loss.
    action_low, action_high = continuous_action_bounds(env)
    memory = runs.memory_options(config.network, env)
    actor = runs.build_network(
        config.network,
        tanh_gaussian_actor,
        observation_dim=runs.observation_inputs(config.network, env),
        memory=memory,
        action_low=action_low,
        action_high=action_high,
        **config.network.actor_arguments(),
    ).to(device)
    critic = runs.build_network(
        config.network,
        state_action_critic,
        observation_dim=runs.critic_inputs(config.network, env),
        memory=memory,
        action_dim=len(action_low),
        reward_dim=reward_dim(env),
        **config.network.critic_arguments(),
    ).to(device)
    loss_module = ContinuousSACLoss(
        actor,
        critic,
        prior_network=runs.make_prior(config.prior, env),
        encoder_network=runs.shared_encoder(config.network, env),
        burn_in=config.replay.burn_in,
        diagnostics=True,
        **config.loss.arguments(),
        **runs.make_normalizers(config.normalization, env, gamma=config.loss.gamma),
    )

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


def main(config: KLPriorSACConfig, session: runs.Session | None = None) -> Path:
    """Train, evaluate and save a policy, and return the run directory."""
    with runs.make_envs(config, session) as (env, eval_env, session):
        parts = build(config, env)
        loss_module, update, replay, collector = parts
        layout, stored = observation_layout(env), runs.stored_keys(config, loss_module)
        is_scheduled = config.loss.fixed_alpha or "target_kld_per_dim" in config.loss.schedules
        updates = UpdateSchedule(
            learning_starts=config.collector.learning_starts, utd_ratio=config.update.utd_ratio
        )

        with runs.training_run(
            config,
            session,
            parts,
            recipe="kl_prior_sac",
            eval_env=eval_env,
            target_kld=None if is_scheduled else -loss_module.target_entropy,
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
    runs.run_recipe(main, KLPriorSACConfig)
