"""Small explicit networks for the losses, and the same numbers as plain tensors.

A kind of loss is "continuous", "value" (with a value network), "boltzmann", "categorical" or
"hybrid".
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictParams, TensorDictSequential
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded
from torchrl.data import Categorical as CategoricalSpec
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import LossModule

from rlkit_sac.modules import GaussianHead, TanhGaussian
from rlkit_sac.modules.critics import ValueOfLogits
from rlkit_sac.objectives import (
    ContinuousSACLoss,
    DiscreteSACLoss,
    HybridSACLoss,
    ValueSACLoss,
)

OBSERVATION_DIM, ACTION_DIM, NUM_ACTIONS, HIDDEN = 4, 2, 3, 5
DISCRETE_KINDS = ["boltzmann", "categorical", "hybrid"]

Weights = dict[str, Tensor]

#: The layers of :func:`mlp` by their names in the references.
LAYERS = {
    "w1": ("0", "weight"),
    "b1": ("0", "bias"),
    "w2": ("2", "weight"),
    "b2": ("2", "bias"),
}


class NoisyTanhGaussian(TanhGaussian):
    """The policy's own distribution, whose noise a test puts in: one tensor for each draw."""

    queue: list[Tensor] = []  # noqa: RUF012

    def rsample_and_log_probs(self, sample_shape=()):
        noise = self.queue.pop(0)
        with mock.patch.object(torch, "randn", return_value=noise):
            return super().rsample_and_log_probs(sample_shape)


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs))
    return net.double()


class Values(nn.Module):
    """Values of a shape, of all inputs side by side."""

    def __init__(self, inputs: int, *shape: int) -> None:
        super().__init__()
        self.net, self.shape = mlp(inputs, math.prod(shape)), shape

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.net(torch.cat(inputs, -1)).unflatten(-1, self.shape)


def action_values(inputs: int, actions: int, rewards: int) -> Values:
    return Values(inputs, actions) if rewards == 1 else Values(inputs, actions, rewards)


@contextmanager
def waiting_times(queue: list[Tensor]) -> Iterator[None]:
    """Put in the exponential variables that choose sampled actions: one tensor for each draw."""
    with mock.patch.object(Tensor, "exponential_", lambda self: self.copy_(queue.pop(0))):
        yield


def make_actor(
    kind: str = "continuous",
    actions: int = NUM_ACTIONS,
    *,
    low=(-1.0,) * ACTION_DIM,
    high=(1.0,) * ACTION_DIM,
    reads="observation",
) -> ProbabilisticActor:
    if kind == "categorical":
        net = nn.Sequential(mlp(OBSERVATION_DIM, actions))
        return ProbabilisticActor(
            TensorDictModule(net, [reads], ["logits"]),
            in_keys=["logits"],
            spec=CategoricalSpec(actions),
            distribution_class=Categorical,
        )
    low, high = (torch.tensor(bound, dtype=torch.float64) for bound in (low, high))
    net = nn.Sequential(mlp(OBSERVATION_DIM, 2 * ACTION_DIM), GaussianHead())
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=[reads], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=[("action", "continuous") if kind == "hybrid" else "action"],
        spec=Bounded(low, high, low.shape, dtype=torch.float64),
        distribution_class=NoisyTanhGaussian,
        distribution_kwargs={"low": low, "high": high},
    )


def make_critic(
    kind: str, actions: int = NUM_ACTIONS, rewards: int = 1, reads="observation"
) -> TensorDictModule:
    both = OBSERVATION_DIM + ACTION_DIM
    if kind == "hybrid":
        values, keys = action_values(both, actions, rewards), [reads, ("action", "continuous")]
    elif kind in DISCRETE_KINDS:
        values, keys = action_values(OBSERVATION_DIM, actions, rewards), [reads]
    else:
        return TensorDictModule(Values(both, rewards), [reads, "action"], ["state_action_value"])
    return TensorDictModule(values, keys, ["action_value"])


def make_encoder() -> TensorDictModule:
    net = mlp(OBSERVATION_DIM, OBSERVATION_DIM)
    return TensorDictModule(net, ["observation"], ["features"])


def over_atoms(critic: TensorDictModule) -> TensorDictSequential:
    """The critic, whose outputs are the logits of its values."""
    (key,) = critic.out_keys
    mean = ValueOfLogits(per_action=key == "action_value")
    return TensorDictSequential(
        TensorDictModule(critic.module, critic.in_keys, ["value_logits"]),
        TensorDictModule(mean, ["value_logits"], [key]),
    )


def move_targets(params: TensorDictParams) -> None:
    """Make target networks differ from those they follow, as in the middle of a training."""
    with torch.no_grad():
        for target in params.values(True, True):
            target.add_(0.1 * torch.randn_like(target))


def make_loss(
    kind: str = "continuous",
    *,
    actions: int = NUM_ACTIONS,
    rewards: int = 1,
    critics: int = 2,
    critic: TensorDictModule | None = None,
    encoded: bool = False,
    **options,
) -> LossModule:
    """A loss of a kind whose targets differ from what they follow; of critics with an encoder."""
    bounds = {key: options.pop(key) for key in ("low", "high") if key in options}
    reads = "features" if encoded else "observation"
    if encoded:
        options["encoder_network"] = make_encoder()
    critic = make_critic(kind, actions, rewards, reads) if critic is None else critic
    actor = None if kind == "boltzmann" else make_actor(kind, actions, reads=reads, **bounds)
    options["num_qvalue_nets"] = critics
    if kind == "value":
        value = TensorDictModule(mlp(OBSERVATION_DIM, rewards), ["observation"], ["state_value"])
        loss = ValueSACLoss(actor, critic, value, **options)
        move_targets(loss.target_value_network_params)
        return loss
    if kind == "continuous":
        loss = ContinuousSACLoss(actor, critic, **options)
    elif kind == "hybrid":
        loss = HybridSACLoss(actor, critic, **options)
    else:
        loss = DiscreteSACLoss(critic, actor, **options)
    move_targets(loss.target_qvalue_network_params)
    return loss


def places(loss: LossModule) -> dict[str, tuple[Tensor, int | None]]:
    """Where each weight of a reference is in a loss: its tensor, and of which critic in it."""
    layer = ("module", "0", "module", "0")
    out: dict[str, tuple[Tensor, int | None]] = {}
    for prefix, params in (
        ("q", loss.qvalue_network_params),
        ("target_q", loss.target_qvalue_network_params),
    ):
        for short, path in critic_layers(params).items():
            out |= {f"{prefix}{i}.{short}": (params[path], i) for i in range(loss.num_qvalue_nets)}
    for short, path in LAYERS.items():
        if loss.actor_network is not None:
            out[f"actor.{short}"] = loss.actor_network_params[(*layer, *path)], None
        if loss.encoder_network is not None:
            out[f"encoder.{short}"] = loss.encoder_network_params[("module", *path)], None
        if isinstance(loss, ValueSACLoss):
            out[f"v.{short}"] = loss.value_network_params[("module", *path)], None
            out[f"target_v.{short}"] = loss.target_value_network_params[("module", *path)], None
    return out


def critic_layers(params: TensorDictParams) -> dict[str, tuple[str, ...]]:
    """The weights of critics by their names in a reference, where each is in critics of a test."""
    for inner in ((), ("0", "module")):  # of critics over atoms, which write a value as well
        found = {short: ("module", *inner, "net", *path) for short, path in LAYERS.items()}
        if found["w1"] in params.keys(True):
            return found
    return {".".join(path): path for path in params.keys(True, True)}


def plain_weights(loss: LossModule) -> Weights:
    """Every weight of a loss as a leaf of its own, by its name in the reference."""
    return {
        name: (tensor if i is None else tensor[i]).detach().clone().requires_grad_()
        for name, (tensor, i) in places(loss).items()
    }


def live_gradients(loss: LossModule) -> dict[str, Tensor | None]:
    """The gradient that each weight of a loss has, by the same names."""
    return {
        name: tensor.grad if i is None or tensor.grad is None else tensor.grad[i]
        for name, (tensor, i) in places(loss).items()
    }


def make_data(
    kind: str, *batch: int, actions: int = NUM_ACTIONS, rewards: int = 1, low=-1.0, high=1.0
) -> TensorDict:
    """Random transitions in float64; a third of the episodes end, half of those by a time limit."""
    ends = torch.rand(*batch, 1)
    low, high = torch.as_tensor(low), torch.as_tensor(high)
    data = TensorDict(
        observation=torch.randn(*batch, OBSERVATION_DIM).double(),
        action=(low + (high - low) * torch.rand(*batch, ACTION_DIM)).double(),
        next=TensorDict(
            observation=torch.randn(*batch, OBSERVATION_DIM).double(),
            reward=torch.randn(*batch, rewards).double(),
            terminated=ends < 0.17,
            done=ends < 0.34,
            batch_size=batch,
        ),
        batch_size=batch,
    )
    if len(batch) > 1:  # of steps that follow each other
        data["next", "observation"][..., :-1, :] = data["observation"][..., 1:, :]
    if kind in DISCRETE_KINDS:
        index = torch.randint(actions, batch)
        both = {"continuous": data["action"], "discrete": index}
        data["action"] = TensorDict(both, batch_size=batch) if kind == "hybrid" else index
    return data


def plain_data(data: TensorDict) -> dict[str, Tensor]:
    """The entries of a batch by their names in the references."""
    action, first = data["action"], torch.zeros(data.batch_size, dtype=torch.int64)
    if isinstance(action, TensorDict):
        parts = {"continuous": action["continuous"], "index": action["discrete"]}
    elif action.is_floating_point():
        parts = {"continuous": action, "index": first}
    else:
        parts = {"index": action}
    return parts | {
        "obs": data["observation"],
        "next_obs": data["next", "observation"],
        "reward": data["next", "reward"],
        "terminated": data["next", "terminated"],
        "done": data["next", "done"],
    }
