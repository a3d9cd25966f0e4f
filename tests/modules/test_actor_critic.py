import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.modules import categorical_actor_critic, gaussian_actor, gaussian_actor_critic


def observations(*batch: int) -> TensorDict:
    return TensorDict(observation=torch.randn(*batch, 3), batch_size=batch)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_both_heads_read_one_trunk(batch: tuple[int, ...]) -> None:
    for both, keys in (
        (categorical_actor_critic(3, 2, num_cells=[8, 6]), {"logits": 2, "action_value": 2}),
        (
            gaussian_actor_critic(3, 2, num_cells=[8, 6], activation="tanh"),
            {"loc": 2, "scale": 2, "state_value": 1, "state_action_value": 1},
        ),
    ):
        out = both(observations(*batch))
        assert out["hidden"].shape == (*batch, 6)
        assert {key: out[key].shape for key in keys} == {
            key: (*batch, size) for key, size in keys.items()
        }
        head = both.get_value_head()
        again = head(out.select(*head.in_keys).clone())
        if "action_value" in keys:
            assert torch.equal(again["action_value"], out["action_value"])


def test_a_gaussian_actor_has_no_bounds() -> None:
    actor = gaussian_actor(3, 2, num_cells=[8], log_std_min=2.0, log_std_max=2.1)
    torch.manual_seed(0)
    dist = actor.get_dist(observations(1000))
    assert dist.sample().abs().max() > 10
    assert actor.spec["action"].shape == (2,)
