"""Saving, loading and evaluating the policy of a run, without pickle."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.config.options import options_of
from rlkit_sac.config.run import BaseRunConfig
from rlkit_sac.envs import closing_env, describe_task
from rlkit_sac.errors import ConfigError, RunError, as_run_error
from rlkit_sac.modules.rebuild import build_from_blueprint, check_blueprint, get_valid_blueprint
from rlkit_sac.modules.structure import changed_layer, structure
from rlkit_sac.runs.acting import Act, own_tensor
from rlkit_sac.runs.checkpoint import Checkpoint, step_folders
from rlkit_sac.runs.directory import best_frames, read_evaluations
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate, evaluation_env, evaluation_seed
from rlkit_sac.runs.files import (
    checksum,
    read_checked,
    read_described,
    sha256,
    write_atomically,
)
from rlkit_sac.runs.machine import resolve_device
from rlkit_sac.trained_policies import find_run

FORMAT_VERSION = 2


def save_policy(
    directory: Path | str, policy: TensorDictModuleBase, *, task: dict[str, Any] | None = None
) -> None:
    """Write ``policy.safetensors`` and ``policy.json`` into a directory.

    ``policy.json`` is written last: with it the pair is complete. It says how to build a policy
    that is made of networks of the package. The weights of any other policy are loaded by
    ``load_policy(..., into=module)``.

    Args:
        directory: a folder such as ``run / "checkpoints" / "step_500"``; created where missing.
        policy: the acting module, on any device.
        task: the description of the environment by :func:`~rlkit_sac.envs.describe_task`, which
            gives the loaded policy its method ``act``.

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
    for name, content in policy_files(policy, task=task).items():
        write_atomically(Path(directory) / name, content)


def policy_files(
    policy: TensorDictModuleBase, *, task: dict[str, Any] | None = None
) -> dict[str, bytes]:
    """Return the files that :func:`save_policy` writes, by name, ``policy.json`` last.

    Args:
        policy: the acting module, on any device.
        task: the same argument of :func:`save_policy`.
    """
    state = {name: value.detach().cpu().contiguous() for name, value in policy.state_dict().items()}
    weights = safetensors.torch.save({name: value.clone() for name, value in state.items()})
    description: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        **(get_valid_blueprint(policy) or {"builder": None, "layers": structure(policy)}),
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
    """Load the policy of a checkpoint of a run, in evaluation mode.

    The policy is a TensorDictModule with a method ``act``, which maps an observation of the
    Gymnasium task to the action that its ``step`` takes. With a memory it also maps the state to
    the next one, see :class:`~rlkit_sac.runs.acting.Act`. An ``into`` with an attribute ``act``
    keeps it.

    Args:
        run_dir: the run directory, or one of its ``checkpoints/step_<frames>``; or the name of a
            policy of the package, such as ``zoo:sac/HalfCheetah-v5``.
        which: the newest checkpoint of the run, or the checkpoint of the best evaluation.
        device: the device of the policy, as :func:`~rlkit_sac.runs.resolve_device` takes it; the
            run may have used another. Default: the CPU, or the device of ``into``.
        into: a module with the same parameters, which receives the weights in place. Needed for
            policies with networks that the package does not build.

    Returns:
        A new policy, or ``into``.

    Raises:
        ConfigError: for a device that this machine does not have.
        RunError: naming the file, if one is missing, damaged, or not of this format; or if the
            weights do not fit ``into``, which may then hold some of them.
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
    """Load the policy in a folder as :func:`load_policy` does, and return its method ``act``."""
    weights_file = folder / "policy.safetensors"
    description = read_described(folder / "policy.json", version=FORMAT_VERSION)
    content = read_checked(weights_file, description.get("weights_sha256"))
    if into is None and description["builder"] is None:
        raise RunError(
            f"{folder / 'policy.json'} is of a policy that this package cannot build: build it and "
            "pass it: load_policy(run, into=policy); record_run and export_policy take into= too"
        )
    policy = build_from_blueprint(description) if into is None else into
    if device is None:
        device = "cpu" if into is None else own_tensor(into).device
    target = resolve_device(str(device))
    weights = safetensors.torch.load(content)
    # Policies of the package are stored in half precision; MPS has no float64.
    other_types = {torch.float16, torch.float64 if target.type == "mps" else torch.float16}
    weights = {n: w.float() if w.dtype in other_types else w for n, w in weights.items()}
    with as_run_error(f"{weights_file} does not fit", Exception):  # of any module
        policy.load_state_dict(weights, assign=into is None)
        if into is not None and description["builder"] is not None:
            check_blueprint(description, into.eval())
    if change := changed_layer(description.get("layers", {}), policy):
        warnings.warn(f"{weights_file} may be of another function: {change}", stacklevel=3)
    return Act(policy.to(target).eval(), description["task"])


def stored_task(folder: Path) -> dict[str, Any] | None:
    """Return the description of a policy's task by :func:`~rlkit_sac.envs.describe_task`.

    Args:
        folder: a folder that :func:`find_policy` returned.

    Raises:
        RunError: for a damaged file.
    """
    return read_described(folder / "policy.json", version=FORMAT_VERSION)["task"]


def check_spaces(folder: Path, env: EnvBase) -> None:
    """Refuse a task whose spaces have changed since a policy was saved.

    Args:
        folder: the folder of the policy.
        env: the environment of the task.

    Raises:
        ConfigError: naming what has changed.
    """
    stored, present = stored_task(folder), describe_task(env)
    if stored is None or present is None or stored == present:
        return
    changes = [
        f"{name} was {stored.get(name)} and is {present[name]} now"
        for name in present
        if stored.get(name) != present[name]
    ]
    text = f"of the task {'; '.join(changes)}. Give it the spaces that it had"
    raise ConfigError(f"the policy in {folder} does not fit: {text}")


def find_policy(run_dir: Path, which: str) -> Path:
    """Return the folder that :func:`load_policy` reads.

    Raises:
        RunError: if there is no policy; for the best one, if no checkpoint was evaluated.
    """
    if which not in ("last", "best"):
        raise RunError(f"which is {which!r}; choose 'last' or 'best'")
    run_dir = find_run(run_dir)
    if (run_dir / "policy.json").exists():
        return run_dir
    checkpoints = run_dir / "checkpoints"
    # A complete checkpoint without policy.json is damaged: it is chosen, and reading it fails.
    steps = step_folders(checkpoints, "policy.json") | step_folders(checkpoints)
    if not steps:
        missing = checkpoints / "step_<frames>" / "policy.json"
        raise RunError(f"no policy to load: there is no {missing}")
    if which == "last":
        return steps[max(steps)]
    best = best_frames(read_evaluations(run_dir), among=steps)
    if best is None:
        table = run_dir / "evaluations.csv"
        raise RunError(f"{table} has no evaluation of a checkpoint: load the last policy")
    return steps[best]


class StoredRun:
    """The task of a run, and the options with which it evaluates the policy of a checkpoint.

    Args:
        checkpoint: a folder ``checkpoints/step_<frames>`` of the run.
        options: ``episodes``, ``seed`` and ``deterministic`` of the evaluations. Default, also for
            ``None``: as during training.

    Attributes:
        path: the run directory.
        folder: the folder of the checkpoint.
        frames: frames of the run at the checkpoint.
        task: the options of the task.
        options: the keyword arguments of :func:`~rlkit_sac.runs.evaluate`.

    Raises:
        ConfigError: if the checkpoint is missing or damaged, or the environment had transforms
            beyond those of :func:`~rlkit_sac.envs.make_env`.
    """

    def __init__(self, checkpoint: Path, **options: Any) -> None:
        stored, config = Checkpoint.find(checkpoint), BaseRunConfig()
        for key, option in options_of(config).items():
            setattr(option.section, option.name, stored.config.get(key, option.value))
        if stored_task(stored.folder) is None:
            raise ConfigError(
                f"{stored.run_path} was evaluated in an environment with transforms of its own, "
                "which no file holds: make it, and call evaluate(policy, env)"
            )
        defaults, weights = config.evaluation, stored.config.get("loss.reward_weights")
        self.path, self.frames, self.task = stored.run_path, stored.frames, defaults.env(config.env)
        self.folder = stored.folder
        self.options = {
            "episodes": defaults.episodes,
            "seed": evaluation_seed(config.seed),
            "deterministic": defaults.deterministic,
            "reward_weights": None if weights is None else torch.tensor(weights, dtype=torch.float),
            **{name: value for name, value in options.items() if value is not None},
        }

    def evaluate(self, policy: TensorDictModuleBase) -> EvaluationResult:
        """Evaluate a policy on the CPU, as the run does.

        Args:
            policy: the acting module.

        Raises:
            ConfigError: if the spaces of the task have changed.
            RunError: as :func:`~rlkit_sac.runs.evaluate`.
        """
        with closing_env(evaluation_env(self.task, episodes=self.options["episodes"])) as env:
            check_spaces(self.folder, env)
            return evaluate(policy, env, **self.options)
