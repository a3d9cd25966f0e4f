"""Updates through a recorded graph against the same updates without, with the same draws.

Compiling takes seconds for each graph, so that most tests run the recorded graph as it is; the ones
marked slow, and one that is not, compile it.
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.modules import MLP, ValueOperator
from torchrl.objectives import LossModule

from rlkit_sac.config import UpdateConfig
from rlkit_sac.data.replay.packed_buffer import PackedReplayBuffer
from rlkit_sac.modules import ObservationNormalizer, RewardNormalizer
from rlkit_sac.objectives import ACERLoss, ContinuousSACLoss, DiscreteSACLoss
from rlkit_sac.updates import Update
from rlkit_sac.updates import compiled as module
from tests.objectives.losses import box_actor, own_loss
from tests.objectives.networks import make_data
from tests.runs.recipe_updates import make_acer_update, make_update

NOTHING_FALLS_BACK = pytest.mark.filterwarnings("error:.*run uncompiled")
MASK = [[1, 0], [0, 1], [1, 1]]
continuous, hybrid = partial(own_loss, "continuous"), partial(own_loss, "hybrid")


def masked(action_layer: str, **options) -> LossModule:
    critic = {"action_layer": action_layer}
    return hybrid(critic=critic, parameter_mask=MASK, mask_critics=True, **options)


def dropout() -> ContinuousSACLoss:
    net = MLP(in_features=6, out_features=1, num_cells=[8, 8], dropout=0.2)
    return ContinuousSACLoss(box_actor(), ValueOperator(net, in_keys=["observation", "action"]))


def normalized(make: Callable[..., LossModule]) -> LossModule:
    loss = make(
        observation_normalizer=ObservationNormalizer(4), reward_normalizer=RewardNormalizer(0.9)
    )
    loss.update_normalizers(batch_for(loss))
    return loss


OWN: dict[str, Callable[[], LossModule]] = {
    "continuous": continuous,
    "diagnostics": lambda: continuous(diagnostics=True, num_qvalue_nets=3),
    "dropout": dropout,
    "dropout, layer norms": lambda: continuous(critic={"layer_norm": True, "dropout": 0.2}),
    "clipping, centered entropy, some of the targets": lambda: continuous(
        **{"dqda_clipping": 0.5, "normalize_entropy_reward": True, "loss_function": "smooth_l1"},
        **{"num_qvalue_nets": 4, "target_subset": 2, "policy_reduction": "mean"},
    ),
    "normalized": lambda: normalized(continuous),
    "atoms": lambda: normalized(partial(continuous, critic={"atoms": 11})),
    "discrete": lambda: own_loss("boltzmann"),
    "with an actor": lambda: own_loss("categorical"),
    "hybrid": hybrid,
    "masked critics": lambda: masked("first", mask_entropy=False),
    "masked critics, last layer": lambda: masked("last", dqda_clipping=0.5),
    "masked critics, one by one": lambda: masked("first", deactivate_vmap=True),
    "hybrid, sampled": lambda: hybrid(discrete_entropy="sampled", max_alpha=(0.5, 2.0)),
}


def batch_for(loss: LossModule, size: int = 16) -> TensorDict:
    kinds = {ContinuousSACLoss: "continuous", DiscreteSACLoss: "boltzmann"}
    batch = make_data(kinds.get(type(loss), "hybrid"), size)
    return batch.set("priority_weight", torch.rand(size, dtype=torch.float64) + 0.1)


def pair(make: Callable[[], LossModule], **config) -> tuple[Update, Update]:
    """The same update, without and with a graph."""
    updates = []
    for compile_from in (None, 1):
        torch.manual_seed(1)
        loss = make().double()
        if isinstance(loss, ACERLoss):
            update = make_acer_update(loss, max_grad_norm=10.0, compile_from=compile_from)
        else:
            update = make_update(loss, UpdateConfig(**config), compile_from=compile_from)
        updates.append(update)
    return updates[0], updates[1]


def assert_same(first: Update, second: Update, batches: list[TensorDict]) -> None:
    for seed, batch in enumerate(batches):
        scalars, entries = [], []
        for update in (first, second):
            own = batch.clone()
            torch.manual_seed(seed)
            random.seed(seed)
            scalars.append(update(own))
            entries.append((own, torch.get_rng_state()))
        (wanted, after), (found, after_graph) = entries
        assert torch.equal(after, after_graph)
        assert list(scalars[0]) == list(scalars[1])
        torch.testing.assert_close(scalars[1], scalars[0], rtol=1e-9, atol=1e-10)
        found, wanted = (dict(each.items(True, True)) for each in (found, wanted))
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)
    states = [update.loss_module.state_dict() for update in (second, first)]
    torch.testing.assert_close(*states, rtol=1e-8, atol=1e-9)


@pytest.mark.usefixtures("uncompiled")
def test_a_graph_follows_the_statistics() -> None:
    updates = pair(lambda: normalized(hybrid))
    for seed in range(3):
        batch, further = batch_for(updates[0].loss_module), batch_for(updates[0].loss_module, 50)
        further["observation"] = 3 * further["observation"] + 1
        losses = []
        for update in updates:
            torch.manual_seed(seed)
            losses.append(update(batch.clone())["loss_qvalue"])
            update.loss_module.update_normalizers(further)
        torch.testing.assert_close(*losses)


# What they record is part of another of these losses.
SLOW = {"continuous", "diagnostics", "dropout, layer norms", "discrete", "hybrid", "normalized"}
SLOW |= {"masked critics", "masked critics, one by one"}


@NOTHING_FALLS_BACK
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.slow] * (name in SLOW))
        for name, make in OWN.items()
    ],
)
def test_updates_are_the_same(make: Callable[[], LossModule]) -> None:
    first, second = pair(make)
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(3)])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("recompute", [pytest.param(False, marks=pytest.mark.slow), True])
def test_orders_and_periods_are_the_same(recompute: bool) -> None:
    order = ["alpha", "qvalue", "actor", "target"]
    first, second = pair(
        continuous,
        order=order,
        periods={"actor": 2, "target": 3},
        recompute=recompute,
        max_grad_norm=0.1,
    )
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(4)])


@NOTHING_FALLS_BACK
@pytest.mark.usefixtures("uncompiled")
def test_an_actor_that_starts_later_is_the_same() -> None:
    first, second = pair(continuous, order=["qvalue", "target", "actor"], actor_starts=3)
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(6)])
    assert second.num_graphs == 2  # the graph of the critics outlives the start of the actor


@NOTHING_FALLS_BACK
def test_a_compiled_update_is_the_same() -> None:
    first, second = pair(continuous)
    replay = PackedReplayBuffer(capacity=100, batch_size=16)  # its batches are not contiguous
    replay.extend(batch_for(first.loss_module, 40))
    assert_same(first, second, [replay.sample() for _ in range(3)])


@NOTHING_FALLS_BACK
@pytest.mark.slow
@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
def test_compiled_updates_are_the_same(make: Callable[[], LossModule]) -> None:
    first, second = pair(make)
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(4)])


@pytest.mark.usefixtures("uncompiled")
def test_compiling_begins_at_its_update() -> None:
    made = []
    torch.manual_seed(0)
    update = make_update(continuous().double(), UpdateConfig(), compile_from=3)

    @contextmanager
    def compiling() -> Iterator[None]:
        made.append(f"begins in update {update.count}")
        yield
        made.append("ends")

    update.announce_compiling(compiling)
    for _ in range(5):
        update(batch_for(update.loss_module))
    assert made == ["begins in update 3", "ends"]


@pytest.mark.usefixtures("uncompiled")
def test_a_change_of_the_loss_is_followed() -> None:
    first, second = pair(lambda: continuous(dqda_clipping=0.01))
    batches = [batch_for(first.loss_module) for _ in range(2)]
    assert_same(first, second, batches)
    for update in (first, second):
        update.loss_module.dqda_clipping = None
        update.loss_module.set_keys(reward="cost")
    batches = [batch_for(first.loss_module) for _ in range(2)]
    for batch in batches:
        batch.rename_key_(("next", "reward"), ("next", "cost"))
    assert_same(first, second, batches)


@pytest.mark.usefixtures("uncompiled")
def test_batches_of_other_shapes_have_graphs_of_their_own_up_to_a_number(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_GRAPHS", 3)
    first, second = pair(OWN["discrete"])
    kinds = [batch_for(first.loss_module, size) for size in (2, 3, 4)]
    assert_same(first, second, [*kinds, *kinds])
    with pytest.warns(UserWarning, match="3 graphs were made .* run uncompiled"):
        assert_same(first, second, [batch_for(first.loss_module, 50)])
    assert_same(first, second, [batch_for(first.loss_module, 60), *kinds])


class Branching(nn.Module):
    """A critic that cannot be recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.net = MLP(in_features=6, out_features=1, num_cells=[8, 8])

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        out = self.net(torch.cat([observation, action], -1))
        return out if math.isfinite(out.sum().item()) else out * 0


class Leaving(Branching):
    """Whose values leave PyTorch, which no recording sees."""

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        scale = torch.from_numpy(observation.detach().numpy().copy()).mean()
        return self.net(torch.cat([observation, action], -1)) * (1 + scale)


class Drawing(Branching):
    """Which draws random numbers that no graph could draw."""

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([observation, action], -1)) * random.random()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("network", [Branching, Leaving, Drawing])
def test_what_cannot_be_recorded_runs_uncompiled_after_one_warning(network) -> None:
    def make() -> LossModule:
        critics = [
            TensorDictModule(
                network(), in_keys=["observation", "action"], out_keys=["state_action_value"]
            )
        ]
        return ContinuousSACLoss(box_actor(), critics, num_qvalue_nets=1, deactivate_vmap=True)

    first, second = pair(make)
    batches = [batch_for(first.loss_module) for _ in range(3)]
    with pytest.warns(UserWarning, match="ContinuousSACLoss: .* run uncompiled") as caught:
        assert_same(first, second, batches)
    assert len([each for each in caught if "run uncompiled" in str(each.message)]) == 1
