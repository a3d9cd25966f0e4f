"""Small ACER losses whose networks a reference can call, and segments to score."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.distributions import Distribution

from rlkit_sac.modules import (
    ObservationNormalizer,
    RewardNormalizer,
    StochasticDuelingNetwork,
    action_value_critic,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    state_action_critic,
    state_critic,
)
from rlkit_sac.modules.behavior import distribution_parameters
from rlkit_sac.objectives import ACERLoss

OBSERVATION_DIM, NUM_ACTIONS, ACTION_DIM, NUM_SAMPLES = 3, 4, 2, 3
SIZES = {"num_cells": [5], "activation": "tanh"}


@dataclass
class Noise:
    """A sampler whose standard normal numbers a test puts in, one tensor for each call."""

    queue: list[Tensor] = field(default_factory=list)

    def __call__(self, dist: Distribution, count: int) -> Tensor:
        loc, scale = distribution_parameters(dist)
        noise = self.queue.pop(0)
        assert len(noise) == count
        return loc + scale * noise

    def fill(self, *batch: int) -> list[Tensor]:
        """Noise of the stored action's value, of the correction's action, and of its value."""
        drawn = [torch.randn(n, *batch, ACTION_DIM).double() for n in (NUM_SAMPLES, 1, NUM_SAMPLES)]
        self.queue = list(drawn)
        return drawn


@dataclass
class Networks:
    """The networks of a loss as plain modules with parameters of their own.

    Attributes:
        actor: a state to the logits, or to the mean and the standard deviation.
        average: as ``actor``.
        critic: a state to the value of each action; or a state to V.
        advantage: a state and an action to A.
    """

    actor: nn.Module
    average: nn.Module
    critic: nn.Module
    advantage: nn.Module | None = None

    def actor_parameters(self) -> list[Tensor]:
        return list(self.actor.parameters())

    def critic_parameters(self) -> list[Tensor]:
        second = [] if self.advantage is None else self.advantage.parameters()
        return [*self.critic.parameters(), *second]


def acer_networks(
    kind: str, *, shared: bool = False, sampler: Noise | None = None, **options: Any
) -> dict[str, nn.Module]:
    """Networks in float64 by the names of a loss's arguments; a shared trunk is one of them."""
    sampling = {} if sampler is None else {"sampler": sampler}
    sizes = SIZES | options
    if kind == "discrete":
        both = (OBSERVATION_DIM, NUM_ACTIONS)
        if shared:
            return {"actor_critic": categorical_actor_critic(*both, **sizes).double()}
        actor, critic = categorical_actor(*both, **sizes), action_value_critic(*both, **sizes)
        return {"actor_network": actor.double(), "critic_network": critic.double()}
    both = (OBSERVATION_DIM, ACTION_DIM)
    if shared:
        trunk = gaussian_actor_critic(*both, **sizes, num_samples=NUM_SAMPLES, **sampling)
        return {"actor_critic": trunk.double()}
    actor, value = gaussian_actor(*both, **sizes), state_critic(OBSERVATION_DIM, **sizes)
    advantage = state_action_critic(*both, **sizes)
    critic = StochasticDuelingNetwork(value, advantage, NUM_SAMPLES, **sampling)
    return {"actor_network": actor.double(), "critic_network": critic.double()}


def make_acer(
    kind: str, *, sampler: Noise | None = None, spread: float = 0.5, **options
) -> tuple[ACERLoss, Networks]:
    """A loss in float64 whose average policy differs from its policy, and its networks."""
    actor, critic = acer_networks(kind, sampler=sampler).values()
    if kind == "discrete":
        plain = [critic.module]
    else:
        plain = [critic.value_network.module, critic.advantage_network.module]
    policy = actor.module[0].module
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.mul_(2)
    loss = ACERLoss(actor, critic, **options)
    average = copy.deepcopy(policy)
    with torch.no_grad():
        for (name, target), plain_target in zip(
            sorted(loss.target_actor_network_params.flatten_keys(".").items()),
            [each for _, each in sorted(average.named_parameters())],
            strict=True,
        ):
            assert target.shape == plain_target.shape, name
            target.add_(spread * torch.randn_like(target))
            plain_target.copy_(target)
    return loss, Networks(copy.deepcopy(policy), average, *map(copy.deepcopy, plain))


def make_segments(kind: str, *batch: int, cuts: float = 0.3, padded: bool = True) -> TensorDict:
    """Random segments in float64, cut inside of the rows, with garbage in padded steps."""
    done = torch.rand(*batch, 1) < cuts
    terminated = done & (torch.rand(*batch, 1) < 0.5)
    if kind == "discrete":
        action = torch.randint(NUM_ACTIONS, batch)
        behavior = {"logits": torch.randn(*batch, NUM_ACTIONS).double()}
    else:
        action = torch.randn(*batch, ACTION_DIM).double()
        behavior = {
            "loc": torch.randn(*batch, ACTION_DIM).double(),
            "scale": torch.rand(*batch, ACTION_DIM).double() + 0.5,
        }
    segments = TensorDict(
        observation=torch.randn(*batch, OBSERVATION_DIM).double(),
        action=action,
        behavior=TensorDict(behavior, batch_size=batch),
        next=TensorDict(
            observation=torch.randn(*batch, OBSERVATION_DIM).double(),
            reward=torch.randn(*batch, 1).double(),
            done=done,
            terminated=terminated,
            batch_size=batch,
        ),
        batch_size=batch,
    )
    segments["next", "observation"][..., :-1, :] = segments["observation"][..., 1:, :]
    if padded:
        segments["collector", "mask"] = pad(segments)
    return segments


def make_normalizers() -> dict[str, nn.Module]:
    """Normalizers by the names of a loss's arguments, as if they had seen eight frames."""
    observation = ObservationNormalizer(OBSERVATION_DIM, clip=1.0)
    reward = RewardNormalizer(0.9, clip=0.8, bounded=True)
    for statistics in (observation.statistics, reward.statistics):
        statistics.count.fill_(8)
        statistics.mean.copy_(torch.randn_like(statistics.mean))
        statistics.deviations.copy_(8 * torch.rand_like(statistics.mean) + 2)
    reward.largest.fill_(6.0)
    return {"observation_normalizer": observation, "reward_normalizer": reward}


def normalized_by_hand(
    segments: TensorDict,
    observation_normalizer: ObservationNormalizer,
    reward_normalizer: RewardNormalizer,
) -> TensorDict:
    """What the normalizers above make of segments, from the formulas."""
    found, seen = segments.clone(), observation_normalizer.statistics
    for key in ("observation", ("next", "observation")):
        deviation = (seen.deviations / 8 + 1e-8).sqrt()
        found[key] = ((segments[key] - seen.mean) / deviation).clamp(-1, 1)
    deviation = (reward_normalizer.statistics.deviations / 8 + 1e-8).sqrt().item()
    divisor = max(deviation, 6.0 / 5)
    found["next", "reward"] = (segments["next", "reward"] / divisor).clamp(-0.8, 0.8)
    return found


def pad(segments: TensorDict) -> Tensor:
    """Declare the ends of all rows but the first invalid, with NaN and wild indices in them."""
    *rows, steps = segments.batch_size
    lengths = torch.randint(1, steps + 1, rows)
    lengths.view(-1)[0] = steps
    valid = torch.arange(steps) < lengths.unsqueeze(-1)
    for entry in segments.values(True, True):
        if entry.is_floating_point():
            entry[~valid] = torch.nan
        elif entry.dtype == torch.bool:
            entry[~valid] = torch.rand(entry[~valid].shape) < 0.5
        else:
            entry[~valid] = 99
    return valid
