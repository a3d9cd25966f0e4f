import pytest

from rlkit_sac.envs import check_env, make_env
from rlkit_sac.errors import ConfigError


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
