"""A copy of a recipe with other networks, as its user runs it: nothing is lost by the change."""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from rlkit_sac.envs import make_env
from rlkit_sac.errors import RunError
from rlkit_sac.modules import NormalizedPolicy, ObservationNormalizer
from rlkit_sac.runs import evaluate, evaluation_seed, load_policy, read_config
from tests.processes import Process
from tests.recipes.loading import RECIPES
from tests.reliability.runs import SHORT, assert_same_run

OPTIONS = [*SHORT, "--compile", "false", "--collector.total_frames", "250"]
OPTIONS += ["--normalization.observations", "true", "--normalization.clip", "null"]

ACTOR = """    actor = runs.build_network(
        config.network,
        tanh_gaussian_actor,
        observation_dim=runs.observation_inputs(config.network, env),
        memory=memory,
        action_low=action_low,
        action_high=action_high,
        **config.network.actor_arguments(),
    ).to(device)
"""
OPTIMIZER = "Adam(group, lr=learning_rates[name], eps=config.update.adam_eps, fused=fused)"

# What a user writes: a function for the actor, which the recipe and later programs call.
OWN_NETWORK = '''
class Waves(torch.nn.Module):
    """Sines of the observation, and the parameters of a Gaussian."""

    def __init__(self, observation_dim, action_dim):
        super().__init__()
        self.frequencies = torch.nn.Parameter(torch.randn(observation_dim, 12))
        self.head = torch.nn.Linear(12, 2 * action_dim)

    def forward(self, observation):
        loc, log_std = self.head((observation @ self.frequencies).sin()).chunk(2, -1)
        return loc, log_std.clamp(-5, 2).exp()


def make_actor(observation_dim, low, high):
    return ProbabilisticActor(
        TensorDictModule(Waves(observation_dim, len(low)), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        spec=Bounded(torch.tensor(low), torch.tensor(high), shape=(len(low),)),
        distribution_class=TanhGaussian,
    )
'''
IMPORTS = """
import torch
from tensordict.nn import TensorDictModule
from torch.optim import RMSprop
from torchrl.data import Bounded
from torchrl.modules import ProbabilisticActor

from rlkit_sac.modules import TanhGaussian
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A copy of sac.py with another actor and another optimizer."""
    text = (RECIPES / "sac.py").read_text()
    for old, new in {
        ACTOR: "    actor = make_actor(3, action_low, action_high).to(device)\n",
        OPTIMIZER: "RMSprop(group, lr=learning_rates[name])",
        "\n\n@dataclass\n": f"\n\n{OWN_NETWORK}\n\n@dataclass\n",
        "from torch.optim import Adam\n": IMPORTS,
        'recipe="sac"': 'recipe="waves"',
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "waves.py"
    path.write_text(text)
    return path


def start(recipe: Path, *arguments: str) -> Process:
    environment = os.environ | {"PYTHONPATH": str(RECIPES.parent), "OMP_NUM_THREADS": "1"}
    return Process(recipe, *arguments, cwd=recipe.parent, env=environment)


def imported(recipe: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("waves", recipe)
    module = importlib.util.module_from_spec(spec)
    sys.modules["waves"] = module  # where dataclasses look up their types
    spec.loader.exec_module(module)
    return module


def test_a_copied_recipe_trains_is_killed_resumes_evaluates_and_loads(recipe: Path) -> None:
    folder = recipe.parent
    with start(recipe, *OPTIONS) as process:
        while process.poll() is None and not list(folder.glob("runs/*/*/*/checkpoints/step_*")):
            time.sleep(0.01)
        alive = process.poll() is None
        process.kill()
        assert alive, process.stderr.read()
    (run,) = folder.glob("runs/waves/Pendulum-v1/*")
    assert json.loads((run / "run.json").read_text())["status"] == "running"

    with start(recipe, "--resume", str(run)) as process:
        _, error = process.communicate()
        assert process.returncode == 0, error
    assert json.loads((run / "run.json").read_text())["exact"] is True
    module = imported(recipe)
    options = [*OPTIONS, "--logging.dir", str(folder / "whole")]
    assert_same_run(module.main(read_config(module.SACConfig, options)), run)

    with pytest.raises(RunError, match="into=policy"):
        load_policy(run)
    actor = module.make_actor(3, [-1.0], [1.0])
    mine = NormalizedPolicy(actor, ObservationNormalizer(3, clip=None))
    assert load_policy(run, into=mine) is mine
    last = json.loads(pd.read_csv(run / "evaluations.csv")["returns"].iloc[-1])
    env = make_env("Pendulum-v1")
    assert evaluate(mine, env, episodes=1, seed=evaluation_seed(0)).returns.tolist() == last
    (action,) = mine.act(np.array([1.0, 0.0, 0.0]))
    assert -2 <= action <= 2
