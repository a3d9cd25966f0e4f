import pytest
import torch
from tensordict.nn import TensorDictModule

from rlkit_sac.data import make_collector
from rlkit_sac.envs import make_env


@pytest.mark.parametrize("num_envs", [1, 2])
def test_the_first_actions_are_drawn_from_the_action_space(num_envs: int) -> None:
    torch.manual_seed(0)
    constant = TensorDictModule(
        lambda observation: torch.full((*observation.shape[:-1], 1), 0.25),
        in_keys=["observation"],
        out_keys=["action"],
    )
    collector = make_collector(
        make_env("Pendulum-v1", num_envs=num_envs),
        constant,
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
