"""What rows tell a loss with memories, and what they do not."""

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives import LossModule

from rlkit_sac.modules import SameActionPrior
from rlkit_sac.modules.memory import policy_states
from tests.objectives.comparison import assert_same, results
from tests.objectives.losses import KINDS
from tests.objectives.memory_references import (
    SPECS,
    make_rows,
    memory_of,
    recurrent_loss,
)

EVERY = ("actor", "critic", "value")


def make_loss(kind: str, cells: str = "gru", layers: int = 1, **options) -> LossModule:
    torch.manual_seed(0)
    return recurrent_loss(kind, cells, layers, **options)


def rows_of(kind: str, cells: str = "gru", layers: int = 1, stored=EVERY) -> TensorDict:
    torch.manual_seed(1)
    return make_rows(kind, memory_of(kind, cells, layers), stored=stored)


def call(loss: LossModule, data: TensorDict) -> dict[str, Tensor]:
    torch.manual_seed(2)
    return results(loss, data)


# ------------------------------------------------------------------ the first step of a row


@pytest.mark.parametrize("prior", [None, SameActionPrior], ids=["no_prior", "same_action"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_that_sets_is_init_at_the_first_steps_changes_nothing(kind: str, prior) -> None:
    options = {} if prior is None else {"prior_network": prior(SPECS[kind], 0.7)}
    loss, data = make_loss(kind, **options), rows_of(kind).exclude("begins")
    data["is_init"][:, 0] = False
    data["is_init"][3, 0] = True  # where an episode does begin
    wanted = call(loss, data)
    data["is_init"][:, 0] = True
    assert_same(call(loss, data), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["continuous", "boltzmann", "hybrid"])
def test_a_previous_index_of_zero_is_told_from_the_beginning_of_an_episode(kind: str) -> None:
    """By the stored state, which is zero at the beginning of an episode only."""
    loss, data = make_loss(kind), rows_of(kind).exclude("begins")
    data["prev_action"][:, 0] = torch.zeros_like(data["prev_action"][:, 0])
    data["is_init"][:, 0] = False
    wanted = call(loss, data)
    data["is_init"][[0, 1, 2, 5], 0] = True
    assert_same(call(loss, data), wanted, rtol=0, atol=0)
    if kind != "continuous":
        data["is_init"][3, 0] = True
        assert call(loss, data)["loss_qvalue"] != wanted["loss_qvalue"]


# ------------------------------------------------------------------ TorchRL's contract


@pytest.mark.parametrize("cells", ["gru", "lstm"])
@pytest.mark.parametrize("kind", ["boltzmann", "categorical"])
def test_rows_that_begin_with_an_acting_policys_state_are_parts_of_longer_ones(kind, cells) -> None:
    options = {"reduction": "none", "scalar_output_mode": "exclude"}
    loss = make_loss(kind, cells, 2, **options)
    data = rows_of(kind, cells, 2, stored=())[:3]
    data["is_init"] = data.pop("begins")
    policy, carried = loss.policy(), []
    states = policy_states(policy)
    now = {key: torch.zeros(3, *shape).double() for key, shape in states.items()}
    for step in data.exclude("action", "next").unbind(1):
        for value in now.values():  # as collectors do
            value[step["is_init"].squeeze(-1)] = 0.0
        carried.append(now)
        with torch.no_grad():
            out = policy(step.clone().update(now))
        now = {key: out["next", key] for key in states}
    for key in states:
        data[key] = torch.stack([each[key] for each in carried], 1)
    whole, part = loss(data.clone()), loss(data[:, 3:].clone())
    names = ["loss_alpha", "loss_qvalue"] if kind == "boltzmann" else ["loss_alpha"]
    for name in names:
        torch.testing.assert_close(part[name], whole[name][:, 3:], rtol=1e-12, atol=1e-12)
