"""Estimators of the return of a step: y, with which its critics are compared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from rlkit_sac import functional as F
from rlkit_sac.config.options import UnitFloat, check_values
from rlkit_sac.errors import ConfigError


class ValueEstimate(NamedTuple):
    """A value or its distribution: of an action, of a next state V(s'), or the return y.

    Attributes:
        values: ``[*, M]``, or J values of one return ``[*, J]``.
        weights: of the values of one return, ``[*, J]``; ``None`` for M values.
    """

    values: Tensor
    weights: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """The expected value, ``[*, M]``."""
        if self.weights is None:
            return self.values
        return (self.weights * self.values).sum(-1, keepdim=True)

    @property
    def shares(self) -> Tensor:
        """The weights, 1 for a single value."""
        return torch.ones_like(self.values) if self.weights is None else self.weights


class StepOutcome(NamedTuple):
    """What followed the actions of a batch ``[*]``.

    Attributes:
        reward: ``[*, M]``; of n frames their discounted sum, as replay makes it.
        terminated: bool ``[*, 1]``.
        cut: bool ``[*, 1]``, of sequences: the row does not go on with what follows the step.
        steps: ``[*, 1]``, frames n of a transition; ``None`` for one each.
        value: the soft value V(s') of the next state, or its distribution.
        bonus: the entropy bonus in that value, ``[*, 1]``; only needed for sequences.
    """

    reward: Tensor
    terminated: Tensor
    cut: Tensor | None
    steps: Tensor | None
    value: ValueEstimate
    bonus: Tensor


class ReturnEstimator(Protocol):
    """An estimator of the return; its sequences ``[*, T]`` have time in the last dimension.

    Attributes:
        sequential: its name, where it needs sequences of single steps; empty otherwise.
    """

    sequential: ClassVar[str]

    def target(self, outcome: StepOutcome, gamma: float | Tensor) -> ValueEstimate:
        """The return y of each step, or its distribution."""


@dataclass(frozen=True)
class OneStep:
    r""":math:`r + \gamma^n (1 - \text{terminated}) V(s')` of a transition of n frames.

    With a reward of n frames the entropies of the states between them are left out.
    """

    sequential: ClassVar[str] = ""

    def target(self, outcome: StepOutcome, gamma: float | Tensor) -> ValueEstimate:
        """See :func:`~rlkit_sac.functional.soft_td_target`; a distribution keeps its weights."""
        values, weights = outcome.value
        if outcome.steps is not None:
            gamma = gamma**outcome.steps
        if weights is not None:  # all values are the reward then, whatever was observed
            weights = torch.where(outcome.terminated, 1.0 / weights.shape[-1], weights)
        reward, terminated = outcome.reward, outcome.terminated
        return ValueEstimate(F.soft_td_target(reward, terminated, values, gamma=gamma), weights)


@dataclass(frozen=True)
class LambdaReturn:
    """The mixture of the returns of 1, 2, … steps up to the end of a sequence, a mean value.

    The bonus of each state on the way is in it.
    """

    lmbda: float
    sequential: ClassVar[str] = "TD(lambda)"

    def target(self, outcome: StepOutcome, gamma: float | Tensor) -> ValueEstimate:
        """See :func:`~rlkit_sac.functional.soft_lambda_return`."""
        reward, terminated, cut, _, value, bonus = outcome
        assert cut is not None
        return ValueEstimate(
            F.soft_lambda_return(
                reward, terminated, cut, value.mean, bonus, gamma=gamma, lmbda=self.lmbda
            )
        )


def td_lambda(lmbda: float = 0.95) -> ReturnEstimator:
    """The lambda-return, with 0 that of one step.

    Raises:
        ConfigError: for a number outside of [0, 1].
    """
    check_values({"lmbda": UnitFloat}, {"lmbda": lmbda})
    return LambdaReturn(float(lmbda)) if lmbda else OneStep()


#: What makes an estimator of its hyperparameters, by the name of TorchRL's value estimator.
ESTIMATORS: Mapping[str, Callable[..., ReturnEstimator]] = {
    "TD0": OneStep,
    "TD1": lambda: LambdaReturn(1.0),
    "TDLambda": td_lambda,
}


def make_return_estimator(value_type: Any, hyperparameters: Mapping[str, Any]) -> ReturnEstimator:
    """The estimator of a name.

    Args:
        value_type: the name, in any case, or a member of ``torchrl.objectives.ValueEstimators``.
        hyperparameters: of the estimator.

    Raises:
        NotImplementedError: for one that is not defined for soft values.
        ConfigError: for a hyperparameter that it does not have, or cannot have.

    >>> make_return_estimator("td_lambda", {"lmbda": 0.5})
    LambdaReturn(lmbda=0.5)
    >>> make_return_estimator("TD0", {"lmbda": 0.5})
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: unknown hyperparameters of TD0: lmbda; it takes gamma
    """
    text = getattr(value_type, "name", value_type).replace("_", "").lower()
    name = next((key for key in ESTIMATORS if key.lower() == text), None)
    if name is None:
        raise NotImplementedError(
            f"there is no value estimator {value_type!r} here: soft values need the entropy at "
            f"every step of a return. Available: {', '.join(ESTIMATORS)}"
        )
    takes = inspect.signature(ESTIMATORS[name]).parameters
    if unknown := sorted(hyperparameters.keys() - takes):
        raise ConfigError(
            f"unknown hyperparameters of {name}: {', '.join(unknown)}; "
            f"it takes {' and '.join(['gamma', *takes])}"
        )
    return ESTIMATORS[name](**hyperparameters)
