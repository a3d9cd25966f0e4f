"""Parameters of some modules from another run."""

from __future__ import annotations

from torchrl.objectives import LossModule

from rlkit_sac.config import WarmStartConfig
from rlkit_sac.errors import ConfigError
from rlkit_sac.runs.checkpoints import Manifest, read_state
from rlkit_sac.runs.checkpoints.resume import find_checkpoint
from rlkit_sac.runs.update_steps import PARAMETER_PREFIXES

_PREFIXES = PARAMETER_PREFIXES | {"critic": "critic_network_params"}


def check_warm_start(config: WarmStartConfig) -> None:
    """Refuse a run without a checkpoint to start from.

    Args:
        config: which run; without one nothing is checked.

    Raises:
        ConfigError: naming what is missing.

    >>> check_warm_start(WarmStartConfig())
    """
    if config.run is not None:
        find_checkpoint(config.run)


def warm_start(loss_module: LossModule, config: WarmStartConfig) -> None:
    """Load modules of a loss from a checkpoint of another run.

    Critics are loaded with their target networks; optimizers, replay and counters are not loaded.

    Args:
        loss_module: the loss to be trained.
        config: which run, which modules; without a run nothing happens.

    Raises:
        ConfigError: if the checkpoint cannot be read, or a module is missing or of another shape.
    """
    if config.run is None:
        return
    folder = find_checkpoint(config.run)[1]
    try:
        saved = read_state(Manifest.read(folder))["loss"]
    except Exception as error:  # any error that wrong content of a file can cause
        raise ConfigError(f"cannot warm-start from {folder}: {error}") from error
    own = loss_module.state_dict()
    normalizer = "observation_normalizer"
    both = [any(name.startswith(normalizer) for name in state) for state in (saved, own)]
    networks = [module for module in config.modules if module != "alpha"]
    if networks and both[0] != both[1]:
        raise ConfigError(
            f"cannot warm-start {networks[0]} from {folder}: its networks "
            f"{'read' if both[0] else 'do not read'} normalized observations; set "
            f"normalization.observations to {str(both[0]).lower()}"
        )
    for module in config.modules:
        prefix = _PREFIXES[module]
        names = [name for name in own if name.startswith((prefix, f"target_{prefix}"))]
        if not names:
            raise ConfigError(
                f"cannot warm-start {module}: {type(loss_module).__name__} has none; leave it out "
                "of warm_start.modules"
            )
        if module != "alpha":
            names += [name for name in own if name.startswith(normalizer)]
        for name in names:
            there = list(saved[name].shape) if name in saved else "missing"
            if there != list(own[name].shape):
                raise ConfigError(
                    f"cannot warm-start {module} from {folder}: {name} is {there} there and "
                    f"{list(own[name].shape)} here; use the same environment and network options, "
                    "or leave the module out of warm_start.modules"
                )
            own[name] = saved[name]
    loss_module.load_state_dict(own)
