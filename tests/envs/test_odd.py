"""What an odd environment returns is refused in one line that names it, or does no harm."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
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
    ("reward", "'1.5'", "box", "TypeError: Cannot cast scalar from dtype('<U3')"),
    ("reward", "None", "box", "TypeError: Cannot cast scalar from dtype('O')"),
    ("reward", "1 + 2j", "box", "TypeError: Cannot cast scalar from dtype('complex128')"),
    ("reward", "np.ones(2)", "box", "ValueError: cannot reshape array of size 2 into shape (1,)"),
    *[
        (part, value, "box", problem)
        for part in ("observation", "reset")
        for value, problem in {
            "np.zeros(4)": "ValueError: cannot reshape array of size 4 into shape (3,)",
            "0.0": "ValueError: cannot reshape array of size 1 into shape (3,)",
            "['0', '0', '0']": "TypeError: Cannot cast array data from dtype('<U1')",
            "[0, None, 0]": "TypeError: Cannot cast array data from dtype('O')",
            "[0, [1], 2]": "ValueError: setting an array element with a sequence",
        }.items()
    ],
    ("observation", "np.full((2, 2), 0.7)", "image", "dtype('float64') to dtype('uint8')"),
    *[
        ("observation", value, "index", f"the observation has {value}, wanted one of Discrete(3,")
        for value in ("0", "4", "2.5", "None", "'2'")
    ],
    ("observation", "np.array([2, 0])", "indices", "has array([2, 0]), wanted one of Multi"),
    ("observation", "{'at': np.zeros((2, 3))}", "parts", "KeyError: 'door'"),
    ("observation", "result[0] | {'door': -1}", "parts", "has -1, wanted one of Discrete"),
    ("observation", "result[0] | {'at': np.zeros((3, 3))}", "parts", "array of size 11 into shape"),
    ("observation", "(np.array([7]), '5')", "counted", "TypeError: unsupported operand"),
    ("observation", "(np.array([7]),)", "counted", "IndexError: tuple index out of range"),
    ("returned", "None", "box", "TypeError: cannot unpack non-iterable NoneType"),
    ("returned", "(*result, 1)", "box", "ValueError: too many values to unpack (expected 2"),
    ("step", "result[:4]", "box", "ValueError: not enough values to unpack (expected 5, got 4)"),
    ("step", "throw(SystemExit(0))", "box", "SystemExit: 0"),
    (
        "step",
        "setattr(self, 'observation_space', 3) or self.observation_space.shape",
        "box",
        "AttributeError: 'int' object has no attribute 'shape'",
    ),
]

# What is odd, its value, and the observation or reward that comes of it.
ACCEPTED: list[tuple[str, str, str, list[float] | None]] = [
    ("reward", "np.full((1, 1), 0.5)", "box", [0.5]),
    ("reward", "True", "box", [1.0]),
    ("terminated", "0", "box", None),
    ("truncated", "np.zeros(1, bool)", "box", None),
    ("truncated", "np.float64(0)", "box", None),
    ("observation", "np.full(3, 0.1)", "box", [np.float32(0.1)] * 3),
    ("observation", "[0, 1, 0]", "box", [0, 1, 0]),
    ("observation", "np.full((1, 1), 0.5)", "number", [0.5]),
    ("observation", "np.full((2, 2), 7, np.uint8)", "image", [7] * 4),
    ("observation", "np.int32(2)", "index", [0, 1, 0]),
    ("observation", "[np.array([7.0]), 101]", "counted", [7, 1]),
    ("returned", "(result[0], None)", "box", None),
    ("step", "list(result)", "box", None),
    ("info", "None", "box", None),
    ("info", "cyclic()", "box", None),
    ("info", "{'episode': self, 'final_observation': np.zeros(10**6)}", "box", None),
    ("info", "{'observation': 'x', 'terminated': None, 3: Unprintable()}", "box", None),
    ("reward", "print('\\0', end='') or 1.0", "box", [1.0]),
    ("reward", "change_folder()", "box", [1.0]),
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


@pytest.mark.parametrize("options", [{}, SERIAL])
@pytest.mark.parametrize(("odd", "value", "space", "gives"), ACCEPTED)
def test_what_does_no_harm_is_accepted(
    odd: str, value: str, space: str, gives: Any, options: Mapping[str, Any]
) -> None:
    plain = collect(options, space=space)
    batch = collect(options, odd=odd, value=value, space=space)
    if gives is not None:
        key = ("next", odd)
        assert batch[key][6].flatten().tolist() == gives
        plain[key][6] = batch[key][6]
    for key in ("observation", "reward", "terminated", "truncated"):
        assert torch.equal(batch["next", key], plain["next", key])
