"""The steps that each environment contributes to a batch of frames."""

from __future__ import annotations

from rlkit_sac.errors import ConfigError


def steps_per_batch(frames_per_batch: int, num_envs: int) -> int:
    """Return the number T of steps of each of N environments in a batch of N T frames.

    Args:
        frames_per_batch: frames N T of all environments together.
        num_envs: environments N that step together.

    Raises:
        ConfigError: if they cannot share the frames evenly; it names the
            nearest numbers that they can.

    >>> steps_per_batch(8, num_envs=2)
    4
    >>> steps_per_batch(3, num_envs=2)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: frames_per_batch must be a multiple of the 2 ...
    """
    steps, rest = divmod(frames_per_batch, num_envs)
    if rest or steps < 1:
        nearest = [str(number * num_envs) for number in (steps, steps + 1) if number > 0]
        text = f"{num_envs} environments, got {frames_per_batch}: choose {' or '.join(nearest)}"
        raise ConfigError(f"frames_per_batch must be a multiple of the {text}")
    return steps
