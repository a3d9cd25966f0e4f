"""Estimators of the return of a step: y, the target of the critics."""

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
    """A value of an action or of a next state, or a return. It may be a distribution.

    Attributes:
        values: the value ``[*, M]``; for a distribution, J possible values ``[*, J]``.
        weights: the probabilities of the J values, ``[*, J]``; ``None`` without a distribution.
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
    def weights_or_ones(self) -> Tensor:
        """The weights; ones without a distribution."""
        return torch.ones_like(self.values) if self.weights is None else self.weights


class StepOutcome(NamedTuple):
    """The outcomes of the actions of a batch ``[*]``.

    Attributes:
        reward: the rewards ``[*, M]``. For transitions of n frames, the discounted sum.
        terminated: whether the episode terminated, bool ``[*, 1]``.
        cut: the steps that the next step of their row does not continue, bool ``[*, 1]``; only
            needed for sequences.
        steps: the number n of frames in each transition, ``[*, 1]``; ``None`` if all have one.
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
        sequential: the name of the estimator if it needs sequences of single steps; empty
            otherwise.
    """

    sequential: ClassVar[str]

    def target(self, outcome: StepOutcome, gamma: float | Tensor) -> ValueEstimate:
        """Return the return y of each step, or its distribution."""


@dataclass(frozen=True)
class OneStep:
    r"""The return :math:`r + \gamma^n (1 - \text{terminated}) V(s')` of transitions of n frames.

    It has no entropies of the states between the first and the last frame.
    """

    sequential: ClassVar[str] = ""

    def target(self, outcome: StepOutcome, gamma: float | Tensor) -> ValueEstimate:
        """Return :func:`~rlkit_sac.functional.soft_td_target`; a distribution keeps its weights."""
        values, weights = outcome.value
        if outcome.steps is not None:
            gamma = gamma**outcome.steps
        if weights is not None:  # after termination all values are the reward; weights may be NaN
            weights = torch.where(outcome.terminated, 1.0 / weights.shape[-1], weights)
        reward, terminated = outcome.reward, outcome.terminated
        return ValueEstimate(F.soft_td_target(reward, terminated, values, gamma=gamma), weights)


@dataclass(frozen=True)
class LambdaReturn:
    """The mixture of the returns of 1, 2, … steps up to the end of a sequence.

    It includes the entropy bonus of each state on the way. It is a mean, not a distribution.
    """

    lmbda: float
    sequential: ClassVar[str] = "TD(lambda)"

    def target(self, outcome: StepOutcome, gamma: float | Tensor) -> ValueEstimate:
        """Return :func:`~rlkit_sac.functional.soft_lambda_return`."""
        reward, terminated, cut, _, value, bonus = outcome
        assert cut is not None
        return ValueEstimate(
            F.soft_lambda_return(
                reward, terminated, cut, value.mean, bonus, gamma=gamma, lmbda=self.lmbda
            )
        )


def td_lambda(lmbda: float = 0.95) -> ReturnEstimator:
    """Return an estimator of the lambda-return; 0 gives the one-step return.

    Raises:
        ConfigError: for a number outside of [0, 1].
    """
    check_values({"lmbda": UnitFloat}, {"lmbda": lmbda})
    return LambdaReturn(float(lmbda)) if lmbda else OneStep()


#: Functions from hyperparameters to an estimator, by the name of TorchRL's value estimator.
ESTIMATORS: Mapping[str, Callable[..., ReturnEstimator]] = {
    "TD0": OneStep,
    "TD1": lambda: LambdaReturn(1.0),
    "TDLambda": td_lambda,
}


def make_return_estimator(value_type: Any, hyperparameters: Mapping[str, Any]) -> ReturnEstimator:
    """Return the estimator with a name.

    Args:
        value_type: the name, in any case, or a member of ``torchrl.objectives.ValueEstimators``.
        hyperparameters: the hyperparameters of the estimator.

    Raises:
        NotImplementedError: for an estimator that is not defined for soft values.
        ConfigError: for an unknown hyperparameter or a value out of range.

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
    parameters = inspect.signature(ESTIMATORS[name]).parameters
    if unknown := sorted(hyperparameters.keys() - parameters):
        raise ConfigError(
            f"unknown hyperparameters of {name}: {', '.join(unknown)}; "
            f"it takes {' and '.join(['gamma', *parameters])}"
        )
    return ESTIMATORS[name](**hyperparameters)
