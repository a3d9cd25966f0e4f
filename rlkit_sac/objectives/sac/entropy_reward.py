"""Centering the entropy bonus of the targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from rlkit_sac.functional import masked_mean
from rlkit_sac.objectives.sac.draws import PolicyDraw
from rlkit_sac.objectives.sac.factors import factor_key


class RunningLogProb(nn.Module):
    r"""A running mean of :math:`\log\pi`, subtracted from it before the entropy bonus.

    The k-th batch moves the mean towards the batch mean with the rate :math:`8/(7+k)`, so the
    first sets it. It is updated in training mode with gradients enabled only; batches without
    a valid step are ignored.

    Source: the ``normalize_entropy_reward`` option of ALF's ``SacAlgorithm``.

    Args:
        dtype: of the running mean.

    >>> center = RunningLogProb()
    >>> center.move(torch.tensor([2.0, 4.0]))
    >>> center(torch.tensor([4.0]))
    tensor([1.])
    """

    mean: Tensor
    count: Tensor

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros((), dtype=dtype))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def move(self, log_prob: Tensor, valid: Tensor | None = None) -> None:
        """Move towards the mean log-probability of a batch, unless that is not finite.

        Args:
            log_prob: ``[*]``.
            valid: bool ``[*]``, or ``None`` if every step is valid.
        """
        if not (self.training and torch.is_grad_enabled()):
            return
        with torch.no_grad():
            # Selected on the device: a branch would make the processor wait for it.
            mean = masked_mean(log_prob, valid)
            # Terminal states may be NaN, which must not stay in the running mean.
            counts = mean.isfinite() if valid is None else mean.isfinite() & valid.any()
            self.count += counts.to(torch.int64)
            rate = 8 / (7 + self.count.to(self.mean.dtype))
            self.mean += torch.where(counts, rate * (mean - self.mean), torch.zeros_like(mean))

    def forward(self, log_prob: Tensor) -> Tensor:
        """``log_prob`` minus the running mean."""
        return log_prob - self.mean


class EntropyCenters(nn.ModuleDict):
    """A :class:`RunningLogProb` for each factor of a policy, or none.

    Args:
        factors: names of the factors that have one.
        like: a tensor of the dtype and the device.
    """

    def __init__(self, factors: Iterable[str], like: Tensor) -> None:
        super().__init__()
        for name in factors:
            center = RunningLogProb().to(dtype=like.dtype, device=like.device)
            self[factor_key("log_prob", name)] = center

    def move(self, draw: PolicyDraw, next_draw: PolicyDraw | None, valid: Tensor | None) -> None:
        """Move the means towards those of samples at s and s'; arguments as of the centers."""
        for name, drawn in draw.factors.items():
            key = factor_key("log_prob", name)
            if key in self:
                assert next_draw is not None
                both = 0.5 * (drawn.log_ratio + next_draw.factors[name].log_ratio)
                cast(RunningLogProb, self[key]).move(both.detach(), valid)

    def centered(self, draw: PolicyDraw) -> list[Tensor]:
        """The log-ratio ``[*]`` of each factor, minus its mean where it has one."""
        found = []
        for name, drawn in draw.factors.items():
            key, log_ratio = factor_key("log_prob", name), drawn.log_ratio
            found.append(self[key](log_ratio) if key in self else log_ratio)
        return found
