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
    r"""Return the soft :math:`\lambda`-return of the state-action pairs of a sequence.

    .. math:: G_t = r_t + \gamma (1 - \text{terminated}_t)
        \left[(1-\lambda) V(s_{t+1}) + \lambda (G_{t+1} + b(s_{t+1}))\right]

    where :math:`b(s_{t+1})` is the entropy bonus of a new sample at :math:`s_{t+1}`. Every state
    that the return passes through adds its entropy, and so does the bootstrap state. A terminal
    state adds none. Where ``cut`` holds and after the last step, :math:`V(s_{t+1})` takes the place
    of the bracket. With ``lmbda = 1`` the steps of a row of T have horizons T, T - 1, ..., 1;
    ``lmbda = 0`` gives :func:`soft_td_target`.

    Args:
        reward: the rewards ``[*, T, M]``, time in the last dimension but one.
        terminated: whether the episode terminated, bool ``[*, T, 1]``.
        cut: the steps that the next step of the row does not continue, bool ``[*, T, 1]``: the
            episode is done there, or the next step is not valid.
        next_value: soft values ``[*, T, M]`` of the next states, with the entropy bonus.
        next_bonus: the entropy bonus alone, ``[*, T, 1]`` or ``[*, T, M]``.
        gamma: the discount in [0, 1].
        lmbda: the weight :math:`\lambda` in [0, 1].

    Returns:
        The return ``[*, T, M]``.

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
        bootstrap = (1 - lmbda) * value + lmbda * (targets[-1] + next_bonus[..., t, :])
        bootstrap = torch.where(cut[..., t, :], value, bootstrap)
        targets.append(
            soft_td_target(reward[..., t, :], terminated[..., t, :], bootstrap, gamma=gamma)
        )
    return torch.stack(targets[::-1], -2)
