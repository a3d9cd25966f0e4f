"""Drawing in plain NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Color = tuple[int, int, int]


class Canvas:
    """An image on which smooth shapes are drawn in the units of a task, y upwards.

    Args:
        width: width in pixels.
        height: height in pixels.
        left: x of the left edge.
        bottom: y of the lower edge.
        scale: pixels per unit.
        color: color of the background.

    >>> canvas = Canvas(8, 4, left=0.0, bottom=0.0, scale=4.0, color=(255, 255, 255))
    >>> canvas.rectangle(0.0, 0.0, 1.0, 1.0, (0, 0, 0))
    >>> canvas.pixels().shape, canvas.pixels()[0, :, 0]
    ((4, 8, 3), array([  0,   0,   0,   0, 255, 255, 255, 255], dtype=uint8))
    """

    def __init__(
        self, width: int, height: int, *, left: float, bottom: float, scale: float, color: Color
    ) -> None:
        self._scale = scale
        self._x = left + (np.arange(width) + 0.5)[None, :] / scale
        self._y = bottom + (height - np.arange(height) - 0.5)[:, None] / scale
        self._image = np.empty((height, width, 3))
        self._image[:] = color

    def rectangle(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """Draws a rectangle with its lower left corner at (x, y)."""
        dx = np.abs(self._x - (x + width / 2)) - width / 2
        dy = np.abs(self._y - (y + height / 2)) - height / 2
        self._fill(np.maximum(dx, dy), color)

    def disk(self, x: float, y: float, radius: float, color: Color) -> None:
        """Draws a disk around (x, y)."""
        self._fill(np.hypot(self._x - x, self._y - y) - radius, color)

    def line(self, x: float, y: float, dx: float, dy: float, width: float, color: Color) -> None:
        """Draws a line from (x, y) to (x + dx, y + dy) with round ends."""
        length = max(dx * dx + dy * dy, 1e-12)
        along = np.clip(((self._x - x) * dx + (self._y - y) * dy) / length, 0.0, 1.0)
        distance = np.hypot(self._x - x - along * dx, self._y - y - along * dy)
        self._fill(distance - width / 2, color)

    def pixels(self) -> NDArray[np.uint8]:
        """Returns the image `[height, width, 3]`."""
        return np.rint(self._image).astype(np.uint8)

    def _fill(self, outside: NDArray[np.float64], color: Color) -> None:
        """Paints where the distance to the shape is negative, and the border in part."""
        share = np.clip(0.5 - outside * self._scale, 0.0, 1.0)[..., None]
        self._image += share * (np.array(color) - self._image)
