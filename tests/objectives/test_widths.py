"""A batch that does not fit the networks is named, with both shapes."""

import pytest
import torch

from rlkit_sac.errors import BatchError
from rlkit_sac.modules import action_value_critic, categorical_actor
from rlkit_sac.objectives import ACERLoss
from tests.objectives.losses import KINDS, make_batch, own_loss


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
