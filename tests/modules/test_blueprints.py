"""Blueprints of how modules were built."""

import copy

import torch

from rlkit_sac.modules import (
    BehaviorPolicy,
    categorical_actor,
    gaussian_actor_critic,
    hybrid_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.actors import policy_operator
from rlkit_sac.modules.blueprints import get_blueprint
from rlkit_sac.modules.rebuild import build_from_blueprint, get_valid_blueprint


def test_a_note_is_complete_and_plain():
    """Defaults too, which another version may have changed."""
    blueprint = get_blueprint(categorical_actor(3, num_actions=2))
    arguments = {"observation_dim": 3, "num_actions": 2, "num_cells": [256, 256]}
    assert blueprint == {
        "builder": "categorical_actor",
        "arguments": arguments | {"activation": "relu", "action_key": "action", "memory": None},
    }


def test_what_is_built_from_a_note_has_the_same_note():
    modules = [
        hybrid_critic(3, 1, 2),
        BehaviorPolicy(policy_operator(gaussian_actor_critic(3, 1, num_samples=3))),
        tanh_gaussian_actor(3, [-1.0], [1.0], action_key=("action", "continuous")),
    ]
    assert [get_valid_blueprint(policy) is not None for policy in modules] == [False, True, True]
    for policy in modules:
        assert get_blueprint(build_from_blueprint(get_blueprint(policy))) == get_blueprint(policy)


def test_a_check_leaves_the_policy_and_the_generators_alone():
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[4])
    before = copy.deepcopy(actor.state_dict()), torch.get_rng_state()
    parameters = list(actor.parameters())
    assert get_valid_blueprint(actor) == get_blueprint(actor)
    assert torch.equal(torch.get_rng_state(), before[1])
    assert all(a is b for a, b in zip(actor.parameters(), parameters, strict=True))
    torch.testing.assert_close(actor.state_dict(), before[0], rtol=0, atol=0)
    with torch.no_grad():
        parameters[0].fill_(torch.nan)
    assert get_valid_blueprint(actor) is not None
