"""A recorded policy against the policy itself: the same bits, the same random numbers."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlkit_sac.data.collect.recorded_policy import RecordedPolicy
from rlkit_sac.modules import action_value_critic, categorical_actor, tanh_gaussian_actor
from rlkit_sac.objectives import DiscreteSACLoss
from tests.data.collect.test_light_collector import move
from tests.runs.policies import discrete, hybrid

POLICIES = {
    "continuous": lambda: tanh_gaussian_actor(3, [-1.0, -2.0], [1.0, 2.0]),
    "boltzmann": lambda: discrete(3, num_actions=4).policy(),
    "categorical": lambda: categorical_actor(3, 4),
    "epsilon": lambda: discrete(3, num_actions=4).policy(epsilon=0.5),
    "hybrid": lambda: hybrid(3, low=[-1.0, -5.0], num_actions=4).policy(),
}
MODES = [ExplorationType.RANDOM, ExplorationType.DETERMINISTIC]


def assert_same(recorded: RecordedPolicy, policy, batch_size: list[int], seed: int) -> None:
    observation = torch.randn(*batch_size, 3)
    torch.manual_seed(seed)
    found = recorded({"observation": observation})
    after = torch.get_rng_state()
    torch.manual_seed(seed)
    with torch.no_grad():
        wanted = policy(TensorDict(observation=observation, batch_size=batch_size))
    assert torch.equal(after, torch.get_rng_state())
    assert set(found) == set(wanted.keys(True, True)) - {"observation"}
    for key, value in found.items():
        assert value.dtype == wanted[key].dtype
        assert torch.equal(value, wanted[key])


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("batch_size", [[], [1], [5]], ids=str)
@pytest.mark.parametrize("kind", POLICIES)
def test_it_acts_as_the_policy(kind: str, batch_size: list[int], mode: ExplorationType) -> None:
    policy = POLICIES[kind]()
    recorded = RecordedPolicy(policy, batch_size)
    with set_exploration_type(mode):
        for seed in range(4):
            assert_same(recorded, policy, batch_size, seed)
            move(policy)


def test_it_follows_the_exploration_type_and_the_weights_of_rewards() -> None:
    loss = DiscreteSACLoss(action_value_critic(3, 4, reward_dim=2), reward_weights=[1.0, 0.5])
    policy = loss.policy()
    recorded = RecordedPolicy(policy, [64])
    for mode in (*MODES, *MODES):
        for weights in ([1.0, 0.5], [0.0, -3.0]):
            loss.reward_weights = weights
            with set_exploration_type(mode):
                assert_same(recorded, policy, [64], seed=0)
