"""A running mean of log-probabilities, by which the entropy bonus is centered."""

import torch
from torch import Tensor, nn

from rlkit_sac.functional import masked_mean


class RunningLogProb(nn.Module):
    r"""A running mean of :math:`\log\pi`, subtracted from it before the entropy bonus.

    The k-th batch moves the mean towards the batch mean with the rate :math:`8/(7+k)`, so the
    first sets it. It is updated in training mode with gradients enabled only; batches without
    a valid step are ignored.

    Source: the ``normalize_entropy_reward`` option of ALF's ``SacAlgorithm``.

    Args:
        like: a tensor of the dtype and the device.

    >>> center = RunningLogProb(torch.zeros(()))
    >>> center.move(torch.tensor([2.0, 4.0]))
    >>> center(torch.tensor([4.0]))
    tensor([1.])
    """

    mean: Tensor
    count: Tensor

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", like.detach().new_zeros(()))
        self.register_buffer("count", like.new_zeros((), dtype=torch.int64))

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
