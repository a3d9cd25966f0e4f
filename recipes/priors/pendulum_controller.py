"""A prior written by hand: swing Pendulum-v1 up by its energy, then balance it.

    python recipes/kl_prior_sac.py --config recipes/configs/kl_prior_sac/pendulum_controller.yaml

A factory of a prior takes the environment and returns any module with ``in_keys`` and
``get_dist(tensordict)``. Here it is a TorchRL actor whose mean no data has trained.
"""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor
from torchrl.envs import EnvBase
from torchrl.modules import IndependentNormal, ProbabilisticActor

from rlkit_sac.modules import PolicyPrior

SCALE = 0.3
"""Standard deviation of the Gaussian about the controller's action, where the box is [-1, 1]."""

MAX_TORQUE = 2.0


def prior(env: EnvBase) -> PolicyPrior:
    """The controller with a Gaussian about its action."""
    return PolicyPrior(
        ProbabilisticActor(
            TensorDictModule(gaussian, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=IndependentNormal,
        )
    )


def gaussian(observation: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the action, ``[*, 1]`` each."""
    action = (torque(observation) / MAX_TORQUE).clamp(-1, 1)
    return action, torch.full_like(action, SCALE)


def torque(observation: Tensor) -> Tensor:
    """What the controller wants, before the motor's limits, ``[*, 1]``.

    Args:
        observation: cosine and sine of the angle from upright, and the velocity in rad/s.
    """
    cosine, sine, velocity = observation.split(1, -1)
    angle = torch.atan2(sine, cosine)
    # With m = l = 1 and g = 10, and none where the pendulum stands still.
    energy = velocity.square() / 6 + 5 * (cosine - 1)
    direction = torch.where(velocity >= 0, 1.0, -1.0)
    swing_up = -energy * direction
    balance = -(12 * angle + 3 * velocity)
    return torch.where(cosine > 0.9, balance, swing_up)
