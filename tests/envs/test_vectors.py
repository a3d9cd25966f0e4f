"""Several environments in one are those environments, or are refused by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase, GymEnv, GymWrapper, ParallelEnv, SerialEnv

from rlkit_sac.envs import make_env
from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.errors import ConfigError
from tests.envs.counter import SPACES, Counter

NUM, STEPS = 2, 14
MODES = [mode.value for mode in AutoresetMode]


def counter(kind: str, number: int, masked: bool) -> GymWrapper:
    return GymWrapper(Counter(kind, number, masked))


class InProcess(GymEnv):
    """TorchRL's vector of an id, without processes."""

    def _async_env(self, makers: Any, **_: Any) -> Any:
        return SyncVectorEnv(makers)


class Batch(EnvBase):
    """A simulator of TorchRL that resets the environments which ended."""

    def __init__(self, kind: str, masked: bool) -> None:
        super().__init__(batch_size=[NUM], device="cpu")
        self.envs = [Counter(kind, number, masked) for number in range(NUM)]

        def spec(space: Any) -> Any:
            if isinstance(space, gym.spaces.Dict):
                parts = {key: spec(part) for key, part in space.items()}
                return Composite(parts, shape=[NUM])
            if isinstance(space, gym.spaces.Discrete):
                return Categorical(int(space.n), (NUM,))
            return Unbounded((NUM, *space.shape))

        seen = spec(SPACES[kind])
        seen = seen if isinstance(seen, Composite) else Composite(observation=seen, shape=[NUM])
        if masked:
            seen["action_mask"] = Bounded(0, 1, (NUM, 3), dtype=torch.int8)
        self.observation_spec = seen
        self.full_action_spec = Composite(action=Categorical(3, (NUM,)), shape=[NUM])
        self.reward_spec = Unbounded((NUM, 1), dtype=torch.float64)
        flag = Categorical(2, (NUM, 1), dtype=torch.bool)
        names = ("done", "terminated", "truncated")
        self.full_done_spec = Composite(dict.fromkeys(names, flag), shape=[NUM])

    def _set_seed(self, seed: int | None) -> None:
        for number, env in enumerate(self.envs):
            env.reset(seed=number)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        begins = torch.ones(NUM, 1) if tensordict is None else tensordict.get("_reset", None)
        for number in range(NUM) if begins is None else begins[:, 0].nonzero()[:, 0].tolist():
            self.envs[number].reset()
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        actions = zip(self.envs, tensordict["action"].tolist(), strict=True)
        _, rewards, terminated, truncated, _ = zip(
            *(env.step(a) for env, a in actions), strict=True
        )
        after = self._seen()
        after["reward"] = torch.tensor(rewards, dtype=torch.float64)[:, None]
        after["terminated"] = torch.tensor(terminated)[:, None]
        after["truncated"] = torch.tensor(truncated)[:, None]
        after["done"] = after["terminated"] | after["truncated"]
        return after

    def _seen(self) -> TensorDictBase:
        rows = []
        for env in self.envs:
            seen = env._seen()
            entries = {**(seen if isinstance(seen, dict) else {"observation": seen})}
            if env.masked:
                entries |= env._info()
            rows.append(TensorDict(entries))
        return torch.stack(rows)


def made_by(source: str, mode: str, kind: str, masked: bool) -> Any:
    makers = [partial(Counter, kind, number, masked) for number in range(NUM)]
    wrapped = [partial(counter, kind, number, masked) for number in range(NUM)]
    env_id = f"Counter-{kind.replace(' ', '-')}-v0"
    options = {"vector_kwargs": {"autoreset_mode": mode}, "masked": masked}
    made: dict[str, Callable[[], Any]] = {
        "SyncVectorEnv": lambda: SyncVectorEnv(makers, autoreset_mode=mode),
        "AsyncVectorEnv": lambda: AsyncVectorEnv(makers, autoreset_mode=mode),
        "make_vec": lambda: gym.make_vec(env_id, NUM, **options),
        "GymEnv": lambda: InProcess(env_id, num_envs=NUM, masked=masked),
        "GymEnv in processes": lambda: GymEnv(env_id, num_envs=NUM, masked=masked),
        "SerialEnv": lambda: SerialEnv(NUM, wrapped),
        "ParallelEnv": lambda: ParallelEnv(NUM, wrapped),
        "EnvBase": lambda: Batch(kind, masked),
    }
    return made[source]()


def refused(source: str, mode: str, kind: str, masked: bool) -> str | None:
    """What the error names; None where the environment is right."""
    of_torchrl = source in ("SerialEnv", "ParallelEnv", "EnvBase")
    if source.startswith("GymEnv") and kind != "Box":
        return "last observations in the autoreset mode|could not be created"  # by TorchRL
    if not of_torchrl and (source.startswith("GymEnv") or mode != "Disabled"):
        return "last observations in the autoreset mode"
    if "Tuple" in kind:
        return "parts of a Tuple"
    return "masks of actions in info" if masked and source != "EnvBase" else None


def replayed(
    kind: str, number: int, actions: list[int], first: torch.Tensor
) -> list[tuple[Any, ...]]:
    """The same episodes in a single environment, each from the first state that was observed."""
    env, convert = Counter(kind, number), ObservationConversion(SPACES[kind])
    outcomes: list[tuple[Any, ...]] = []
    for step, action in enumerate(actions):
        if not outcomes or outcomes[-1][-1]:
            starts = [convert(env.reset(options={"start": n})[0])["observation"] for n in range(4)]
            (start,) = np.flatnonzero((np.stack(starts) == first[step].numpy()).all(-1))
            env.reset(options={"start": int(start)})
            total = 0.0
        seen, reward, terminated, truncated, _ = env.step(action)
        total += reward
        ended = terminated or truncated
        outcomes.append((convert(seen)["observation"], reward, total, terminated, truncated, ended))
    return outcomes


def check(source: str, mode: str, kind: str, masked: bool) -> None:
    make = partial(made_by, source, mode, kind, masked)
    if (words := refused(source, mode, kind, masked)) is not None:
        with pytest.raises(ConfigError, match=words):
            make_env(make)
        return
    env = make_env(make, seed=3)
    frames = env.rollout(STEPS, break_when_any_done=False)
    env.close(raise_if_closed=False)
    assert ("action_mask" in frames.keys()) == masked  # noqa: SIM118
    names = ("observation", "reward", "episode_reward", "terminated", "truncated", "done")
    for number in range(NUM):
        first, actions = frames["observation"][number], frames["action"][number].tolist()
        alike = 0 if source == "make_vec" else number
        wanted = zip(*replayed(kind, alike, actions, first), strict=True)
        for name, values in zip(names, wanted, strict=True):
            found = frames["next", name][number].numpy()
            np.testing.assert_array_equal(found, np.array(values, found.dtype).reshape(found.shape))
        follows = ~frames["next", "done"][number, :-1, 0]
        assert torch.equal(frames["next", "observation"][number, :-1][follows], first[1:][follows])


@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
@pytest.mark.parametrize("masked", [False, True], ids=["", "masks in info"])
@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("source", ["SyncVectorEnv", "make_vec", "GymEnv", "SerialEnv", "EnvBase"])
def test_several_are_single_environments_or_refused(source: str, kind: str, masked: bool) -> None:
    if source == "EnvBase" and "Tuple" in kind:
        return  # which specs do not have
    for mode in MODES if source in ("SyncVectorEnv", "make_vec") else [""]:
        check(source, mode, kind, masked)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["AsyncVectorEnv", "GymEnv in processes", "ParallelEnv"])
@pytest.mark.parametrize("kind", ["Dict", "Tuple"])
def test_processes_are_single_environments_or_refused(source: str, kind: str) -> None:
    for masked in (False, True):
        check(source, "Disabled", kind, masked)
