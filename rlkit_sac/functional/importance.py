"""Importance weights of stored actions, in log space."""

import torch
from torch import Tensor


def log_importance_ratio(log_prob: Tensor, behavior_log_prob: Tensor) -> Tensor:
    r"""Return the logarithm of the importance ratio :math:`\rho = \pi(a|s) / \mu(a|s)`.

    The ratio 0 / 0 counts as 1.

    Args:
        log_prob: :math:`\log\pi(a|s)`, ``[*]``; may be minus infinity.
        behavior_log_prob: :math:`\log\mu(a|s)` of the behavior policy, ``[*]``.

    Returns:
        The logarithm ``[*]``, infinite where only one of the two probabilities is 0.

    >>> log_importance_ratio(torch.tensor([0.0, -torch.inf]), torch.tensor([-1.0, -torch.inf]))
    tensor([1., 0.])
    """
    same = log_prob == behavior_log_prob
    return torch.where(same, torch.zeros_like(log_prob), log_prob - behavior_log_prob)


def importance_ratio(log_ratio: Tensor) -> Tensor:
    r"""Return the ratio :math:`\rho`, clamped to the largest number of its dtype.

    Args:
        log_ratio: :math:`\log\rho`, ``[*]``.

    >>> importance_ratio(torch.tensor([0.0, -torch.inf, 1e10]))
    tensor([1.0000e+00, 0.0000e+00, 3.4028e+38])
    """
    return log_ratio.exp().clamp_max(torch.finfo(log_ratio.dtype).max)


def retrace_coefficient(log_ratio: Tensor, action_dim: int = 1) -> Tensor:
    r"""Return the truncated trace :math:`\bar\rho = \min(1, \rho^{1/D})`.

    Args:
        log_ratio: :math:`\log\rho` of the whole action, ``[*]``.
        action_dim: number D of dimensions of a continuous action, 1 for a discrete one.

    Source: Wang et al. 2016 (arXiv:1611.01224), sections 3.1 and 5.

    >>> retrace_coefficient(torch.tensor([0.5, 0.25]).log(), action_dim=2)
    tensor([0.7071, 0.5000])
    """
    return (log_ratio / action_dim).clamp_max(0.0).exp()


def truncate_ratio(ratio: Tensor, threshold: float | None) -> Tensor:
    r"""Return the truncated importance weight :math:`\min(c, \rho)`.

    Args:
        ratio: :math:`\rho`, ``[*]``.
        threshold: c >= 0. ``None`` truncates only at 1e-8 times the square root of the
            dtype's largest number (float16: 100), so that products with the ratio do not overflow.

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 7.

    >>> truncate_ratio(torch.tensor([0.5, 20.0]), 10.0)
    tensor([ 0.5000, 10.0000])
    """
    if threshold is None:
        threshold = max(100.0, 1e-8 * torch.finfo(ratio.dtype).max ** 0.5)
    return ratio.clamp_max(threshold)


def bias_correction_weight(log_ratio: Tensor, threshold: float) -> Tensor:
    r"""Return the weight :math:`[1 - c / \rho(a)]_+` that corrects the bias of truncation.

    It belongs to an action sampled from :math:`\pi`.

    Together with the truncated weight of a stored action it gives the exact expectation:

    .. math:: E_\mu[\rho f] = E_\mu[\min(c, \rho) f] + E_\pi\left[[1 - c / \rho]_+ f\right]

    Args:
        log_ratio: :math:`\log\rho(a)`, ``[*]``.
        threshold: c, 0 or above.

    Returns:
        The weight ``[*]`` in [0, 1].

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 7 and 8.

    >>> bias_correction_weight(torch.tensor([0.5, 20.0]).log(), 10.0)
    tensor([0.0000, 0.5000])
    """
    return (1 - threshold * importance_ratio(-log_ratio)).clamp_min(0.0)


def expected_bias_correction(
    log_ratio: Tensor, prob: Tensor, advantage: Tensor, threshold: float
) -> Tensor:
    r"""Return the bias correction over all discrete actions, as weights of log-probabilities.

    .. math:: [1 - c / \rho(a)]_+\, \pi(a|s)\, (Q(s, a) - V(s))

    Args:
        log_ratio: :math:`\log\rho` of each action, ``[*, A]``.
        prob: :math:`\pi`, ``[*, A]``.
        advantage: :math:`Q - V`, ``[*, A]``.
        threshold: c, 0 or above.

    Returns:
        The weights ``[*, A]``. The loss is minus the sum of weight times :math:`\log\pi(a|s)`.

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 7.

    >>> prob, behavior = torch.tensor([0.8, 0.2]), torch.tensor([0.04, 0.96])
    >>> expected_bias_correction((prob / behavior).log(), prob, torch.tensor([1.0, 4.0]), 10.0)
    tensor([0.4000, 0.0000])
    """
    return bias_correction_weight(log_ratio, threshold) * prob * advantage
