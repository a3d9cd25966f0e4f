"""What the blocks of a page made is used: environments are stepped, losses trained, actors act."""

from __future__ import annotations

from collections.abc import Sequence, Set
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
    """Use each object once, with the nearest batch of the page.

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
        if isinstance(value, ReplayBuffer):
            value.sample()
        elif isinstance(value, LossModule):
            train(value, find_batch(batches, set(value.in_keys), block, name))
        elif isinstance(value, TensorDictModuleBase):
            # A state that is not there is zero.
            read = {key for key in value.in_keys if ("next", key) not in value.out_keys}
            batch = find_batch(batches, read, block, name)
            with torch.no_grad():
                batches.append((block.line, value(batch)))


def find_batch(
    batches: Sequence[tuple[int, TensorDictBase]], keys: Set[Any], block: Block, name: str
) -> TensorDictBase:
    """A copy of the batch with these entries whose line is nearest."""
    fit = [each for each in batches if keys <= set(each[1].keys(True))]
    assert fit, f"{block}: {name} reads {keys}, which nothing on the page has"
    return min(fit, key=lambda each: abs(each[0] - block.line))[1].clone()


def train(loss_module: LossModule, batch: TensorDictBase) -> None:
    """Make one update, and act."""
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
