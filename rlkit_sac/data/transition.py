"""The part of a collected frame that is worth keeping."""

from __future__ import annotations

from collections.abc import Iterable

from tensordict import NestedKey, TensorDictBase
from torchrl.envs import EnvBase


def example_transition(env: EnvBase, keys: Iterable[NestedKey]) -> TensorDictBase:
    """One transition of zeros with the entries that replay will hold.

    Args:
        env: the environment frames come from, batched or not.
        keys: entries to keep, such as a loss's ``in_keys``.

    Returns:
        A TensorDict without batch dimensions.

    >>> from rlkit_sac.envs import make_env
    >>> example_transition(make_env("Pendulum-v1"), ["observation"])["observation"].shape
    torch.Size([3])
    """
    frame = env.fake_tensordict().select(*keys)
    return frame[(0,) * frame.ndim]
