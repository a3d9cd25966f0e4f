"""Options of the updates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from rlkit_sac.config.options import NonNegativeInt, PositiveFloat, PositiveInt, schedule_errors

MatmulPrecision: TypeAlias = Literal["auto", "exact", "bfloat16"]
_Loss: TypeAlias = Literal["actor", "qvalue", "alpha"]
_Step: TypeAlias = Literal["joint", "actor", "qvalue", "alpha", "target"]
_ValueLoss: TypeAlias = Literal["actor", "qvalue", "value", "alpha"]
_ValueStep: TypeAlias = Literal["joint", "actor", "qvalue", "value", "alpha", "target"]


@dataclass
class BaseUpdateConfig:
    """Options of the update in every recipe.

    >>> BaseUpdateConfig().target_update_tau
    0.005
    """

    max_grad_norm: PositiveFloat | None = None
    """Maximum gradient norm of each optimizer; null for no limit."""

    target_update_tau: Annotated[float, Field(gt=0, le=1)] = 0.005
    """Polyak rate tau of the target networks."""

    adam_eps: PositiveFloat = 1e-8
    """Term added to Adam's denominator."""

    matmul_precision: MatmulPrecision = "auto"
    """Float32 matrix products on a CPU: exact is PyTorch's default, auto is as precise and often
    faster. bfloat16 also rounds the factors of hidden layers in compiled updates, on processors
    that have it."""

    cuda_graph: bool = False
    """Capture compiled updates as CUDA graphs on a GPU, which has not run on a real one."""

    random_shift: Annotated[int, Field(ge=0, le=64)] = 0
    """Maximum random shift of images from replay in pixels, drawn separately for each sample and
    for its next state; 4 as published for 84 x 84, 0 for none."""

    schedules: dict[str, dict[int, float]] = field(default_factory=dict)
    """Options that change with the frames, linearly between the values given:
    {lr_actor: {0: 0.001, 100000: 0}}."""

    scheduled: ClassVar[tuple[str, ...]] = ("target_update_tau", "max_grad_norm")

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of an :class:`~rlkit_sac.updates.Update`."""
        names = ("max_grad_norm", "matmul_precision", "cuda_graph")
        return {name: getattr(self, name) for name in names}

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        return schedule_errors(self)


@dataclass
class UpdateConfig(BaseUpdateConfig):
    """Options of the gradient steps: learning rates, number per frame, and order.

    >>> list(UpdateConfig(order=["joint", "actor", "target"]).errors())
    [('order', "'joint' already holds every loss: remove 'actor'")]
    """

    trained: ClassVar[tuple[str, ...]] = ("actor", "qvalue")
    """Networks that an order must train."""

    lr_actor: PositiveFloat = 3e-4
    """Learning rate of the actor."""

    lr_qvalue: PositiveFloat = 1e-3
    """Learning rate of the critics."""

    lr_alpha: PositiveFloat = 1e-3
    """Learning rate of the temperature."""

    utd_ratio: PositiveFloat = 1.0
    """Number of updates per frame."""

    actor_starts: NonNegativeInt = 0
    """Frames in which actor and temperature take no step; the critics learn from
    collector.learning_starts on."""

    order: list[_Step | list[_Loss]] = field(default_factory=lambda: ["joint", "target"])
    """Steps of an update, in order: joint minimizes all losses together, a nested list some of
    them, target updates the target networks."""

    periods: dict[str, PositiveInt] = field(default_factory=dict)
    """Periods of steps that are taken only at every n-th update, for example {actor: 2}."""

    recompute: bool | list[str] = False
    """Compute the losses again for each step of order, or before the named steps, instead of once
    for all steps."""

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of an :class:`~rlkit_sac.updates.Update`."""
        return super().arguments() | {"recompute": self.recompute is True}

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        names = [name for entry in self.step_groups() for name in entry]
        losses = [name for name in names if name != "target"]
        missing = [] if "joint" in losses else [x for x in self.trained if x not in losses]
        missing += [] if "target" in names else ["target"]
        if missing:
            text = " and ".join(f"'{name}'" for name in missing)
            yield "order", f"must also name {text} for the policy to learn"
        if "joint" in losses and len(set(losses)) > 1:
            others = ", ".join(f"'{step}'" for step in losses if step != "joint")
            yield "order", f"'joint' already holds every loss: remove {others}"
        elif len(set(names)) != len(names) and self.recompute is not True:
            yield "order", f"must name each step once unless recompute is true, got {self.order}"
        for option, steps in (("periods", self.periods), ("recompute", self.recompute_steps())):
            for step in (step for step in steps if step not in names):
                yield option, f"must name steps of order {self.order}, got '{step}'"
        for entry in self.step_groups():
            if len({self.periods.get(name, 1) for name in entry}) > 1:
                text = f"must be the same for {' and '.join(entry)}, which order takes at once"
                yield "periods", text

    def step_groups(self) -> list[list[str]]:
        """Return the steps in order, each as the list of the losses that it minimizes together."""
        return [list(step) if isinstance(step, list) else [step] for step in self.order]

    def recompute_steps(self) -> list[str]:
        """Return the steps that ``recompute`` names; the losses are computed again before them."""
        return self.recompute if isinstance(self.recompute, list) else []


@dataclass
class DiscreteUpdateConfig(UpdateConfig):
    """Options of the gradient steps for critics that may be the policy, without an actor.

    >>> list(DiscreteUpdateConfig(order=["qvalue", "alpha", "target"]).errors())
    []
    """

    trained: ClassVar[tuple[str, ...]] = ("qvalue",)


@dataclass
class ValueUpdateConfig(UpdateConfig):
    """Options of the gradient steps with a value network beside the critics.

    >>> list(ValueUpdateConfig(order=["actor", "qvalue", "target"]).errors())
    [('order', "must also name 'value' for the policy to learn")]
    """

    trained: ClassVar[tuple[str, ...]] = ("actor", "qvalue", "value")

    lr_value: PositiveFloat = 1e-3
    """Learning rate of the value network."""

    order: list[_ValueStep | list[_ValueLoss]] = field(  # type: ignore[assignment]
        default_factory=lambda: ["joint", "target"]
    )
    """Steps of an update, in order: joint minimizes all losses together, a nested list some of
    them, target updates the target value network."""
