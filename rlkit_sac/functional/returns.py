"""Returns of several steps, bootstrapped from soft values."""

import torch
from torch import Tensor

from rlkit_sac.functional.sac import soft_td_target


def soft_lambda_return(
    reward: Tensor,
    terminated: Tensor,
    cut: Tensor,
    next_value: Tensor,
    next_bonus: Tensor,
    *,
    gamma: float | Tensor,
    lmbda: float,
) -> Tensor:
    r"""Soft :math:`\lambda`-return of the state-action pairs of a sequence.

    .. math:: G_t = r_t + \gamma (1 - \text{terminated}_t)
        \left[(1-\lambda) V(s_{t+1}) + \lambda (G_{t+1} + b(s_{t+1}))\right]

    where :math:`b(s_{t+1})` is the entropy bonus of a fresh sample at :math:`s_{t+1}`: the entropy
    belongs to every state the return passes through, the bootstrap state included, and never to a
    terminal one. Where ``cut`` holds and after the last step the bracket is :math:`V(s_{t+1})`.
    With ``lmbda = 1`` the steps of a row of T have horizons T, T - 1, ..., 1; ``lmbda = 0`` is
    :func:`soft_td_target`.

    Args:
        reward: ``[*, T, M]``, time in the last dimension but one.
        terminated: bool ``[*, T, 1]``.
        cut: bool ``[*, T, 1]``; steps whose successor is not the next one in the row (the episode
            is done there, or the next entry of the row is not valid).
        next_value: soft values ``[*, T, M]`` of the next states, entropy bonus included.
        next_bonus: ``[*, T, 1]`` or ``[*, T, M]``, the entropy bonus alone.
        gamma: discount in [0, 1].
        lmbda: mixture in [0, 1].

    Returns:
        ``[*, T, M]``.

    Source: Sutton and Barto 2018, eq. 12.20, with the soft value of Haarnoja et al. 2018
    (arXiv:1812.05905), eq. 3, at every intermediate state.

    >>> reward, none = torch.ones(3, 1), torch.zeros(3, 1, dtype=torch.bool)
    >>> value, bonus = torch.zeros(3, 1), torch.zeros(3, 1)
    >>> soft_lambda_return(reward, none, none, value, bonus, gamma=0.5, lmbda=1.0).flatten()
    tensor([1.7500, 1.5000, 1.0000])
    """
    steps = reward.shape[-2]
    targets = [
        soft_td_target(
            reward[..., -1, :], terminated[..., -1, :], next_value[..., -1, :], gamma=gamma
        )
    ]
    for t in reversed(range(steps - 1)):
        value = next_value[..., t, :]
        onward = (1 - lmbda) * value + lmbda * (targets[-1] + next_bonus[..., t, :])
        onward = torch.where(cut[..., t, :], value, onward)
        targets.append(
            soft_td_target(reward[..., t, :], terminated[..., t, :], onward, gamma=gamma)
        )
    return torch.stack(targets[::-1], -2)
