"""``--config`` with the name of a file that a recipe comes with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlkit_sac.errors import ConfigError
from rlkit_sac.runs import read_config
from tests.recipes.loading import config_files, load_recipe


def task(*given: str) -> str:
    options = [part for name in given for part in ("--config", name)]
    return read_config(load_recipe("sac").SACConfig, options).env.id


def test_a_name_is_enough() -> None:
    assert task("halfcheetah") == "HalfCheetah-v5"
    assert task("halfcheetah.yaml") == "HalfCheetah-v5"
    assert task("recipes/configs/sac/halfcheetah.yaml") == "HalfCheetah-v5"
    assert task("halfcheetah", "hopper") == "Hopper-v5"


def test_a_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hopper").write_text("env: {id: Ant-v5}")
    assert task("hopper") == "Ant-v5"
    Path("halfcheetah").mkdir()  # of results, say
    assert task("halfcheetah") == "HalfCheetah-v5"


@pytest.mark.parametrize(
    "given", ["halfcheeta", "elsewhere/halfcheetah", "configs/halfcheeta.yaml"]
)
def test_other_names_are_told_what_there_is(given: str) -> None:
    with pytest.raises(ConfigError) as refused:
        task(given)
    message = str(refused.value)
    assert message.startswith(f"--config: there is no file {given}, and no configuration of this")
    assert "; did you mean halfcheetah? sac.py comes with halfcheetah, " in message
    assert all(file.stem in message for file in config_files("sac"))
