"""Parameters that a run takes from another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class WarmStartConfig:
    """Modules initialized with the parameters of another run.

    >>> WarmStartConfig(run="runs/sac/Ant-v5/first", modules=["actor"]).errors()
    []
    """

    run: str | None = None
    """Run directory whose newest checkpoint initializes some modules; null for none."""

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
