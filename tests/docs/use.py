"""What the blocks of a page made is used: environments are stepped, losses trained, actors act."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.data import ReplayBuffer
from torchrl.envs import EnvBase
from torchrl.objectives import LossModule

from tests.docs.pages import Block


def use_all(made: Sequence[tuple[Block, str, Any]]) -> None:
    """Use each object once, with the nearest batch of the page that fits it.

    Args:
        made: objects, each with its block and its name.
    """
    batches = []
    for block, _, value in made:
        if isinstance(value, EnvBase) and not value.is_closed:
            batches.append((block.line, value.rollout(3)))
        elif isinstance(value, TensorDictBase):
            batches.append((block.line, value))
        elif isinstance(value, gym.Env | gym.vector.VectorEnv):
            observation, _ = value.reset()
            value.step(value.action_space.sample())
            batches.append((block.line, TensorDict(observation=observation)))

    for block, name, value in made:
        near = sorted(batches, key=lambda batch: abs(batch[0] - block.line))
        if isinstance(value, ReplayBuffer):
            value.sample()
        elif isinstance(value, LossModule):
            use(partial(train, value), [batch for _, batch in near], f"{block}: {name}")
        elif isinstance(value, TensorDictModuleBase):
            with torch.no_grad():
                result = use(value, [batch for _, batch in near], f"{block}: {name}")
            batches.append((block.line, result))


def use(call: Callable[[TensorDictBase], Any], batches: Sequence[TensorDictBase], what: str) -> Any:
    """Return what comes of the first batch that fits."""
    errors = []
    for batch in batches:
        try:
            return call(batch.clone())
        except Exception as error:  # noqa: PERF203
            errors.append(f"{type(error).__name__}: {error}")
    raise AssertionError(f"{what} works with nothing on the page: {errors}")


def train(loss_module: LossModule, batch: TensorDictBase) -> None:
    """Make one update, and act."""
    assert not any(value.requires_grad for value in batch.values(True, True))  # they are data
    trained = [each for each in loss_module.parameters() if each.requires_grad]
    before = [each.detach().clone() for each in trained]
    losses = loss_module(batch.clone())
    sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
    torch.optim.SGD(trained, lr=1e-3).step()
    assert any((old != new).any() for old, new in zip(before, trained, strict=True))
    with torch.no_grad():
        action = loss_module.policy()(batch)["action"]
    parts = action.values(True, True) if isinstance(action, TensorDictBase) else [action]
    assert all(part.isfinite().all() for part in parts)
