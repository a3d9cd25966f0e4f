"""Copies, pickles, targets and temperatures of a loss."""

import copy
import gc
import math
import pickle
import weakref

import pytest
import torch
from torchrl.objectives import HardUpdate, SoftUpdate

from rlkit_sac.errors import ConfigError
from tests.objectives.comparison import losses_of
from tests.objectives.losses import KINDS, make_batch, own_loss


@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_independent_and_pickles_complete(kind):
    torch.manual_seed(0)
    loss = own_loss(kind, normalize_entropy_reward=True)
    data = make_batch(kind, 5)
    fresh = own_loss(kind, normalize_entropy_reward=True)
    assert set(loss.state_dict()) == set(fresh.state_dict())
    fresh.load_state_dict(loss.state_dict())
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        state = copy.deepcopy(loss.state_dict())
        torch.manual_seed(1)
        out = other(data.clone())
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        assert all(torch.equal(state[name], value) for name, value in loss.state_dict().items())
        torch.manual_seed(1)
        found = copy.deepcopy(loss)(data.clone())
        assert all(torch.equal(found[name], value) for name, value in losses_of(out).items())


def test_only_the_value_network_has_a_target():
    torch.manual_seed(0)
    loss = own_loss("value")
    names = {name.split(".")[0] for name, _ in loss.named_buffers()}
    assert names == {"target_value_network_params"}
    updater = SoftUpdate(loss, tau=0.25)
    before = loss.target_value_network_params.data.clone()
    for p in loss.parameters():
        p.data.add_(1.0)
    updater.step()
    moved = loss.target_value_network_params
    assert all(torch.allclose(moved[key], before[key] + 0.25) for key in before.keys(True, True))
    HardUpdate(loss, value_network_update_interval=1).step()


@pytest.mark.parametrize("critic", [{}, {"atoms": 11}], ids=["", "atoms"])
@pytest.mark.parametrize("kind", KINDS)
def test_nan_at_a_terminal_state_leaves_no_trace(kind, critic):
    torch.manual_seed(0)
    loss = own_loss(kind, critic=critic, normalize_entropy_reward=True)
    data = make_batch(kind, 5)
    data["next", "terminated"][2] = True
    spoiled, found = data.clone(), []
    spoiled["next", "observation"][2] = torch.nan
    for batch in (data, spoiled):
        torch.manual_seed(1)
        found.append(loss.qvalue_loss(batch)[0])
    torch.testing.assert_close(*found)
    loss(spoiled)
    assert all(value.isfinite() for value in losses_of(loss(data)).values())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gamma", 2.0),
        ("qvalue_coef", -1.0),
        ("reward_scale", math.nan),
        ("dqda_clipping", 0.0),
        ("target_entropy", math.inf),
    ],
)
def test_a_number_may_not_become_what_it_cannot_be(option, value):
    loss = own_loss("continuous", dqda_clipping=1.0)
    with pytest.raises(ConfigError, match=f"{option}: must be "):
        loss.set_scalar(option, value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_nobody_has_is_freed_at_once(kind):
    loss = own_loss(kind)
    loss(make_batch(kind, 5))
    gc.collect()
    gc.disable()
    try:
        watched = weakref.ref(next(loss.parameters()))
        del loss
        assert watched() is None
    finally:
        gc.enable()
