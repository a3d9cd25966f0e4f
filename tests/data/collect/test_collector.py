import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlkit_sac.data import make_collector
from rlkit_sac.envs import make_env
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss


class Constant(nn.Module):
    """Acts by its only parameter."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.value.expand(*observation.shape[:-1], 1)


def constant(value: float = 0.25) -> TensorDictModule:
    return TensorDictModule(Constant(value), in_keys=["observation"], out_keys=["action"])


@pytest.mark.parametrize(
    ("num_envs", "frames_per_batch", "shape"),
    [(1, 1, [1]), (1, 5, [5]), (2, 2, [2, 1]), (2, 10, [2, 5])],
)
def test_frames_are_those_of_all_environments(
    num_envs: int, frames_per_batch: int, shape: list[int]
) -> None:
    env = make_env("Pendulum-v1", num_envs=num_envs)
    collector = make_collector(env, constant(), total_frames=20, frames_per_batch=frames_per_batch)
    shapes = [list(batch.shape) for batch in collector]
    collector.shutdown()
    assert shapes == [shape] * (20 // frames_per_batch)


def test_the_stream_goes_on_from_batch_to_batch() -> None:
    env = make_env("Pendulum-v1", max_episode_steps=7)
    collector = make_collector(env, constant(), total_frames=20, frames_per_batch=4)
    frames = torch.cat([batch.clone() for batch in collector])
    collector.shutdown()
    assert frames["next", "step_count"].flatten().tolist() == [
        *range(1, 8),
        *range(1, 8),
        *range(1, 7),
    ]
    same = ~frames["next", "done"].squeeze(-1)[:-1]
    following = frames["next", "observation"][:-1][same]
    assert torch.equal(frames["observation"][1:][same], following)


def test_the_policy_of_a_loss_acts_with_what_its_optimizer_left() -> None:
    torch.manual_seed(0)
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8])
    loss = ContinuousSACLoss(actor, state_action_critic(3, 1, num_cells=[8]))
    optimizer = torch.optim.Adam(loss.parameters(), 0.1)
    policy = loss.policy()
    collector = make_collector(make_env("Pendulum-v1"), policy, total_frames=12, frames_per_batch=4)
    seen = []
    for batch in collector:
        states = batch.select("observation").clone()
        with loss.actor_network_params.to_module(loss.actor_network):
            wanted = loss.actor_network.get_dist(states.clone())
        torch.testing.assert_close(batch["loc"], wanted.loc.detach())
        torch.testing.assert_close(batch["scale"], wanted.scale.detach())
        seen.append(policy(torch.zeros_like(states))["loc"][0].item())
        out = loss(batch.clone())
        optimizer.zero_grad()
        (out["loss_actor"] + out["loss_qvalue"]).backward()
        optimizer.step()
    collector.shutdown()
    assert len(set(seen)) == 3  # the optimizer did move it


@pytest.mark.parametrize("num_envs", [1, 2])
def test_the_first_actions_are_drawn_from_the_action_space(num_envs: int) -> None:
    torch.manual_seed(0)
    collector = make_collector(
        make_env("Pendulum-v1", num_envs=num_envs),
        constant(0.25),
        total_frames=600,
        frames_per_batch=20,
        init_random_frames=400,
    )
    actions = torch.cat([batch["action"].clone().flatten() for batch in collector])
    collector.shutdown()
    drawn, own = actions[:400], actions[400:]
    assert own.eq(0.25).all()
    assert drawn.unique().numel() > 390
    assert drawn.abs().max() <= 1
    # Uniform on [-1, 1]: mean 0 and variance 1/3; five standard errors.
    assert abs(drawn.mean().item()) < 5 * (1 / 3 / 400) ** 0.5
    assert drawn.var().item() == pytest.approx(1 / 3, abs=5 * (4 / 45 / 400) ** 0.5)
