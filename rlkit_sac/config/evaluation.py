"""When and how the policy of a run is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rlkit_sac.config.bounds import Bound, PositiveInt


@dataclass
class EvaluationConfig:
    """When and how the policy is evaluated during training.

    >>> EvaluationConfig().episodes
    10
    """

    interval: PositiveInt = 2_500
    """Frames between two evaluations."""

    episodes: PositiveInt = 10
    """Episodes of one evaluation."""

    deterministic: bool = True
    """Act with the mode of the policy instead of a sample."""

    epsilon: Annotated[float, Bound(ge=0, le=1)] = 0.0
    """Probability with which each action of a deterministic evaluation is a sample after all."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.deterministic or not self.epsilon:
            return []
        text = f"must be 0 unless deterministic is true, got {self.epsilon}"
        return [("epsilon", text)]
