"""Losses among TorchRL's collectors, environments and optimizers."""

from __future__ import annotations

import pytest
import torch
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs.transforms import MultiStepTransform

from tests.objectives.losses import make_batch, own_loss


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
