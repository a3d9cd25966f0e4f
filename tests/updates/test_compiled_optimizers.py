"""Optimizers in a recorded graph: their steps, their state, and what is not finite."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torchrl.objectives import SoftUpdate

from rlkit_sac.errors import RunError
from rlkit_sac.updates import LossStep, TargetStep, Update
from tests.updates.test_compiled import assert_same, batch_for, continuous, pair


def optimized(make: Callable[..., torch.optim.Optimizer]) -> list[Update]:
    """The same update with an optimizer, without and with a graph."""
    updates = []
    for compile_from in (None, 1):
        torch.manual_seed(1)
        loss = continuous().double()
        updates.append(
            Update(
                loss,
                {"all": make(list(loss.parameters()))},
                [
                    LossStep(("loss_qvalue", "loss_alpha"), ("all",)),
                    LossStep(("loss_actor",), ("all",), period=2),
                    TargetStep(),
                ],
                target_updater=SoftUpdate(loss, tau=0.1),
                compile_from=compile_from,
                max_grad_norm=1.0,
            )
        )
    return updates


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, 1e-3),  # in the graph until it has a weight decay
        lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9),  # outside the graph
    ],
)
def test_optimizers_do_the_same(make: Callable[..., torch.optim.Optimizer]) -> None:
    first, second = optimized(make)
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(4)])
    for update in (first, second):
        for group in update.optimizers["all"].param_groups:
            group["lr"] *= 0.1  # followed by the graph
        update.max_grad_norm, update.target_updater.eps = 0.5, 0.8
    made = second._compiled_steps.num_graphs
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(2)])
    for update in (first, second):
        update.optimizers["all"].param_groups[0]["weight_decay"] = 0.2  # makes another
    assert_same(first, second, [batch_for(first.loss_module) for _ in range(2)])
    if second._pass_steps.is_supported():
        assert (made, second._compiled_steps.num_graphs) == (2, 4)


def test_the_targets_of_the_graph_are_those_that_the_updater_moves() -> None:
    """The graph reads private attributes of SoftUpdate, which TorchRL may rename."""
    *_, update = optimized(lambda p: torch.optim.Adam(p, 1e-3))
    with torch.no_grad():
        for parameter in update.loss_module.parameters():
            parameter.add_(1.0)
    pairs = update._pass_steps._sources_and_targets()
    expected = [target.lerp(source, 0.1) for source, target in pairs]
    before = [target.clone() for _, target in pairs]
    named = {key: value.clone() for key, value in update.loss_module.state_dict().items()}
    update.target_updater.step()
    for (_, target), wanted, old in zip(pairs, expected, before, strict=True):
        torch.testing.assert_close(target, wanted, rtol=1e-12, atol=1e-12)
        assert not torch.equal(target, old)
    moved = [
        key
        for key, value in update.loss_module.state_dict().items()
        if not torch.equal(value, named[key])
    ]
    assert len(moved) == len(pairs) > 0


@pytest.mark.usefixtures("uncompiled")
def test_a_loaded_state_is_followed() -> None:
    first, second = pair(continuous)
    batches = [batch_for(first.loss_module) for _ in range(3)]
    assert_same(first, second, batches)
    states = [copy.deepcopy(update.state_dict()) for update in (first, second)]
    assert_same(first, second, batches)
    for update, state in zip((first, second), states, strict=True):
        update.load_state_dict(state)
        assert update.count == state["count"]
        for name, optimizer in update.optimizers.items():
            wanted = state["optimizers"][name]["state"]
            torch.testing.assert_close(optimizer.state_dict()["state"], wanted, rtol=0, atol=0)
    assert_same(first, second, batches)
    for own, other in zip(
        first.state_dict()["optimizers"].values(),
        second.state_dict()["optimizers"].values(),
        strict=True,
    ):
        torch.testing.assert_close(other["state"], own["state"])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("recompute", "number"), [(False, math.nan), (True, math.inf)])
def test_nothing_at_all_moves_when_a_loss_is_not_finite(recompute: bool, number: float) -> None:
    _, update = pair(continuous, order=["qvalue", "actor", "target"], recompute=recompute)
    update(batch_for(update.loss_module))

    def everything() -> list[torch.Tensor]:
        moments = [
            value
            for optimizer in update.optimizers.values()
            for state in optimizer.state.values()
            for value in state.values()
        ]
        return [*update.loss_module.state_dict().values(), *moments]

    before = [value.clone() for value in everything()]
    batch = batch_for(update.loss_module)
    batch["next", "reward"][3] = number
    with pytest.raises(RunError, match=r"loss_qvalue is (nan|inf).* in update 2"):
        update(batch)
    torch.testing.assert_close(everything(), before, rtol=0, atol=0)
