"""Updates by two processes on half batches are those of one process on the joint batch."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import processes
from tests.updates.rank_cases import LOSSES, RANKS, dtype_of, run_case

SCRIPT = Path(__file__).with_name("rank_cases.py")
ROOT = Path(__file__).parents[2]
QUICK = [
    *(f"{name}/clipped" for name in ("continuous", "redq", "memory", "acer_memory")),
    *("continuous/", "value/recompute"),
]
SLOW = [
    f"{name}/{options}"
    for name in LOSSES
    for options in ("", "clipped", "recompute")
    if f"{name}/{options}" not in QUICK
]


def run_ranks(folder: Path, *cases: str) -> list[dict[str, Any]]:
    """What each of two processes computes."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ranks = [
        processes.Process(SCRIPT, str(folder), str(rank), *cases, cwd=folder, env=env)
        for rank in range(RANKS)
    ]
    for done in [rank.finish() for rank in ranks]:
        assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks(tmp_path_factory.mktemp("ranks"), *QUICK)


def assert_joint(found: list[dict[str, Any]], case: str) -> None:
    (first, second), wanted = (each[case] for each in found), run_case(case)
    tolerance = 1e-12 if dtype_of(case) == torch.float64 else 1e-6
    assert first.keys() == wanted.keys()
    assert any(key.startswith("scalar grad_norm") for key in wanted)
    for key, value in wanted.items():
        assert first[key].equal(second[key]), key
        if is_mean(key):
            near = {"rtol": 10 * tolerance, "atol": tolerance}
            torch.testing.assert_close(first[key], value, **near, msg=key)


def is_mean(key: str) -> bool:
    """Whether the mean over ranks is that of the joint batch."""
    return not key.endswith(("_min", "_max", "explained_variance"))


@pytest.mark.parametrize("case", QUICK)
def test_two_ranks_are_one_process(quick: list[dict[str, Any]], case: str) -> None:
    assert_joint(quick, case)


@pytest.mark.slow
def test_two_ranks_are_one_process_for_every_loss(tmp_path: Path) -> None:
    found = run_ranks(tmp_path, *SLOW)
    for case in SLOW:
        assert_joint(found, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_compiled_ranks_are_uncompiled_ones(tmp_path: Path, name: str) -> None:
    """Each rank draws its own noise, in the same order."""
    case, plain = f"{name}/own noise, compiled", f"{name}/own noise"
    found = run_ranks(tmp_path, case, plain)
    for key, value in found[0][plain].items():
        assert found[0][case][key].equal(found[1][case][key]), key
        if is_mean(key):
            near = {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(found[0][case][key], value, **near, msg=key)


def test_a_number_that_is_not_finite_stops_all_ranks(quick: list[dict[str, Any]]) -> None:
    first, second = (each["nan"] for each in quick)
    assert first == second
    assert first.startswith("loss_qvalue is nan")
    assert "in update 2; its step was not taken" in first


def test_targets_and_buffers_begin_as_those_of_rank_0() -> None:
    """So that it is enough to send parameters and buffers."""
    for make_loss, _ in LOSSES.values():
        loss = make_loss()
        sent = {each.data_ptr() for each in (*loss.parameters(), *loss.buffers())}
        state: dict[str, Tensor] = loss.state_dict(keep_vars=True)
        missing = [key for key, value in state.items() if value.data_ptr() not in sent]
        assert not missing
