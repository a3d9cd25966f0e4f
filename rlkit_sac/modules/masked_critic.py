"""Critics of parameterized actions. The value of an action reads only the action's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules.blueprints import Blueprint, make_blueprint
from rlkit_sac.modules.structure import split_at_reader

#: Up to this number of parameters, separate products are quicker than a product of matrices.
_FEW = 4


class MaskedCritic(TensorDictModuleBase):
    r"""A critic that reads only the parameters of an action to compute the value of this action.

    In a parameterized action space the discrete action k uses some dimensions of the continuous
    action c: those where a mask :math:`m_k` is one. A critic :math:`Q(s, c)` of all dimensions
    becomes

    .. math:: Q_k(s, c) = Q(s, c \odot m_k)_k

    This takes K passes; pass k gives output k. The modules before the first one that reads the
    continuous action, such as an encoder or a memory, are evaluated once.

    With ``mask_critics=True`` the losses do this themselves, at less cost. This module is for other
    uses of such critics, such as acting.

    Args:
        critic: a critic that reads the continuous action and writes ``action_value`` ``[*, K]``, or
            ``[*, K, M]``.
        mask: the mask ``[K, D]``, true where discrete action k uses dimension j. For a stack of
            critics, see :func:`~rlkit_sac.modules.critics.stack_critics`, it has a first dimension
            for the critics.
        action_key: the key of the continuous action.
        action_value_key: the entry that the critic writes.

    Raises:
        ConfigError: for a critic that does not read the continuous action, or a mask that is not a
            matrix of true and false; in the call, for a mask that does not fit the actions.
        BatchError: in the call, for values that do not fit the mask.

    Source: Bester et al. 2019 (arXiv:1905.04388), section 4.

    >>> from tensordict import TensorDict
    >>> from rlkit_sac.modules import hybrid_critic
    >>> critic = MaskedCritic(hybrid_critic(3, 2, 2), [[True, False], [False, True]])
    >>> c = torch.zeros(2, requires_grad=True)
    >>> q = critic(TensorDict(observation=torch.zeros(3), action=TensorDict(continuous=c)))
    >>> torch.autograd.grad(q["action_value"][0], c)[0] != 0
    tensor([ True, False])
    """

    mask: Tensor

    def __init__(
        self,
        critic: TensorDictModuleBase,
        mask: Tensor | Sequence[Sequence[bool]],
        *,
        action_key: NestedKey = ("action", "continuous"),
        action_value_key: NestedKey = "action_value",
    ) -> None:
        super().__init__()
        state_parts, _ = split_at_reader(critic, action_key)
        self.critic = critic
        self.register_buffer("mask", mask_matrix(mask, stacked=True))
        self.action_key, self.action_value_key = action_key, action_value_key
        self.in_keys = list(critic.in_keys)
        self.out_keys = [*(key for part in state_parts for key in part.out_keys), action_value_key]

    @property
    def blueprint(self) -> Blueprint | None:
        """The builder and the arguments of this critic, see :mod:`rlkit_sac.modules.blueprints`."""
        return make_blueprint(
            "MaskedCritic",
            critic=self.critic,
            mask=self.mask[(0,) * (self.mask.ndim - 2)],
            action_key=self.action_key,
            action_value_key=self.action_value_key,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the values into ``tensordict`` and return it."""
        keys = self.action_key, self.action_value_key
        return write_masked_values(self.critic, self.mask, tensordict, *keys)


def write_masked_values(
    critic: TensorDictModuleBase,
    mask: Tensor,
    tensordict: TensorDictBase,
    action_key: NestedKey,
    action_value_key: NestedKey,
) -> TensorDictBase:
    """Write the value of each action, computed from the parameters of this action alone.

    Args:
        critic: a critic as in :class:`MaskedCritic`.
        mask: the mask ``[K, D]``.
        tensordict: the critic's inputs ``[*]``.
        action_key: the key of the continuous action.
        action_value_key: the entry that the critic writes.

    Returns:
        ``tensordict``.

    Raises:
        ConfigError, BatchError: see :class:`MaskedCritic`.
    """
    state_parts, action_parts = split_at_reader(critic, action_key)
    for part in state_parts:
        tensordict = part(tensordict)
    in_keys = [key for part in action_parts for key in part.in_keys]
    batch, count = tensordict.batch_size, len(mask)
    rows = tensordict.select(*in_keys, strict=False).unsqueeze(-1).expand(*batch, count)
    action = tensordict.get(action_key)
    check_mask(mask, count, action.shape[-1])
    rows.set(action_key, torch.where(mask.bool(), action.unsqueeze(-2), 0.0))
    if batch:  # many networks, such as encoders of images, need a single batch dimension
        flat = (*batch[:-1], batch[-1] * count)
        rows = rows.apply(lambda entry: entry.flatten(len(flat) - 1, len(flat)), batch_size=flat)
    for part in action_parts:
        rows = part(rows)
    values, dim = rows.get(action_value_key), len(batch)
    values = values.reshape(*batch, count, *values.shape[rows.ndim :])
    if values.ndim < dim + 2 or values.shape[dim + 1] != count:
        raise BatchError(
            f"the critic writes {action_value_key!r} of the shape {list(values.shape[dim + 1 :])}"
            f" for a state, but the mask has {count} rows: wanted one value and one row for "
            "each discrete action"
        )
    masked_values = values.diagonal(dim1=dim, dim2=dim + 1).movedim(-1, dim)
    return tensordict.set(action_value_key, masked_values)


def mask_matrix(mask: Any, *, stacked: bool = False) -> Tensor:
    """Return a mask as a bool tensor ``[K, D]``.

    Args:
        mask: the mask, in any form that PyTorch reads.
        stacked: whether the mask may have a first dimension for several critics.

    Raises:
        ConfigError: for anything but a matrix of true and false, or ones and zeros.

    >>> mask_matrix([[1, 0], [0, 1]])
    tensor([[ True, False],
            [False,  True]])
    """
    matrix = torch.as_tensor(mask)
    fits = 2 <= matrix.ndim <= 2 + stacked and matrix.numel() > 0
    if fits and not matrix.is_meta:
        fits = bool(((matrix == 0) | (matrix == 1)).all())
    if not fits:
        raise ConfigError(
            "parameter_mask must be a matrix [K, D] of true and false, one row for each discrete "
            f"action, not {mask}"
        )
    return matrix.bool()


def check_mask(mask: Tensor, num_actions: int, dimensions: int) -> None:
    """Refuse a mask whose shape ``[K, D]`` does not fit the actions.

    Raises:
        ConfigError: naming both shapes.
    """
    shape = [num_actions, dimensions]
    if list(mask.shape) != shape:
        raise ConfigError(
            f"parameter_mask has the shape {list(mask.shape)}, wanted {shape}: one row for each "
            "discrete action, one column for each continuous dimension"
        )


def used_dimensions(mask: Tensor) -> Tensor | None:
    """Return the indices ``[K, n]`` of the dimensions that each action uses.

    The largest number of used dimensions is n. Other actions have unused dimensions at the end.

    Returns:
        The indices, or ``None`` if n is large.

    >>> used_dimensions(torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    tensor([[1, 2],
            [0, 1]])
    """
    count = max(int(mask.sum(-1).max()), 1)
    if count > _FEW:
        return None
    return torch.argsort(mask, dim=-1, descending=True, stable=True)[:, :count]


class ParameterMask(nn.Module):
    """A mask ``[K, D]`` that moves with a loss and is not in the loss's state dict.

    Args:
        mask: a matrix that is true where discrete action k uses dimension j.

    Attributes:
        mask: the mask as ones and zeros.
        used: the indices of the used dimensions, see :func:`used_dimensions`.

    Raises:
        ConfigError: for anything but a matrix of true and false.

    >>> ParameterMask([[True, False], [False, True]]).mask
    tensor([[1., 0.],
            [0., 1.]])
    """

    mask: Tensor
    used: Tensor | None

    def __init__(self, mask: Tensor | Sequence[Sequence[bool]]) -> None:
        super().__init__()
        matrix = mask_matrix(mask).to(torch.get_default_dtype())
        self.register_buffer("mask", matrix, persistent=False)
        self.register_buffer("used", used_dimensions(matrix), persistent=False)
