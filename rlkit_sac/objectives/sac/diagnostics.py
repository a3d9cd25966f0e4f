"""Statistics of the critics, for logs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rlkit_sac.functional import explained_variance, masked_mean
from rlkit_sac.objectives.sac.critics import CriticTerms, ScalarHead

STATISTICS = ("mean", "min", "max")


def diagnostic_keys(num_critics: int, extra_metrics: Sequence[str]) -> list[str]:
    """Return the keys of the output of :func:`critic_diagnostics`."""
    critics = [f"q{i}_{name}" for i in range(num_critics) for name in ("loss", *STATISTICS)]
    return [*critics, "target_mean", "td_error_mean", "explained_variance", *extra_metrics]


def value_statistics(name: str, values: Tensor, valid: Tensor | None) -> dict[str, Tensor]:
    """Return the mean, minimum and maximum over the valid steps.

    Args:
        name: the prefix of the keys.
        values: the values ``[*, M]``.
        valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.

    >>> value_statistics("v", torch.tensor([[1.0], [9.0]]), torch.tensor([True, False]))["v_max"]
    tensor(1.)
    """
    values = values.detach()
    invalid = torch.zeros_like(values, dtype=torch.bool)
    if valid is not None:
        invalid = ~valid.unsqueeze(-1).expand_as(values)
    statistics = (
        masked_mean(values.mean(-1), valid),
        values.masked_fill(invalid, torch.inf).min(),
        values.masked_fill(invalid, -torch.inf).max(),
    )
    keys = (f"{name}_{statistic}" for statistic in STATISTICS)
    return dict(zip(keys, statistics, strict=True))


def critic_diagnostics(
    head: ScalarHead, critics: CriticTerms, valid: Tensor | None
) -> dict[str, Tensor]:
    r"""Return statistics of the critics over the valid steps of a batch.

    ``explained_variance`` is :math:`1 - \operatorname{Var}(y - \bar Q) / \operatorname{Var}(y)`
    with the mean of the critics; 1 is perfect, 0 no better than a constant, NaN where all targets
    are equal. The losses of single critics have no coefficient and no importance weights.

    Args:
        head: the interpretation of the critics' outputs.
        critics: the terms of the critics' loss.
        valid: the valid steps, bool ``[*]``; ``None`` if every step is valid.
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
