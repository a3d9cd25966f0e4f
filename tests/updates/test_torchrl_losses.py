"""Every loss module of TorchRL in an update: compiled, uncompiled after a warning, or refused.

The recorded graphs run as they are; the tests marked slow compile some of them.
"""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl import objectives
from torchrl.objectives import LossModule

from rlkit_sac.updates import Update
from tests.updates import torchrl_losses as losses
from tests.updates.torchrl_losses import CASES, SMALL

BRANCH = "what it computes depends on the values of tensors"
UNCOMPILED = {
    "A2CLoss, clip_value": BRANCH,
    "ClipPPOLoss, clip_value": BRANCH,
    "DistributionalDQNLoss": BRANCH,
    "DreamerV3Loss": BRANCH,
    "KLPENPPOLoss": BRANCH,
    "PPOLoss, clip_value": BRANCH,
    "ReinforceLoss, clip_value": BRANCH,
}
REFUSED = (
    "DreamerActorLoss",
    "DreamerModelLoss",
    "DreamerV3ActorLoss",
    "DreamerV3ModelLoss",
    "DreamerV3ValueLoss",
    "DreamerValueLoss",
)
# Their forward makes float32 tensors, whatever the type of the parameters.
FLOAT32 = (
    "DistributionalDQNLoss",
    "DreamerV3Loss",
    "GAILLoss",
    "GAILLoss, use_grad_penalty",
    "RNDLoss",
)
COMPILED = [name for name in CASES if name not in UNCOMPILED and name not in REFUSED]
SPEED = Path(__file__).parents[2] / "docs" / "speed.md"


def make_update(name: str, compile_from: int | None) -> Update:
    torch.manual_seed(0)
    # Some gradients are zero but for rounding, as those of the keys' biases in attention. A large
    # eps keeps Adam from making whole steps of them.
    return losses.make_update(CASES[name], SMALL, compile_from, lr=1e-3, eps=1e-3)


def tensors(data: dict | TensorDict) -> dict[object, Tensor]:
    items = data.items(True, True) if isinstance(data, TensorDict) else data.items()
    return {key: value for key, value in items if isinstance(value, Tensor)}


def assert_same_updates(name: str) -> None:
    """Scalars, entries of the batch, random numbers, parameters and buffers."""
    first, second = (make_update(name, compile_from) for compile_from in (None, 1))
    dtype = torch.float32 if name in FLOAT32 else torch.float64
    close = {"rtol": 1e-4, "atol": 1e-5} if name in FLOAT32 else {"rtol": 1e-9, "atol": 1e-10}
    for update in (first, second):
        update.loss_module.to(dtype)
    for seed in range(3):
        torch.manual_seed(100 + seed)
        batch = CASES[name].make_batch(SMALL)
        batch = batch.apply(lambda value: value.to(dtype) if value.is_floating_point() else value)
        results = []
        for update in (first, second):
            own = batch.clone()
            torch.manual_seed(seed)
            results.append((tensors(update(own)), tensors(own), torch.get_rng_state()))
        (scalars, entries, state), (scalars_after, entries_after, state_after) = results
        assert torch.equal(state, state_after)
        torch.testing.assert_close(scalars_after, scalars, **close)
        torch.testing.assert_close(entries_after, entries, **close)
    states = [tensors(update.loss_module.state_dict()) for update in (first, second)]
    torch.testing.assert_close(states[1], states[0], **close)


def test_every_loss_that_torchrl_exports_is_listed() -> None:
    exported = {
        name
        for name, member in vars(objectives).items()
        if inspect.isclass(member) and issubclass(member, LossModule) and member is not LossModule
    }
    assert exported == {name.partition(",")[0] for name in CASES}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", COMPILED)
def test_its_update_becomes_a_graph(name: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*run uncompiled")
        assert_same_updates(name)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", UNCOMPILED)
def test_its_update_runs_uncompiled_after_one_warning(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_same_updates(name)
    messages = [str(each.message) for each in caught if "run uncompiled" in str(each.message)]
    assert len(messages) == 1
    assert UNCOMPILED[name] in messages[0]


def test_the_documentation_says_what_becomes_of_each() -> None:
    rows = re.findall(r"^\| `(\w+)`(, `\w+`)? \| (\w+)", SPEED.read_text(), re.MULTILINE)
    found = {name + option.replace("`", ""): outcome for name, option, outcome in rows}
    expected = dict.fromkeys(COMPILED, "compiled")
    expected |= dict.fromkeys(UNCOMPILED, "uncompiled") | dict.fromkeys(REFUSED, "refused")
    assert {name: outcome for name, outcome in found.items() if name in CASES} == expected
