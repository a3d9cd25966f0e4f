"""Networks that share an encoder: against the formulas, and against networks that do not share."""

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.objectives import LossModule

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import (
    MaskedCritic,
    ObservationNormalizer,
    PolicyPrior,
    action_value_critic,
    hybrid_critic,
    observation_encoder,
    state_action_critic,
    state_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, ValueSACLoss
from tests.modules.test_encoders import MIXED, states
from tests.objectives.comparison import assert_close, check, results
from tests.objectives.losses import loss_class, networks_of
from tests.objectives.networks import Weights, make_encoder
from tests.objectives.references import Draw, Options, losses, mlp

# ------------------------------------------------------------------ against the formulas


def encoded_losses(
    weights: Weights,
    parameters: dict[str, Tensor],
    data: dict[str, Tensor],
    draw: Draw,
    next_draw: Draw,
    o: Options,
) -> dict[str, Tensor]:
    """The losses at features, which the critics' loss alone differentiates, and at s alone."""
    here, after = mlp(weights, "encoder", data["obs"]), mlp(weights, "encoder", data["next_obs"])
    trained = data | {"obs": here, "next_obs": after.detach()}
    rest = trained | {"obs": here.detach()}
    of_critics = losses(weights, parameters, trained, draw, next_draw, o)
    return losses(weights, parameters, rest, draw, next_draw, o) | {
        name: of_critics[name] for name in ("loss_qvalue", "td_error")
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "five critics": {"critics": 5, "policy_reduction": "mean"},
    "policy losses on s and s'": {"policy_loss_steps": "all"},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "vector rewards, weighted": {"rewards": 2, "reward_weights": [0.5, -2.0], "weights": True},
    "lambda, masked": {"batch": (3, 6), "lmbda": 0.8, "mask": True},
    "no vmap": {"deactivate_vmap": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_gradients_are_those_of_the_formulas(name: str) -> None:
    check("continuous", encoded=True, reference=encoded_losses, **OPTIONS[name])


# ------------------------------------------------------------------ against separate encoders

BOX: Any = {"action_low": [-1.0] * 2, "action_high": [1.0] * 2}
INPUTS: Any = {"layout": MIXED, "features": 10}  # of each image: 25 with the vector
SHARED: Any = {"layout": [{"key": "features", "shape": [25]}]}
GRU: Any = {"kind": "gru", "size": 6}
PREVIOUS: Any = {
    "continuous": {"action_dim": 2},
    "boltzmann": {"num_actions": 3},
    "categorical": {"num_actions": 3},
    "hybrid": {"action_dim": 2, "num_actions": 3},
}


def make_loss(kind: str, inputs: Any, *, memory: bool = False, **options: Any) -> LossModule:
    own = GRU | PREVIOUS[kind] if memory else None
    networks = networks_of(kind, inputs, num_cells=[9], memory=own)
    return loss_class(kind)(**networks, **options).double()


def make_rows(kind: str, *batch: int) -> TensorDict:
    torch.manual_seed(1)
    index, vector = torch.randint(3, batch), torch.rand(*batch, 2).double() * 2 - 1
    parts = {"continuous": vector, "discrete": index}
    action = {"continuous": vector, "hybrid": TensorDict(parts, batch_size=batch)}.get(kind, index)
    done = torch.rand(*batch, 1) < 0.2
    outcome = {"reward": torch.randn(*batch, 1).double(), "done": done, "terminated": done}
    data, after = states(*batch), states(*batch)
    after["image_a"] = 255 - after["image_a"]
    for each in (data, after):
        each["observation"] = each["observation"].double()
    data.update({"action": action, "is_init": torch.zeros(*batch, 1).bool()})
    return data.update({"prev_action": data["action"].clone(), "next": after.update(outcome)})


KINDS = ["continuous", "boltzmann", "categorical", "hybrid"]


@pytest.mark.parametrize("memory", [False, True], ids=["", "memory"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", ["first", "all"])
def test_losses_are_those_of_networks_with_the_same_encoder_each(kind, memory, steps) -> None:
    torch.manual_seed(0)
    options = {"memory": memory, "policy_loss_steps": steps}
    encoder = observation_encoder(MIXED, features=10)
    shared = make_loss(kind, SHARED, encoder_network=encoder, **options)
    apart = make_loss(kind, INPUTS, **options)
    data = make_rows(kind, 4, 5)

    own, wanted = shared.state_dict(), apart.state_dict()
    encoders = {name for name in wanted if ".parts." in name}
    assert len(encoders) == 8 * (2 if kind == "boltzmann" else 3)  # critics and targets, an actor
    heads = [name for name in own if "encoder" not in name]
    assert len(heads) == len(wanted) - len(encoders)  # registered once, without a target
    for name, value in zip([n for n in wanted if n not in encoders], heads, strict=True):
        wanted[name] = own[value]
    for name in encoders:
        part = own[f"encoder_network_params.{name[name.index('module.parts.') :]}"]
        wanted[name] = part.expand_as(wanted[name])
    apart.load_state_dict(wanted)

    torch.manual_seed(2)
    first = results(shared, data)
    torch.manual_seed(2)
    second = results(apart, data)
    gradients = {name: value for name, value in second.items() if ".parts." in name}
    for name in [n for n in first if "grad" not in n]:
        assert_close(first[name], second[name])
    found = {name: value for name, value in first.items() if "grad encoder" in name}
    assert len(found) == 8
    for name, value in found.items():
        part = name[name.index("module.parts.") :]
        (of_critics,) = [
            each for key, each in gradients.items() if key.endswith(part) and "qvalue" in key
        ]
        assert value.abs().sum() > 0
        assert_close(value, of_critics.sum(0))


# ------------------------------------------------------------------ around the loss


def test_the_encoder_reads_normalized_observations_and_the_policy_acts_as_the_loss_does() -> None:
    torch.manual_seed(0)
    normalizer = ObservationNormalizer(5)
    encoder = observation_encoder(MIXED, features=10)
    loss = make_loss(
        "continuous", SHARED, encoder_network=encoder, observation_normalizer=normalizer
    )
    data = make_rows("continuous", 6)
    loss.update_normalizers(data.update({"observation": 5 + 3 * data["observation"]}))
    policy, acted = loss.policy(), data.select("image_a", "image_b", "observation")
    assert set(policy.in_keys) == set(acted.keys())
    torch.manual_seed(3)
    found = policy(acted.clone())["loc"]
    inner = acted.clone().set("observation", normalizer(data["observation"]))
    wanted = loss.actor_network_params
    with wanted.to_module(loss.actor_network):
        features = loss.get_stateful_net("encoder_network")(inner)
        assert_close(found, loss.actor_network(features)["loc"])
    read = loss._read(data)
    assert_close(read.states["features"], features["features"])
    assert PolicyPrior(policy).get_dist(acted).log_prob(data["action"]).shape == (6,)
    assert loss.policy(epsilon=0.5)(acted)["action"].shape == (6, 2)


REFUSED = {
    r"qvalue_network reads .*but encoder_network": (state_action_critic(4, 2), make_encoder()),
    "leave it or value_network out": (
        state_action_critic(SHARED, 2),
        state_critic(4),
        make_encoder(),
    ),
    "encoder_network": (
        state_action_critic(SHARED, 2),
        TensorDictModule(nn.BatchNorm1d(25), ["observation"], ["features"]),
    ),
    "reads and writes": (
        state_action_critic(4, 2),
        TensorDictModule(nn.Linear(4, 4), ["observation"], ["observation"]),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_networks_that_cannot_share_an_encoder_are_refused(message: str) -> None:
    *networks, encoder = REFUSED[message]
    loss_class = ValueSACLoss if len(networks) == 2 else ContinuousSACLoss
    with pytest.raises(ConfigError, match=message):
        loss_class(tanh_gaussian_actor(SHARED, **BOX), *networks, encoder_network=encoder)


# ------------------------------------------------------------------ encoders of each network


INPUTS: Any = {"layout": MIXED, "features": 10}  # of each image: 25 with the vector


def test_copies_of_critics_have_encoders_of_their_own_that_learn() -> None:
    loss = DiscreteSACLoss(action_value_critic(INPUTS, 3, num_cells=[9]))
    weights = [w for name, w in loss.named_parameters() if "layers" in name and "weight" in name]
    assert len(weights) == 4
    batch = make_rows("boltzmann", 2, 4)
    batch["observation"], batch["next", "observation"] = (
        each["observation"].float() for each in (batch, batch["next"])
    )
    batch["next", "reward"] = batch["next", "reward"].float()
    loss(batch)["loss_qvalue"].backward()
    for weight in weights:
        assert weight.shape[0] == 2
        assert not torch.equal(weight[0], weight[1])
        assert all(each.abs().sum() > 0 for each in weight.grad)


def test_a_masked_critic_encodes_a_state_once_for_all_actions() -> None:
    critic = hybrid_critic(INPUTS, 3, 2, num_cells=[9])
    convolutions = [each for each in critic.modules() if isinstance(each, nn.Conv2d)]
    sizes: list[int] = []
    for each in convolutions:
        each.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    mask = torch.tensor([[True, False, True], [False, True, False]])
    data = states(4)
    data["action", "continuous"] = torch.randn(4, 3)
    found = MaskedCritic(critic, mask)(data.clone())["action_value"]
    assert sizes == [4, 4]
    for place, own in enumerate(mask):
        one = data.clone()
        one["action", "continuous"] = one["action", "continuous"] * own
        torch.testing.assert_close(found[:, place], critic(one)["action_value"][:, place])
