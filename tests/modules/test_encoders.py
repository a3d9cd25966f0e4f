"""Encoders against PyTorch's convolutions, and the networks that have one."""

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import nn
from torch.nn import functional as F

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import (
    StochasticDuelingNetwork,
    action_value_critic,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    hybrid_critic,
    observation_encoder,
    state_action_critic,
    state_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.blueprints import get_blueprint
from rlkit_sac.modules.encoders import encoder_kind
from rlkit_sac.modules.rebuild import build_from_blueprint, get_valid_blueprint


def entry(*shape: int, scale: int = 255, channels: str = "last", key: str = "image_a") -> Any:
    return {"key": key, "shape": list(shape), "scale": scale, "channels": channels}


MIXED = [entry(12, 14, 3), entry(2, 12, 14, scale=1, channels="first", key="image_b")]
MIXED.append({"key": "observation", "shape": [5]})


def states(*batch: int) -> TensorDict:
    torch.manual_seed(1)
    color = torch.randint(256, (*batch, 12, 14, 3), dtype=torch.uint8)
    planes, vector = torch.rand(*batch, 2, 12, 14) < 0.3, torch.randn(*batch, 5)
    return TensorDict(image_a=color, image_b=planes, observation=vector, batch_size=batch)


def test_the_features_are_those_of_plain_convolutions() -> None:
    encoder = observation_encoder(MIXED, "small", 20).double()
    of_color, of_planes, _ = encoder.module.parts
    data = states(6)

    def plain(layers: nn.Sequential, image: torch.Tensor) -> torch.Tensor:
        hidden = F.conv2d(image, layers[0].weight, layers[0].bias).relu().flatten(1)
        return F.linear(hidden, layers[3].weight, layers[3].bias).relu()

    color = data["image_a"].permute(0, 3, 1, 2).double() / 255
    parts = [plain(of_color.layers, color), plain(of_planes.layers, data["image_b"].double())]
    wanted = torch.cat([*parts, data["observation"].double()], -1)
    found = encoder(data.copy().set("observation", data["observation"].double()))["features"]
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert encoder.module.num_features == 45


@pytest.mark.parametrize("channels", ["first", "last"])
@pytest.mark.parametrize("kind", ["none", "small", "nature", "impala"])
def test_frames_are_channels_and_batches_have_any_shape(kind: Any, channels: str) -> None:
    torch.manual_seed(0)
    last = channels == "last"
    shape = (2, 40, 44, 3) if last else (2, 3, 40, 44)
    image = torch.randint(256, (5, 7, *shape), dtype=torch.uint8)
    first = image.movedim(-1, -3) if last else image
    encoder = observation_encoder([entry(*shape, channels=channels)], kind)
    flat = observation_encoder([entry(6, 40, 44, channels="first")], kind)
    flat.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        found = encoder(TensorDict(image_a=image, batch_size=[5, 7]))["features"]
        data = TensorDict(image_a=first.flatten(-4, -3), batch_size=[5, 7])
        wanted = flat(data)["features"]
        one = encoder(TensorDict(image_a=image[2, 3], batch_size=[]))["features"]
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(one, wanted[2, 3], rtol=1e-4, atol=1e-5)
    length = {"none": 6 * 40 * 44, "small": 128, "nature": 512, "impala": 256}[kind]
    assert found.shape == (5, 7, length)


def test_the_size_of_an_image_decides_its_encoder() -> None:
    shapes = [(84, 84), (36, 99), (35, 99, 3), (10, 10, 10), (2, 9)]
    kinds = ["nature", "nature", "small", "small", "none"]
    channels = ["first", "first", "last", "last", "first"]
    found = [
        encoder_kind(entry(*shape, channels=each))
        for shape, each in zip(shapes, channels, strict=True)
    ]
    assert found == kinds
    with pytest.raises(ConfigError, match=r"'image_a' of the shape \[10, 10, 4\] is too small"):
        observation_encoder([entry(10, 10, 4)], "nature")


def test_an_array_of_numbers_is_flattened() -> None:
    encoder = observation_encoder([{"key": "observation", "shape": [2, 3]}])
    data = TensorDict(observation=torch.arange(24.0).reshape(4, 2, 3), batch_size=[4])
    assert torch.equal(encoder(data)["features"], torch.arange(24.0).reshape(4, 6))


GRU = {"kind": "gru", "size": 6, "action_dim": 2}
BOX = {"action_low": [-1.0] * 2, "action_high": [1.0] * 2}
NETWORKS: dict[str, Any] = {
    "tanh Gaussian": lambda of, **own: tanh_gaussian_actor(of, **BOX, **own),
    "Gaussian": lambda of, **own: gaussian_actor(of, 2, **own),
    "categorical": lambda of, **own: categorical_actor(of, 4, **own),
    "both, discrete": lambda of, **own: categorical_actor_critic(of, 4, **own),
    "both, continuous": lambda of, **own: gaussian_actor_critic(of, 2, **own),
    "Q(s, a)": lambda of, **own: state_action_critic(of, 2, **own),
    "V": lambda of, **own: state_critic(of, **own),
    "Q(s)": lambda of, **own: action_value_critic(of, 4, **own),
    "Q(s, c)": lambda of, **own: hybrid_critic(of, 2, 4, **own),
}


@pytest.mark.parametrize("memory", [None, GRU], ids=["", "memory"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_reads_images_by_an_encoder_of_its_own(name: str, memory: Any) -> None:
    network = NETWORKS[name]({"layout": MIXED}, num_cells=[8], memory=memory)
    data = states(3)
    data["is_init"], data["prev_action"] = torch.zeros(3, 1).bool(), torch.randn(3, 2)
    key = ("action", "continuous") if name == "Q(s, c)" else "action"
    if key in network.in_keys:
        data[key] = torch.randn(3, 2)
    network(data)[network.out_keys[-1]]
    assert {each["key"] for each in MIXED} <= set(network.in_keys)
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert len(convolutions) == 2
    if (blueprint := get_blueprint(network)) is not None and "both" not in name and "Q" not in name:
        assert get_valid_blueprint(network) == blueprint
        assert build_from_blueprint(blueprint).state_dict().keys() == network.state_dict().keys()


def test_networks_of_vectors_are_as_before() -> None:
    actor, critic = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    names = [f"module.{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")]
    assert list(critic.state_dict()) == names
    assert list(actor.state_dict()) == [f"module.0.{n.replace('.', '.0.', 1)}" for n in names]
    assert (actor.in_keys, critic.in_keys) == (["observation"], ["observation", "action"])


def test_an_advantage_encodes_a_state_once_for_all_actions() -> None:
    inputs: Any = {"layout": MIXED}
    advantage = state_action_critic(inputs, 2, num_cells=[8])
    critic = StochasticDuelingNetwork(state_critic(inputs, num_cells=[8]), advantage, 3)
    calls: list[int] = []
    advantage.module[0].register_forward_hook(lambda *_: calls.append(1))
    fixed = torch.randn(3, 4, 2)
    critic.sampler = lambda dist, count: fixed
    data = states(4)
    data["action"], data["loc"], data["scale"] = fixed[0], torch.zeros(4, 2), torch.ones(4, 2)
    found = critic(data.clone())["state_action_value"]
    assert len(calls) == 1

    def value(action: torch.Tensor) -> torch.Tensor:
        return advantage(data.clone().set("action", action))["state_action_value"]

    mean = sum(value(each) for each in fixed) / 3
    wanted = critic.state_value(data) + value(fixed[0]) - mean
    torch.testing.assert_close(found, wanted)
