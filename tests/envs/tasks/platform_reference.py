"""Platform once more, slowly, with rectangles as NumPy vectors, to compare with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SIZE = np.array([20.0, 30.0])
PLATFORMS = [
    (np.array([x, 0.0]), np.array([width, 40.0]))
    for x, width in ((0.0, 250.0), (475.0, 275.0), (985.0, 50.0))
]
PARAMETERS = ((0.0, 30.0), (0.0, 720.0), (0.0, 430.0))


class PlatformReference:
    """The figure, the enemies, and one macro-action at a time; it ends where the task does."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.position, self.velocity = np.array([0.0, 40.0]), np.zeros(2)
        self.enemies = [np.array([230.0, 40.0]), np.array([730.0, 40.0])]
        self.enemy_speeds = [-30.0, -30.0]

    def step(self, choice: int, parameter: float) -> tuple[float, bool]:
        """Reward and end of one macro-action."""
        start = self.position[0]
        parameter = float(np.clip(parameter, *PARAMETERS[choice]))
        count, ended, goes_on = 0, False, True
        while goes_on and not ended:
            ended = self.sub_step(choice, parameter)
            count += 1
            goes_on = count < 20 if choice == 0 else not self.stands()
        return float((self.position[0] - start) / 1035.0), ended

    def sub_step(self, choice: int, parameter: float) -> bool:
        if not self.stands():
            self.accelerate(np.array([0.0, -9.8]))
        elif choice == 0:
            self.accelerate(np.array([parameter / 0.05, 0.0]))
        else:
            up = {1: 35.0, 2: 25.0}[choice]
            forward = parameter / (2 * up / 9.8 + 1) - self.velocity[0]
            aim = np.array([np.clip(forward, -600.0, 200.0 - up), up])
            self.accelerate((aim - np.abs(self.rng.normal(0.0, 1.0, 2))) / 0.05)
        if self.stands():
            self.velocity[0] = np.clip(self.velocity[0], 0.0, 70.0)
        enemy = int(self.position[0] > 475.0)
        self.position += self.velocity * 0.05
        self.position[0] = np.clip(self.position[0], 0.0, 1035.0)
        self.velocity[0] *= 0.99
        self.move_enemy(enemy)
        for corner, size in PLATFORMS:
            if overlap(self.position, SIZE, corner, size):
                self.leave(corner, size)
        touches = any(overlap(self.position, SIZE, enemy, SIZE) for enemy in self.enemies)
        return touches or self.position[1] < 40.0 or self.position[0] >= 1035.0

    def accelerate(self, acceleration: Vector) -> None:
        limit = np.array([600.0, 4000.0])
        self.velocity += np.clip(acceleration, -limit, limit) * 0.05
        self.velocity[0] -= abs(self.rng.normal(0.0, 0.025))
        self.velocity = np.clip(self.velocity, [-100.0, -200.0], [100.0, 200.0])
        self.velocity[0] = max(self.velocity[0], 0.0)

    def move_enemy(self, index: int) -> None:
        left = PLATFORMS[index][0][0]
        right = left + PLATFORMS[index][1][0] - 20.0
        position, speed = self.enemies[index], self.enemy_speeds[index]
        speed = speed if left < position[0] < right else -speed
        speed = float(np.clip(speed + self.rng.normal(0.0, 0.025), -30.0, 30.0))
        position[0] = np.clip(position[0] + 0.05 * speed, left, right)
        self.enemy_speeds[index] = speed

    def leave(self, corner: Vector, size: Vector) -> None:
        """Along the axis on which the figure sticks out of the platform, the nearer if both."""
        shifts: list[Any] = []
        for axis in range(2):
            shift = 0.0
            if self.position[axis] < corner[axis]:
                shift = corner[axis] - SIZE[axis] - self.position[axis]
            elif self.position[axis] > corner[axis] + size[axis] - SIZE[axis]:
                shift = corner[axis] + size[axis] - self.position[axis]
            shifts.append(abs(shift) if shift else np.inf)
            shifts.append(shift)
        axis = 0 if shifts[0] < shifts[2] else 1
        self.position[axis] += shifts[2 * axis + 1]
        self.velocity[axis] = 0.0
        self.velocity[0] = 0.0

    def stands(self) -> bool:
        return any(
            self.position[1] == 40.0 and -20.0 <= self.position[0] - corner[0] <= size[0]
            for corner, size in PLATFORMS
        )

    def observe(self) -> Vector:
        x = self.position[0]
        if x < 475.0:
            features = [250.0, 275.0, 225.0, 0.0, 0.0]
        elif x < 985.0:
            features = [275.0, 50.0, 235.0, 475.0, 0.0]
        else:
            features = [50.0, 0.0, 0.0, 985.0, 0.0]
        enemy = int(x > 475.0)
        state = [x, self.velocity[0], self.enemies[enemy][0], self.enemy_speeds[enemy], *features]
        shift = np.array([20, 0, 0, 30, 0, 0, 0, 0, 0])
        scale = np.array([1055, 100, 1035, 60, 275, 275, 235, 1035, 1])
        return (np.array(state) + shift) / scale


def overlap(corner: Vector, size: Vector, other_corner: Vector, other_size: Vector) -> bool:
    below = (corner < other_corner + other_size).all()
    return bool(below and (other_corner < corner + size).all())
