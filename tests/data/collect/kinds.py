"""One environment for the collector of each kind."""

from typing import Literal

import pytest
from torchrl.envs import EnvBase, Transform

Kind = Literal["light", "torchrl"]
KINDS: tuple[Kind, ...] = ("light", "torchrl")
BOTH = pytest.mark.parametrize("kind", KINDS)


def of_kind(env: EnvBase, kind: Kind) -> EnvBase:
    """What `make_env` returned, or that with a transform that changes nothing."""
    return env if kind == "light" else env.append_transform(Transform())
