"""The gradient step of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from rlkit_sac.capture import Products
from rlkit_sac.training.bounds import Bound, PositiveFloat, PositiveInt


@dataclass
class UpdateConfig:
    """The gradient step: what is optimized, in which order, how fast.

    >>> UpdateConfig(order=["joint", "actor", "target"]).errors()
    [('order', "'joint' already holds every loss: remove 'actor'")]
    """

    trained: ClassVar[tuple[str, ...]] = ("actor", "qvalue")
    """Networks that an order must train for the policy to learn."""

    lr_actor: PositiveFloat = 3e-4
    """Learning rate of the actor."""

    lr_qvalue: PositiveFloat = 1e-3
    """Learning rate of the critics."""

    lr_alpha: PositiveFloat = 1e-3
    """Learning rate of the temperature."""

    utd_ratio: PositiveFloat = 1.0
    """Updates per frame."""

    order: list[Literal["joint", "actor", "qvalue", "alpha", "target"]] = field(
        default_factory=lambda: ["joint", "target"]
    )
    """Steps of one update, in order; joint takes all losses at once, target moves the targets."""

    periods: dict[str, PositiveInt] = field(default_factory=dict)
    """Updates between two runs of a step, for example {actor: 2}; 1 where not named."""

    recompute: bool = False
    """Compute the losses anew for each step of order instead of once for all."""

    max_grad_norm: PositiveFloat | None = None
    """Largest gradient norm of each optimizer group; null for no limit."""

    target_update_tau: Annotated[float, Bound(gt=0, le=1)] = 0.005
    """Polyak rate tau of the target critics."""

    adam_eps: PositiveFloat = 1e-8
    """Term added to Adam's denominator."""

    products: Products = "auto"
    """CPU matrix products: exact as PyTorch has them, auto as exact but fast, or bfloat16."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        losses = [step for step in self.order if step != "target"]
        found = []
        missing = [] if "joint" in losses else [x for x in self.trained if x not in losses]
        missing += [] if "target" in self.order else ["target"]
        if missing:
            names = " and ".join(f"'{name}'" for name in missing)
            found.append(("order", f"must also name {names} for the policy to learn"))
        if len(set(self.order)) != len(self.order):
            found.append(("order", f"must name each step once, got {self.order}"))
        elif "joint" in losses and len(losses) > 1:
            others = ", ".join(f"'{step}'" for step in losses if step != "joint")
            found.append(("order", f"'joint' already holds every loss: remove {others}"))
        found += [
            ("periods", f"must name steps of order {self.order}, got '{step}'")
            for step in self.periods
            if step not in self.order
        ]
        return found


@dataclass
class DiscreteUpdateConfig(UpdateConfig):
    """The gradient step where the critics may be the policy, without an actor.

    >>> DiscreteUpdateConfig(order=["qvalue", "alpha", "target"]).errors()
    []
    """

    trained: ClassVar[tuple[str, ...]] = ("qvalue",)
