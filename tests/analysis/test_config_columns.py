import pytest

from rlkit_sac.analysis import load_runs
from rlkit_sac.errors import ConfigError, RunError

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


def test_no_column_comes_from_the_configuration_by_default(make_run):
    # Nor is the file needed.
    run_dir = make_run("a", evaluations=EVALUATIONS)
    columns = ["run", "recipe", "task", "seed", "status", "frames", "return_mean"]
    assert list(load_runs(run_dir).columns) == columns


def test_named_values_become_columns_in_the_order_asked_for(runs):
    data = load_runs(runs, config=["network.num_cells", "update.lr_actor", "device"])
    assert list(data.columns[5:9]) == ["network.num_cells", "update.lr_actor", "device", "frames"]
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


@pytest.mark.parametrize("name", ["run", "seed", "frames"])
def test_an_option_with_the_name_of_a_column_makes_no_second_one(make_run, tmp_path, name):
    make_run("a", config=f"{name}: 7", evaluations=EVALUATIONS)
    make_run("b", config="lr: 0.1", evaluations=EVALUATIONS)
    data = load_runs(tmp_path, config=True)
    assert list(data.columns[5:]) == ["lr", "frames", "return_mean"]
    assert set(data["frames"]) == {1000, 2000}


@pytest.mark.parametrize("config", ["a: !!python/tuple [1]", "a: *b", "\x00"])
def test_a_value_that_cannot_be_read_is_one_line_with_the_file(make_run, config):
    run_dir = make_run("a", config=config, evaluations=EVALUATIONS)
    with pytest.raises(RunError, match=r"config\.yaml cannot be read as YAML: [^\n]*$"):
        load_runs(run_dir, config=True)


def test_one_name_needs_no_list(runs):
    assert load_runs(runs, config="update.lr_actor").columns[5] == "update.lr_actor"


def test_true_takes_what_differs_but_the_seed(runs):
    data = load_runs(runs, config=True)
    names = ["network.num_cells", "update.lr_actor", "update.periods"]
    assert list(data.columns[5:-2]) == names
    assert load_runs([*runs.rglob("run0")], config=True).shape[1] == 7


def test_a_value_that_a_run_lacks_is_missing_and_differs(make_run, tmp_path):
    make_run("a", config="loss: {max_alpha: null, target_entropy: auto}", evaluations=EVALUATIONS)
    make_run("b", config="loss: {max_alpha: 1.0}", evaluations=EVALUATIONS)
    data = load_runs(tmp_path, config=True)
    assert data["loss.max_alpha"].isna().tolist() == [True, True, False, False]
    assert data["loss.max_alpha"].iloc[-1] == 1.0
    assert data["loss.target_entropy"].isna().tolist() == [False, False, True, True]


def test_values_of_different_types_share_a_column(make_run, tmp_path):
    for name, value in {"a": "auto", "b": "-3.0", "c": "true"}.items():
        config = f"loss: {{target_entropy: {value}}}"
        make_run(name, config=config, evaluations="frames,return_mean\n1,2.0\n")
    data = load_runs(tmp_path, config=True)
    assert data["loss.target_entropy"].tolist() == ["auto", -3.0, True]


def test_an_unknown_name_is_refused_with_the_nearest(runs):
    with pytest.raises(ConfigError, match=r"'update\.lr_actr'; did you mean 'update\.lr_actor'"):
        load_runs(runs, config=["update.lr_actr"])
    with pytest.raises(ConfigError, match=r"'zzz'; there are env, env\.id, network"):
        load_runs(runs, config=["zzz"])


def test_a_run_without_rows_keeps_the_columns(make_run):
    run_dir = make_run("a", config="device: cpu")
    data = load_runs(run_dir, config=["device"])
    assert data.empty
    assert "device" in data.columns


@pytest.mark.parametrize("text", [None, "update: [", "- 1\n", "", "\x00"])
def test_a_run_with_a_damaged_configuration_is_left_out_when_it_is_needed(runs, text):
    file = next(runs.rglob("run1")) / "config.yaml"
    file.unlink() if text is None else file.write_text(text)
    with pytest.warns(
        UserWarning, match=r"1 of 2 runs left out: .*run1/config\.yaml cannot be read"
    ):
        data = load_runs(runs, config=["device"])
    assert data["seed"].tolist() == [0, 0]
    assert load_runs(runs)["seed"].tolist() == [0, 0, 1, 1]
    with pytest.raises(RunError, match=r"run1/config\.yaml"):
        load_runs(file.parent, config=True)
