"""Off-policy returns over segments: Retrace and Q_opc."""

import torch
from torch import Tensor


def retrace_return(
    reward: Tensor,
    value: Tensor,
    q: Tensor,
    trace: Tensor,
    next_value: Tensor,
    cut: Tensor,
    *,
    gamma: float | Tensor,
    valid: Tensor | None = None,
) -> Tensor:
    r"""Retrace targets of the state-action pairs of segments.

    .. math:: Q^{ret}_t = r_t + \gamma
        \left[\bar\rho_{t+1} (Q^{ret}_{t+1} - Q(s_{t+1}, a_{t+1})) + V(s_{t+1})\right]

    where the episode continues in the row. At cuts and after the last step the bracket is
    ``next_value``, so a row may hold several episodes, or parts of them.

    Args:
        reward: ``[*, T]``, time in the last dimension.
        value: :math:`V(s_t)`, ``[*, T]``.
        q: :math:`Q(s_t, a_t)`, ``[*, T]``.
        trace: :math:`\bar\rho_t`, ``[*, T]``, see :func:`retrace_coefficient`.
        next_value: ``[*, T]``, the value of the state after each step, 0 where the episode
            terminated. Only the values at cuts and at the last step are used.
        cut: bool ``[*, T]``; steps whose successor is not the next one in the row (the episode is
            done there, or the next entry is not valid).
        gamma: discount in [0, 1].
        valid: bool ``[*, T]``. Other steps are ignored, even if they hold NaN, and have targets
            of 0. Default: all steps are valid.

    Returns:
        ``[*, T]``.

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 5; Munos et al. 2016 (arXiv:1606.02647).

    >>> reward, zero = torch.ones(3), torch.zeros(3)
    >>> cut, half = torch.tensor([False, False, True]), torch.full((3,), 0.5)
    >>> retrace_return(reward, zero, zero, half, torch.full((3,), 8.0), cut, gamma=0.5)
    tensor([1.5625, 2.2500, 5.0000])
    """
    inner = cut[..., :-1]
    onward = torch.where(inner, next_value[..., :-1], (value - trace * q)[..., 1:])
    constant = reward + gamma * torch.cat([onward, next_value[..., -1:]], -1)
    factor = (gamma * trace[..., 1:]).masked_fill(inner, 0.0)
    if valid is not None:
        constant = constant.masked_fill(~valid, 0.0)
        factor = factor.masked_fill(~valid[..., :-1], 0.0)
    target = constant[..., -1]
    targets = [target]
    steps = zip(constant.unbind(-1)[:-1], factor.unbind(-1), strict=True)
    for offset, slope in reversed(list(steps)):
        target = torch.addcmul(offset, slope, target)
        targets.append(target)
    return torch.stack(targets[::-1], -1)


def opc_return(
    reward: Tensor,
    value: Tensor,
    q: Tensor,
    next_value: Tensor,
    cut: Tensor,
    *,
    gamma: float | Tensor,
    valid: Tensor | None = None,
) -> Tensor:
    r"""Off-policy corrected return: Retrace with traces of 1 instead of truncated ones.

    .. math:: Q^{opc}_t = r_t + \gamma
        \left[Q^{opc}_{t+1} - Q(s_{t+1}, a_{t+1}) + V(s_{t+1})\right]

    Args and returns are those of :func:`retrace_return`, without the traces.

    Source: Wang et al. 2016 (arXiv:1611.01224), section 3.1 and appendix; Harutyunyan et al. 2016
    (arXiv:1602.04951).

    >>> reward, zero = torch.ones(3), torch.zeros(3)
    >>> cut = torch.tensor([False, False, True])
    >>> opc_return(reward, zero, zero, torch.full((3,), 8.0), cut, gamma=0.5)
    tensor([2.7500, 3.5000, 5.0000])
    """
    trace = torch.ones_like(reward)
    return retrace_return(reward, value, q, trace, next_value, cut, gamma=gamma, valid=valid)
