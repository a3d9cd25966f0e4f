"""What losses say of batches that lack an entry or hold a misshapen one."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torchrl.data import Bounded
from torchrl.objectives import ValueEstimators

from rlkit_sac.errors import BatchError
from rlkit_sac.modules import SameActionPrior
from tests.objectives.acer_networks import make_acer, make_segments
from tests.objectives.losses import DISCRETE, DISCRETE_KINDS, make_batch, own_loss

MISSHAPEN = {
    "reward": (lambda d: d["next"].pop("reward"), "('next', 'reward')", "set_keys(reward=...)"),
    "action": (lambda d: d.pop("action"), "'action'", "set_keys(action=...)"),
    "terminated": (
        lambda d: d["next"].pop("terminated"),
        "('next', 'terminated')",
        "set_keys(terminated=...)",
    ),
    "observation": (lambda d: d.pop("observation"), "'observation'", "let the networks read"),
    "flat reward": (
        lambda d: d["next"].set("reward", torch.zeros(5)),
        "reward has the shape [5]",
        "trailing dimension",
    ),
    "wide reward": (
        lambda d: d["next"].set("reward", torch.zeros(5, 3)),
        "[5, 3]",
        "one output for each reward dimension",
    ),
    "flat terminated": (
        lambda d: d["next"].set("terminated", torch.zeros(5, dtype=torch.bool)),
        "terminated",
        "wanted [5, 1]",
    ),
    "wide action": (
        lambda d: d.set("action", torch.zeros(5, 3)),
        "action 'action' has the shape [5, 3]",
        "[5, 2]",
    ),
}


@pytest.mark.parametrize(("spoil", "what", "advice"), MISSHAPEN.values(), ids=MISSHAPEN.keys())
def test_a_bad_batch_is_named_in_one_line(spoil, what, advice):
    data = make_batch("continuous", 5)
    spoil(data)
    with pytest.raises(BatchError) as error:
        own_loss("continuous")(data)
    assert what in str(error.value)
    assert advice in str(error.value)


DISCRETE_MISSHAPEN = {
    "one-hot": (
        "boltzmann",
        lambda d: d.set("action", nn.functional.one_hot(d["action"], 3)),
        r"has the shape \[5, 3\], which looks one-hot.*argmax.*categorical_action_encoding",
    ),
    "trailing dimension": (
        "boltzmann",
        lambda d: d.set("action", d["action"].unsqueeze(-1)),
        r"has the shape \[5, 1\], wanted an index of the shape \[5\]",
    ),
    "floating point": (
        "boltzmann",
        lambda d: d.set("action", d["action"].float()),
        "is of dtype torch.float32: .* an integer dtype, from 0 to 2",
    ),
    "too large": (
        "boltzmann",
        lambda d: d["action"][2:3].fill_(3),
        "action 'action' holds the index 3: wanted indices from 0 to 2",
    ),
    "negative": (
        "categorical",
        lambda d: d["action"][2:3].fill_(-1),
        "action 'action' holds the index -1: wanted indices from 0 to 2",
    ),
    "hybrid too large": (
        "hybrid",
        lambda d: d[DISCRETE][2:3].fill_(7),
        r"action \('action', 'discrete'\) holds the index 7: wanted indices from 0 to 2",
    ),
    "no action": ("boltzmann", lambda d: d.pop("action"), r"set_keys\(action=...\)"),
    "hybrid one-hot": (
        "hybrid",
        lambda d: d.set(DISCRETE, nn.functional.one_hot(d[DISCRETE], 3)),
        "looks one-hot",
    ),
    "no discrete part": (
        "hybrid",
        lambda d: d["action"].pop("discrete"),
        r"set_keys\(action_discrete=...\)",
    ),
    "no continuous part": (
        "hybrid",
        lambda d: d["action"].pop("continuous"),
        r"set_keys\(action_continuous=...\)",
    ),
    "vector reward": (
        "boltzmann",
        lambda d: d["next"].set("reward", torch.zeros(5, 2)),
        r"shape \[5, 3, 1\], wanted \[5, 3, 2\] .* one output for each reward dimension",
    ),
}


@pytest.mark.parametrize(
    ("kind", "spoil", "message"), DISCRETE_MISSHAPEN.values(), ids=DISCRETE_MISSHAPEN.keys()
)
def test_a_bad_batch_of_discrete_actions_is_named_in_one_line(kind, spoil, message):
    data = make_batch(kind, 5)
    spoil(data)
    with pytest.raises(BatchError, match=message):
        own_loss(kind)(data)


@pytest.mark.parametrize("kind", DISCRETE_KINDS)
def test_indices_of_invalid_steps_and_of_any_integer_type_are_read(kind):
    data = make_batch(kind, 5)
    key = DISCRETE if kind == "hybrid" else "action"
    data["collector", "mask"] = torch.tensor([True] * 4 + [False])
    loss = own_loss(kind)
    found = []
    for dtype in (torch.int64, torch.uint8, torch.int16, torch.uint16):
        torch.manual_seed(0)
        found.append(loss(data.clone().set(key, data[key].to(dtype)))["loss_qvalue"])
    data[key][4] = 99
    torch.manual_seed(0)
    found.append(loss(data)["loss_qvalue"])
    assert len({value.item() for value in found}) == 1


@pytest.mark.parametrize("what", ["TD(lambda)", "memory", "ACER", "prev_action"])
def test_transitions_of_several_steps_are_refused_where_the_steps_between_count(what):
    if what == "ACER":
        loss, data = make_acer("discrete")[0], make_segments("discrete", 2, 3)
    elif what == "prev_action":
        prior = SameActionPrior(Bounded(-1.0, 1.0, (2,)))
        loss, data = own_loss("continuous", prior_network=prior), make_batch("continuous", 2, 3)
        data["prev_action"], data["is_init"] = data["action"], torch.zeros(2, 3, 1).bool()
    else:
        gru = {"kind": "gru", "size": 4, "layers": 1, "action_dim": 2, "num_actions": 0}
        critic = {"memory": gru} if what == "memory" else {}
        loss, data = own_loss("continuous", critic=critic), make_batch("continuous", 2, 3)
        data["prev_action"], data["is_init"] = data["action"], torch.zeros(2, 3, 1).bool()
        if what == "TD(lambda)":
            loss.make_value_estimator(what.replace("(", "").replace(")", ""), lmbda=0.5)
    data["steps_to_next_obs"] = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises(BatchError, match=f"{re.escape(what)}.* needs transitions of one step"):
        loss(data)


def test_a_one_step_target_does_not_ask_for_done():
    data = make_batch("continuous", 5)
    data["next"].pop("done")
    assert own_loss("continuous")(data)["loss_qvalue"].isfinite()
    sequence = make_batch("continuous", 2, 3)
    sequence["next"].pop("done")
    loss = own_loss("continuous").make_value_estimator(ValueEstimators.TD1)
    with pytest.raises(BatchError, match=r"done"):
        loss(sequence)
