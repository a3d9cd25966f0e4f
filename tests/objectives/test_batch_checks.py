"""What losses say of batches that lack an entry, hold a misshapen one, or fit other networks."""

import re

import pytest
import torch
from torch import nn
from torchrl.data import Bounded
from torchrl.objectives import ValueEstimators

from rlkit_sac.errors import BatchError
from rlkit_sac.modules import SameActionPrior, action_value_critic, categorical_actor
from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_networks import make_acer, make_segments
from tests.objectives.losses import (
    CONTINUOUS,
    DISCRETE,
    DISCRETE_KINDS,
    KINDS,
    make_batch,
    own_loss,
)

REWARD, ENDS = ("next", "reward"), ("next", "terminated")


def one_hot(index: torch.Tensor) -> torch.Tensor:
    return nn.functional.one_hot(index, 3)


#: What is done to an entry of a batch of a kind of loss, None for its removal, and what is said.
MISSHAPEN = [
    ("continuous", REWARD, None, r"\('next', 'reward'\).*set_keys\(reward=...\)"),
    ("continuous", "action", None, r"'action'.*set_keys\(action=...\)"),
    ("continuous", ENDS, None, r"\('next', 'terminated'\).*set_keys\(terminated=...\)"),
    ("continuous", "observation", None, "'observation'.*let the networks read"),
    ("continuous", REWARD, lambda x: x.squeeze(-1), r"shape \[5\].*trailing dimension"),
    ("continuous", REWARD, lambda x: x.expand(5, 3), r"\[5, 3\].*one output for each reward dim"),
    ("continuous", ENDS, lambda x: x.squeeze(-1), r"terminated.*wanted \[5, 1\]"),
    ("continuous", "action", lambda x: x[:, [0, 1, 1]], r"'action' .* \[5, 3\].*\[5, 2\]"),
    (
        "boltzmann",
        "action",
        one_hot,
        r"has the shape \[5, 3\], which looks one-hot.*argmax.*categorical_action_encoding",
    ),
    (
        "boltzmann",
        "action",
        lambda x: x.unsqueeze(-1),
        r"has the shape \[5, 1\], wanted an index of the shape \[5\]",
    ),
    (
        "boltzmann",
        "action",
        torch.Tensor.float,
        "dtype torch.float32: .* integer dtype, from 0 to 2",
    ),
    ("boltzmann", "action", lambda x: x + 3, "'action' holds the index [345]: wanted .* 0 to 2"),
    ("categorical", "action", lambda x: x - 9, "'action' holds the index -[789]: wanted .* 0 to 2"),
    ("hybrid", DISCRETE, lambda x: x + 7, r"\('action', 'discrete'\) holds the index [789]"),
    ("hybrid", DISCRETE, one_hot, "looks one-hot"),
    ("hybrid", DISCRETE, None, r"set_keys\(action_discrete=...\)"),
    ("hybrid", CONTINUOUS, None, r"set_keys\(action_continuous=...\)"),
    (
        "boltzmann",
        REWARD,
        lambda x: x.expand(5, 2),
        r"\[5, 3, 1\], wanted \[5, 3, 2\] .* each reward",
    ),
]


@pytest.mark.parametrize(("kind", "key", "change", "message"), MISSHAPEN)
def test_a_bad_batch_is_named_in_one_line(kind, key, change, message):
    data = make_batch(kind, 5)
    entry = data.pop(key)
    if change is not None:
        data[key] = change(entry)
    with pytest.raises(BatchError, match=message):
        own_loss(kind)(data)


@pytest.mark.parametrize("key", ["priority_weight", ("collector", "mask")])
def test_what_each_step_has_once_is_refused_in_another_shape(key):
    data = make_batch("continuous", 5).set(key, torch.ones(5, 2))
    with pytest.raises(BatchError, match=r"has the shape \[5, 2\], wanted \[5\] or \[5, 1\]"):
        own_loss("continuous")(data)


def test_a_mask_of_numbers_is_refused_by_a_loss():
    data = make_batch("continuous", 5).set(("collector", "mask"), torch.ones(5))
    with pytest.raises(BatchError, match=r"'mask'\) is torch.float32, wanted bool"):
        own_loss("continuous")(data)


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


# ------------------------------------------------------------------ other widths and types


def acer():
    actor = categorical_actor(4, 3, num_cells=[8])
    return ACERLoss(actor, action_value_critic(4, 3, num_cells=[8]))


def batch_of(kind):
    data = make_batch("categorical" if kind == "acer" else kind, 5, 2)
    data["next", "done"] = data["next", "terminated"]
    data["behavior", "logits"] = torch.zeros(5, 2, 3)
    return data


@pytest.mark.parametrize("where", ["observation", ("next", "observation")])
@pytest.mark.parametrize("kind", [*KINDS, "acer"])
def test_an_entry_of_another_width_or_type_is_named(kind, where):
    loss = acer() if kind == "acer" else own_loss(kind)
    data = batch_of(kind)
    loss(data.clone())
    wide, double = torch.zeros(5, 2, 7), data[where].double()
    for wrong, text in ((wide, r"shape \[5, 2, 7\]"), (double, r"type torch\.float64")):
        spoiled = data.clone()
        spoiled["observation"], spoiled["next", "observation"] = wrong, wrong
        with pytest.raises(BatchError, match=rf"'observation'.*{text}.*wants \[5, 2, 4\] of torch"):
            loss(spoiled)
        with pytest.raises((BatchError, RuntimeError)) as error:
            loss(data.clone().set(where, wrong))
        assert isinstance(error.value, BatchError), error.value


def test_so_it_is_where_a_loss_is_computed_alone():
    loss = own_loss("continuous")
    data = batch_of("continuous")
    data["observation"] = torch.zeros(5, 2, 7)
    for alone in (loss.qvalue_loss, loss.actor_loss, loss.alpha_loss):
        with pytest.raises(BatchError, match=r"'observation' has the shape \[5, 2, 7\]"):
            alone(data.clone())
