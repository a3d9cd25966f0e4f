"""The policy of a run: saved, loaded, and how its run evaluates it; never a pickle."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.config.options import options_of
from rlkit_sac.config.recipe import BaseRunConfig
from rlkit_sac.envs import closing_env, describe_task
from rlkit_sac.errors import ConfigError, RunError, summary
from rlkit_sac.modules.rebuild import build_from_note, check_function, checked_note
from rlkit_sac.modules.structure import changed_layer, structure
from rlkit_sac.runs.acting import Act, own_tensor
from rlkit_sac.runs.checkpoint import MANIFEST, Checkpoint, step_folders
from rlkit_sac.runs.directory import best_frames, read_evaluations
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate, evaluation_env, evaluation_seed
from rlkit_sac.runs.files import (
    checksum,
    join_state,
    os_errors_named,
    read_checked,
    read_described,
    sha256,
    write_atomically,
)
from rlkit_sac.runs.machine import resolve_device

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
    state = {name: each.detach().cpu().contiguous() for name, each in policy.state_dict().items()}
    weights = safetensors.torch.save({name: each.clone() for name, each in state.items()})
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        **(checked_note(policy) or {"builder": None, "layers": structure(policy)}),
        "task": task,
        "weights_sha256": sha256(weights),
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
    :class:`~rlkit_sac.runs.acting.Act`. An ``into`` with an attribute ``act`` of its own
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
    act = load_act(find_policy(Path(run_dir), which), device=device, into=into)
    if "act" not in dir(act.policy) or isinstance(act.policy.act, Act):
        act.policy.act = act
    return act.policy


def load_act(
    folder: Path,
    *,
    device: torch.device | str | None = None,
    into: TensorDictModuleBase | None = None,
) -> Act:
    """Acting by the policy in a folder, as by :func:`load_policy`."""
    weights_file = folder / "policy.safetensors"
    description = read_described(folder / "policy.json", version=FORMAT_VERSION)
    content = read_checked(weights_file, description.get("weights_sha256"))
    if into is None and description["builder"] is None:
        raise RunError(
            f"{folder / 'policy.json'} is of a policy that this package cannot build: build it and "
            "pass it: load_policy(run, into=policy); record_run and export_policy take into= too"
        )
    policy = build_from_note(description) if into is None else into
    if device is None:
        device = "cpu" if into is None else own_tensor(into).device
    target = resolve_device(str(device))
    weights = safetensors.torch.load(content)
    if target.type == "mps":  # which has no float64
        weights = {n: w.float() if w.dtype == torch.float64 else w for n, w in weights.items()}
    try:
        policy.load_state_dict(weights, assign=into is None)
        if into is not None and description["builder"] is not None:
            check_function(description, into.eval())
    except Exception as error:  # of any module
        raise RunError(f"{weights_file} does not fit: {summary(error)}") from error
    if change := changed_layer(description.get("layers", {}), policy):
        warnings.warn(f"{weights_file} may be of another function: {change}", stacklevel=3)
    return Act(policy.to(target).eval(), description["task"])


def stored_task(folder: Path) -> dict[str, Any] | None:
    """The task of the run of a policy, as :func:`~rlkit_sac.envs.describe_task` described it.

    Args:
        folder: of :func:`find_policy`.

    Raises:
        RunError: for a damaged file.
    """
    return read_described(folder / "policy.json", version=FORMAT_VERSION)["task"]


def check_spaces(folder: Path, env: EnvBase) -> None:
    """Refuse a task that has other spaces by now than when a policy was saved.

    Args:
        folder: of the policy.
        env: of the task.

    Raises:
        ConfigError: naming what is another one.
    """
    stored, own = stored_task(folder), describe_task(env)
    if stored is None or own is None or stored == own:
        return
    changes = [
        f"{name} was {stored.get(name)} and is {own[name]} now"
        for name in own
        if stored.get(name) != own[name]
    ]
    text = f"of the task {'; '.join(changes)}. Give it the spaces that it had"
    raise ConfigError(f"the policy in {folder} does not fit: {text}")


def find_policy(run_dir: Path, which: str) -> Path:
    """The folder that :func:`load_policy` reads.

    Raises:
        RunError: if there is none; for the best one, if evaluations.csv is shorter than it was at
            the newest checkpoint.
    """
    if which not in ("last", "best"):
        raise RunError(f"which is {which!r}; choose 'last' or 'best'")
    with os_errors_named(f"{run_dir} cannot be read"):
        if (run_dir / "policy.json").exists():
            return run_dir
        checkpoints = run_dir / "checkpoints"
        # One whose policy.json is missing is damaged.
        steps = step_folders(checkpoints, "policy.json") | step_folders(checkpoints)
    if not steps:
        wanted = checkpoints / "step_<frames>" / "policy.json"
        raise RunError(f"no policy to load: there is no {wanted}")
    newest = steps[max(steps)]
    if which == "last":
        return newest
    table, evaluations = run_dir / "evaluations.csv", read_evaluations(run_dir)
    if (newest / MANIFEST).is_file():
        state = join_state(Checkpoint.read(newest).tree, defaultdict(lambda: torch.empty(0)))
        if (found := len(evaluations)) < (wanted := state["run"]["evaluations"]["rows"]):
            raise RunError(
                f"{table} has {found} rows, but had {wanted} at the checkpoint {newest.name}: put "
                "them back, or load the last policy"
            )
    best = best_frames(evaluations, among=steps)
    if best is None:
        raise RunError(f"{table} has no evaluation of a checkpoint: load the last policy")
    return steps[best]


class StoredRun:
    """The task of a run, and how the run evaluates the policy of a checkpoint.

    Args:
        checkpoint: one of its ``checkpoints/step_<frames>``.
        options: ``episodes``, ``seed`` and ``deterministic`` of its evaluations. Default, also of
            ``None``: as during training.

    Attributes:
        path: the run directory.
        folder: of the checkpoint.
        frames: at the checkpoint.
        task: of the run.
        options: the keyword arguments of :func:`~rlkit_sac.runs.evaluate`.

    Raises:
        ConfigError: if the checkpoint is missing or damaged, or its environment is not that of
            :func:`~rlkit_sac.envs.make_env` alone.
    """

    def __init__(self, checkpoint: Path, **options: Any) -> None:
        found, config = Checkpoint.find(checkpoint), BaseRunConfig()
        for key, option in options_of(config).items():
            setattr(option.section, option.name, found.config.get(key, option.value))
        if stored_task(found.folder) is None:
            raise ConfigError(
                f"{found.run_path} was evaluated in an environment with transforms of its own, "
                "which no file holds: make it, and call evaluate(policy, env)"
            )
        usual, weights = config.evaluation, found.config.get("loss.reward_weights")
        self.path, self.frames, self.task = found.run_path, found.frames, usual.env(config.env)
        self.folder = found.folder
        self.options = {
            "episodes": usual.episodes,
            "seed": evaluation_seed(config.seed),
            "deterministic": usual.deterministic,
            "reward_weights": None if weights is None else torch.tensor(weights, dtype=torch.float),
            **{name: value for name, value in options.items() if value is not None},
        }

    def evaluate(self, policy: TensorDictModuleBase) -> EvaluationResult:
        """Evaluate a policy, on the CPU, as the run does.

        Args:
            policy: the acting module.

        Raises:
            ConfigError: if the task has other spaces by now.
            RunError: as of :func:`~rlkit_sac.runs.evaluate`.
        """
        with closing_env(evaluation_env(self.task, episodes=self.options["episodes"])) as env:
            check_spaces(self.folder, env)
            return evaluate(policy, env, **self.options)
