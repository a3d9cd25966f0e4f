"""Updates of all kinds of losses through a recorded graph and without, with the same draws."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives import LossModule, ValueEstimators

from rlkit_sac.modules import (
    PolicyPrior,
    SameActionPrior,
    UniformPrior,
    categorical_actor,
    observation_encoder,
)
from rlkit_sac.updates import compiled
from tests.modules.test_encoders import MIXED, states
from tests.objectives import memory_references
from tests.objectives.acer_memory import make_recurrent_acer, make_rows
from tests.objectives.acer_networks import NUM_ACTIONS, make_acer
from tests.objectives.losses import box_actor, loss_class, networks_of, own_loss
from tests.objectives.memory_references import SPECS, memory_of, recurrent_loss
from tests.updates.test_compiled import NOTHING_FALLS_BACK, assert_same, batch_for, pair

Batch = Callable[[LossModule], TensorDict]


@dataclass
class Case:
    """A loss, and a batch for it."""

    make: Callable[[], LossModule]
    batch: Batch


# ------------------------------------------------------------------ losses with a prior

POLICIES = {
    "continuous": box_actor,
    "boltzmann": lambda: categorical_actor(4, 3, num_cells=[8]),
    "hybrid": lambda: own_loss("hybrid").policy(),
}
PRIORS = {
    "uniform": lambda kind: UniformPrior(SPECS[kind]),
    "same action": lambda kind: SameActionPrior(SPECS[kind]),
    "policy": lambda kind: PolicyPrior(POLICIES[kind]()),
}


def with_before(loss: LossModule) -> TensorDict:
    batch = batch_for(loss)
    batch["prev_action"] = batch["action"].flip(0)
    batch["is_init"] = torch.rand(len(batch), 1) < 0.3
    return batch


def prior_case(name: str, kind: str) -> Case:
    return Case(lambda: own_loss(kind, prior_network=PRIORS[name](kind)), with_before)


# ------------------------------------------------------------------ ACER, memories, images

LSTM = {"kind": "lstm", "size": 4, "num_actions": NUM_ACTIONS}


def segments(kind: str, loss: LossModule) -> TensorDict:
    """Segments with a mask, without NaN: updates are compared on other values of them."""
    found = make_rows(kind, 3, 4)
    found["collector", "mask"] = torch.rand(3, 4) < 0.8
    return found


def acer_case(kind: str, **options: Any) -> Case:
    def make() -> LossModule:
        if "memory" in options:
            return make_recurrent_acer(kind, **options)
        return make_acer(kind, trust_region_delta=0.01, **options)[0]

    return Case(make, partial(segments, kind))


def memory_case(kind: str, cells: str, **options: Any) -> Case:
    def make() -> LossModule:
        return recurrent_loss(kind, cells, **options).make_value_estimator(ValueEstimators.TDLambda)

    def rows(loss: LossModule) -> TensorDict:
        memory, stored = memory_of(kind, cells, 1), ("actor", "critic")
        found = memory_references.make_rows(kind, memory, stored=stored)
        return found.exclude("begins")[:, :4]

    return Case(make, rows)


def images_case(encoder: str, *, shared: bool) -> Case:
    def make() -> LossModule:
        inputs: Any = {"layout": MIXED, "kind": encoder, "features": 6}
        network = observation_encoder(**inputs) if shared else None
        if shared:
            inputs = {"layout": [{"key": "features", "shape": [6 + 6 + 5]}]}
        networks = networks_of("continuous", inputs, num_cells=[8])
        return loss_class("continuous")(**networks, encoder_network=network)

    def batch(loss: LossModule) -> TensorDict:
        data, after = states(8), states(8)
        done = torch.rand(8, 1) < 0.3
        after.update({"reward": torch.randn(8, 1), "done": done, "terminated": done})
        return data.update({"action": torch.rand(8, 2) * 2 - 1, "next": after})

    return Case(make, batch)


# ------------------------------------------------------------------ masks of allowed actions


def masked(case: Case, count: int) -> Case:
    def make() -> LossModule:
        loss = case.make()
        loss.set_keys(action_mask="action_mask")
        return loss

    def batch(loss: LossModule) -> TensorDict:
        data = case.batch(loss)
        for part in (data, data["next"]):
            mask = torch.rand(*data.batch_size, count) < 0.5
            mask[..., 0] = True
            part["action_mask"] = mask
        return data

    return Case(make, batch)


CASES = {
    **{f"{name} prior, {kind}": prior_case(name, kind) for name in PRIORS for kind in POLICIES},
    **{
        f"masks, {kind}": masked(Case(partial(own_loss, kind), batch_for), 3)
        for kind in ("boltzmann", "categorical", "hybrid")
    },
    "masks, ACER": masked(acer_case("discrete", diagnostics=True), NUM_ACTIONS),
    "memory, continuous": memory_case("continuous", "lstm", burn_in=1),
    "memory, hybrid": memory_case("hybrid", "gru", burn_in=1),
    "images": images_case("small", shared=False),
    "images, shared": images_case("small", shared=True),
    "images, impala": images_case("impala", shared=False),
    "images, impala, shared": images_case("impala", shared=True),
    "ACER": acer_case("discrete", diagnostics=True, use_q_opc=True),
    "ACER, probabilities": acer_case("discrete", trust_region_space="probs"),
    "ACER, continuous": acer_case("continuous"),
    "ACER, no trust region": acer_case("continuous", use_trust_region=False, use_q_opc=True),
    "ACER, memory": acer_case("discrete", memory=LSTM, shared=True, burn_in=1),
}
# A hybrid policy has both factors, and an encoder that is shared is one of images.
QUICK = ["same action prior, hybrid", "policy prior, hybrid", "memory, hybrid", "images, shared"]
QUICK += ["masks, categorical", "masks, hybrid", "masks, ACER"]
COMPILED = [
    name for name in CASES if not name.startswith(("uniform", "policy")) and "impala" not in name
]


def compare(name: str) -> None:
    case = CASES[name]
    first, second = pair(case.make)
    assert_same(first, second, [case.batch(first.loss_module) for _ in range(2)])


@NOTHING_FALLS_BACK
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in CASES]
)
def test_updates_are_the_same(name: str) -> None:
    compare(name)


@NOTHING_FALLS_BACK
@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_updates_are_the_same(name: str) -> None:
    compare(name)


@NOTHING_FALLS_BACK
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", [pytest.param("discrete", marks=pytest.mark.slow), "continuous"])
def test_two_graphs_serve_both_kinds_of_segments(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On-policy and replayed segments take turns; nothing but the flag tells them apart."""
    case, made = acer_case(kind), []
    first, second = pair(case.make)
    original = compiled._Program.__init__

    def count(self, *arguments, **options) -> None:
        made.append(second.count)
        original(self, *arguments, **options)

    monkeypatch.setattr(compiled._Program, "__init__", count)
    for turn in range(6):
        for update in (first, second):
            update.loss_module.on_policy = turn % 3 == 0
        assert_same(first, second, [case.batch(first.loss_module)])
    assert len(made) == 2
