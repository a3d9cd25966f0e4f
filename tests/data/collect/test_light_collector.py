"""The light collector against TorchRL's, with the same environments, policy and seed."""

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.modules import ProbabilisticActor

from rlkit_sac.data import make_collector
from rlkit_sac.data.collect.collector import LightCollector, LocalCollector
from rlkit_sac.envs import make_env
from rlkit_sac.modules import categorical_actor, tanh_gaussian_actor
from tests.data.collect.kinds import Kind, of_kind
from tests.runs.policies import discrete, hybrid


def gaussian(observations: int, actions: int) -> TensorDictModuleBase:
    return tanh_gaussian_actor(observations, [-1.0] * actions, [1.0] * actions, num_cells=[8])


def with_log_density() -> ProbabilisticActor:
    actor = gaussian(3, 1)
    return ProbabilisticActor(
        actor.module[0],
        in_keys=["loc", "scale"],
        distribution_class=actor.module[1].distribution_class,
        return_log_prob=True,
    )


# Episodes that a time limit ends, that end by themselves, and both.
TASKS: dict[str, tuple[str, int | None, Callable[[], TensorDictModuleBase]]] = {
    "time limit": ("Pendulum-v1", 7, lambda: gaussian(3, 1)),
    "mujoco": ("Hopper-v5", None, lambda: gaussian(11, 3)),
    "discrete": ("CartPole-v1", 11, lambda: discrete(4).policy()),
    "categorical": ("CartPole-v1", None, lambda: categorical_actor(4, 2, num_cells=[8])),
    "hybrid": ("Platform-v0", 3, lambda: hybrid(9, low=[-1.0] * 3, num_actions=3).policy()),
    "log-density": ("Pendulum-v1", 7, with_log_density),
}


def collect(
    kind: Kind, task: str, *, num_envs: int, steps: int, frames: int, random: int = 0
) -> tuple[list[TensorDict], torch.Tensor]:
    """Batches of a run in which the parameters move after each, and the generator after it."""
    name, limit, make_policy = TASKS[task]
    torch.manual_seed(0)
    policy = make_policy()
    collector = make_collector(
        of_kind(make_env(name, num_envs=num_envs, max_episode_steps=limit, seed=1), kind),
        policy,
        total_frames=frames * num_envs,
        frames_per_batch=steps * num_envs,
        init_random_frames=random * num_envs,
    )
    assert isinstance(collector, LightCollector) == (kind == "light")
    return batches_of(collector, policy)


def move(policy: nn.Module) -> None:
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


def batches_of(
    collector: LocalCollector, policy: nn.Module
) -> tuple[list[TensorDict], torch.Tensor]:
    """The batches of a policy whose parameters move after each, and the generator after it."""
    torch.manual_seed(1)
    batches = []
    for batch in collector:
        batches.append(batch.clone())
        move(policy)
    collector.shutdown()
    return batches, torch.get_rng_state()


def assert_same(found: TensorDict, wanted: TensorDict) -> None:
    assert found.batch_size == wanted.batch_size
    assert found.device == wanted.device
    assert set(found.keys(True)) == set(wanted.keys(True))
    for key, value in wanted.items(True, True):
        assert found[key].dtype == value.dtype, key
        assert found[key].shape == value.shape, key
        assert torch.equal(found[key], value), key


@pytest.mark.parametrize(
    ("num_envs", "steps"),
    [
        (1, 1),
        (3, 5),
        pytest.param(1, 5, marks=pytest.mark.slow),
        pytest.param(3, 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("task", TASKS)
def test_frames_are_those_of_torchrls_collector(task: str, num_envs: int, steps: int) -> None:
    options = {"num_envs": num_envs, "steps": steps, "frames": 60, "random": 10}
    light, after = collect("light", task, **options)
    wanted, wanted_after = collect("torchrl", task, **options)
    assert len(light) == len(wanted)
    for found, expected in zip(light, wanted, strict=True):
        assert_same(found, expected)
    assert torch.equal(after, wanted_after)
    ends = torch.cat([batch["next", "done"].flatten() for batch in wanted])
    assert ends.any()  # or the beginning of another episode would not have been compared
