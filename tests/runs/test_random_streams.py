import random

import numpy as np
import torch

from rlkit_sac.graph.preserve_state import random_state, set_random_state
from rlkit_sac.runs.evaluation import seed_everything
from rlkit_sac.runs.files import join_state, split_state


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.randn()), float(torch.randn(()))


def test_a_state_brings_every_generator_back_between_two_halves_of_a_pair() -> None:
    """Normal numbers are made in pairs, and the second of a pair is part of the state."""
    seed_everything(1)
    random.gauss(0, 1)
    draw()
    state = join_state(*split_state(random_state()))
    expected = [random.gauss(0, 1), *draw(), *draw()]
    seed_everything(2)
    assert set_random_state(state)
    assert [random.gauss(0, 1), *draw(), *draw()] == expected
