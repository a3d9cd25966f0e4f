"""A trained policy on disk: weights as safetensors, how to rebuild it as JSON, never a pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from safetensors import SafetensorError
from tensordict.nn import TensorDictModuleBase

from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.modules import (
    boltzmann_policy,
    categorical_actor,
    categorical_behavior_policy,
    gaussian_behavior_policy,
    hybrid_policy,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.normalization import NormalizedPolicy, ObservationNormalizer
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.runs.checkpoints import step_of
from rlkit_sac.runs.evaluation import best_frames
from rlkit_sac.runs.files import checksum, os_errors_named, read_described, write_atomically

FORMAT_VERSION = 1
# Only these may be called: a file never names code by its import path.
_BUILDERS: Mapping[str, Callable[..., TensorDictModuleBase]] = {
    "boltzmann_policy": boltzmann_policy,
    "categorical_actor": categorical_actor,
    "categorical_behavior_policy": categorical_behavior_policy,
    "gaussian_behavior_policy": gaussian_behavior_policy,
    "hybrid_policy": hybrid_policy,
    "tanh_gaussian_actor": tanh_gaussian_actor,
}


def save_policy(
    directory: Path, policy: TensorDictModuleBase, *, builder: str, arguments: dict[str, Any]
) -> None:
    """Write ``policy.safetensors`` and ``policy.json`` into a directory.

    ``policy.json`` is written last: with it the pair is complete.

    Args:
        directory: made where missing, such as ``run / "checkpoints" / "step_500"``.
        policy: the acting module, on any device.
        builder: name of the function that builds it, as known to `load_policy`.
        arguments: JSON values to call the builder with.

    Raises:
        RunError: if a file cannot be written.
        ValueError: if ``builder`` is unknown or ``arguments`` are not JSON.

    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp())
    >>> arguments = {"observation_dim": 3, "action_low": [-1.0], "action_high": [1.0]}
    >>> policy = tanh_gaussian_actor(**arguments)
    >>> save_policy(
    ...     run / "checkpoints" / "step_500",
    ...     policy,
    ...     builder="tanh_gaussian_actor",
    ...     arguments=arguments,
    ... )
    >>> load_policy(run).in_keys
    ['observation']
    """
    files = policy_files(policy, builder=builder, arguments=arguments)
    with os_errors_named(f"cannot create {directory}"):
        directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(directory / name, content)


def policy_files(
    policy: TensorDictModuleBase, *, builder: str, arguments: dict[str, Any]
) -> dict[str, bytes]:
    """The files that :func:`save_policy` writes, by name, ``policy.json`` last.

    Args:
        policy: the acting module, on any device.
        builder: name of the function that builds it, as known to `load_policy`.
        arguments: JSON values to call the builder with.

    Raises:
        ValueError: if ``builder`` is unknown or ``arguments`` are not JSON.
        ConfigError: if the policy acts by a prior, which no builder knows.
    """
    if builder not in _BUILDERS:
        raise ValueError(f"unknown builder {builder!r}; choose one of {sorted(_BUILDERS)}")
    json.dumps(arguments, allow_nan=False, default=_refuse)
    if any(isinstance(module, FrozenPrior) for module in policy.modules()):
        raise ConfigError(
            "a policy over discrete actions that acts by a prior cannot be saved as a file that "
            "load_policy reads: save its state_dict() beside the code that builds it"
        )
    weights = safetensors.torch.save(
        {name: tensor.detach().cpu().clone() for name, tensor in policy.state_dict().items()}
    )
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "builder": builder,
        "arguments": arguments,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    if isinstance(policy, NormalizedPolicy):
        normalizer = policy.normalizer
        description["observation_normalizer"] = {
            "observation_dim": normalizer.observation_dim,
            "clip": normalizer.clip,
            "key": normalizer.key,
        }
    description["sha256"] = checksum(description)
    return {
        "policy.safetensors": weights,
        "policy.json": json.dumps(description, indent=2).encode(),
    }


def load_policy(
    run_dir: Path | str,
    *,
    which: Literal["last", "best"] = "last",
    device: torch.device | str = "cpu",
) -> TensorDictModuleBase:
    """Rebuild the policy of one of a run's checkpoints, in evaluation mode.

    Args:
        run_dir: the run directory, or one of its ``checkpoints/step_<frames>``.
        which: the newest checkpoint of the run, or that of the best evaluation.
        device: where the policy shall live, whatever device it was trained on.

    Raises:
        RunError: naming the file, if one is missing, damaged, or not of this format.
    """
    directory = _find_checkpoint(Path(run_dir), which)
    description = _read_description(directory / "policy.json")
    weights_file = directory / "policy.safetensors"
    with os_errors_named(f"{weights_file} cannot be read"):
        content = weights_file.read_bytes()
    if hashlib.sha256(content).hexdigest() != description.get("weights_sha256"):
        raise RunError(f"{weights_file} is damaged: its checksum is not that of policy.json")
    try:
        policy: TensorDictModuleBase
        policy = _BUILDERS[description["builder"]](**description.get("arguments", {}))
        if "observation_normalizer" in description:
            normalizer = ObservationNormalizer(**description["observation_normalizer"])
            policy = NormalizedPolicy(policy, normalizer)
        policy.load_state_dict(safetensors.torch.load(content), strict=True)
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        text = f"{weights_file} does not hold the policy that policy.json describes: {error}"
        raise RunError(text) from error
    return policy.to(device).eval()


def _find_checkpoint(run_dir: Path, which: str) -> Path:
    if which not in ("last", "best"):
        raise RunError(f"which is {which!r}; choose 'last' or 'best'")
    if (run_dir / "policy.json").exists():
        return run_dir
    folders = (file.parent for file in run_dir.glob("checkpoints/step_*/policy.json"))
    steps = {at: folder for folder in folders if (at := step_of(folder)) is not None}
    if not steps:
        wanted = run_dir / "checkpoints" / "step_<frames>" / "policy.json"
        raise RunError(f"no policy to load: there is no {wanted}")
    if which == "last":
        return steps[max(steps)]
    best = best_frames(run_dir, among=steps)
    if best is None:
        raise RunError(
            f"no checkpoint of {run_dir} was evaluated: there is no best one; load the last"
        )
    return steps[best]


def _read_description(path: Path) -> dict[str, Any]:
    description = read_described(path, "a policy", versions=[FORMAT_VERSION])
    name = description.get("builder")
    if not isinstance(name, str) or name not in _BUILDERS:
        raise RunError(f"{path} names the unknown builder {name!r}; known are {sorted(_BUILDERS)}")
    return description


def _refuse(value: object) -> None:
    raise ValueError(f"arguments must be JSON values, got {value!r}")
