"""Policies with memory in both collectors: the state before and after each step, and resuming."""

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase

from rlkit_sac.data import make_collector
from rlkit_sac.data.collect.collector import LocalCollector
from rlkit_sac.envs import make_env
from rlkit_sac.modules import RandomBehavior
from tests.data.collect.kinds import BOTH, KINDS, Kind, of_kind
from tests.data.collect.test_light_collector import assert_same, batches_of
from tests.recurrent_policies import STATES, Cells, recurrent_categorical, recurrent_gaussian

CELLS = pytest.mark.parametrize("cells", STATES)
NUM_ENVS = pytest.mark.parametrize("num_envs", [1, 3])
TASKS = {"Pendulum-v1": recurrent_gaussian, "CartPole-v1": recurrent_categorical}


def collector_of(
    policy: TensorDictModuleBase,
    kind: Kind,
    *,
    task: str = "Pendulum-v1",
    num_envs: int = 1,
    random: int = 0,
    behavior: bool = False,
) -> LocalCollector:
    """Batches of five steps, and episodes of at most seven."""
    env = of_kind(make_env(task, num_envs=num_envs, max_episode_steps=7), kind)
    random_policy = RandomBehavior(env.full_action_spec_unbatched["action"]) if behavior else None
    return make_collector(
        env,
        policy,
        total_frames=40 * num_envs,
        frames_per_batch=5 * num_envs,
        init_random_frames=random * num_envs,
        random_policy=random_policy,
    )


def collect(
    make_policy: Callable[[], TensorDictModuleBase], kind: Kind, **options: object
) -> tuple[list[TensorDict], torch.Tensor]:
    """The batches of a run in which the parameters move after each, and the generator after it."""
    torch.manual_seed(0)
    policy = make_policy()
    collector = collector_of(policy, kind, **options)
    return batches_of(collector, policy)


def assert_alike(make_policy: Callable[[], TensorDictModuleBase], **options: object) -> None:
    (light, after), (wanted, wanted_after) = (
        collect(make_policy, kind, **options) for kind in KINDS
    )
    for found, expected in zip(light, wanted, strict=True):
        assert_same(found, expected)
    assert torch.equal(after, wanted_after)


@pytest.mark.parametrize("task", TASKS)
@NUM_ENVS
@CELLS
def test_both_collectors_carry_the_same_state(cells: Cells, num_envs: int, task: str) -> None:
    assert_alike(lambda: TASKS[task](cells), task=task, num_envs=num_envs, random=15)


@BOTH
@NUM_ENVS
@CELLS
def test_the_stored_state_is_that_of_the_frames_before(
    cells: Cells, num_envs: int, kind: Kind
) -> None:
    torch.manual_seed(0)
    policy = recurrent_gaussian(cells)
    collector = collector_of(policy, kind, num_envs=num_envs, random=15)
    frames = torch.cat([batch.reshape(num_envs, -1) for batch in collector], 1)
    collector.shutdown()
    state = {key: torch.zeros(num_envs, 1, 8) for key in STATES[cells]}
    steps = frames.select("observation", "prev_action", "is_init").unbind(1)
    for stored, step in zip(frames.unbind(1), steps, strict=True):
        # Zero where an episode begins, which the policy sees to itself.
        before = {
            key: torch.where(step["is_init"].unsqueeze(-1), 0, value)
            for key, value in state.items()
        }
        with torch.no_grad():
            policy(step.update(state))
        state = {key: step["next", key] for key in state}
        for key in state:
            torch.testing.assert_close(stored[key], before[key])
            torch.testing.assert_close(stored["next", key], state[key])
    assert frames["is_init"].sum() == 6 * num_envs


@BOTH
def test_random_frames_move_the_memory(kind: Kind) -> None:
    policy = recurrent_gaussian("gru")
    collector = collector_of(policy, kind, random=40)
    frames = torch.cat([batch.clone() for batch in collector])
    collector.shutdown()
    moved = frames["next", "actor_state"].flatten(1)
    assert moved.unique(dim=0).shape[0] == 40
    assert frames["loc"].unique().numel() == 40  # all that the policy writes but the action
    assert frames["action"].abs().max() > 0.9
    assert frames["action"].unique().numel() == 40
