"""The prior that the policy of a run is kept close to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rlkit_sac.config.bounds import Bound, NonNegativeFloat, PositiveFloat
from rlkit_sac.config.loss import TemperatureConfig


@dataclass
class PriorConfig:
    """The policy that the learned one is kept close to.

    >>> PriorConfig(kind="policy").errors()
    [('run', "must name a run directory where kind is 'policy'")]
    """

    kind: Literal["uniform", "same_action", "policy", "factory"] = "uniform"
    """Uniform over actions, near the previous action, the policy of a run, or a user's own."""

    same_action_prob: Annotated[float, Bound(ge=0, le=1)] = 0.9
    """Weight of the previous action, for same_action."""

    same_action_noise: PositiveFloat = 0.1
    """Standard deviation around the previous action, as a share of the action's range, for
    same_action."""

    run: str | None = None
    """Run directory whose trained policy is the prior, for policy."""

    which: Literal["last", "best"] = "last"
    """Checkpoint of run: the newest, or that of the best evaluation."""

    factory: str | None = None
    """module:function that makes a prior for the environment, for factory."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        found = []
        needs = {"policy": ("run", "a run directory"), "factory": ("factory", "module:function")}
        for kind, (name, what) in needs.items():
            value = getattr(self, name)
            if self.kind == kind and value is None:
                found.append((name, f"must name {what} where kind is {kind!r}"))
            if self.kind != kind and value is not None:
                found.append((name, f"is for kind {kind!r}, but kind is {self.kind!r}"))
        return found


@dataclass
class KLPriorLossConfig(TemperatureConfig):
    """Options of the soft actor-critic loss for continuous actions with a prior.

    >>> KLPriorLossConfig().target_kld_per_dim
    3.0
    """

    target_kld_per_dim: NonNegativeFloat = 3.0
    """Divergence from the prior that the temperature aims at, nats for each action dimension."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""
