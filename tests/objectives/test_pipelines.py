"""Losses among TorchRL's collectors, environments and optimizers, and in one graph."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs.transforms import MultiStepTransform
from torchrl.objectives import SoftUpdate, group_optimizers

from rlkit_sac.envs import make_env
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from tests.objectives.comparison import losses_of
from tests.objectives.losses import DISCRETE_KINDS, make_batch, own_loss


def test_the_policy_shares_the_live_parameters_whatever_happens_to_the_loss():
    torch.manual_seed(0)
    data = make_batch("continuous", 3)
    for change in (
        lambda loss: None,
        lambda loss: loss.double(),
        lambda loss: loss.load_state_dict(own_loss("continuous").state_dict()),
    ):
        loss = own_loss("continuous")
        policy = loss.policy()
        change(loss)
        with torch.no_grad():
            for p in loss.actor_network_params.parameters():
                p.mul_(1.5)
        wanted = {p.data_ptr() for p in loss.actor_network_params.parameters()}
        assert {p.data_ptr() for p in policy.parameters()} == wanted
        observation = data["observation"].to(next(policy.parameters()).dtype)
        action = policy(TensorDict(observation=observation, batch_size=[3]))["action"]
        fresh = loss.policy()(TensorDict(observation=observation, batch_size=[3]))["action"]
        assert torch.equal(action, fresh)


def test_a_plain_torchrl_pipeline_trains():
    torch.manual_seed(0)
    env = make_env("Pendulum-v1")
    actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[32])
    loss = ContinuousSACLoss(actor, state_action_critic(3, 1, num_cells=[32]))
    target_updater = SoftUpdate(loss, tau=0.01)
    optimizer = group_optimizers(
        torch.optim.Adam(loss.actor_network_params.flatten_keys().values(), 1e-3),
        torch.optim.Adam(loss.qvalue_network_params.flatten_keys().values(), 1e-3),
        torch.optim.Adam([loss.log_alpha], 1e-3),
    )
    frames = torch.cat(list(Collector(env, loss.policy(), frames_per_batch=50, total_frames=200)))
    frames["next", "terminated"][:] = True  # a fixed regression problem
    history = []
    for _ in range(200):
        out = loss(frames)
        sum(losses_of(out).values()).backward()
        optimizer.step()
        optimizer.zero_grad()
        target_updater.step()
        history.append(out["loss_qvalue"].item())
    assert history[-1] < 0.2 * history[0]


QUICK = (("expected", "categorical"), ("sampled", "hybrid"))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("entropy", "kind"),
    [
        pytest.param(entropy, kind, marks=[pytest.mark.slow] * ((entropy, kind) not in QUICK))
        for entropy in ("expected", "sampled")
        for kind in DISCRETE_KINDS
    ],
)
def test_one_graph_without_breaks(kind, entropy):
    torch.manual_seed(0)
    loss = own_loss(kind, discrete_entropy=entropy, target_entropy="auto")
    data = make_batch(kind, 8)
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.manual_seed(1)
    wanted = loss(data.clone())
    torch.manual_seed(1)
    found = compiled(data.clone())
    for name, value in losses_of(wanted).items():
        torch.testing.assert_close(found[name], value)


@pytest.mark.parametrize("end", ["terminated", "truncated", None])
def test_transitions_of_torchrl_s_multi_step_transform_are_discounted_by_their_steps(end):
    torch.manual_seed(0)
    data, n, gamma = make_batch("categorical", 8), 3, 0.7
    for flag in ("done", "terminated"):
        data["next", flag][:] = False
    data["next", "observation"][:-1] = data["observation"][1:]
    if end is not None:
        data["next", "done"][4] = True
        data["next", "terminated"][4] = end == "terminated"
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(8))
    replay.append_transform(MultiStepTransform(n, gamma, done_keys=[]))
    replay.extend(data)
    found, loss = replay[:], own_loss("categorical", gamma=gamma)
    for params in (loss.qvalue_network_params, loss.target_qvalue_network_params):
        params.data.zero_()  # the soft value of a state is the entropy of the policy
    loss(found)
    actor = loss.get_stateful_net("actor_network")
    for t in range(len(found)):
        last = min(t + n - 1, 4) if end is not None and t <= 4 else t + n - 1
        count = last - t + 1
        assert found["steps_to_next_obs"][t] == count
        rewards = sum(gamma**k * data["next", "reward"][t + k] for k in range(count))
        entropy = actor.get_dist(data["next"][last].select("observation")).entropy()
        alive = not (end == "terminated" and last == 4)
        target = (rewards + gamma**count * alive * entropy).item()
        assert found["td_error"][t].item() == pytest.approx(2**0.5 * abs(target), rel=1e-5)
