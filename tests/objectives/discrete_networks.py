"""Small explicit networks for the losses with discrete actions, and their numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded
from torchrl.data import Categorical as CategoricalSpec
from torchrl.modules import ProbabilisticActor

from rlkit_sac.modules import GaussianHead
from rlkit_sac.objectives import DiscreteSACLoss, HybridSACLoss
from tests.objectives.networks import (
    ACTION_DIM,
    OBSERVATION_DIM,
    NoisyTanhGaussian,
    make_data,
    mlp,
    move_targets,
)

NUM_ACTIONS = 3


class ActionValues(nn.Module):
    def __init__(self, inputs: int, actions: int, rewards: int) -> None:
        super().__init__()
        self.net = mlp(inputs, actions * rewards)
        self.shape = (actions,) if rewards == 1 else (actions, rewards)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.net(torch.cat(inputs, -1)).unflatten(-1, self.shape)


@contextmanager
def waiting_times(queue: list[Tensor]) -> Iterator[None]:
    """Put in the exponential variables that choose sampled actions: one tensor for each draw."""
    with mock.patch.object(Tensor, "exponential_", lambda self: self.copy_(queue.pop(0))):
        yield


def make_critic(kind: str, actions: int = NUM_ACTIONS, rewards: int = 1) -> TensorDictModule:
    reads: list = ["observation"]
    inputs = OBSERVATION_DIM
    if kind == "hybrid":
        reads.append(("action", "continuous"))
        inputs += ACTION_DIM
    return TensorDictModule(ActionValues(inputs, actions, rewards), reads, ["action_value"])


def make_actor(kind: str, actions: int = NUM_ACTIONS) -> ProbabilisticActor:
    outputs = actions if kind == "categorical" else 2 * ACTION_DIM
    net = mlp(OBSERVATION_DIM, outputs)
    if kind == "categorical":
        return ProbabilisticActor(
            TensorDictModule(nn.Sequential(net), ["observation"], ["logits"]),
            in_keys=["logits"],
            spec=CategoricalSpec(actions),
            distribution_class=Categorical,
        )
    low, high = -torch.ones(ACTION_DIM).double(), torch.ones(ACTION_DIM).double()
    return ProbabilisticActor(
        TensorDictModule(nn.Sequential(net, GaussianHead()), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=[("action", "continuous")],
        spec=Bounded(low, high, low.shape, dtype=torch.float64),
        distribution_class=NoisyTanhGaussian,
        distribution_kwargs={"low": low, "high": high},
    )


def make_discrete_loss(
    kind: str, actions=NUM_ACTIONS, rewards=1, critics=2, critic=None, **options
):
    """A loss of a kind: "boltzmann", "categorical" or "hybrid"; targets differ from critics."""
    critic = make_critic(kind, actions, rewards) if critic is None else critic
    options["num_qvalue_nets"] = critics
    if kind == "hybrid":
        loss = HybridSACLoss(make_actor(kind), critic, **options)
    else:
        actor = make_actor(kind, actions) if kind == "categorical" else None
        loss = DiscreteSACLoss(critic, actor, **options)
    move_targets(loss.target_qvalue_network_params)
    return loss


def make_discrete_data(kind: str, *batch: int, actions=NUM_ACTIONS, rewards=1) -> TensorDict:
    data = make_data(*batch, rewards=rewards)
    index = torch.randint(actions, batch)
    if kind == "hybrid":
        both = {"continuous": data["action"], "discrete": index}
        data["action"] = TensorDict(both, batch_size=batch)
    else:
        data["action"] = index
    return data
