"""Random shifts of the images in a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor


def random_shift(
    batch: TensorDictBase, layout: Sequence[Mapping[str, Any]], pixels: int
) -> TensorDictBase:
    """Moves each image by a random number of pixels along both sides; its edges are repeated.

    Each sample has its own shift, and another one for the next state and for each further entry.
    The steps of a slice or segment are shifted alike. Offsets are drawn uniformly from torch's
    global generator.

    Source: Kostrikov et al. 2020 (arXiv:2004.13649); Yarats et al. 2021 (arXiv:2107.09645), with
    4 pixels of 84 x 84.

    Args:
        batch: ``[B]`` or ``[B, T]``, with the images and the next ones; it is not changed.
        layout: the observed entries, see :func:`~rlkit_sac.envs.observation_layout`.
        pixels: largest offset; 0 returns the batch itself.

    >>> from tensordict import TensorDict
    >>> layout = [{"key": "observation", "shape": [1, 3], "scale": 255, "channels": "first"}]
    >>> row = torch.tensor([[[1, 2, 3]]], dtype=torch.uint8)
    >>> batch = TensorDict({"observation": row, "next": {"observation": row}}, batch_size=[1])
    >>> _ = torch.manual_seed(0)
    >>> random_shift(batch, layout, 1)["observation"]
    tensor([[[1, 1, 2]]], dtype=torch.uint8)
    """
    if not pixels:
        return batch
    shifted = batch.copy()
    for entry in layout:
        if "scale" in entry:
            for key in (entry["key"], ("next", entry["key"])):
                shifted.set(key, _shift_images(batch.get(key), entry, pixels))
    return shifted


def _shift_images(images: Tensor, entry: Mapping[str, Any], pixels: int) -> Tensor:
    """Return shifted images ``[B, …]`` of the same type, by one gather."""
    is_last = entry["channels"] == "last"
    height, width = entry["shape"][-3:-1] if is_last else entry["shape"][-2:]
    count, channels = len(images), entry["shape"][-1] if is_last else 1
    rows, columns = (
        torch.arange(size, device=images.device)
        + torch.randint(-pixels, pixels + 1, (count, 1), device=images.device)
        for size in (height, width)
    )
    places = rows.clamp(0, height - 1).unsqueeze(-1) * width
    places = places + columns.clamp(0, width - 1).unsqueeze(-2)
    flat = images.reshape(count, -1, height * width, channels)
    index = places.reshape(count, 1, -1, 1).expand_as(flat)
    return flat.gather(2, index).reshape(images.shape)
