"""Encoders of observations that are more than one vector: images, and vectors beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal, TypedDict

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.nn import functional as F

from rlkit_sac.errors import prefix_errors
from rlkit_sac.modules.blueprints import record_arguments

EncoderKind = Literal["auto", "none", "small", "nature", "impala"]

#: The entries that an agent reads, as :func:`~rlkit_sac.envs.observation_layout` describes them.
Layout = Sequence[Mapping[str, Any]]

#: Images whose smaller side has at least this many pixels get the encoder of Atari games.
NATURE_SIDE = 36


class EncoderOptions(TypedDict, total=False):
    """Options of an encoder. Builders of networks take them in place of the observation's length.

    A single vector needs no encoder: networks read it directly. The output of a shared encoder is
    such a vector.

    Attributes:
        layout: the observed entries, see :func:`~rlkit_sac.envs.observation_layout`.
        kind: the kind of the encoder of each image, see :func:`observation_encoder`. Default:
            ``"auto"``.
        features: the number of features of each image; ``None`` (default) for the encoder's own.

    >>> image = {"key": "observation", "shape": [10, 10, 4], "scale": 1, "channels": "last"}
    >>> options: EncoderOptions = {"layout": [image], "features": 64}
    """

    layout: Layout
    kind: EncoderKind
    features: int | None


@record_arguments
def observation_encoder(
    layout: Layout, kind: EncoderKind = "auto", features: int | None = None
) -> TensorDictModule:
    """Build an encoder from all observed entries to one vector.

    It reads the entries of the layout, images as bytes, and writes ``features`` ``[*, F]``. The
    encoder rescales pixels to [0, 1]. The kinds are below; all but ``"none"`` end with a linear
    layer and an activation:

    - ``"small"``: one convolution, 16 of 3 x 3, then 128 features (Young and Tian 2019,
      arXiv:1903.03176),
    - ``"nature"``: three convolutions, 32 of 8 x 8 with stride 4, 64 of 4 x 4 with stride 2, 64 of
      3 x 3, then 512 features (Mnih et al. 2015),
    - ``"impala"``: three blocks of 16, 32 and 32 channels with two residual layers each, then 256
      features (Espeholt et al. 2018, arXiv:1802.01561),
    - ``"none"``: the pixels themselves,
    - ``"auto"``: ``"nature"`` if the smaller side has 36 pixels or more, ``"none"`` if it has fewer
      than 3, ``"small"`` otherwise.

    Args:
        layout: the observed entries, see :func:`~rlkit_sac.envs.observation_layout`.
        kind: the kind of the encoder of each image.
        features: the number of features of each image; ``None`` for the numbers above.

    Raises:
        ConfigError: for images that are smaller than the encoder's convolutions.

    >>> from tensordict import TensorDict
    >>> image = {"key": "observation", "shape": [10, 10, 4], "scale": 1, "channels": "last"}
    >>> encoder = observation_encoder([image])
    >>> states = TensorDict(observation=torch.ones(5, 10, 10, 4, dtype=torch.bool), batch_size=[5])
    >>> encoder(states)["features"].shape
    torch.Size([5, 128])
    """
    keys = [entry["key"] for entry in layout]
    return TensorDictModule(ObservationEncoder(layout, kind, features), keys, ["features"])


def is_single_vector(layout: Layout) -> bool:
    """Return whether the observation is a single vector.

    >>> is_single_vector([{"key": "observation", "shape": [3]}])
    True
    """
    return len(layout) == len(layout[0]["shape"]) == 1


def image_size(entry: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return channels, height and width of an image. Stacked frames are channels.

    >>> image_size({"shape": [4, 84, 96, 3], "channels": "last"})
    (12, 84, 96)
    """
    sides = entry["shape"][-3:-1] if entry["channels"] == "last" else entry["shape"][-2:]
    return prod(entry["shape"]) // prod(sides), sides[0], sides[1]


def encoder_kind(entry: Mapping[str, Any], kind: EncoderKind = "auto") -> EncoderKind:
    """Return the kind of the encoder of an image; ``"auto"`` chooses by the image's size.

    >>> encoder_kind({"shape": [84, 84], "channels": "first"})
    'nature'
    """
    if kind != "auto":
        return kind
    side = min(image_size(entry)[1:])
    return "nature" if side >= NATURE_SIDE else "small" if side >= 3 else "none"


class ObservationEncoder(nn.Module):
    """The module in :func:`observation_encoder`.

    Attributes:
        num_features: length F of the output.
    """

    def __init__(self, layout: Layout, kind: EncoderKind, features: int | None) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        self.num_features = 0
        for entry in layout:
            if "scale" in entry:
                image = ImageEncoder(entry, encoder_kind(entry, kind), features)
                self.parts.append(image)
                self.num_features += image.num_features
            else:
                self.parts.append(nn.Flatten(-len(entry["shape"])))
                self.num_features += prod(entry["shape"])

    def forward(self, *entries: Tensor) -> Tensor:
        """Return the features ``[*, F]`` of the entries of the layout."""
        return torch.cat([part(x) for part, x in zip(self.parts, entries, strict=True)], -1)


class ImageEncoder(nn.Module):
    """An encoder from images ``[*, …]`` of bytes to features ``[*, F]``.

    Args:
        entry: the image's entry in a layout.
        kind: any kind except ``"auto"``.
        features: the number F of features; ``None`` for the encoder's own.

    >>> gray = {"key": "observation", "shape": [12, 12], "scale": 255, "channels": "first"}
    >>> ImageEncoder(gray, "small", 8)(torch.zeros(5, 7, 12, 12, dtype=torch.uint8)).shape
    torch.Size([5, 7, 8])
    """

    def __init__(self, entry: Mapping[str, Any], kind: EncoderKind, features: int | None) -> None:
        super().__init__()
        self.size, self.ndim = image_size(entry), len(entry["shape"])
        self.scale, self.is_last = entry["scale"], entry["channels"] == "last"
        self.layers = nn.Sequential(*_convolutions(kind, self.size[0]), nn.Flatten())
        text = f"{entry['key']!r} of the shape {list(entry['shape'])} is too small for the encoder"
        advice = "choose 'none', or 'small' from 3 pixels on"
        with prefix_errors(f"{text} {kind!r} ({advice})", RuntimeError), torch.no_grad():
            self.num_features = self.layers(torch.zeros(1, *self.size)).shape[-1]
        if kind != "none":
            length = features or _FEATURES[kind]
            self.layers.extend([nn.Linear(self.num_features, length), nn.ReLU()])
            self.num_features = length

    def forward(self, image: Tensor) -> Tensor:
        """Return the features ``[*, F]`` of images."""
        batch = image.shape[: image.ndim - self.ndim]
        dtype = getattr(self.layers[0], "weight", torch.empty(0, device="meta")).dtype
        pixels = image.to(dtype) / self.scale
        if self.is_last:
            pixels = pixels.movedim(-1, -3)
        return self.layers(pixels.reshape(-1, *self.size)).reshape(*batch, self.num_features)


class ResidualLayer(nn.Module):
    """Two convolutions whose output is added to their input.

    >>> ResidualLayer(4)(torch.zeros(1, 4, 8, 8)).shape
    torch.Size([1, 4, 8, 8])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum, of the shape of ``x``."""
        return x + self.second(F.relu(self.first(F.relu(x))))


_FEATURES = {"small": 128, "nature": 512, "impala": 256}


def _convolutions(kind: EncoderKind, channels: int) -> list[nn.Module]:
    if kind == "none":
        return []
    if kind == "small":
        return [nn.Conv2d(channels, 16, 3), nn.ReLU()]
    if kind == "nature":
        first = [nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
        return [*first, nn.Conv2d(64, 64, 3), nn.ReLU()]
    layers: list[nn.Module] = []
    for width in (16, 32, 32):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        layers += [ResidualLayer(width), ResidualLayer(width)]
        channels = width
    return [*layers, nn.ReLU()]
