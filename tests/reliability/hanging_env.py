"""An environment that never ends its step 140."""

import time
from pathlib import Path

import gymnasium as gym
import numpy as np


class Hanging(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 140:
            Path("hangs").touch()
            while True:
                time.sleep(1)
        return np.zeros(2, np.float32), 0.0, False, self.steps % 20 == 0, {}


gym.register("Hanging-v0", entry_point=Hanging)
