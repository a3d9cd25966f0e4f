"""Training ends at the soft-optimal policy, where that is known in closed form.

Rewards of one-step bandits are made from the policy wanted: with r(c, k) = alpha_c log p(c) +
alpha_d log w(k|c), the optimum of E[r] plus the entropies is p and w themselves.
"""

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import SoftUpdate

from rlkit_sac.modules import TanhGaussian
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss

LOC, SCALE = 0.4, 0.5  # of the policy over c that is wanted
REWARDS = torch.tensor([0.3, -0.2, 0.5])
ALPHA_C, ALPHA_D = 0.3, 0.5


def wanted_log_density(c: Tensor) -> Tensor:
    return TanhGaussian(torch.full_like(c, LOC), torch.full_like(c, SCALE)).log_prob(c)


def wanted_discrete(c: Tensor) -> Tensor:
    """Log-probabilities of two discrete actions, of which c decides."""
    return torch.cat([nn.functional.logsigmoid(2 * c), nn.functional.logsigmoid(-2 * c)], -1)


def features(c: Tensor) -> Tensor:
    inside = c.clamp(-0.999, 0.999)
    u, slope = inside.atanh(), (1 - inside.square()).log()
    return torch.cat([torch.ones_like(c), u, u.square(), slope, wanted_discrete(c)], -1)


class Linear(nn.Module):
    """Values linear in features that can express every reward of these bandits."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(6, outputs, bias=False)
        grid = features(torch.linspace(-0.99, 0.99, 1000).double().unsqueeze(-1))
        _, scales, axes = torch.linalg.svd(grid, full_matrices=False)
        self.register_buffer("whitening", (axes.T / scales * 1000**0.5).float())

    def forward(self, observation: Tensor, c: Tensor) -> Tensor:
        return self.layer(features(c) @ self.whitening)


class Constant(nn.Module):
    """One row of numbers for every state."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.zeros(outputs))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.row, std=0.1)

    def forward(self, observation: Tensor) -> Tensor:
        return self.row.expand(*observation.shape[:-1], -1)


class LocAndScale(Constant):
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        loc, log_scale = super().forward(observation).chunk(2, -1)
        return loc, log_scale.exp()


def gaussian_actor(key) -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(LocAndScale(2), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=[key],
        spec=Bounded(-1.0, 1.0, (1,)),
        distribution_class=TanhGaussian,
    )


def train(loss, make_batch, steps: int, rate: float = 5e-2) -> None:
    optimizer = torch.optim.Adam(loss.parameters(), rate)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 - step / steps) ** 2)
    updater = SoftUpdate(loss, tau=0.05)
    for _ in range(steps):
        out = loss(make_batch())
        sum(value for name, value in out.items() if name.startswith("loss")).backward()
        optimizer.step()
        optimizer.zero_grad()
        decay.step()
        updater.step()


def one_step(action, reward: Tensor) -> TensorDict:
    size = [len(reward)]
    ones, over = torch.ones(*size, 1), torch.ones(*size, 1, dtype=torch.bool)
    following = TensorDict(
        observation=ones, reward=reward, done=over, terminated=over, batch_size=size
    )
    return TensorDict(observation=ones, action=action, next=following, batch_size=size)


def some_actions(size: int = 512) -> Tensor:
    return torch.rand(size, 1) * 1.98 - 0.99


def some_choices() -> TensorDict:
    index = torch.randint(3, (32,))
    return one_step(index, REWARDS[index].unsqueeze(-1))


@pytest.mark.parametrize("with_actor", [False, True])
def test_discrete(with_actor):
    torch.manual_seed(0)
    actor = None
    if with_actor:
        actor = ProbabilisticActor(
            TensorDictModule(Constant(3), ["observation"], ["logits"]),
            in_keys=["logits"],
            spec=CategoricalSpec(3),
            distribution_class=Categorical,
        )
    critic = TensorDictModule(Constant(3), ["observation"], ["action_value"])
    loss = DiscreteSACLoss(critic, actor, alpha_init=ALPHA_D, fixed_alpha=True)

    train(loss, some_choices, 150)
    wanted = (REWARDS / ALPHA_D).softmax(-1)
    policy, states = loss.policy(), TensorDict(observation=torch.ones(1, 1), batch_size=[1])
    if with_actor:
        found = policy.get_dist(states).probs[0]
    else:
        found = (policy.action_value(states)[0] / policy.alpha()).softmax(-1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-2)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert policy(states)["action"].item() == 2


def test_a_tuned_temperature_gives_the_policy_its_target_entropy():
    torch.manual_seed(0)
    critic = TensorDictModule(Constant(3), ["observation"], ["action_value"])
    loss = DiscreteSACLoss(critic, target_entropy=0.8)

    train(loss, some_choices, 200)
    assert loss(some_choices())["entropy"].item() == pytest.approx(0.8, abs=1e-2)


def test_continuous():
    torch.manual_seed(0)
    critic = TensorDictModule(Linear(1), ["observation", "action"], ["state_action_value"])
    loss = ContinuousSACLoss(gaussian_actor("action"), critic, alpha_init=ALPHA_C, fixed_alpha=True)

    def batch() -> TensorDict:
        c = some_actions()
        return one_step(c, ALPHA_C * wanted_log_density(c).unsqueeze(-1))

    train(loss, batch, 250)
    check_continuous(loss)


def test_hybrid():
    torch.manual_seed(0)
    key = ("action", "continuous")
    critic = TensorDictModule(Linear(2), ["observation", key], ["action_value"])
    loss = HybridSACLoss(
        gaussian_actor(key), critic, alpha_init=(ALPHA_D, ALPHA_C), fixed_alpha=True
    )

    def batch() -> TensorDict:
        c, d = some_actions(), torch.randint(2, (512,))
        chosen = wanted_discrete(c).gather(-1, d.unsqueeze(-1))
        reward = ALPHA_C * wanted_log_density(c).unsqueeze(-1) + ALPHA_D * chosen
        action = TensorDict(continuous=c, discrete=d, batch_size=[512])
        return one_step(action, reward)

    train(loss, batch, 250)
    check_continuous(loss)
    c = torch.linspace(-0.9, 0.9, 7).unsqueeze(-1)
    states = TensorDict(observation=torch.ones(7, 1), batch_size=[7]).set(key, c)
    discrete = loss.policy()[-1]
    found = (discrete.action_value(states) / discrete.alpha()).softmax(-1)
    torch.testing.assert_close(found, wanted_discrete(c).exp(), rtol=0, atol=1e-2)


def check_continuous(loss) -> None:
    loc, log_scale = next(loss.actor_network_params.parameters()).tolist()
    assert loc == pytest.approx(LOC, abs=1e-2)
    assert log_scale == pytest.approx(torch.tensor(SCALE).log().item(), abs=2e-2)  # scale to 1e-2
