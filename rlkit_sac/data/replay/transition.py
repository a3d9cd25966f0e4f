"""The example transition that determines what replay stores."""

from __future__ import annotations

from collections.abc import Iterable

from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.graph import preserve_state


def example_transition(
    env: EnvBase, keys: Iterable[NestedKey], *, random_policy: TensorDictModuleBase | None = None
) -> TensorDictBase:
    """One transition with the entries that replay will store, and arbitrary values.

    Args:
        env: the environment frames come from, batched or not.
        keys: entries to keep, such as a loss's ``in_keys``.
        random_policy: writes entries that are not the environment's, see
            :func:`~rlkit_sac.data.make_collector`; it draws no random numbers here.

    Returns:
        A TensorDict without batch dimensions.

    >>> from rlkit_sac.envs import make_env
    >>> example_transition(make_env("Pendulum-v1"), ["observation"])["observation"].shape
    torch.Size([3])
    """
    frame = env.fake_tensordict()
    if random_policy is not None:
        with preserve_state(random_policy):
            frame = random_policy(frame)
    return frame.select(*keys)[(0,) * frame.ndim]
