from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

from rlkit_sac.envs import check_env, make_env
from rlkit_sac.errors import ConfigError

MODULE = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

class Heavy(PendulumEnv):
    def __init__(self, mass: float = 1.0):
        super().__init__()
        if mass <= 0:
            raise ValueError("mass must be positive")
        self.m = mass

gymnasium.register("Heavy-v0", entry_point=Heavy, max_episode_steps=5)
"""


@pytest.fixture
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "heavy_pendulum.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "heavy_pendulum", raising=False)
    gym.registry.pop("Heavy-v0", None)
    return "heavy_pendulum:Heavy-v0"


def message(env_id: str, **options: object) -> str:
    with pytest.raises(ConfigError) as error:
        make_env(env_id, **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("Pendulun-v1", ["unknown environment 'Pendulun-v1'", "Did you mean: `Pendulum`"]),
        ("Pendulum-v9", ["version `v9`", "versioned environments: [ `v1` ]"]),
        ("Pendulum", ["unknown environment 'Pendulum'"]),
        ("Qqqqqqqq-v0", ["unknown environment 'Qqqqqqqq-v0'", "module:Name-v0"]),
        ("not an id", ["Malformed environment ID: not an id"]),
        ("no_such_module:X-v0", ["cannot import the module 'no_such_module'", "installed"]),
        ("json:X-v0", ["unknown environment 'json:X-v0'"]),
        (".mod:Env-v0", ["cannot import the module '.mod'", "TypeError: "]),
        ("HalfCheetah-v2", ["HalfCheetah-v2 could not be created", "gymnasium-robotics"]),
    ],
)
def test_an_id_that_does_not_work_is_explained(env_id: str, words: list[str]) -> None:
    text = message(env_id)
    for word in words:
        assert word in text
    with pytest.raises(ConfigError):
        check_env(env_id)


@pytest.mark.parametrize(
    ("env_id", "package", "extra"),
    [("HalfCheetah-v5", "mujoco", "mujoco"), ("LunarLanderContinuous-v3", "Box2D", "box2d")],
)
def test_a_missing_simulator_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, env_id: str, package: str, extra: str
) -> None:
    for name in list(sys.modules):
        if name.startswith((f"gymnasium.envs.{extra}", f"{package}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    assert message(env_id).endswith(f": pip install 'rlkit_sac[{extra}]'")


def test_a_module_in_the_id_is_imported(heavy: str) -> None:
    env = make_env(heavy, kwargs={"mass": 2.0})
    assert env.base_env._env.unwrapped.m == 2.0
    assert env.rollout(9)["next", "truncated"].flatten().tolist() == [False] * 4 + [True]


def test_wrong_arguments_of_the_environment_are_named(heavy: str) -> None:
    assert "unexpected keyword argument 'weight'" in message(heavy, kwargs={"weight": 2.0})
    assert "ValueError: mass must be positive" in message(heavy, kwargs={"mass": -1})


def test_a_module_that_fails_is_reported_with_its_reason(heavy: str, tmp_path: Path) -> None:
    (tmp_path / "heavy_pendulum.py").write_text("import json.nothing")
    assert "'heavy_pendulum'" in (text := message(heavy))
    assert "No module named 'json.nothing'" in text


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def (", "SyntaxError: "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise SystemExit", "SystemExit; the module"),
        ("raise ValueError('one\\ntwo')", "ValueError: one two"),
        ("raise ValueError('\\ud800\\x1b[31m')", "ValueError: \\ud800\\x1b[31m"),
    ],
)
def test_whatever_a_module_does_on_import_is_one_line(
    heavy: str, tmp_path: Path, code: str, reason: str
) -> None:
    (tmp_path / "heavy_pendulum.py").write_text(code)
    text = message(heavy)
    assert text.startswith("cannot import the module 'heavy_pendulum' of environment")
    assert reason in text


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(4)", "Heavy-v0 could not be created: SystemExit: 4"),
        ("return None", "Heavy-v0 could not be created: TypeError: "),
        ("return gym.Env()", "Heavy-v0: AttributeError: "),
    ],
)
def test_whatever_making_an_environment_does_is_one_line(
    heavy: str, tmp_path: Path, code: str, reason: str
) -> None:
    text = f"import gymnasium as gym\ndef make():\n    {code}\n"
    text += "gym.register('Heavy-v0', entry_point=make, max_episode_steps=5)\n"
    (tmp_path / "heavy_pendulum.py").write_text(text)
    assert message(heavy).startswith(reason)


def test_an_unknown_render_mode_is_named() -> None:
    text = message("Pendulum-v1", render_mode="ascii")
    assert "cannot render in mode 'ascii'; its modes are 'human', 'rgb_array'" in text


@pytest.mark.parametrize("option", [{"num_envs": 0}, {"seed": -1}, {"max_episode_steps": 0}])
def test_numbers_out_of_range_are_named(option: dict[str, int]) -> None:
    ((name, value),) = option.items()
    assert message("Pendulum-v1", **option).startswith(f"{name} is {value}; it must be at least")


def test_several_environments_fail_like_one() -> None:
    text = message("Pendulum-v1", num_envs=2, kwargs={"gravity": 1})
    assert text == message("Pendulum-v1", kwargs={"gravity": 1})
