"""``rlkit-sac video`` and ``rlkit-sac export`` on a run, by the functions of their files."""

import argparse
from pathlib import Path
from types import ModuleType

import pytest
import torch

from rlkit_sac.cli import export, video
from rlkit_sac.runs import load_policy
from tests.recipes.running import HYBRID


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of Platform-v0, which renders without another package."""
    folder = tmp_path_factory.mktemp("runs")
    few = ["--collector.total_frames", "160", "--evaluation.interval", "160"]
    return HYBRID.train("--env.id", "Platform-v0", "--logging.dir", str(folder), *few)


def call(command: ModuleType, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))


def test_a_policy_is_exported_into_its_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(export, str(run), "--format", "torch") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["observation", "float32", "[N,", "9]"]
    assert shown[-1].split() == ["file", str(run / "policy.pt2")]
    program = torch.export.load(run / "policy.pt2").module()
    actions = program(torch.zeros(1, 9))
    choice, boxes = load_policy(run).act(torch.zeros(9).numpy())
    assert actions[0].tolist() == [choice]
    assert [action.item() for action in actions[1:]] == pytest.approx([box.item() for box in boxes])


def test_videos_are_recorded_into_their_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--episodes", "2", "--format", "gif", "--which", "best"]
    assert call(video, str(run), *options) == 0
    lines = capsys.readouterr().out.splitlines()
    files = sorted((run / "videos").iterdir())
    assert [line.partition("  return ")[0] for line in lines] == [str(file) for file in files]
    assert files[0].name.startswith("step_160-episode_0-return_")
