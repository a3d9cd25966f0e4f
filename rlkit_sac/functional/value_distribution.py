r"""Values that are described by a distribution over fixed atoms.

The N atoms :math:`z_j` lie at equal distances on :math:`[-5, 5]`, the scale that a
:class:`~rlkit_sac.modules.RewardNormalizer` gives to returns. The logits :math:`l_j` of a critic
describe the value

.. math:: Q = \textstyle\sum_j p_j z_j, \qquad p = \operatorname{softmax}(l)

Source: Bellemare et al. 2017 (arXiv:1707.06887), algorithm 1. The loss is the cross-entropy to a
projected target, as in Farebrother et al. 2024 (arXiv:2403.03950).
"""

from __future__ import annotations

import torch
from torch import Tensor

#: The outermost atoms are at minus and plus this value.
LARGEST_VALUE = 5.0


def value_atoms(num_atoms: int, reference: Tensor) -> Tensor:
    """Return the atoms ``[N]``.

    Args:
        num_atoms: the number N of atoms.
        reference: a tensor with the dtype and the device of the result.

    >>> value_atoms(5, torch.zeros(()))
    tensor([-5.0000, -2.5000,  0.0000,  2.5000,  5.0000])
    """
    ends = -LARGEST_VALUE, LARGEST_VALUE
    return torch.linspace(*ends, num_atoms, dtype=reference.dtype, device=reference.device)


def mean_over_atoms(logits: Tensor) -> Tensor:
    """Return the value ``[*, 1]`` that logits ``[*, N]`` describe.

    >>> mean_over_atoms(torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0]))
    tensor([0.])
    """
    return (logits.softmax(-1) * value_atoms(logits.shape[-1], logits)).sum(-1, keepdim=True)


def project_onto_atoms(values: Tensor, weights: Tensor, num_atoms: int) -> Tensor:
    r"""Project a distribution over any values onto the atoms.

    .. math:: m_j = \textstyle\sum_i w_i \max\left(0, 1 - |\operatorname{clip}(v_i) - z_j| / \Delta
        \right)

    Each weight is split between the two atoms next to its value, the nearer atom getting more. The
    mean stays the same if no value lies beyond the outermost atoms.

    Args:
        values: the values v, ``[*, J]``.
        weights: the weights w, ``[*, J]``, which sum to 1.
        num_atoms: the number N of atoms.

    Returns:
        The probabilities ``[*, N]`` of the atoms, without gradient.

    Source: Bellemare et al. 2017 (arXiv:1707.06887), eq. 7.

    >>> project_onto_atoms(torch.tensor([[1.0, 9.0]]), torch.tensor([[0.5, 0.5]]), 5)
    tensor([[0.0000, 0.0000, 0.3000, 0.2000, 0.5000]])
    """
    with torch.no_grad():
        inside = values.clamp(-LARGEST_VALUE, LARGEST_VALUE)
        position = (inside + LARGEST_VALUE) * ((num_atoms - 1) / (2 * LARGEST_VALUE))
        index = position.floor().long().clamp(0, num_atoms - 2)  # a valid index also for NaN
        upper_share = position - index
        projected = values.new_zeros(*values.shape[:-1], num_atoms)
        projected = projected.scatter_add(-1, index, weights * (1 - upper_share))
        return projected.scatter_add(-1, index + 1, weights * upper_share)


def atom_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    r"""Return the cross-entropy :math:`-\sum_j m_j \log p_j` of each critic at each step.

    Args:
        logits: the logits ``[R, *, N]``.
        target: the target probabilities m, ``[*, N]``, without gradient.

    Returns:
        The losses ``[R, *]``.

    >>> atom_cross_entropy(torch.zeros(1, 2), torch.tensor([0.5, 0.5]))
    tensor([0.6931])
    """
    return -(target * logits.log_softmax(-1)).sum(-1)


def clipped_share(values: Tensor, weights: Tensor) -> Tensor:
    """Return the total weight ``[*]`` of the values ``[*, J]`` beyond the outermost atoms.

    >>> clipped_share(torch.tensor([[1.0, 9.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([0.5000])
    """
    return (weights * (values.abs() > LARGEST_VALUE)).sum(-1)
