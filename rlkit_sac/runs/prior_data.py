"""Prior data: transitions of an earlier run, or of a TensorDict on disk."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Bounded, Composite
from torchrl.envs import EnvBase

from rlkit_sac.data.replay.buffer import fitting
from rlkit_sac.errors import ConfigError, RunError, prefix_errors, summary
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.policy import stored_task
from rlkit_sac.runs.resume import check_units
from rlkit_sac.valid_steps import MASK, drop_invalid


def check_prior_data(
    data: TensorDictBase, transition: TensorDictBase, action_spec: Composite
) -> TensorDictBase:
    """Return transitions with the entries that replay stores, and actions of the task.

    Args:
        data: the transitions ``[*]``.
        transition: one transition of replay, without batch dimensions.
        action_spec: the action spec of one environment of the task.

    Returns:
        The transitions ``[n]``.

    Raises:
        ConfigError: naming the entry that is missing, of another shape or type, not finite, or an
            action that the task does not have.

    >>> from torchrl.data import Categorical
    >>> data = TensorDict(action=torch.tensor([0, 7]), batch_size=[2])
    >>> spec = Composite(action=Categorical(2))
    >>> check_prior_data(data, data[0], spec)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: 'action' of the prior data goes from 0 to 7, in the task from ...
    """
    rows = fitting(data, transition)
    for key, part in action_spec.items(True, True):
        values = rows.get(key)
        if isinstance(part, Bounded):
            low, high = part.space.low.cpu(), part.space.high.cpu()
            slack = (high - low) * 5e-4
        else:
            low, high = torch.tensor(0), torch.tensor(part.space.n - 1)
            slack = torch.tensor(0)
        if ((values < low - slack) | (values > high + slack)).any():
            raise ConfigError(
                f"{key!r} of the prior data goes from {values.min().item():.4g} to "
                f"{values.max().item():.4g}, in the task from {low.tolist()} to {high.tolist()}: "
                "choose the task and env.rescale_actions as in the data"
            )
    return rows


def read_prior_data(
    path: Path | str, env: EnvBase | None = None, *, gamma: float | None = None
) -> TensorDictBase:
    """Return transitions of a run's replay, or of a TensorDict on disk.

    Args:
        path: run directory, for the replay of its newest checkpoint (under ``torchrun``, that of
            its first process), or one of its ``checkpoints/step_<frames>``; or a folder that
            ``TensorDict.save`` wrote, without the steps whose ``("collector", "mask")`` or
            ``"mask"`` is false or whose ``("collector", "traj_ids")`` is -1; or the ``storage`` of
            what ``dumps`` of a TorchRL buffer wrote.
        env: an environment, whose actions must have the same units as the data. Default: any.
        gamma: the discount with which the rewards of several steps must have been summed. Default:
            any.

    Returns:
        The transitions ``[*]``, on the CPU.

    Raises:
        ConfigError: naming the folder, if it holds no transitions or a damaged file; or for actions
            in other units, or another discount.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = TensorDict(observation=torch.zeros(5, 3), batch_size=[5]).save(folder)
    >>> read_prior_data(folder).shape
    torch.Size([5])
    """
    folder = Path(path)
    if (folder / "meta.json").is_file():
        try:
            data = TensorDict.load_memmap(folder, allow_pickle=False)
            note = folder / "storage_metadata.json"  # of a buffer, perhaps not full
            if note.is_file():
                data = data[: json.loads(note.read_text())["len"]]
            # An entry "mask" may also be one of allowed actions.
            of_steps = data.get("mask", data).numel() == data.numel()
            return drop_invalid(data, [MASK, "mask"] if of_steps else [MASK])
        except Exception as error:  # any error that wrong content of a file can cause
            raise ConfigError(f"{path} cannot be read: {summary(error)}") from error
    with prefix_errors("wanted a folder that TensorDict.save wrote, or a run"):
        start = Checkpoint.find(folder)
    try:
        if env is not None:
            check_units(stored_task(start.folder), env, path)
        own = start.config.get("loss.gamma")
        if start.config.get("replay.n_steps", 1) > 1 and gamma not in (None, own):
            raise ConfigError(f"{path} has rewards of several steps, summed with gamma {own}")
        capacity = start.state()["replay"]["capacity"]
        return torch.cat([rows for _, rows in start.replay()])[-capacity:]
    except RunError as error:
        raise ConfigError(str(error)) from error
