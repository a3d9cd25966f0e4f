"""What a draw from the policy gives to the losses."""

from __future__ import annotations

from dataclasses import dataclass

from tensordict import TensorDictBase
from torch import Tensor


@dataclass(frozen=True)
class Draw:
    r"""One sample from a factor of the policy at states ``[*]``, with what the losses need of it.

    Attributes:
        neg_entropy: :math:`\log\pi(a|s)` of the sampled action, ``[*]``, an estimate of minus the
            entropy, or minus the exact entropy, nats.
        log_prior: the same under the prior, ``[*]``; ``None`` without one.
        action: the sampled action ``[*, D]`` of a continuous factor, reparameterized.
        log_probs: of each action of a discrete factor, ``[*, K]``.
        log_prior_of_each: the same under the prior, ``[*, K]``; ``None`` without one.
        used_share: the expected share ``[*]`` of the dimensions of ``action`` that the discrete
            action uses; ``None`` without a parameter mask.
        num_allowed: number of actions that a discrete factor chooses among, ``[*]``; ``None``
            without masks.
    """

    neg_entropy: Tensor
    log_prior: Tensor | None = None
    action: Tensor | None = None
    log_probs: Tensor | None = None
    log_prior_of_each: Tensor | None = None
    used_share: Tensor | None = None
    num_allowed: Tensor | None = None

    @property
    def log_ratio(self) -> Tensor:
        r""":math:`\log\pi - \log\pi^0`, or :math:`\log\pi` without a prior."""
        return self.neg_entropy if self.log_prior is None else self.neg_entropy - self.log_prior


@dataclass(frozen=True)
class PolicyDraw:
    """One sample from the whole policy at some states.

    Attributes:
        factors: the sample from each factor, by name.
        inputs: the states with the sampled continuous action, the input of the critics.
        log_probs: of the discrete actions, ``[*, K]``; ``None`` without any.
        q: values ``[R, *, K, M]`` of the live critics if no action is continuous, with gradients
            with respect to their parameters; otherwise ``None``.
        value: ``[*, (K,) M]``, the values of the inputs reduced over the live critics, with
            gradients with respect to the sampled action; ``None`` if not computed yet.
        state_value: ``[*, M]``, of the value network, if there is one.
    """

    factors: dict[str, Draw]
    inputs: TensorDictBase
    log_probs: Tensor | None = None
    q: Tensor | None = None
    value: Tensor | None = None
    state_value: Tensor | None = None
