"""A loss that reads an image and a vector learns what neither of them says alone."""

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Dict
from tensordict import TensorDict
from torchrl.objectives import SoftUpdate

from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.modules import action_value_critic
from rlkit_sac.objectives import DiscreteSACLoss

LAYOUT = ObservationConversion(
    Dict(camera=Box(0, 255, (8, 8, 1), "uint8"), speed=Box(-1.0, 1.0, (1,)))
).layout()


def batch(size: int, generator: torch.Generator) -> tuple[TensorDict, torch.Tensor]:
    """One step: 1 for the action that is the image's side XOR the sign of the vector, else 0."""
    side = torch.randint(2, (size,), generator=generator)
    row = torch.randint(8, (size,), generator=generator)
    column = torch.randint(4, (size,), generator=generator) + 4 * side
    camera = torch.zeros(size, 8, 8, 1, dtype=torch.uint8)
    camera[torch.arange(size), row, column] = 255
    speed = 2 * torch.rand(size, 1, generator=generator) - 1
    right = side ^ (speed[:, 0] > 0).long()
    action = torch.randint(2, (size,), generator=generator)
    over = torch.ones(size, 1, dtype=torch.bool)
    seen: dict[str, Any] = {"image_camera": camera, "observation": speed}
    after = {"reward": (action == right).float().unsqueeze(-1), "done": over, "terminated": over}
    following = TensorDict({**seen, **after}, batch_size=[size])
    return TensorDict({**seen, "action": action, "next": following}, batch_size=[size]), right


def share_right(layout: list[dict[str, Any]]) -> float:
    torch.manual_seed(0)
    critic = action_value_critic({"layout": layout}, 2, num_cells=[64])
    loss = DiscreteSACLoss(critic, fixed_alpha=True, alpha_init=0.05)
    optimizer = torch.optim.Adam(loss.qvalue_network_params.parameters(), lr=1e-3)
    targets = SoftUpdate(loss, tau=0.01)
    generator = torch.Generator().manual_seed(1)
    for _ in range(400):
        optimizer.zero_grad()
        loss(batch(128, generator)[0])["loss_qvalue"].backward()
        optimizer.step()
        targets.step()
    data, right = batch(2000, generator)
    return (loss.policy()(data.clone())["action"] == right).float().mean().item()


@pytest.mark.slow
def test_the_side_in_an_image_and_the_sign_of_a_number_are_joined() -> None:
    assert [entry["key"] for entry in LAYOUT] == ["image_camera", "observation"]
    assert share_right(LAYOUT) >= 0.9
    assert share_right(LAYOUT[:1]) <= 0.6
