"""Small explicit networks for the loss, and the same numbers as plain tensors."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.data import Bounded
from torchrl.modules import ProbabilisticActor

from rlkit_sac.modules import GaussianHead, TanhGaussian
from rlkit_sac.objectives import ContinuousSACLoss, ValueSACLoss

OBSERVATION_DIM, ACTION_DIM, HIDDEN = 4, 2, 5

Weights = dict[str, Tensor]


class NoisyTanhGaussian(TanhGaussian):
    """The policy's own distribution, whose noise a test puts in: one tensor for each draw."""

    queue: list[Tensor] = []  # noqa: RUF012

    def rsample_and_log_prob(self, sample_shape=()):
        noise = self.queue.pop(0)
        original, torch.randn = torch.randn, lambda *args, **kwargs: noise
        try:
            return super().rsample_and_log_prob(sample_shape)
        finally:
            torch.randn = original


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs))
    return net.double()


class StateAction(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.net = mlp(OBSERVATION_DIM + ACTION_DIM, outputs)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([observation, action], -1))


def make_actor(low=(-1.0,) * ACTION_DIM, high=(1.0,) * ACTION_DIM) -> ProbabilisticActor:
    low, high = (torch.tensor(bound, dtype=torch.float64) for bound in (low, high))
    net = nn.Sequential(mlp(OBSERVATION_DIM, 2 * ACTION_DIM), GaussianHead())
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=Bounded(low, high, low.shape, dtype=torch.float64),
        distribution_class=NoisyTanhGaussian,
        distribution_kwargs={"low": low, "high": high},
    )


def make_critic(rewards: int = 1) -> TensorDictModule:
    return TensorDictModule(
        StateAction(rewards), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def make_loss(rewards: int = 1, critics: int = 2, **options) -> ContinuousSACLoss:
    """A loss whose targets differ from its critics, as they do in the middle of a training."""
    bounds = {key: options.pop(key) for key in ("low", "high") if key in options}
    loss = ContinuousSACLoss(
        make_actor(**bounds), make_critic(rewards), num_qvalue_nets=critics, **options
    )
    with torch.no_grad():
        for target in loss.target_qvalue_network_params.values(True, True):
            target.add_(0.1 * torch.randn_like(target))
    return loss


def make_value_loss(rewards: int = 1, critics: int = 2, **options) -> ValueSACLoss:
    """A loss with a value network whose target differs from it."""
    bounds = {key: options.pop(key) for key in ("low", "high") if key in options}
    value = TensorDictModule(mlp(OBSERVATION_DIM, rewards), ["observation"], ["state_value"])
    loss = ValueSACLoss(
        make_actor(**bounds), make_critic(rewards), value, num_qvalue_nets=critics, **options
    )
    with torch.no_grad():
        for target in loss.target_value_network_params.values(True, True):
            target.add_(0.1 * torch.randn_like(target))
    return loss


def plain_weights(loss: ContinuousSACLoss) -> Weights:
    """Every weight of a loss as a leaf of its own, by its name in the reference."""
    out = {}
    layers = {
        "w1": ("0", "weight"),
        "b1": ("0", "bias"),
        "w2": ("2", "weight"),
        "b2": ("2", "bias"),
    }
    actor = loss.actor_network_params
    for short, path in layers.items():
        out[f"actor.{short}"] = actor[("module", "0", "module", "0", *path)]
    for prefix, params in (
        ("q", loss.qvalue_network_params),
        ("target_q", loss.target_qvalue_network_params),
    ):
        for short, path in layers.items():
            stacked = params[("module", "net", *path)]
            for i in range(loss.num_qvalue_nets):
                out[f"{prefix}{i}.{short}"] = stacked[i]
    if isinstance(loss, ValueSACLoss):
        for short, path in layers.items():
            out[f"v.{short}"] = loss.value_network_params[("module", *path)]
            out[f"target_v.{short}"] = loss.target_value_network_params[("module", *path)]
    return {name: w.detach().clone().requires_grad_() for name, w in out.items()}


def make_data(*batch: int, rewards: int = 1, low=-1.0, high=1.0) -> TensorDict:
    """Random transitions in float64; a third of the episodes end, half of those by a time limit."""
    ends = torch.rand(*batch, 1)
    return TensorDict(
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


def plain_data(data: TensorDict) -> dict[str, Tensor]:
    out = {
        "obs": data["observation"],
        "action": data["action"],
        "next_obs": data["next", "observation"],
        "reward": data["next", "reward"],
        "terminated": data["next", "terminated"],
        "done": data["next", "done"],
    }
    mask = data.get(("collector", "mask"), None)
    return out if mask is None else out | {"mask": mask}
