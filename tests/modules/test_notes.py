"""Notes of how modules were built."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tensordict.nn import TensorDictSequential

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import (
    BehaviorPolicy,
    GaussianHead,
    NormalizedPolicy,
    ObservationNormalizer,
    RewardNormalizer,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor_critic,
    hybrid_critic,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.actors import policy_operator
from rlkit_sac.modules.notes import make_note, note_of
from rlkit_sac.modules.rebuild import build_from_note, checked_note


def test_a_note_is_complete_and_plain():
    """Defaults too, which another version may have changed."""
    note = note_of(categorical_actor(3, num_actions=2))
    arguments = {"observation_dim": 3, "num_actions": 2, "num_cells": [256, 256]}
    assert note == {
        "builder": "categorical_actor",
        "arguments": arguments | {"activation": "relu", "memory": None},
    }


def test_copies_keep_it_and_state_dicts_do_not_have_it():
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[4])
    for other in (copy.deepcopy(actor), pickle.loads(pickle.dumps(actor))):
        assert note_of(other) == note_of(actor)
    assert not any("note" in name for name in actor.state_dict())


def test_parts_without_a_note_leave_the_whole_without():
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[4])
    assert note_of(TensorDictSequential(actor))["arguments"]["modules"] == [note_of(actor)]
    del actor.note
    assert note_of(TensorDictSequential(actor)) is None
    assert note_of(torch.nn.Linear(1, 1)) is None
    assert make_note("x", bound=float("inf")) is None


def test_what_is_built_from_a_note_has_the_same_note():
    modules = [
        hybrid_critic(3, 1, 2),
        BehaviorPolicy(policy_operator(gaussian_actor_critic(3, 1, num_samples=3))),
        tanh_gaussian_actor(3, [-1.0], [1.0], action_key=("action", "continuous")),
    ]
    assert [checked_note(policy) is not None for policy in modules] == [False, True, True]
    for policy in modules:
        assert note_of(build_from_note(note_of(policy))) == note_of(policy)


def test_only_builders_of_the_package_are_called():
    for name in ("os.system", "eval", "RewardNormalizer"):
        with pytest.raises(ConfigError, match="unknown builder"):
            build_from_note({"builder": name, "arguments": {}})
    assert note_of(RewardNormalizer(0.9)) is None
    assert note_of(state_action_critic(3, 1)) is None  # it does not act


def test_a_check_leaves_the_policy_and_the_generators_alone():
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[4])
    before = copy.deepcopy(actor.state_dict()), torch.get_rng_state()
    parameters = list(actor.parameters())
    assert checked_note(actor) == note_of(actor)
    assert torch.equal(torch.get_rng_state(), before[1])
    assert all(a is b for a, b in zip(actor.parameters(), parameters, strict=True))
    for name, tensor in actor.state_dict().items():
        assert torch.equal(tensor, before[0][name])
    with torch.no_grad():
        parameters[0].fill_(torch.nan)
    assert checked_note(actor) is not None


# ------------------------------------------------------------------ what the check finds


def exchange(module, old, new):
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, old):
                setattr(parent, name, new)


def test_a_layer_that_differs_only_for_large_values_is_found():
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    exchange(actor, torch.nn.ReLU, torch.nn.ReLU6())
    assert checked_note(actor) is None


def test_a_number_of_a_layer_is_compared():
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    head = next(each for each in actor.modules() if isinstance(each, GaussianHead))
    head.log_std_min = -30.0
    assert checked_note(actor) is None


def test_a_policy_without_parameters_has_no_note():
    policy = BehaviorPolicy(categorical_actor(3, 2))
    exchange(policy, torch.nn.Linear, torch.nn.Identity())
    assert checked_note(policy) is None


def test_a_check_needs_no_float64_on_the_device(monkeypatch):
    """As on MPS, where a rebuilt normalizer of another precision cannot be."""

    def to(self, *args, **kwargs):
        if any(value.dtype == torch.float64 for value in self.state_dict().values()):
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return self

    normalizer = ObservationNormalizer(3, dtype=torch.float32)
    policy = NormalizedPolicy(tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[4]), normalizer)
    monkeypatch.setattr(torch.nn.Module, "to", to)
    assert checked_note(policy) is not None


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_policy_with_memory_is_rebuilt_from_its_note(kind):
    options = {"kind": kind, "size": 5, "layers": 2}
    one, two = {"action_dim": 1}, {"num_actions": 2}
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8], memory=options | one)
    both = {"action_key": ("action", "continuous"), "memory": options | one | two}
    policies = [
        NormalizedPolicy(actor, ObservationNormalizer(3)),
        categorical_actor(3, 2, memory=options | two),
        tanh_gaussian_actor(3, [-1.0], [1.0], **both),
        policy_operator(categorical_actor_critic(3, 2, memory=options)),
    ]
    for policy in policies:
        assert checked_note(policy) == note_of(policy) is not None
        assert note_of(build_from_note(note_of(policy))) == note_of(policy)
