"""The weights of a vector reward: checked with the task, and changed with the frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlkit_sac.errors import ConfigError


def check_reward_weights(weights: Sequence[float] | None, reward_dim: int) -> None:
    """Refuse weights that do not fit a task's reward.

    Args:
        weights: one for each dimension of the reward, or ``None`` for ones.
        reward_dim: number of reward dimensions of the task.

    Raises:
        ConfigError: for weights of a scalar reward, or of another number.

    >>> check_reward_weights([1.0], reward_dim=2)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: must hold 2 weights, one for each dimension of the task's ...
    """
    if weights is None or len(weights) == reward_dim > 1:
        return
    if reward_dim == 1:
        raise ConfigError(
            "is for vector rewards, but the task's reward is a single number: leave it out"
        )
    raise ConfigError(
        f"must hold {reward_dim} weights, one for each dimension of the task's reward, got "
        f"{list(weights)}"
    )


def check_reward_weights_at(weights_at: Mapping[int, Sequence[float]], reward_dim: int) -> None:
    """Refuse weights by frame that do not fit a task's reward, or that would never count.

    Args:
        weights_at: by the frames from which on they count.
        reward_dim: number of reward dimensions of the task.

    Raises:
        ConfigError: as :func:`check_reward_weights`, and for frames below 1.

    >>> check_reward_weights_at({0: [1.0, 0.5]}, reward_dim=2)
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: must name frames from 1 on, got 0; the first weights are ...
    """
    for frames, weights in weights_at.items():
        check_reward_weights(weights, reward_dim)
        if frames < 1:
            raise ConfigError(
                f"must name frames from 1 on, got {frames}; the first weights are those of "
                "loss.reward_weights"
            )


def reward_weights_due(
    weights_at: Mapping[int, list[float]], before: int, frames: int
) -> list[float] | None:
    """The weights that count after a batch of frames, if it changes them.

    Args:
        weights_at: by the frames from which on they count.
        before: frames of the run before the batch.
        frames: frames of the run after it.

    Returns:
        Those of the last entry that was reached, ``None`` where there was none.

    >>> weights_at = {100: [1.0, 0.0], 200: [0.0, 1.0]}
    >>> [reward_weights_due(weights_at, *span) for span in ((98, 99), (99, 100), (99, 250))]
    [None, [1.0, 0.0], [0.0, 1.0]]
    """
    due = [at for at in weights_at if before < at <= frames]
    return weights_at[max(due)] if due else None
