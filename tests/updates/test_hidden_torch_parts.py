"""Updates with a PyTorch in which a part that is not public has another name or place.

The parts are hidden one by one. Updates then run uncompiled, or with less in their graph, after one
warning, and their numbers stay the same.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from types import ModuleType
from typing import ClassVar

import pytest
import torch
from torch.distributions import Distribution
from torch.optim import Adam
from torchrl.objectives import SoftUpdate

from rlkit_sac.data.collect.recorded_policy import RecordedPolicy
from rlkit_sac.modules import action_value_critic, tanh_gaussian_actor
from rlkit_sac.objectives import DiscreteSACLoss
from rlkit_sac.updates import LossStep, TargetStep, Update, optimizer_formulas
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
HOOKS = ["_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"]


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


def test_without_the_flag_of_distributions_updates_run_uncompiled(monkeypatch) -> None:
    monkeypatch.delattr(Distribution, "_validate_args")
    assert_falls_back("ContinuousSACLoss: it cannot become one compiled graph .*run uncompiled")


def test_with_other_schemas_of_operations_updates_run_uncompiled(monkeypatch) -> None:
    def without_schema(node):
        raise AttributeError("'OpOverload' object has no attribute '_schema'")

    monkeypatch.setattr("rlkit_sac.graph.random_inputs._is_in_place", without_schema)
    assert_falls_back("ContinuousSACLoss: it cannot become one compiled graph .*run uncompiled")


@pytest.mark.parametrize("name", [HOOKS[0], pytest.param(HOOKS[1], marks=pytest.mark.slow)])
def test_without_the_hooks_of_optimizers_their_steps_run_uncompiled(
    name, monkeypatch, uncompiled
) -> None:
    hidden = Without(name, optimizer_formulas.optimizer_module)
    monkeypatch.setattr(optimizer_formulas, "optimizer_module", hidden)
    optimizer_formulas._warn_of_hidden_hooks.cache_clear()
    assert_falls_back("does not show whether an optimizer has hooks")


def test_a_policy_whose_graph_cannot_be_flattened_is_called(monkeypatch) -> None:
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    entries = {"observation": torch.randn(4, 3)}

    def act() -> torch.Tensor:
        torch.manual_seed(1)
        return RecordedPolicy(actor, [4])(entries)["action"]

    recorded = act()
    monkeypatch.delattr("rlkit_sac.graph.flat_graph._Writer.write")
    assert act().equal(recorded)


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


def test_discrete_actions_are_checked_without_the_tracing_mode(monkeypatch) -> None:
    """Without it, values are read while recording: the update runs uncompiled."""
    monkeypatch.setattr("rlkit_sac.objectives.checks.batch._proxy_mode", lambda: None)
    torch.manual_seed(0)
    loss = DiscreteSACLoss(action_value_critic(3, 4, num_cells=[8, 8])).double()
    batch = batch_for(loss)
    update = Update(
        loss,
        {"all": Adam(loss.parameters(), 1e-3)},
        [LossStep(("loss_qvalue", "loss_alpha"), ("all",)), TargetStep()],
        target_updater=SoftUpdate(loss, tau=0.1),
        compile_from=1,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            update(batch.clone())
    (warning,) = caught
    assert "run uncompiled" in str(warning.message)


def test_nothing_is_hidden_here(uncompiled) -> None:
    """With the parts in place there is no warning: the cases above test what they say."""
    plain, compiled = pair()
    batches = [batch_for(plain.loss_module) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert_same(plain, compiled, batches)
