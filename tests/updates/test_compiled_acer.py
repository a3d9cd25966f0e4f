"""Updates of ACER through a recorded graph and without, with the same draws."""

from __future__ import annotations

import warnings

import pytest
import torch
from torchrl.objectives import SoftUpdate

from rlkit_sac.updates import LossStep, TargetStep, Update, compiled
from tests.objectives.acer_memory import make_recurrent_acer, make_rows
from tests.objectives.acer_networks import NUM_ACTIONS, make_acer
from tests.updates.test_compiled import assert_same

LOSSES = ("loss_actor", "loss_critic", "loss_entropy")
MEMORY = {"kind": "lstm", "size": 4, "num_actions": NUM_ACTIONS}
CASES = {
    "discrete": ("discrete", {"diagnostics": True, "use_q_opc": True}),
    "discrete, probabilities": ("discrete", {"trust_region_space": "probs"}),
    "continuous": ("continuous", {}),
    "continuous, no trust region": ("continuous", {"use_trust_region": False, "use_q_opc": True}),
    "discrete, memory": ("discrete", {"memory": MEMORY, "shared": True, "burn_in": 1}),
}


def pair(kind: str, options: dict) -> tuple[Update, Update]:
    updates = []
    for compile_from in (None, 1):
        torch.manual_seed(1)
        if "memory" in options:
            loss = make_recurrent_acer(kind, **options)
        else:
            loss, _ = make_acer(kind, trust_region_delta=0.01, **options)
        optimizer = torch.optim.RMSprop(loss.parameters(), lr=7e-4, eps=1e-5)
        updates.append(
            Update(
                loss,
                {"all": optimizer},
                [LossStep(LOSSES, ("all",)), TargetStep()],
                target_updater=SoftUpdate(loss, eps=0.99),
                max_grad_norm=10.0,
                compile_from=compile_from,
            )
        )
    return updates[0], updates[1]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", [pytest.param("discrete", marks=pytest.mark.slow), "continuous"])
def test_two_graphs_serve_both_kinds_of_segments(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On-policy and replayed segments take turns; nothing but the flag tells them apart."""
    first, second = pair(kind, {})
    made = []
    original = compiled._Program.__init__

    def count(self, *arguments, **options) -> None:
        made.append(second.count)
        original(self, *arguments, **options)

    monkeypatch.setattr(compiled._Program, "__init__", count)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back
        for turn in range(6):
            for update in (first, second):
                update.loss_module.on_policy = turn % 3 == 0
            assert_same(first, second, [clean(kind)])
    assert len(made) == 2


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_compiled_updates_are_the_same(case: str) -> None:
    first, second = pair(*CASES[case])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*run uncompiled")
        assert_same(first, second, [clean(CASES[case][0]) for _ in range(3)])


def clean(kind: str):
    """Segments with a mask, without NaN: updates are compared on other values of them."""
    segments = make_rows(kind, 3, 4)
    segments["collector", "mask"] = torch.rand(3, 4) < 0.8
    return segments
