"""A loss that normalizes a raw batch against one without, on a batch normalized by hand."""

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.modules import ObservationNormalizer, RewardNormalizer
from tests.objectives.comparison import assert_same, results
from tests.objectives.losses import KINDS, own_loss
from tests.objectives.networks import make_data


def frames(kind: str, number: int) -> TensorDict:
    """Of another mean and variance than 0 and 1."""
    data = make_data(kind, number)
    for each in (data, data["next"]):
        each["observation"] = 5 * each["observation"] + 2
    data["next", "reward"] *= 7
    return data


@pytest.mark.parametrize("vmap", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_a_batch_normalized_by_hand(kind: str, vmap: bool) -> None:
    torch.manual_seed(0)
    options = {"reward_scale": 2.0, "deactivate_vmap": not vmap}
    own = own_loss(
        kind,
        observation_normalizer=ObservationNormalizer(4, clip=1.0),
        reward_normalizer=RewardNormalizer(0.9, clip=1.5),
        **options,
    ).double()
    torch.manual_seed(0)
    plain = own_loss(kind, **options).double()
    missing, extra = plain.load_state_dict(own.state_dict(), strict=False)
    assert not missing
    assert all("normalizer" in name for name in extra)
    seen = frames(kind, 60)
    own.update_normalizers(seen)
    mean, variance = seen["observation"].mean(0), seen["observation"].var(0, correction=0)
    total, returns = 0.0, []
    for reward, done in zip(seen["next", "reward"], seen["next", "done"], strict=True):
        total = 0.9 * total + reward.item()
        returns.append(total)
        total = 0.0 if done else total
    deviation = (torch.tensor(returns, dtype=torch.float64).var(correction=0) + 1e-8).sqrt()

    batch = frames(kind, 12)
    by_hand = batch.clone()
    for key in ("observation", ("next", "observation")):
        by_hand[key] = ((batch[key] - mean) / (variance + 1e-8).sqrt()).clamp(-1, 1)
    by_hand["next", "reward"] = (batch["next", "reward"] / deviation).clamp(-1.5, 1.5)
    before = batch.clone()
    outs = []
    for loss, data in ((own, batch), (plain, by_hand)):
        torch.manual_seed(1)
        loss(data)
        torch.manual_seed(1)
        outs.append(results(loss, data))
    assert_same(outs[0], outs[1], rtol=1e-9, atol=1e-11)
    assert torch.equal(batch["observation"], before["observation"])
    assert torch.equal(batch["next", "reward"], before["next", "reward"])
    count = own.observation_normalizer.statistics.count
    assert count == 60  # the loss itself moves nothing

    actions = []
    for policy, data in ((own.policy(), batch), (plain.policy(), by_hand)):
        actions.append(policy(data.select("observation")).select("action", "loc", strict=False))
    for key, value in actions[0].items(True, True):
        torch.testing.assert_close(value, actions[1][key])


@pytest.mark.parametrize(
    "form", [torch.Tensor.bool, torch.Tensor.byte, lambda x: x.unsqueeze(-1), None]
)
def test_padded_steps_are_not_observed(form: Callable[[torch.Tensor], torch.Tensor] | None) -> None:
    torch.manual_seed(0)
    data, valid = make_data("continuous", 2, 6), torch.ones(2, 6, dtype=torch.bool)
    valid[1, 4:] = False
    data["next", "done"][:] = False
    observation, reward = ObservationNormalizer(4), RewardNormalizer(0.9, num_envs=2)
    options = {"observation_normalizer": observation, "reward_normalizer": reward}
    loss = own_loss("continuous", **options).double()
    returns = [
        sum(0.9**k * data["next", "reward"][i, t - k].item() for k in range(t + 1))
        for i, t in valid.nonzero().tolist()
    ]
    seen = data["observation"][valid]
    for each in (data["observation"], data["next", "reward"]):
        each[~valid] = torch.nan
    if form is None:  # a collector did not collect them
        data["collector", "traj_ids"] = valid.long() - 1
    else:
        data["collector", "mask"] = form(valid)
    loss.update_normalizers(data)
    torch.testing.assert_close(observation.statistics.mean, seen.mean(0))
    assert reward.statistics.count == observation.statistics.count == 10
    wanted = torch.tensor(returns).double()
    torch.testing.assert_close(reward.statistics.mean[0], wanted.mean())
    torch.testing.assert_close(reward.largest[0], wanted.abs().max())
    torch.testing.assert_close(reward.returns[:, 0], wanted[[5, 9]])
