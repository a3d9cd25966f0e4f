"""A task with images, whose observations and actions have many forms: ``tests/Dot-v0``."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

COLOR = Box(0, 255, (12, 14, 3), np.uint8)
PLANES = Box(0, 1, (2, 12, 14), np.bool_)
OBSERVATIONS = {
    "color": COLOR,
    "planes": PLANES,
    "images": Dict(color=COLOR, planes=PLANES),
    "mixed": Dict(mode=Discrete(3), view=Tuple([PLANES, Box(-1.0, 1.0, (2,)), COLOR])),
}
ACTIONS = {
    "box": Box(-1.0, 1.0, (2,)),
    "discrete": Discrete(5),
    "hybrid": Tuple([Discrete(2), Box(-1.0, 1.0, (1,)), Box(-1.0, 1.0, (1,))]),
}


class Dot(gym.Env[Any, Any]):
    """A dot moves over a picture; the reward is higher near the upper left corner."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self, observation: str = "mixed", action: str = "box", render_mode: str | None = None
    ) -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observation], ACTIONS[action]
        self.seen, self.acts, self.render_mode = observation, action, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.np_random.uniform(2, 10, 2)
        self.moved = np.zeros(2)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.acts == "discrete":
            action = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)][action]
        elif self.acts == "hybrid":
            choice, *boxes = action
            action = [float(box[0]) * (choice == place) for place, box in enumerate(boxes)]
        before = self.at
        self.at = np.clip(before + action, 0, 11)
        self.moved = self.at - before
        return self.observe(), -float(self.at.sum()) / 22, bool(self.at.sum() < 1), False, {}

    def observe(self) -> Any:
        color = self.render()
        planes = np.stack([color[..., 0] > 0, color[..., 1] > 0])
        if self.seen == "mixed":
            return {"mode": int(self.at[0]) % 3, "view": (planes, np.float32(self.moved), color)}
        images = {"color": color, "planes": planes}
        return images if self.seen == "images" else images[self.seen]

    def render(self) -> Any:
        color = np.zeros((12, 14, 3), np.uint8)
        row, column = self.at.astype(int)
        color[row, column] = 255
        color[:, column, 1] = 128
        return color


gym.register("tests/Dot-v0", Dot, max_episode_steps=17)


class Noise(gym.Env[Any, Any]):
    """Pictures that are all different, with numbers beside them, over episodes of any length."""

    observation_space = Dict(
        gray=Box(0, 255, (5, 6), np.uint8),
        planes=Box(0, 1, (3, 4, 2), np.bool_),
        at=Box(0, 1, (2,)),
    )
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observe(), float(action), bool(self.np_random.random() < 0.15), False, {}

    def observe(self) -> Any:
        parts = self.observation_space.spaces
        parts = {key: self.np_random.random(part.shape or ()) for key, part in parts.items()}
        gray = (parts["gray"] * 256).astype(np.uint8)
        return {"gray": gray, "planes": parts["planes"] < 0.5, "at": np.float32(parts["at"])}


gym.register("tests/Noise-v0", Noise, max_episode_steps=13)
