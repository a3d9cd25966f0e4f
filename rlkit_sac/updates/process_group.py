"""Communication between the processes (ranks) of a data-parallel learner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup

from rlkit_sac.errors import RunError
from rlkit_sac.updates.gradients import Gradients, Losses, add_norm


@contextmanager
def convert_lost_rank_errors() -> Iterator[None]:
    """Turn an error of a collective operation in the block into a `RunError` about a lost rank.

    >>> with convert_lost_rank_errors():
    ...     raise RuntimeError("Connection closed by peer")
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.RunError: another rank has ended or cannot be reached (Connection closed ...
    """
    try:
        yield
    except RuntimeError as error:
        (reason, *_) = str(error).splitlines() or [type(error).__name__]
        text = f"another rank has ended or cannot be reached ({reason}); its own output says why"
        raise RunError(text) from error


@torch.no_grad()
def broadcast(tensors: Iterable[Tensor], group: ProcessGroup) -> None:
    """Give tensors the values that they have on rank 0.

    Args:
        tensors: the tensors, with the same shapes and in the same order on every rank.
        group: the ranks.

    Raises:
        RunError: if a rank is lost.
    """
    for tensor in tensors:
        values = tensor.contiguous()
        with convert_lost_rank_errors():
            distributed.broadcast(values, group=group, group_src=0)
        if not values.equal(tensor):
            tensor.copy_(values)


def average_losses(losses: Losses, group: ProcessGroup) -> Losses:
    """Return the means of all scalars, losses and gradients over ranks, with the gradients' norms.

    All numbers are sent as one vector. The mean of a number that is not finite on one rank is not
    finite on any rank.

    Args:
        losses: the losses of this rank's share of a batch.
        group: the ranks, whose shares have the same size.

    Raises:
        RunError: if a rank is lost.
    """
    parts = [part for parts in losses.gradients.values() for part in parts.values()]
    values = [value for part in parts for value in part.values if value is not None]
    means = iter(_average_over_ranks([*losses.scalars.values(), *losses.watched, *values], group))
    scalars = {name: next(means) for name in losses.scalars}
    watched = [next(means) for _ in losses.watched]

    def mean(gradients: Gradients) -> Gradients:
        return add_norm([None if value is None else next(means) for value in gradients.values])

    gradients = {
        step: {name: mean(part) for name, part in parts.items()}
        for step, parts in losses.gradients.items()
    }
    norms = [part.norm for parts in gradients.values() for part in parts.values()]
    watched[len(watched) - len(norms) :] = norms
    return Losses(scalars, gradients, torch.stack(watched) if watched else losses.watched)


def _average_over_ranks(tensors: Sequence[Tensor], group: ProcessGroup) -> list[Tensor]:
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    with convert_lost_rank_errors():
        distributed.all_reduce(flat, group=group)
    parts = (flat / group.size()).split([tensor.numel() for tensor in tensors])
    return [
        part.view(tensor.shape).to(tensor.dtype if tensor.is_floating_point() else part.dtype)
        for part, tensor in zip(parts, tensors, strict=True)
    ]
