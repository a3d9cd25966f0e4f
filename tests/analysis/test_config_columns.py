import pytest

from rlkit_sac.analysis import load_runs

EVALUATIONS = "frames,return_mean\n1000,-900.5\n2000,-150.0\n"
CONFIG = """\
env: {{id: Pendulum-v1}}
network: {{num_cells: {cells}}}
update:
  lr_actor: {lr}
  periods: {periods}
seed: {seed}
device: auto
"""


@pytest.fixture
def runs(make_run, tmp_path):
    settings = [(1e-3, "[256, 256]", "{}"), (3e-4, "[64, 64]", "{target: 2, actor: 1}")]
    for seed, (lr, cells, periods) in enumerate(settings):
        config = CONFIG.format(cells=cells, lr=lr, periods=periods, seed=seed)
        make_run(f"run{seed}", seed=seed, config=config, evaluations=EVALUATIONS)
    return tmp_path


def test_named_values_become_columns_in_the_order_asked_for(runs):
    data = load_runs(runs, config=["network.num_cells", "update.lr_actor", "device"])
    assert list(data.columns[3:6]) == ["network.num_cells", "update.lr_actor", "device"]
    assert data["update.lr_actor"].tolist() == [0.001, 0.001, 0.0003, 0.0003]
    assert data["update.lr_actor"].dtype == "float64"
    assert set(data["device"]) == {"auto"}


def test_lists_mappings_and_sections_become_json(runs):
    names = ["network.num_cells", "update.periods", "network"]
    last = load_runs(runs, config=names).iloc[-1]
    assert last[names].tolist() == [
        "[64, 64]",
        '{"actor": 1, "target": 2}',
        '{"num_cells": [64, 64]}',
    ]


def test_true_takes_what_differs_but_the_seed(runs):
    data = load_runs(runs, config=True)
    names = ["network.num_cells", "update.lr_actor", "update.periods"]
    assert list(data.columns[3:-5]) == names
    assert load_runs([*runs.rglob("run0")], config=True).shape[1] == 8
