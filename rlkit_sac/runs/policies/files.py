"""A trained policy on disk: weights as safetensors, how to rebuild it as JSON, never a pickle."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from tensordict.nn import TensorDictModuleBase

from rlkit_sac.errors import RunError
from rlkit_sac.modules.rebuild import build_from_note, checked_note
from rlkit_sac.runs.checkpoint import step_folders, step_of
from rlkit_sac.runs.files import (
    checksum,
    os_errors_named,
    read_described,
    write_atomically,
)
from rlkit_sac.runs.machine import resolve_device
from rlkit_sac.runs.policies.act import Act, device_of
from rlkit_sac.runs.tables.evaluations import best_frames

FORMAT_VERSION = 2


def save_policy(
    directory: Path | str, policy: TensorDictModuleBase, *, task: dict[str, Any] | None = None
) -> None:
    """Write ``policy.safetensors`` and ``policy.json`` into a directory.

    ``policy.json`` is written last: with it the pair is complete. For a policy made of networks of
    the package it says how to build them; of any other it says that it cannot, and the weights are
    for ``load_policy(..., into=module)``.

    Args:
        directory: made where missing, such as ``run / "checkpoints" / "step_500"``.
        policy: the acting module, on any device.
        task: what :func:`~rlkit_sac.envs.describe_task` returns for the environment, so that the
            loaded policy can ``act``.

    Raises:
        RunError: if a file cannot be written.

    >>> import tempfile
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> run = Path(tempfile.mkdtemp())
    >>> policy = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> save_policy(run / "checkpoints" / "step_500", policy)
    >>> load_policy(run).in_keys
    ['observation']
    """
    files, folder = policy_files(policy, task=task), Path(directory)
    with os_errors_named(f"cannot create {directory}"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, content)


def policy_files(
    policy: TensorDictModuleBase, *, task: dict[str, Any] | None = None
) -> dict[str, bytes]:
    """The files that :func:`save_policy` writes, by name, ``policy.json`` last.

    Args:
        policy: the acting module, on any device.
        task: as for :func:`save_policy`.
    """
    weights = safetensors.torch.save(
        {
            name: tensor.detach().cpu().contiguous().clone()
            for name, tensor in policy.state_dict().items()
        }
    )
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        **(checked_note(policy) or {"builder": None, "arguments": {}}),
        "task": task,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
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
    device: torch.device | str | None = None,
    into: TensorDictModuleBase | None = None,
) -> TensorDictModuleBase:
    """The policy of one of a run's checkpoints, in evaluation mode.

    Besides being a TensorDictModule, it has a method ``act``, from the observation of the Gymnasium
    task to the action that its ``step`` takes, with a memory also from state to state, see
    :class:`~rlkit_sac.runs.policies.act.Act`. An ``into`` with an attribute ``act`` of its own
    keeps that one.

    Args:
        run_dir: the run directory, or one of its ``checkpoints/step_<frames>``.
        which: the newest checkpoint of the run, or that of the best evaluation.
        device: where the policy shall live, whatever device it was trained on, as for
            :func:`~rlkit_sac.runs.resolve_device`. Default: the CPU, or where ``into`` is.
        into: a module of the same weights, which are loaded into it in place: for policies with
            networks that the package does not build.

    Returns:
        The policy, newly built, or ``into``.

    Raises:
        ConfigError: for a device that this machine does not have.
        RunError: naming the file, if one is missing, damaged, or not of this format; or if the
            weights do not fit ``into``, which may then have some of them.
    """
    if device is None and into is None:
        device = "cpu"
    target = None if device is None else resolve_device(str(device))
    folder = find_policy(Path(run_dir), which)
    description, weights = _read_files(folder)
    policy = _described(description, folder) if into is None else into
    if (target or device_of(policy)).type == "mps":  # which has no float64
        weights = {n: w.float() if w.dtype == torch.float64 else w for n, w in weights.items()}
    act = Act(policy, description["task"])
    try:
        policy.load_state_dict(weights, assign=into is None)
    except RuntimeError as error:
        text = " ".join(str(error).split())
        raise RunError(f"{folder / 'policy.safetensors'} does not fit: {text}") from error
    if target is not None:
        policy.to(target)
    if "act" not in dir(policy) or isinstance(policy.act, Act):
        policy.act = act
    return policy.eval()


def _read_files(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The description of a policy, and its weights."""
    weights_file = folder / "policy.safetensors"
    description = read_described(folder / "policy.json", "a policy", version=FORMAT_VERSION)
    with os_errors_named(f"{weights_file} cannot be read"):
        content = weights_file.read_bytes()
    if hashlib.sha256(content).hexdigest() != description.get("weights_sha256"):
        raise RunError(f"{weights_file} is damaged: its checksum is not that of policy.json")
    return description, safetensors.torch.load(content)


def _described(description: dict[str, Any], folder: Path) -> TensorDictModuleBase:
    """The policy that a file describes, on the device ``meta``."""
    if description["builder"] is None:
        raise RunError(
            f"{folder / 'policy.json'} is of a policy that this package cannot build, such "
            "as one with networks of your own: build it and pass it, load_policy(run, into=policy);"
            " record_run and export_policy take into= as well"
        )
    return build_from_note(description)


def find_policy(run_dir: Path, which: str) -> Path:
    """The folder that :func:`load_policy` reads.

    Raises:
        RunError: if there is none.
    """
    if which not in ("last", "best"):
        raise RunError(f"which is {which!r}; choose 'last' or 'best'")
    with os_errors_named(f"{run_dir} cannot be read"):
        if (run_dir / "policy.json").exists():
            return run_dir
        folders = (file.parent for file in run_dir.glob("checkpoints/step_*/policy.json"))
        steps = {at: folder for folder in folders if (at := step_of(folder)) is not None}
        # One whose policy.json is missing is damaged.
        steps |= step_folders(run_dir / "checkpoints")
    if not steps:
        wanted = run_dir / "checkpoints" / "step_<frames>" / "policy.json"
        raise RunError(f"no policy to load: there is no {wanted}")
    if which == "last":
        return steps[max(steps)]
    best = best_frames(run_dir, among=steps)
    if best is None:
        raise RunError(
            f"{run_dir / 'evaluations.csv'} has no evaluation of a checkpoint, and none is best: "
            "load the last"
        )
    return steps[best]
