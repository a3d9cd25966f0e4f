"""Runs whose tables are small and known, and what a page says of them."""

import html.parser
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.analysis import write_report

TASKS, RECIPES, SEEDS = ("Ant-v5", "Pole-v1"), ("acer", "sac"), range(3)
CONFIG = """\
env: {{id: {task}}}
loss: {{gamma: {gamma}}}
collector: {{total_frames: 1000}}
update: {{lr_actor: 0.001}}
seed: {seed}
"""


def write_run(folder: Path, recipe: str, task: str, seed: int, **description: object) -> Path:
    """A run of 1,000 frames, whose numbers come of its recipe, task and seed."""
    run = folder / recipe / task / f"seed{seed}"
    run.mkdir(parents=True)
    info = {
        "recipe": recipe,
        "task": task,
        "seed": seed,
        "status": "finished",
        "host": "lab",
        "versions": {"torch": "2.13.0"},
        "command": f"python {recipe}.py --seed {seed}",
        "started": "2026-01-01T00:00:00+00:00",
    }
    (run / "run.json").write_text(json.dumps(info | description))
    gamma = 0.99 if recipe == "sac" else 0.9
    (run / "config.yaml").write_text(CONFIG.format(task=task, gamma=gamma, seed=seed))
    random = np.random.default_rng([len(recipe), len(task), seed])
    frames = np.arange(100, 1001, 100)
    evaluations = {"frames": frames, "return_mean": random.normal(100, 30, len(frames))}
    pd.DataFrame({**evaluations, "seconds": frames * (1.0 + seed)}).to_csv(
        run / "evaluations.csv", index=False
    )
    ends = np.arange(7 + seed, 1001, 7 + seed)
    episodes = {"frames": ends, "return": random.normal(50, 10, len(ends)), "length": 7 + seed}
    episodes["terminated"] = np.where(random.random(len(ends)) < 0.5, "true", "false")
    pd.DataFrame({**episodes, "seconds": ends * 2.0}).to_csv(run / "episodes.csv", index=False)
    metrics = {"frames": frames, "updates": frames, "seconds": frames * 2.0}
    for name in ("frames_per_second", "alpha", "loss_qvalue", "q0_mean", "q0_max", "grad_norm_all"):
        metrics[name] = random.normal(1, 0.2, len(frames))
    metrics["alpha"][:2] = np.nan  # before learning starts
    pd.DataFrame(metrics).to_csv(run / "metrics.csv", index=False)
    return run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two recipes on two tasks, with three seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for task in TASKS:
        for recipe in RECIPES:
            for seed in SEEDS:
                write_run(folder, recipe, task, seed)
    return folder


@pytest.fixture(scope="session")
def page(runs: Path) -> Path:
    """The page about them."""
    path = runs / "pages" / "report.html"
    write_report(runs, path)
    return path


class Parsed(html.parser.HTMLParser):
    """The elements of a page, and the text in each kind of them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.elements[-1][0] if self.elements else "", data))
