"""Workers in this process: together they collect the frames of one process."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlkit_sac.data import make_collector
from rlkit_sac.data.workers.worker import Worker, load_policy_values, policy_values
from rlkit_sac.envs import make_env, save_episodes
from tests.data.collect.test_light_collector import TASKS, batches_of, move
from tests.recurrent_policies import recurrent_gaussian

MEMORY = ("Pendulum-v1", 7, lambda: recurrent_gaussian("gru"))
POLICIES = {**TASKS, "memory": MEMORY}
STEPS, BATCHES, RANDOM = 5, 5, 2


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def of_one_process(
    create_env: Callable[..., Any], policy: TensorDictModuleBase, num_envs: int, **options: Any
) -> tuple[list[TensorDict], torch.Tensor]:
    collector = make_collector(
        create_env(num_envs=num_envs, first_index=0),
        policy,
        total_frames=STEPS * BATCHES * num_envs,
        frames_per_batch=STEPS * num_envs,
        **options,
    )
    return batches_of(collector, policy)


def of_workers(
    create_env: Callable[..., Any],
    policies: list[TensorDictModuleBase],
    num_envs: int,
    *,
    reload_at: int | None = None,
    **options: Any,
) -> tuple[list[dict[Any, torch.Tensor]], torch.Tensor]:
    """The first policy is that of the learner."""
    learner, *others = policies

    def make() -> list[Worker]:
        return [
            Worker(
                partial(create_env, num_envs=num_envs),
                policy,
                index=index,
                num_envs=num_envs,
                joined=len(others),
                frames_per_batch=STEPS * num_envs,
                **options,
            )
            for index, policy in enumerate(others)
        ]

    torch.manual_seed(1)
    workers, batches = make(), []
    for number in range(BATCHES):
        if number == reload_at:
            states = [worker.state_dict() for worker in workers]
            workers = make()
            for worker, state in zip(workers, states, strict=True):
                assert not worker.load_state_dict(state)
        values, generator = policy_values(learner), torch.get_rng_state().numpy()
        frames = number * STEPS * num_envs * len(others)
        parts, after = zip(
            *(worker.collect(frames, generator, values) for worker in workers), strict=True
        )
        assert np.array_equal(after[0], after[1])
        torch.set_rng_state(torch.tensor(after[0]))
        joint = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        batches.append({key: torch.tensor(value) for key, value in joint.items()})
        move(learner)
    for worker in workers:
        worker.shutdown()
    return batches, torch.get_rng_state()


def assert_equal(create_env: Any, make: Callable[[], Any], num_envs: int, **options: Any) -> None:
    torch.manual_seed(0)
    learner = make()
    torch.manual_seed(0)
    policies = [make() for _ in range(3)]
    load_policy_values(policies[0], policy_values(learner))
    reload_at = options.pop("reload_at", None)
    wanted, after = of_one_process(create_env, learner, 2 * num_envs, **options)
    found, own_after = of_workers(create_env, policies, num_envs, reload_at=reload_at, **options)
    for batch, expected in zip(found, wanted, strict=True):
        for key, value in expected.exclude("collector").items(True, True):
            assert torch.equal(batch[key], value), key
    assert torch.equal(own_after, after)
    assert torch.cat([batch["next", "done"] for batch in wanted]).any()


QUICK = [("time limit", 2), ("hybrid", 1), ("categorical", 2), ("memory", 1)]
CASES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)
    for case in product(POLICIES, [1, 2])
]


@pytest.mark.parametrize(("task", "num_envs"), CASES)
def test_two_workers_collect_the_frames_of_one_process(task: str, num_envs: int) -> None:
    name, limit, make = POLICIES[task]
    create_env = partial(make_env, name, max_episode_steps=limit or 11, seed=1)
    random = RANDOM * STEPS * 2 * num_envs
    assert_equal(create_env, make, num_envs, init_random_frames=random)


def test_they_continue_in_the_middle_of_an_episode() -> None:
    create_env = partial(make_env, "Pendulum-v1", max_episode_steps=7, seed=1)
    assert_equal(create_env, MEMORY[2], 2, reload_at=2)


def test_parameters_and_buffers_travel() -> None:
    source, target = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    source(torch.randn(9, 3))
    load_policy_values(target, policy_values(source))
    for found, wanted in zip(
        target.state_dict().values(), source.state_dict().values(), strict=True
    ):
        assert torch.equal(found, wanted)


def test_a_worker_made_anew_begins_the_next_episodes() -> None:
    made = []

    def create_env(first_index: int) -> Any:
        made.append(make_env("Pendulum-v1", num_envs=2, first_index=first_index))
        return made[0]

    Worker(
        create_env,
        TASKS["time limit"][2](),
        index=3,
        num_envs=2,
        frames_per_batch=2,
        episodes=[4, 0],
    ).state_dict()
    assert [saved["episode"] for saved in save_episodes(made[0])] == [4, 0]
