"""Loading networks of an earlier run (warm start)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torchrl.envs import EnvBase
from torchrl.objectives import LossModule

from rlkit_sac.config.run import BaseRunConfig, WarmStartConfig
from rlkit_sac.errors import ConfigError, prefix_errors
from rlkit_sac.modules.structure import changed_layer, structure
from rlkit_sac.runs.checkpoint import STATE, Checkpoint
from rlkit_sac.runs.policy import find_policy, load_policy, stored_task
from rlkit_sac.runs.saving import first_misfit, loss_parts
from rlkit_sac.runs.units import check_units
from rlkit_sac.updates.scheduled_values import schedule_value

#: For each loadable module, the prefixes of its parameters' names in the loss.
PARAMETER_PREFIXES = {
    "actor": ("actor_network_params",),
    "qvalue": ("qvalue_network_params", "encoder_network_params"),
    "value": ("value_network_params",),
    "alpha": ("log_alpha",),
    "critic": ("critic_network_params",),
}
# Running statistics that critics depend on, and attributes; actors depend on the first alone.
_STATISTICS = (
    *("observation_normalizer", "critic_normalizer", "reward_normalizer.statistics"),
    *("reward_normalizer.largest", "bounded of 'reward_normalizer'", "gamma of ''"),
    *("clip of 'reward_normalizer'", "reward_scale of ''"),
)


def warm_start(loss_module: LossModule, config: BaseRunConfig, env: EnvBase) -> None:
    """Load modules of a loss from a checkpoint of another run, or the actor from a cloned policy.

    Critics are loaded with their target networks; optimizers, replay and counters are not loaded.
    With ``prior.warm_start`` the actor is loaded from the prior's run, and the statistics of its
    observations stay as they are.

    Args:
        loss_module: the loss to be trained.
        config: the options of the run. Without a run to load from, or at a resume, nothing is
            loaded.
        env: the environment of this run.

    Raises:
        ConfigError: if the checkpoint cannot be read, its actions have other units than those of
            this run, or a module is missing, of another shape or another function; for critics, if
            rewards are scaled, normalized or discounted otherwise.
    """
    options, prior = config.warm_start, getattr(config, "prior", None)
    section = "warm_start.modules"
    if prior is not None and prior.warm_start:
        if options.run is not None:
            raise ConfigError("warm_start.run: must be null where prior.warm_start is true")
        options = WarmStartConfig(str(find_policy(Path(prior.run), prior.which)), ["actor"])
        section = "prior.warm_start"
        loss_module.keeps_observation_statistics = True  # they are part of the policy
    if options.run is None or config.resume is not None:
        return
    for name, points in config.loss.schedules.items():
        loss_module.set_scalar(name, schedule_value(points, 0))
    with prefix_errors("warm_start.run"):
        folder = find_policy(Path(options.run), "last")
        if not (folder / STATE).exists():
            saved, layers = _policy_state(folder, loss_module)
        else:
            start = Checkpoint.find(folder)
            folder, state = start.folder, start.state()
            saved, layers = state["loss"], state.get("layers", {})
        check_units(stored_task(folder), env, options.run)
    parts, own = loss_parts(loss_module), loss_module.state_dict()
    shares = any(name.startswith("encoder_network") for name in own)
    if shares and "actor" in options.modules and "qvalue" not in options.modules:
        raise ConfigError(f"{section}: actor needs qvalue, which includes their encoder")
    for module in options.modules:
        begins = PARAMETER_PREFIXES[module]
        begins += tuple(f"target_{prefix}" for prefix in begins)
        names = [name for name in own if name.startswith(begins)]
        if not names:
            raise ConfigError(
                f"{section}: {type(loss_module).__name__} has no {module}: leave it out"
            )
        others = {"actor": _STATISTICS[:1], "alpha": ()}.get(module, _STATISTICS)
        names += [name for name in own | saved if name.startswith(others)]
        wanted, found = (
            {name: state[name] for name in names if name in state} for state in (own, saved)
        )
        if misfit := first_misfit(wanted, found) or changed_layer(layers, parts, begins + others):
            raise ConfigError(
                f"{section}: {module} of {folder} does not fit: {misfit}; use the same "
                "options of env, network, loss and normalization.observations, or leave it out"
            )
        own |= found
    loss_module.load_state_dict(own)


def _policy_state(folder: Path, loss_module: LossModule) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the state and the structure of a policy's actor and normalizer, named as in a loss."""
    policy, keys = load_policy(folder), getattr(loss_module.actor_network, "out_keys", [])
    steps: list[Any] = [part for part in policy.modules() if hasattr(part, "get_dist")]
    actor: Any = next((step for step in reversed(steps) if step.out_keys == keys), None)
    normalizer: Any = getattr(policy, "normalizer", None)
    parts = nn.ModuleDict({"actor_network_params": actor, "observation_normalizer": normalizer})
    return parts.state_dict(), structure(parts)
