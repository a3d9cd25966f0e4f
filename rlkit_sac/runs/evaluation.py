"""Evaluation of a policy without effect on the training it interrupts, and random streams."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.config import EnvConfig
from rlkit_sac.data import ActingLoop
from rlkit_sac.data.collect.collector import add_policy_states
from rlkit_sac.data.collect.frame import check_frames
from rlkit_sac.envs import make_env
from rlkit_sac.envs.adapted_env import adapted_task
from rlkit_sac.envs.torchrl_env import SUCCESS
from rlkit_sac.errors import RunError
from rlkit_sac.functional import weigh_rewards
from rlkit_sac.graph.preserve_state import random_state, set_random_state

_T = TypeVar("_T")
# Return [M] and length of an episode, and 1 or 0 for its success, -1 where that is unknown.
_Episode: TypeAlias = tuple[NDArray[Any], int, int]

#: Frames after which an evaluation gives up on an episode.
LONGEST_EPISODE = 100_000

_ENDLESS = (
    f"an episode did not end within {LONGEST_EPISODE:,} frames: give the environment a time limit "
    "(env.max_episode_steps)"
)

# The frames that are checked for NaN at once, which is faster than one by one.
_CHECKED_TOGETHER = 50

# This number marks the seeds of evaluations among those derived from a run's seed.
_EVALUATION = 1


@dataclass(frozen=True)
class EvaluationResult:
    """Undiscounted returns and lengths of the evaluated episodes.

    Args:
        returns: sum of rewards of each episode, float64 ``[episodes]``; a weighted sum of vector
            rewards.
        lengths: frames of each episode, int64 ``[episodes]``.
        returns_per_dimension: the returns of vector rewards, float64 ``[episodes, M]``.
        successes: whether each episode succeeded at its last step, if the task says so.

    >>> result = EvaluationResult(np.array([1.0, 3.0]), np.array([10, 20]))
    >>> result.row(frames=500, seconds=1.5)["return_mean"]
    2.0
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    returns_per_dimension: NDArray[np.float64] | None = None
    successes: NDArray[np.bool_] | None = None

    def row(self, frames: int, seconds: float) -> dict[str, Any]:
        """Return the row of ``evaluations.csv``.

        Args:
            frames: training frames so far.
            seconds: wall time since the run began.

        Returns:
            The columns; ``return_std`` is the population's (divided by ``episodes``).
        """
        vectors = self.returns_per_dimension
        return {
            "frames": frames,
            "episodes": len(self.returns),
            "return_mean": float(self.returns.mean()),
            **({} if vectors is None else per_dimension("return_mean", vectors.mean(0).tolist())),
            "return_std": float(self.returns.std()),
            "return_min": float(self.returns.min()),
            "return_max": float(self.returns.max()),
            "length_mean": float(self.lengths.mean()),
            **({} if self.successes is None else {"success_rate": float(self.successes.mean())}),
            "seconds": seconds,
            "returns": self.returns.tolist(),
        }


def per_dimension(name: str, values: Sequence[_T]) -> dict[str, _T]:
    """Return a column for each dimension of a vector reward; none for a scalar one.

    Args:
        name: the name of the columns, to which the number of the dimension is added.
        values: a value for each dimension.

    >>> per_dimension("return", [3.0, -1.0]), per_dimension("return", [3.0])
    ({'return_0': 3.0, 'return_1': -1.0}, {})
    """
    return {f"{name}_{m}": value for m, value in enumerate(values)} if len(values) > 1 else {}


def evaluation_env(task: EnvConfig, *, episodes: int, **options: Any) -> EnvBase:
    """Return the environment for evaluations.

    A task that steps several environments at once gets one for each episode.

    Args:
        task: the options of the task in evaluations.
        episodes: number of episodes of an evaluation.
        options: further arguments of :func:`~rlkit_sac.envs.make_env`.

    >>> evaluation_env(EnvConfig("torchrl.envs:PendulumEnv"), episodes=5).batch_size
    torch.Size([5])
    """
    env = make_env(task.id, **task.arguments(), **options)
    if adapted_task(env) is None or env.batch_locked or env.batch_size:
        return env
    env.close()
    return make_env(task.id, **task.arguments(), **options, num_envs=episodes)


def evaluate(
    policy: TensorDictModuleBase,
    env: EnvBase,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    reward_weights: torch.Tensor | None = None,
) -> EvaluationResult:
    """Run a policy for whole episodes in an environment of its own.

    The environment and all random generators are seeded afresh from ``seed``, so every call
    has the same initial states. Afterwards the generators of Python, NumPy and PyTorch and the
    training mode of each submodule are restored. Several environments are run in rounds of one
    episode each: taking whichever episodes end first would favor short ones. The memory of a policy
    lasts for an episode.

    Args:
        policy: the acting module.
        env: an environment for evaluations alone, on the policy's device: from
            :func:`~rlkit_sac.envs.make_env`, also with further transforms, or another environment
            of TorchRL. Returns are the sums of the task's own rewards in the entry
            ``episode_reward``; without such an entry, the sums of ``reward``.
        episodes: number of episodes, at least 1.
        seed: seed of the evaluation; choose another one than for training.
        deterministic: if true, act with the mode of the policy, otherwise with a sample.
        reward_weights: weights ``[M]`` of a vector reward; default ones.

    Raises:
        RunError: for an episode that does not end, and for NaN or infinity from the environment or
            the policy, with the frame of the episode.
        EnvironmentFault: for an exception inside the environment.

    >>> from rlkit_sac.envs import make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> env = make_env("Pendulum-v1", max_episode_steps=20)
    >>> actor = tanh_gaussian_actor(3, [-1.0], [1.0])
    >>> evaluate(actor, env, episodes=2, seed=1).lengths
    array([20, 20])
    """
    mode = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
    results: list[_Episode] = []
    num_envs = env.batch_size.numel()
    with (
        separate_random_streams(seed),
        _evaluation_mode(policy),
        set_exploration_type(mode),
        torch.no_grad(),
    ):
        if ActingLoop.can_run(env, policy):
            first_episodes = partial(_first_episodes, ActingLoop(env, policy))
        else:
            first_episodes = partial(
                _first_episodes_of_torchrl, add_policy_states(env, policy), policy
            )
        for done in range(0, episodes, num_envs):
            # Reseeding each round keeps its initial states the same, whatever the last round drew.
            env.set_seed(seed + done)
            try:
                ended = first_episodes(min(num_envs, episodes - done))
            except RunError as error:
                raise type(error)(f"in an evaluation: {error}") from error.__cause__
            results += [ended[index] for index in range(min(num_envs, episodes - done))]
    vectors = torch.tensor(np.stack([sums for sums, _, _ in results]), dtype=torch.float64)
    successes = np.array([success for _, _, success in results])
    weights = None if reward_weights is None else reward_weights.cpu().double()
    return EvaluationResult(
        weigh_rewards(vectors, weights).numpy(),
        np.array([length for _, length, _ in results], np.int64),
        vectors.numpy() if vectors.shape[-1] > 1 else None,
        successes > 0 if (successes >= 0).any() else None,
    )


def _first_episodes(loop: ActingLoop, count: int) -> dict[int, _Episode]:
    """Return the next episode of each of ``count`` environments."""
    ended: dict[int, _Episode] = {}
    keys = ("done", "episode_reward", "step_count", SUCCESS)
    done, sums, counts, successes = (loop.frame.arrays["next", key] for key in keys)

    def all_ended() -> bool:
        for index in np.flatnonzero(done).tolist():
            last = sums[index].copy(), int(counts[index, 0]), int(successes[index, 0])
            ended.setdefault(index, last)
        return all(index in ended for index in range(count))

    loop.reset()
    for first in range(0, LONGEST_EPISODE, _CHECKED_TOGETHER):
        loop.rollout(min(_CHECKED_TOGETHER, LONGEST_EPISODE - first), until=all_ended)
        if all_ended():
            return ended
    raise RunError(_ENDLESS)


def _first_episodes_of_torchrl(
    env: EnvBase, policy: TensorDictModuleBase, count: int
) -> dict[int, _Episode]:
    """Return the same as :func:`_first_episodes`, for an environment with transforms."""
    state, number = env.reset(), env.batch_size.numel()
    ended: dict[int, _Episode] = {}
    sums: Any = 0.0
    for step in range(1, LONGEST_EPISODE + 1):
        frame, state = env.step_and_maybe_reset(policy(state))
        check_frames(frame.unsqueeze(-1), env, policy)
        after = frame["next"]
        sums = sums + after["reward"].cpu().double()
        returns = after.get("episode_reward", sums).cpu().double().reshape(number, -1).numpy()
        successes = after.get(SUCCESS, torch.full((number,), -1)).reshape(number, -1)[:, 0].int()
        for index in after["done"].reshape(-1).nonzero().flatten().tolist():
            ended.setdefault(index, (returns[index].copy(), step, int(successes[index])))
        if all(index in ended for index in range(count)):
            return ended
    raise RunError(_ENDLESS)


@contextmanager
def _evaluation_mode(policy: torch.nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in policy.modules()}
    policy.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and PyTorch (all devices).

    Args:
        seed: a number from 0 to 2**32 - 1.

    >>> seed_everything(0)
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def evaluation_seed(seed: int) -> int:
    """Return the seed of a run's evaluations; training and other runs have other seeds.

    Args:
        seed: the seed of the run, from 0 to 2**32 - 1.

    >>> evaluation_seed(0), evaluation_seed(1)
    (3964924996, 1189033389)
    """
    return int(np.random.SeedSequence([seed, _EVALUATION]).generate_state(1)[0])


@contextmanager
def separate_random_streams(seed: int) -> Iterator[None]:
    """Seed all global generators for the block, and restore them afterwards.

    Args:
        seed: a number from 0 to 2**32 - 1.

    >>> seed_everything(0)
    >>> with separate_random_streams(1):
    ...     inside = random.random()
    >>> after = random.random()
    >>> seed_everything(0)
    >>> after == random.random()
    True
    """
    before = random_state()
    seed_everything(seed)
    try:
        yield
    finally:
        set_random_state(before)
