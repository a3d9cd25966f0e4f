"""Updates of losses with masks of allowed actions, through a recorded graph and without."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.updates import Update, compiled
from tests.objectives.acer_networks import NUM_ACTIONS
from tests.objectives.losses import own_loss
from tests.updates import test_compiled_acer
from tests.updates.test_compiled import assert_same, batch_for, pair

KINDS = ["boltzmann", "categorical", "hybrid", "ACER"]


def add_masks(batch: TensorDict, count: int) -> TensorDict:
    for part in (batch, batch["next"]):
        mask = torch.rand(*batch.batch_size, count) < 0.5
        mask[..., 0] = True
        part["action_mask"] = mask
    return batch


def masked_pair(kind: str) -> tuple[Update, Update, list[TensorDict]]:
    if kind == "ACER":
        first, second = test_compiled_acer.pair("discrete", {"diagnostics": True})
        batches = [test_compiled_acer.clean("discrete") for _ in range(3)]
    else:
        first, second = pair(partial(own_loss, kind))
        batches = [batch_for(first.loss_module) for _ in range(3)]
    count = NUM_ACTIONS if kind == "ACER" else 3
    for update in (first, second):
        update.loss_module.set_keys(action_mask="action_mask")
    return first, second, [add_masks(batch, count) for batch in batches]


@pytest.mark.parametrize("kind", KINDS)
def test_updates_with_masks_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compile_graph", lambda graph, inputs: graph)
    made = masked_pair(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back
        assert_same(*made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_updates_with_masks_are_the_same(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*run uncompiled")
        assert_same(*masked_pair(kind))
