"""Which dimensions of the continuous action each discrete action uses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlkit_sac.modules.masked_critic import mask_matrix, used_dimensions


class ParameterMask(nn.Module):
    """A mask ``[K, D]`` that moves with a loss, and is no part of its state dict.

    Args:
        mask: true where discrete action k uses dimension j.

    Attributes:
        mask: ones and zeros.
        used: see :func:`~rlkit_sac.modules.masked_critic.used_dimensions`.

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
