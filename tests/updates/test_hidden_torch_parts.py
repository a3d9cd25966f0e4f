"""Updates with a PyTorch in which a part that is not public has another name or place.

The parts are hidden one by one. Updates then run uncompiled, or with less in their graph, after one
warning, and their numbers stay the same.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import ClassVar

import pytest
import torch
from torch.optim import Adam
from torchrl.objectives import SoftUpdate

from rlkit_sac.updates import LossStep, TargetStep, Update
from tests.updates.test_compiled import assert_same, batch_for, continuous

#: Modules and names in them that graphs import.
IMPORTED = [
    ("torch._guards", "TracingContext"),
    ("torch._guards", "tracing"),
    ("torch._inductor", "config"),
    ("torch._inductor.async_compile", "shutdown_compile_workers"),
    ("torch._inductor.compile_fx", "compile_fx"),
    ("torch._subclasses", "FakeTensorMode"),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv"),
    ("torch.fx.experimental.proxy_tensor", "make_fx"),
    ("torch.utils._pytree", "tree_flatten"),
    ("torch.utils._pytree", "tree_leaves"),
    ("torch.utils._pytree", "tree_unflatten"),
]


class Without(ModuleType):
    """A module without one of its names, for those who import it now."""

    __path__: ClassVar[list[str]] = []

    def __init__(self, name: str, module: object) -> None:
        super().__init__("without")
        self._name, self._module = name, module

    def __getattr__(self, name: str) -> object:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._module, name)


def pair() -> tuple[Update, Update]:
    """Two updates of equal losses, uncompiled and compiled from the second one on."""
    updates = []
    for compile_from in (None, 2):
        torch.manual_seed(0)
        loss = continuous().double()
        updates.append(
            Update(
                loss,
                {"all": Adam(loss.parameters(), 1e-3)},
                [LossStep(("loss_actor", "loss_qvalue", "loss_alpha"), ("all",)), TargetStep()],
                target_updater=SoftUpdate(loss, tau=0.1),
                compile_from=compile_from,
            )
        )
    return updates[0], updates[1]


def assert_falls_back(reason: str) -> None:
    plain, compiled = pair()
    batches = [batch_for(plain.loss_module) for _ in range(4)]
    with pytest.warns(UserWarning, match=reason) as caught:
        assert_same(plain, compiled, batches)
    assert len(caught) == 1


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_without_an_import_updates_run_uncompiled(module, name, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, module, Without(name, sys.modules.get(module)))
    monkeypatch.setitem(sys.modules, f"{module}.{name}", None)
    assert_falls_back("ContinuousSACLoss: it cannot become one compiled graph .*run uncompiled")


def test_the_package_imports_without_any_of_them() -> None:
    """In a process of its own, after PyTorch and TorchRL, which may use them."""
    hidden = sorted({module for module, _ in IMPORTED})
    program = f"""
import sys
import torch, torchrl.collectors, torchrl.data, torchrl.envs, torchrl.modules, torchrl.objectives
for name in {hidden}:
    sys.modules[name] = None
import rlkit_sac.runs, rlkit_sac.objectives, rlkit_sac.updates, rlkit_sac.data
"""
    subprocess.run([sys.executable, "-c", program], check=True)
