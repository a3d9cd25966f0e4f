"""Statistics of the critics, for logs."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlkit_sac.functional import explained_variance, masked_mean


def diagnostic_keys(num_critics: int, further: Sequence[str] = ()) -> list[str]:
    """Keys of the output of :func:`critic_diagnostics`, and further ones."""
    critics = [f"q{i}_{name}" for i in range(num_critics) for name in ("loss", *_STATISTICS)]
    return [*critics, "target_mean", "td_error_mean", "explained_variance", *further]


_STATISTICS = ("mean", "min", "max")


def value_statistics(name: str, values: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
    """Mean, minimum and maximum over the valid steps.

    Args:
        name: prefix of the keys.
        values: ``[*, M]``.
        valid: bool ``[*]`` or ``None``.

    >>> value_statistics("v", torch.tensor([[1.0], [9.0]]), torch.tensor([True, False]))["v_max"]
    tensor(1.)
    """
    values = values.detach()
    out_of_play = torch.zeros_like(values, dtype=torch.bool)
    if valid is not None:
        out_of_play = ~valid.unsqueeze(-1).expand_as(values)
    found = (
        masked_mean(values.mean(-1), valid),
        values.masked_fill(out_of_play, torch.inf).min(),
        values.masked_fill(out_of_play, -torch.inf).max(),
    )
    return dict(zip(statistic_keys(name), found, strict=True))


def statistic_keys(name: str) -> list[str]:
    """Keys of the output of :func:`value_statistics`."""
    return [f"{name}_{statistic}" for statistic in _STATISTICS]


def critic_diagnostics(
    values: Tensor,
    target: Tensor,
    losses: Tensor,
    td_error: Tensor,
    further: Mapping[str, Tensor],
    valid: Tensor | None,
) -> dict[str, Tensor]:
    r"""Statistics of the critics over the valid steps of a batch.

    ``explained_variance`` is :math:`1 - \operatorname{Var}(y - \bar Q) / \operatorname{Var}(y)`
    with the mean of the critics; 1 is perfect, 0 no better than a constant, NaN where all targets
    are equal. Losses are those of each critic, without coefficient and importance weights.

    Args:
        values: ``[R, *, M]`` of R critics.
        target: ``[*, M]``.
        losses: ``[R, *]``, each critic's loss of each step.
        td_error: ``[*]``.
        further: what a kind of critics tells besides, each ``[*]``.
        valid: bool ``[*]`` or ``None``.
    """
    values, losses = values.detach(), losses.detach()
    out = {}
    for i in range(len(values)):
        out[f"q{i}_loss"] = masked_mean(losses[i], valid)
        out |= value_statistics(f"q{i}", values[i], valid)
    out["target_mean"] = masked_mean(target.mean(-1), valid)
    out["td_error_mean"] = masked_mean(td_error, valid)
    out["explained_variance"] = explained_variance(values.mean(0), target, valid)
    return out | {name: masked_mean(value, valid) for name, value in further.items()}
