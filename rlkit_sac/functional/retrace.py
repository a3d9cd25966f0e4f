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
    r"""Return the Retrace targets of the state-action pairs of segments.

    .. math:: Q^{ret}_t = r_t + \gamma
        \left[\bar\rho_{t+1} (Q^{ret}_{t+1} - Q(s_{t+1}, a_{t+1})) + V(s_{t+1})\right]

    This holds where the episode continues in the row. At cuts and after the last step
    ``next_value`` takes the place of the bracket, so a row may hold several episodes or parts of
    episodes.

    Args:
        reward: the rewards ``[*, T]``, time in the last dimension.
        value: :math:`V(s_t)`, ``[*, T]``.
        q: :math:`Q(s_t, a_t)`, ``[*, T]``.
        trace: :math:`\bar\rho_t`, ``[*, T]``, see :func:`retrace_coefficient`.
        next_value: the value of the state after each step, ``[*, T]``, 0 where the episode
            terminated. Only the values at cuts and at the last step are used.
        cut: the steps that the next step of the row does not continue, bool ``[*, T]``: the episode
            is done there, or the next step is not valid.
        gamma: the discount in [0, 1].
        valid: the valid steps, bool ``[*, T]``. Other steps are ignored, even if they hold NaN, and
            have targets of 0. Default: all steps are valid.

    Returns:
        The targets ``[*, T]``.

    Source: Wang et al. 2016 (arXiv:1611.01224), eq. 5; Munos et al. 2016 (arXiv:1606.02647).

    >>> reward, zero = torch.ones(3), torch.zeros(3)
    >>> cut, half = torch.tensor([False, False, True]), torch.full((3,), 0.5)
    >>> retrace_return(reward, zero, zero, half, torch.full((3,), 8.0), cut, gamma=0.5)
    tensor([1.5625, 2.2500, 5.0000])
    """
    inner_cut = cut[..., :-1]
    bootstrap = torch.where(inner_cut, next_value[..., :-1], (value - trace * q)[..., 1:])
    constant = reward + gamma * torch.cat([bootstrap, next_value[..., -1:]], -1)
    factor = (gamma * trace[..., 1:]).masked_fill(inner_cut, 0.0)
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
    r"""Return the off-policy corrected return: Retrace with traces of 1.

    .. math:: Q^{opc}_t = r_t + \gamma
        \left[Q^{opc}_{t+1} - Q(s_{t+1}, a_{t+1}) + V(s_{t+1})\right]

    See :func:`retrace_return` for the arguments and the result; there is no ``trace``.

    Source: Wang et al. 2016 (arXiv:1611.01224), section 3.1 and appendix; Harutyunyan et al. 2016
    (arXiv:1602.04951).

    >>> reward, zero = torch.ones(3), torch.zeros(3)
    >>> cut = torch.tensor([False, False, True])
    >>> opc_return(reward, zero, zero, torch.full((3,), 8.0), cut, gamma=0.5)
    tensor([2.7500, 3.5000, 5.0000])
    """
    trace = torch.ones_like(reward)
    return retrace_return(reward, value, q, trace, next_value, cut, gamma=gamma, valid=valid)
