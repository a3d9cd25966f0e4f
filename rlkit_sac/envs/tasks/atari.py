"""Atari games as agents usually see them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.wrappers import AtariPreprocessing


def make_atari(
    game: str = "Pong", repeat_action_probability: float = 0.0, render_mode: str | None = None
) -> gym.Env[Any, Any]:
    """Return a game of the Arcade Learning Environment in 84 x 84 gray pixels, ``Atari-v0``.

    An action is repeated for four frames, an observation is the maximum of the last two, and an
    episode begins with up to 30 frames without an action, as for DQN (Mnih et al. 2015). Rewards
    are those of the game, and an episode is a whole game.

    Args:
        game: name of the game, as in ``ALE/Pong-v5``.
        repeat_action_probability: probability that the last action is repeated instead of a new
            one: 0 as for DQN, 0.25 as Machado et al. 2018 (arXiv:1709.06009) advise.
        render_mode: Gymnasium's render mode.
    """
    raw = gym.make(
        f"ale_py:ALE/{game}-v5",
        frameskip=1,
        repeat_action_probability=repeat_action_probability,
        render_mode=render_mode,
    )
    return AtariPreprocessing(raw)
