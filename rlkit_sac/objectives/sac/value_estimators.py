"""The value estimators of TorchRL that are defined for soft values."""

from __future__ import annotations

from collections.abc import Collection

from torchrl.objectives import ValueEstimators

from rlkit_sac.errors import ConfigError

#: Lambda of the returns that they name.
LAMBDAS = {ValueEstimators.TD0: 0.0, ValueEstimators.TD1: 1.0, ValueEstimators.TDLambda: 0.95}


def find_value_estimator(
    asked: ValueEstimators | str, hyperparameters: Collection[str]
) -> ValueEstimators:
    """The value estimator that was asked for.

    Args:
        asked: it, or its name.
        hyperparameters: those that are given for it, by name.

    Raises:
        NotImplementedError: for one that is not defined for soft values.
        ConfigError: for a hyperparameter that it does not have.

    >>> find_value_estimator("td_lambda", ["gamma"]).name
    'TDLambda'
    >>> find_value_estimator("TD0", ["lmbda"])
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: unknown hyperparameters of TD0: lmbda; it takes gamma
    """
    name = asked.replace("_", "").lower() if isinstance(asked, str) else None
    kind = next((e for e in LAMBDAS if asked is e or name == e.name.lower()), None)
    if kind is None:
        raise NotImplementedError(
            f"there is no value estimator {asked!r} here: soft values need the entropy at "
            "every step of a return. Available: TD0, TD1, TDLambda"
        )
    takes = ["gamma", "lmbda"] if kind is ValueEstimators.TDLambda else ["gamma"]
    unknown = sorted(set(hyperparameters) - set(takes))
    if unknown:
        raise ConfigError(
            f"unknown hyperparameters of {kind.name}: {', '.join(unknown)}; "
            f"it takes {' and '.join(takes)}"
        )
    return kind
