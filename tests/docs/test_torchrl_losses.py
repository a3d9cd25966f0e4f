"""What the pages say about the losses of TorchRL is true of the installed version."""

from __future__ import annotations

import ast
import inspect
import math
import re

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, TensorDictModule, set_composite_lp_aggregate
from torch import nn
from torch.distributions import Categorical
from torchrl import objectives as torchrl
from torchrl.data import Bounded, OneHot
from torchrl.modules import NormalParamExtractor, OneHotCategorical, ProbabilisticActor, TanhNormal

from rlkit_sac import objectives as own
from rlkit_sac.modules import (
    action_value_critic,
    categorical_actor,
    state_action_critic,
    tanh_gaussian_actor,
)
from tests.docs.pages import ROOT, tables

# The page, TorchRL's loss and this package's.
PAIRS = [
    ("continuous_sac", "SACLoss", "ContinuousSACLoss"),
    ("discrete_sac", "DiscreteSACLoss", "DiscreteSACLoss"),
    ("hybrid_sac", "SACLoss", "HybridSACLoss"),
    ("value_sac", "SACLoss", "ContinuousSACLoss"),
    ("kl_prior", "SACLoss", "ContinuousSACLoss"),
    ("acer", "A2CLoss", "ACERLoss"),
]
OPTIONS = re.compile(r"`\w+`(, `\w+`)*")


def rows(page: str) -> list[list[str]]:
    return tables(ROOT / "docs" / f"{page}.md", "| | TorchRL's `")


def keywords(loss: type) -> dict[str, object]:
    """The keyword arguments of a loss, and their defaults."""
    found = inspect.signature(loss.__init__).parameters.values()
    return {each.name: each.default for each in found if each.kind is each.KEYWORD_ONLY}


def default(cell: str) -> object:
    """The default that a cell begins with."""
    return ast.literal_eval(re.match(r"`([^`]+)`", cell)[1])


@pytest.mark.parametrize(("page", "other", "mine"), PAIRS)
def test_options_and_defaults(page: str, other: str, mine: str) -> None:
    theirs, ours = keywords(getattr(torchrl, other)), keywords(getattr(own, mine))
    assert rows(page)
    for name, left, right in rows(page):
        if not OPTIONS.fullmatch(name):
            continue
        for option in re.findall(r"\w+", name):
            if right.startswith("the same"):
                assert theirs[option] == ours[option], option
                continue
            for cell, options in ((left, theirs), (right, ours)):
                if cell.startswith("no option"):
                    assert option not in options
                else:
                    assert options[option] == default(cell), option


@pytest.mark.parametrize(("page", "other"), [(page, other) for page, other, _ in PAIRS[:2]])
def test_every_option_of_torchrl_is_in_the_table(page: str, other: str) -> None:
    named = {word for row in rows(page) for word in re.findall(r"`(\w+)`", row[0])}
    assert keywords(getattr(torchrl, other)).keys() - {"gamma"} <= named


def actor(low: float = -2.0, high: float = 2.0) -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(nn.Linear(3, 4), NormalParamExtractor()),
            ["observation"],
            ["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=Bounded(low, high, (2,)),
        distribution_class=TanhNormal,
        distribution_kwargs={"low": low, "high": high},
    )


def batch(size: int, action: torch.Tensor) -> TensorDict:
    done = torch.zeros(size, 1, dtype=torch.bool)
    following = {"observation": torch.randn(size, 3), "reward": torch.randn(size, 1)}
    return TensorDict(
        observation=torch.randn(size, 3),
        action=action,
        next=TensorDict(**following, done=done, terminated=done, batch_size=[size]),
        batch_size=[size],
    )


def continuous(size: int = 4) -> TensorDict:
    return batch(size, torch.rand(size, 2))


def pair(**options) -> list:
    """TorchRL's loss and ours, with the same kinds of networks."""
    mine = tanh_gaussian_actor(3, [-2.0] * 2, [2.0] * 2)
    return [
        torchrl.SACLoss(actor(), state_action_critic(3, 2, num_cells=[8]), **options),
        own.ContinuousSACLoss(mine, state_action_critic(3, 2, num_cells=[8]), **options),
    ]


def test_target_entropies() -> None:
    theirs, ours = pair()
    assert theirs.target_entropy == -2
    assert ours.target_entropy == pytest.approx(2 * math.log(0.1 * 4))
    critic = action_value_critic(3, 5)
    theirs = torchrl.DiscreteSACLoss(
        categorical_actor(3, 5), critic, action_space="categorical", num_actions=5
    )
    assert theirs.target_entropy == pytest.approx(0.98 * math.log(5))
    scaled = own.DiscreteSACLoss(categorical_actor(3, 5), critic, target_entropy="scaled_log_k")
    assert theirs.target_entropy == pytest.approx(scaled.target_entropy)
    with pytest.raises(ValueError, match="num_actions"):
        torchrl.DiscreteSACLoss(categorical_actor(3, 5), critic, action_space="categorical")


def test_the_batch_and_the_priority() -> None:
    for loss, written in zip(pair(), ({"loc", "scale"}, set()), strict=True):
        data = continuous()
        before = set(data.keys())
        loss(data)
        assert set(data.keys()) - before == written | {"td_error"}
    loss, metadata = pair(num_qvalue_nets=1)[1].qvalue_loss(continuous())
    assert torch.allclose(metadata["td_error"].square().mean(), loss)
    loss, metadata = torchrl.SACLoss(
        actor(), state_action_critic(3, 2), num_qvalue_nets=1, loss_function="l1"
    ).qvalue_v2_loss(continuous())
    assert torch.allclose(metadata["td_error"].mean(), loss)  # |Q - y|, of one critic


def test_discrete_actions() -> None:
    one_hot = ProbabilisticActor(
        TensorDictModule(nn.Linear(3, 5), ["observation"], ["logits"]),
        in_keys=["logits"],
        spec=OneHot(5),
        distribution_class=OneHotCategorical,
    )
    critic, action = action_value_critic(3, 5), torch.arange(4)
    with pytest.warns(UserWarning, match="one-hot"):
        theirs = torchrl.DiscreteSACLoss(one_hot, critic, num_actions=5)
    encoded = nn.functional.one_hot(action, 5)
    assert theirs(batch(4, encoded))["loss_qvalue"].isfinite()
    with pytest.raises(ValueError, match="argmax"):
        own.DiscreteSACLoss(critic)(batch(4, encoded))
    for order in ((critic, categorical_actor(3, 5)), (categorical_actor(3, 5), critic)):
        assert own.DiscreteSACLoss(*order)(batch(4, action))["loss_actor"].isfinite()


class Parameters(nn.Linear):
    """Of a Gaussian of two dimensions, and of a choice of three."""

    def __init__(self) -> None:
        super().__init__(3, 7)

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        loc, scale, logits = super().forward(observation).split([2, 2, 3], -1)
        return loc, scale.exp(), logits


class Value(nn.Linear):
    """Of both parts of an action."""

    def __init__(self) -> None:
        super().__init__(3, 1)

    def forward(self, continuous: torch.Tensor, discrete: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.cat([continuous, discrete.unsqueeze(-1)], -1))


@set_composite_lp_aggregate(True)
def test_mixed_actions() -> None:
    keys = [("params", *name) for name in (("c", "loc"), ("c", "scale"), ("d", "logits"))]
    composite = ProbabilisticActor(
        TensorDictModule(Parameters(), ["observation"], keys),
        in_keys=["params"],
        out_keys=["c", "d"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": {"c": TanhNormal, "d": Categorical}},
    )
    critic = TensorDictModule(Value(), ["c", "d"], ["state_action_value"])
    loss = torchrl.SACLoss(composite, critic, target_entropy=-3.0)
    with pytest.raises(NotImplementedError):
        loss.actor_loss(continuous())
