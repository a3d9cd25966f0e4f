"""The episodes that end within a batch of collected frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

from rlkit_sac.functional import weigh_rewards


def finished_episodes(
    batch: TensorDictBase, *, frames: int, reward_weights: Tensor | None = None
) -> list[dict[str, Any]]:
    """A row of ``episodes.csv`` for each episode that ends in a batch, in the order of their ends.

    Args:
        batch: collected frames ``[T]``, or ``[N, T]`` of N environments stepped together.
        frames: frames of the run before this batch.
        reward_weights: weights ``[M]`` of a vector reward; default ones.

    Returns:
        Rows with ``frames`` (of the run at the episode's end), ``env``, ``return`` (undiscounted),
        ``length`` in frames and ``terminated`` (false: a time limit). For vector rewards
        ``return`` is the weighted sum of ``return_0``, ``return_1``, …

    >>> import torch
    >>> from tensordict import TensorDict
    >>> batch = TensorDict(batch_size=[2])
    >>> batch["next"] = TensorDict(
    ...     done=torch.tensor([[False], [True]]),
    ...     terminated=torch.tensor([[False], [False]]),
    ...     episode_reward=torch.tensor([[1.0], [3.0]]),
    ...     step_count=torch.tensor([[1], [2]]),
    ...     batch_size=[2],
    ... )
    >>> finished_episodes(batch, frames=10)
    [{'frames': 12, 'env': 0, 'return': 3.0, 'length': 2, 'terminated': False}]
    """
    if not batch.get(("next", "done")).any():
        return []
    after = batch.get("next").select("done", "terminated", "episode_reward", "step_count")
    after = after.reshape(-1, batch.shape[-1]).transpose(0, 1)  # [T, N]: time first
    rows = []
    for t, env in after.get("done").squeeze(-1).nonzero().tolist():
        end = after[t, env]
        rows.append(
            {
                "frames": frames + (t + 1) * after.shape[1],
                "env": env,
                "return": weigh_rewards(end["episode_reward"], reward_weights).item(),
                **per_dimension("return", end["episode_reward"].tolist()),
                "length": end["step_count"].item(),
                "terminated": end["terminated"].item(),
            }
        )
    return rows


def per_dimension(name: str, values: Sequence[float]) -> dict[str, float]:
    """Columns for each dimension of a vector reward; none for a scalar one.

    Args:
        name: of the column, to which the number of the dimension is added.
        values: one for each dimension.

    >>> per_dimension("return", [3.0, -1.0]), per_dimension("return", [3.0])
    ({'return_0': 3.0, 'return_1': -1.0}, {})
    """
    return {f"{name}_{m}": value for m, value in enumerate(values)} if len(values) > 1 else {}
