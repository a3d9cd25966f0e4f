"""The choice among TD(0), TD(1) and TD(lambda) targets."""

from __future__ import annotations

from typing import Any

from torch import nn
from torchrl.objectives import ValueEstimators

from rlkit_sac.errors import ConfigError

_LAMBDAS = {ValueEstimators.TD0: 0.0, ValueEstimators.TD1: 1.0, ValueEstimators.TDLambda: 0.95}


class SoftValueEstimator(nn.Module):
    """Discount and mixture of the targets of soft state-action values.

    It takes the place of TorchRL's own estimators, which have no entropy bonus between the first
    step and the bootstrap, and read no mask. The loss computes the targets itself, by
    :func:`~rlkit_sac.functional.soft_td_target` or
    :func:`~rlkit_sac.functional.soft_lambda_return`.

    Args:
        gamma: discount in [0, 1].
        lmbda: 0 for one-step targets, 1 for the full return of the sequence.

    Raises:
        ConfigError: for a value outside [0, 1].
    """

    def __init__(self, gamma: float, lmbda: float) -> None:
        super().__init__()
        for name, value in (("gamma", gamma), ("lmbda", lmbda)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} must be in [0, 1], not {value}")
        # Numbers, not buffers: exact in every dtype the loss is cast to.
        self.gamma, self.lmbda = float(gamma), float(lmbda)


def parse_estimator(
    value_type: ValueEstimators | str, gamma: float, hyperparams: dict[str, Any]
) -> tuple[ValueEstimators, SoftValueEstimator]:
    """The value estimator of a call of ``make_value_estimator``.

    Args:
        value_type: ``TD0``, ``TD1`` or ``TDLambda``, or its name.
        gamma: discount where the hyperparameters name none.
        hyperparams: ``gamma`` and, for ``TDLambda``, ``lmbda`` (0.95).

    Raises:
        NotImplementedError: for an estimator that is not defined for soft values.
        ConfigError: for an unknown hyperparameter or one outside [0, 1].

    >>> parse_estimator("td_lambda", 0.99, {"lmbda": 0.5})[1].lmbda
    0.5
    """
    name = value_type.replace("_", "").lower() if isinstance(value_type, str) else None
    kind = next((e for e in _LAMBDAS if value_type is e or name == e.name.lower()), None)
    if kind is None:
        raise NotImplementedError(
            f"there is no value estimator {value_type!r} here: soft values need the entropy at "
            "every step of a return. Available: TD0, TD1, TDLambda"
        )
    takes_lmbda = kind is ValueEstimators.TDLambda
    unknown = hyperparams.keys() - {"gamma", *(["lmbda"] if takes_lmbda else [])}
    if unknown:
        raise ConfigError(
            f"unknown hyperparameters of {kind.name}: {', '.join(sorted(unknown))}; "
            f"it takes gamma{' and lmbda' if takes_lmbda else ''}"
        )
    options = {"gamma": gamma, "lmbda": _LAMBDAS[kind]} | hyperparams
    return kind, SoftValueEstimator(**options)
