"""Statistics of the critics, for logs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rlkit_sac.functional import explained_variance, masked_mean
from rlkit_sac.objectives.sac.critics import CriticTerms, ScalarHead

STATISTICS = ("mean", "min", "max")


def diagnostic_keys(num_critics: int, extra_metrics: Sequence[str]) -> list[str]:
    """Keys of the output of :func:`critic_diagnostics`."""
    critics = [f"q{i}_{name}" for i in range(num_critics) for name in ("loss", *STATISTICS)]
    return [*critics, "target_mean", "td_error_mean", "explained_variance", *extra_metrics]


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
    statistics = (
        masked_mean(values.mean(-1), valid),
        values.masked_fill(out_of_play, torch.inf).min(),
        values.masked_fill(out_of_play, -torch.inf).max(),
    )
    keys = (f"{name}_{statistic}" for statistic in STATISTICS)
    return dict(zip(keys, statistics, strict=True))


def critic_diagnostics(
    head: ScalarHead, critics: CriticTerms, valid: Tensor | None
) -> dict[str, Tensor]:
    r"""Statistics of the critics over the valid steps of a batch.

    ``explained_variance`` is :math:`1 - \operatorname{Var}(y - \bar Q) / \operatorname{Var}(y)`
    with the mean of the critics; 1 is perfect, 0 no better than a constant, NaN where all targets
    are equal. Losses are those of each critic, without coefficient and importance weights.

    Args:
        head: what an output of the critics means.
        critics: the terms of their loss.
        valid: bool ``[*]`` or ``None``.
    """
    values, losses, target = critics.q_taken.detach(), critics.losses.detach(), critics.target
    out = {}
    for i in range(len(values)):
        out[f"q{i}_loss"] = masked_mean(losses[i], valid)
        out |= value_statistics(f"q{i}", values[i], valid)
    out["target_mean"] = masked_mean(target.mean.mean(-1), valid)
    out["td_error_mean"] = masked_mean(critics.td_error, valid)
    out["explained_variance"] = explained_variance(values.mean(0), target.mean, valid)
    metrics = head.extra_metrics(target)
    return out | {name: masked_mean(value, valid) for name, value in metrics.items()}
