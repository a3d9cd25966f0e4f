"""Updates of losses with memories, through a recorded graph and without, with the same draws."""

from __future__ import annotations

import warnings

import pytest
from tensordict import TensorDict
from torchrl.objectives import LossModule, ValueEstimators

from tests.objectives.memory_references import (
    SPECS,
    loss_class,
    make_networks,
    make_rows,
    memory_of,
)
from tests.updates.test_compiled import assert_same, pair


def make(kind: str, cells: str, layers: int = 1, **options) -> LossModule:
    networks = make_networks(kind, memory_of(kind, cells, layers))
    loss = loss_class(kind)(**networks, action_spec=SPECS[kind], alpha_init=0.3, **options)
    return loss.make_value_estimator(ValueEstimators.TDLambda)


def rows_of(kind: str, cells: str, layers: int = 1) -> TensorDict:
    rows = make_rows(kind, memory_of(kind, cells, layers), stored=("actor", "critic"))
    return rows.exclude("begins")


def compare(kind: str, cells: str, length: int, **options) -> None:
    first, second = pair(lambda: make(kind, cells, **options))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*run uncompiled")
        assert_same(first, second, [rows_of(kind, cells)[:, :length] for _ in range(3)])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("kind", "cells"),
    [pytest.param("continuous", "lstm", marks=pytest.mark.slow), ("hybrid", "gru")],
)
def test_updates_are_the_same(kind: str, cells: str) -> None:
    compare(kind, cells, 4, burn_in=1)


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["gru", "lstm"])
def test_compiled_updates_are_the_same(cells: str) -> None:
    compare("boltzmann", cells, 3)
