"""Losses with memories against references that walk through each episode by itself."""

from __future__ import annotations

import pytest
import torch
from torchrl.objectives import ValueEstimators

from rlkit_sac.modules import ObservationNormalizer, RewardNormalizer, SameActionPrior, UniformPrior
from tests.objectives.losses import KINDS
from tests.objectives.memory_references import assert_same_as_reference, make_pair, make_rows


@pytest.mark.parametrize("lmbda", [0.0, 0.8])
@pytest.mark.parametrize("burn_in", [0, 2])
@pytest.mark.parametrize(("cells", "layers"), [("gru", 1), ("lstm", 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_loss(kind: str, cells: str, layers: int, burn_in: int, lmbda: float) -> None:
    torch.manual_seed(0)
    pair = make_pair(kind, cells, layers, burn_in=burn_in, diagnostics=bool(burn_in))
    if lmbda:
        for loss in (pair.loss, pair.plain):
            loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    stored = ("actor", "critic", "value") if burn_in else ("actor",)
    assert_same_as_reference(pair, make_rows(kind, pair.memory, stored=stored))
