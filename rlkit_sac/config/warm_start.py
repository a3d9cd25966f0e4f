"""What a run takes over from another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class WarmStartConfig:
    """Modules that begin with the values another run ended with.

    >>> WarmStartConfig(run="runs/sac/Ant-v5/first", modules=["actor"]).errors()
    []
    """

    run: str | None = None
    """Run directory whose newest checkpoint gives first values to some modules; null for none."""

    modules: list[Literal["actor", "qvalue", "value", "alpha"]] = field(
        default_factory=lambda: ["actor", "qvalue", "alpha"]
    )
    """Which modules: actor, qvalue (critics and their targets), value (value network and its
    target), alpha."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if len(set(self.modules)) != len(self.modules):
            return [("modules", f"must name each module once, got {self.modules}")]
        if self.run is not None and not self.modules:
            return [("modules", "must name at least one module to take from run")]
        return []
