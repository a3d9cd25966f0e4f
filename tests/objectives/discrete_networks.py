"""Small explicit networks for the losses with discrete actions, and their numbers."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded
from torchrl.data import Categorical as CategoricalSpec
from torchrl.modules import ProbabilisticActor

from rlkit_sac.modules import GaussianHead, TanhGaussian
from rlkit_sac.objectives import DiscreteSACLoss, HybridSACLoss
from tests.objectives.networks import (
    ACTION_DIM,
    OBSERVATION_DIM,
    NoisyTanhGaussian,
    Weights,
    make_data,
    mlp,
)

NUM_ACTIONS = 3

LAYERS = {
    "w1": ("0", "weight"),
    "b1": ("0", "bias"),
    "w2": ("2", "weight"),
    "b2": ("2", "bias"),
}


class NoisyDensities(NoisyTanhGaussian):
    """The same, where each dimension's density is asked for as well."""

    def rsample_and_log_probs(self, sample_shape=()):
        noise = self.queue.pop(0)
        original, torch.randn = torch.randn, lambda *args, **kwargs: noise
        try:
            return super().rsample_and_log_probs(sample_shape)
        finally:
            torch.randn = original

    rsample_and_log_prob = TanhGaussian.rsample_and_log_prob


class ActionValues(nn.Module):
    def __init__(self, inputs: int, actions: int, rewards: int) -> None:
        super().__init__()
        self.net = mlp(inputs, actions * rewards)
        self.shape = (actions,) if rewards == 1 else (actions, rewards)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.net(torch.cat(inputs, -1)).unflatten(-1, self.shape)


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
        distribution_class=NoisyDensities,
        distribution_kwargs={"low": low, "high": high},
    )


def make_discrete_loss(kind: str, actions=NUM_ACTIONS, rewards=1, critics=2, **options):
    """A loss of a kind: "boltzmann", "categorical" or "hybrid"; targets differ from critics."""
    critic = make_critic(kind, actions, rewards)
    options["num_qvalue_nets"] = critics
    if kind == "hybrid":
        loss = HybridSACLoss(make_actor(kind), critic, **options)
    else:
        actor = make_actor(kind, actions) if kind == "categorical" else None
        loss = DiscreteSACLoss(critic, actor, **options)
    with torch.no_grad():
        for target in loss.target_qvalue_network_params.values(True, True):
            target.add_(0.1 * torch.randn_like(target))
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


def plain_weights(loss) -> Weights:
    """Every weight of a loss as a leaf of its own, by its name in the reference."""
    out = {}
    for short, path in LAYERS.items():
        if loss.actor_network is not None:
            out[f"actor.{short}"] = loss.actor_network_params[("module", "0", "module", "0", *path)]
        for prefix, params in (
            ("q", loss.qvalue_network_params),
            ("target_q", loss.target_qvalue_network_params),
        ):
            stacked = params[("module", "net", *path)]
            out |= {f"{prefix}{i}.{short}": stacked[i] for i in range(loss.num_qvalue_nets)}
    return {name: w.detach().clone().requires_grad_() for name, w in out.items()}


def live_gradients(loss) -> Weights:
    out = {}
    for short, path in LAYERS.items():
        if loss.actor_network is not None:
            params = loss.actor_network_params[("module", "0", "module", "0", *path)]
            out[f"actor.{short}"] = params.grad
        stacked = loss.qvalue_network_params[("module", "net", *path)].grad
        out |= {f"q{i}.{short}": stacked[i] for i in range(loss.num_qvalue_nets)}
    return out
