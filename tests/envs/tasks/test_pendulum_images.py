"""The pendulum as a camera sees it is Gymnasium's pendulum."""

import gymnasium as gym
import numpy as np
import pytest


@pytest.mark.parametrize("side", [24, 84])
def test_the_rod_points_where_the_pendulum_is_and_all_else_is_the_same(side: int) -> None:
    seen, plain = gym.make("rlkit_sac/PendulumImages-v0", side=side), gym.make("Pendulum-v1")
    for seed in range(5):
        pairs = [(seen.reset(seed=seed)[0], plain.reset(seed=seed)[0])]
        for torque in np.linspace(-2, 2, 20, dtype=np.float32):
            found, wanted = seen.step([torque]), plain.step([torque])
            assert found[1:4] == wanted[1:4]
            pairs.append((found[0], wanted[0]))
        for image, (cosine, sine, speed) in pairs:
            assert image["speed"] == speed
            rows, columns = np.nonzero(image["camera"])
            x, y = columns.mean() - (side - 1) / 2, (side - 1) / 2 - rows.mean()
            # Upright the cosine is 1; half of a rod of 1 / 2.4 of the image is its middle.
            length = (side - 1) / 2.4 / 2
            np.testing.assert_allclose([x / length, y / length], [sine, cosine], atol=0.15)
