"""What an odd environment returns is refused in one line that names it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule

from rlkit_sac.data import make_collector
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.envs.seeding import episode_seed
from rlkit_sac.errors import EnvironmentFault

SERIAL = {"num_envs": 2}

# What is odd, its value, and what the message of NumPy or Python says of it.
REFUSED = [
    ("reward", "None", "box", "TypeError: Cannot cast scalar from dtype('O')"),
    ("reward", "np.ones(2)", "box", "ValueError: cannot reshape array of size 2 into shape (1,)"),
    ("observation", "np.zeros(4)", "box", "cannot reshape array of size 4 into shape (3,)"),
    ("reset", "[0, None, 0]", "box", "TypeError: Cannot cast array data from dtype('O')"),
    ("observation", "np.full((2, 2), 0.7)", "image", "dtype('float64') to dtype('uint8')"),
    ("observation", "4", "index", "the observation has 4, wanted one of Discrete(3,"),
    ("returned", "None", "box", "TypeError: cannot unpack non-iterable NoneType"),
    ("step", "result[:4]", "box", "ValueError: not enough values to unpack (expected 5, got 4)"),
]


@pytest.fixture(autouse=True)
def _odd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``odd:Odd-v0`` an id, also for processes that are started."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    gym.registry.pop("Odd-v0", None)
    monkeypatch.chdir(Path(__file__).parent)  # and back, where an environment changes it


def act(step_count: torch.Tensor) -> torch.Tensor:
    return 0.1 * step_count.float()


def collect(options: Mapping[str, Any], **odd: str) -> TensorDictBase:
    """Two episodes of an environment, with the light collector where it can step it."""
    policy = TensorDictModule(act, ["step_count"], ["action"])
    with closing_env(make_env("odd:Odd-v0", seed=3, kwargs=odd, **options)) as env:
        if env.batch_size:
            return env.rollout(8, policy, break_when_any_done=False)[0]
        (batch,) = make_collector(env, policy, total_frames=8, frames_per_batch=8, kind="light")
        return batch


def refusal(options: Mapping[str, Any], **odd: str) -> str:
    with pytest.raises(EnvironmentFault) as error:
        collect(options, **odd)
    return str(error.value)


def check_refused(text: str, odd: str, problem: str) -> None:
    where = "the reset" if odd in ("reset", "returned") else "step 3"
    assert text.removeprefix("at the frames 1 to 8 of the run: ").startswith(
        "environment 0 raised "
    )
    assert problem in text
    assert text.endswith(f"in {where} of its episode 1 (reset seed {episode_seed(3, 0, 1)})")
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize(("odd", "value", "space", "problem"), REFUSED)
def test_what_is_not_as_declared_is_refused(odd: str, value: str, space: str, problem: str) -> None:
    check_refused(refusal({}, odd=odd, value=value, space=space), odd, problem)
    check_refused(refusal(SERIAL, odd=odd, value=value, space=space), odd, problem)
