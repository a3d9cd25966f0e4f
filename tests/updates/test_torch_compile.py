"""``torch.compile`` around a loss, and around an update of one's own, from the first batch on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.modules import (
    MLP,
    IndependentNormal,
    NormalParamExtractor,
    ProbabilisticActor,
    ValueOperator,
)
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.modules import StochasticDuelingNetwork
from rlkit_sac.objectives import ACERLoss
from tests.objectives import acer_networks
from tests.objectives.acer_networks import ACTION_DIM, OBSERVATION_DIM
from tests.objectives.comparison import losses_of
from tests.objectives.losses import (
    CONTINUOUS,
    KINDS,
    NUM_ACTIONS,
    Joined,
    foreign_actor,
    foreign_critic,
    loss_class,
    make_batch,
    own_loss,
    single,
)
from tests.updates.test_compiled_kinds import CASES as OTHERS
from tests.updates.test_compiled_kinds import Case, segments


def module(inputs: int, outputs: int, reads: list[Any], writes: str) -> TensorDictModule:
    net = MLP(in_features=inputs, out_features=outputs, num_cells=[8])
    return TensorDictModule(Joined(net), reads, [writes])


def choosing(inputs: int, actions: int) -> ProbabilisticActor:
    logits = module(inputs, actions, ["observation"], "logits")
    return ProbabilisticActor(logits, ["logits"], distribution_class=Categorical)


def value(inputs: int, *reads: str) -> ValueOperator:
    net = MLP(in_features=inputs, out_features=1, num_cells=[8])
    return ValueOperator(Joined(net), in_keys=["observation", *reads])


def foreign_loss(kind: str) -> LossModule:
    """A loss with networks of TorchRL's parts."""
    networks: dict[str, Any] = {"qvalue_network": foreign_critic()}
    if kind in ("boltzmann", "categorical"):
        networks["qvalue_network"] = module(4, NUM_ACTIONS, ["observation"], "action_value")
    if kind == "hybrid":
        reads = ["observation", CONTINUOUS]
        networks["qvalue_network"] = module(6, NUM_ACTIONS, reads, "action_value")
    if kind == "categorical":
        networks["actor_network"] = choosing(4, NUM_ACTIONS)
    elif kind != "boltzmann":
        networks["actor_network"] = foreign_actor(key=CONTINUOUS if kind == "hybrid" else "action")
    if kind == "value":
        networks["value_network"] = value(4)
    return loss_class(kind)(**networks)


def foreign_acer(kind: str) -> LossModule:
    if kind == "discrete":
        sizes = OBSERVATION_DIM, acer_networks.NUM_ACTIONS
        return ACERLoss(choosing(*sizes), module(*sizes, ["observation"], "action_value"))
    net = MLP(in_features=OBSERVATION_DIM, out_features=2 * ACTION_DIM, num_cells=[8])
    head = TensorDictModule(
        nn.Sequential(net, NormalParamExtractor()), ["observation"], ["loc", "scale"]
    )
    actor = ProbabilisticActor(head, ["loc", "scale"], distribution_class=IndependentNormal)
    advantage = value(OBSERVATION_DIM + ACTION_DIM, "action")
    return ACERLoss(actor, StochasticDuelingNetwork(value(OBSERVATION_DIM), advantage, 2))


def case(make: Callable[..., LossModule], kind: str, **options: Any) -> Case:
    return Case(partial(make, kind, **options), lambda loss: make_batch(kind, 8))


CASES = {kind: case(own_loss, kind) for kind in KINDS}
CASES |= {
    f"{kind}, sampled": case(own_loss, kind, discrete_entropy="sampled") for kind in KINDS[1:4]
}
CASES |= {f"{kind}, of TorchRL": case(foreign_loss, kind) for kind in KINDS}
CASES |= {
    name: OTHERS[name]
    for name in OTHERS
    if name.startswith(("ACER", "same action prior")) and "memory" not in name  # it has breaks
}
CASES |= {
    f"ACER, {kind}, of TorchRL": Case(partial(foreign_acer, kind), partial(segments, kind))
    for kind in ("discrete", "continuous")
}
# Every kind once.
UPDATES = ["continuous", "boltzmann, of TorchRL", "categorical", "same action prior, hybrid"]
UPDATES += ["value, of TorchRL", "ACER", "ACER, continuous, of TorchRL"]


def slow_but(*quick: str) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in quick)) for name in CASES]


def two_of(name: str) -> tuple[list[LossModule], list[TensorDict]]:
    """The same loss twice, and batches; nothing has been called yet."""
    torch._dynamo.reset()
    losses = []
    for _ in range(2):
        torch.manual_seed(0)
        losses.append(CASES[name].make().float())
    return losses, [single(CASES[name].batch(losses[0])) for _ in range(2)]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", slow_but("categorical"))
def test_a_loss_is_one_graph_without_breaks(name: str) -> None:
    (plain, loss), (batch, _) = two_of(name)
    found = []
    for call in (torch.compile(loss, fullgraph=True, backend="eager"), plain):
        torch.manual_seed(1)
        found.append(losses_of(call(batch.clone())))
    torch.testing.assert_close(*found)


def own_update(loss: LossModule) -> Callable[[TensorDict], None]:
    trained = [each for each in loss.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-2, eps=1e-3)  # some gradients are mere rounding
    targets = SoftUpdate(loss, tau=0.1)

    def update(batch: TensorDict) -> None:
        optimizer.zero_grad()
        sum(losses_of(loss(batch)).values()).backward()
        optimizer.step()
        targets.step()

    return update


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"backend": "aot_eager"}) for name in UPDATES),
        ("hybrid", {"options": {"fallback_random": True}}),
    ],
)
def test_an_update_of_one_s_own(name: str, options: dict[str, Any]) -> None:
    losses, batches = two_of(name)
    start = losses[0].state_dict()
    start = {key: entry.clone() for key, entry in start.items() if isinstance(entry, torch.Tensor)}
    for update in (own_update(losses[0]), torch.compile(own_update(losses[1]), **options)):
        torch.manual_seed(1)
        for batch in batches:
            update(batch.clone())
    wanted, found = (loss.state_dict() for loss in losses)
    for key, entry in start.items():
        assert key.startswith("target") or not torch.equal(found[key], entry), key
        torch.testing.assert_close(found[key], wanted[key], rtol=1e-4, atol=1e-5)
