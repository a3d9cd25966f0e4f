"""Discrete and hybrid losses as parts of TorchRL: keys, refusals, copies, compilation."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, Composite, OneHot
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.modules import (
    MLP,
    NormalParamExtractor,
    OneHotCategorical,
    ProbabilisticActor,
    TanhNormal,
)
from torchrl.objectives import DiscreteSACLoss as TorchRLDiscreteSACLoss

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import (
    action_value_critic,
    categorical_actor,
    hybrid_critic,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss, HybridSACLoss
from tests.objectives.discrete_networks import make_discrete_data, make_discrete_loss
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian, make_data, make_loss

CONTINUOUS, DISCRETE = ("action", "continuous"), ("action", "discrete")
KINDS = ["boltzmann", "categorical", "hybrid"]


def hybrid_actor(**options):
    options.setdefault("action_key", CONTINUOUS)
    return tanh_gaussian_actor(4, [-1.0] * 2, [1.0] * 2, num_cells=[16], **options)


def own_loss(kind: str, **options):
    if kind == "hybrid":
        return HybridSACLoss(hybrid_actor(), hybrid_critic(4, 2, 3, num_cells=[16]), **options)
    actor = categorical_actor(4, 3, num_cells=[16]) if kind == "categorical" else None
    return DiscreteSACLoss(action_value_critic(4, 3, num_cells=[16]), actor, **options)


def batch(kind: str, *shape: int) -> TensorDict:
    data = make_discrete_data(kind, *shape)
    return data.apply(lambda x: x.float() if x.is_floating_point() else x)


def losses(out) -> dict[str, torch.Tensor]:
    return {name: value for name, value in out.items() if name.startswith("loss")}


# ------------------------------------------------------------------ known cases


def test_equals_torchrl_where_both_define_the_same():
    """With an actor; theirs writes one-hot actions and the entropy of a batch."""
    torch.manual_seed(0)
    net = MLP(in_features=4, out_features=3, num_cells=[16])
    critics = [action_value_critic(4, 3, num_cells=[16]) for _ in range(2)]

    def actor(distribution, spec) -> ProbabilisticActor:
        return ProbabilisticActor(
            TensorDictModule(net, ["observation"], ["logits"]),
            in_keys=["logits"],
            spec=spec,
            distribution_class=distribution,
        )

    options = {"alpha_init": 0.3, "target_entropy": 0.6}
    theirs = TorchRLDiscreteSACLoss(
        actor(OneHotCategorical, OneHot(3)),
        critics,
        action_space="one-hot",
        num_actions=3,
        loss_function="l2",
        **options,
    )
    ours = DiscreteSACLoss(critics, actor(torch.distributions.Categorical, None), **options)
    theirs.make_value_estimator(gamma=0.9)
    ours.make_value_estimator(gamma=0.9)
    data = batch("categorical", 12)
    one_hot = data.clone().set("action", nn.functional.one_hot(data["action"], 3))
    outs, gradients = [], []
    for loss, each in ((theirs, one_hot), (ours, data)):
        loss.zero_grad()
        out = loss(each)
        sum(losses(out).values()).backward()
        outs.append(losses(out))
        gradients.append([p.grad.clone() for p in loss.parameters()])
    for name, value in outs[0].items():
        torch.testing.assert_close(outs[1][name], value, rtol=1e-5, atol=1e-6)
    for wanted, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"dqda_clipping": 0.05, "policy_loss_steps": "all"}])
def test_a_hybrid_policy_with_one_discrete_action_is_a_continuous_one(options):
    torch.manual_seed(0)
    hybrid = make_discrete_loss("hybrid", actions=1, alpha_init=0.3, **options)
    continuous = make_loss(alpha_init=0.3, **options)
    for name in ("actor_network", "qvalue_network", "target_qvalue_network"):
        for key, value in getattr(continuous, f"{name}_params").items(True, True):
            value.data.copy_(getattr(hybrid, f"{name}_params")[key].data)
    data = make_data(6)
    both = TensorDict(
        continuous=data["action"], discrete=torch.zeros(6, dtype=torch.int64), batch_size=[6]
    )
    noise = list(torch.randn(2, 6, ACTION_DIM).double())
    outs = []
    for loss, each in ((continuous, data), (hybrid, data.clone().set("action", both))):
        NoisyTanhGaussian.queue = list(noise)
        out = loss(each)
        sum(losses(out).values()).backward()
        networks = (loss.actor_network_params, loss.qvalue_network_params)
        gradients = [p.grad for params in networks for p in params.parameters()]
        outs.append([*losses(out).values(), each["td_error"], *gradients])
    for found, wanted in zip(*outs, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(hybrid.log_alpha_continuous.grad, continuous.log_alpha.grad)
    assert hybrid.log_alpha_discrete.grad == 0  # no choice, no entropy, and a target of zero


@pytest.mark.parametrize("entropy", ["expected", "sampled"])
def test_a_hybrid_policy_whose_continuous_action_has_no_effect_is_a_discrete_one(entropy):
    torch.manual_seed(0)
    options = {"discrete_entropy": entropy}
    hybrid = make_discrete_loss(
        "hybrid", alpha_init=(0.3, 1e-30), fixed_alpha=(False, True), **options
    )
    discrete = make_discrete_loss("boltzmann", alpha_init=0.3, **options)
    for name in ("qvalue_network_params", "target_qvalue_network_params"):
        for key, value in getattr(discrete, name).items(True, True):
            full = getattr(hybrid, name)[key].data
            if full.shape != value.shape:  # the first layer, which reads c
                full[..., value.shape[-1] :] = 0
                full = full[..., : value.shape[-1]]
            value.data.copy_(full)
    data = make_discrete_data("hybrid", 6)
    index = data["action", "discrete"]
    noise = list(torch.randn(2, 6, ACTION_DIM).double())
    outs = []
    for loss, each in ((discrete, data.clone().set("action", index)), (hybrid, data)):
        NoisyTanhGaussian.queue = list(noise)
        torch.manual_seed(1)
        outs.append((loss(each), each["td_error"]))
    (wanted, priority), (found, same_priority) = outs
    torch.testing.assert_close(same_priority, priority, rtol=0, atol=1e-12)
    for name in ("loss_qvalue", "loss_alpha"):
        torch.testing.assert_close(found[name], wanted[name], rtol=0, atol=1e-12)
    torch.testing.assert_close(found["entropy_discrete"], wanted["entropy"], rtol=0, atol=1e-12)


def test_a_mask_of_ones_changes_nothing():
    torch.manual_seed(0)
    plain = make_discrete_loss("hybrid", alpha_init=0.3)
    masked = make_discrete_loss("hybrid", alpha_init=0.3, parameter_mask=torch.ones(3, 2))
    masked.load_state_dict(plain.state_dict())
    data = make_discrete_data("hybrid", 6)
    noise = list(torch.randn(2, 6, ACTION_DIM).double())
    outs = []
    for loss in (plain, masked):
        NoisyTanhGaussian.queue = list(noise)
        outs.append(loss(data.clone()))
    for name, value in outs[0].items():
        torch.testing.assert_close(outs[1][name], value, rtol=0, atol=1e-12)


def test_the_sampled_entropy_is_the_exact_one_on_average():
    torch.manual_seed(0)
    exact = make_discrete_loss("boltzmann", alpha_init=0.2)
    sampled = make_discrete_loss("boltzmann", alpha_init=0.2, discrete_entropy="sampled")
    sampled.load_state_dict(exact.state_dict())
    data = make_discrete_data("boltzmann", 20_000)
    wanted, found = exact(data.clone()), sampled(data.clone())
    assert found["entropy"].item() == pytest.approx(wanted["entropy"].item(), abs=0.01)
    assert found["entropy"].item() != wanted["entropy"].item()


# ------------------------------------------------------------------ extreme numbers


@pytest.mark.parametrize("kind", ["boltzmann", "hybrid"])
@pytest.mark.parametrize("alpha", [1e-30, 1e-6, 1e6, 1e12])
def test_extreme_temperatures_give_finite_losses_and_gradients(kind, alpha):
    torch.manual_seed(0)
    loss = own_loss(kind, alpha_init=(alpha, 0.1) if kind == "hybrid" else alpha)
    data = batch(kind, 16)
    out = loss(data)
    sum(losses(out).values()).backward()
    assert all(value.isfinite() for value in out.values())
    assert all(p.grad.isfinite().all() for p in loss.parameters())
    with torch.no_grad():
        getattr(loss, "log_alpha_discrete" if kind == "hybrid" else "log_alpha").fill_(-1e4)
    assert all(value.isfinite() for value in loss(data).values())  # a temperature of zero


def test_actions_an_actor_excludes_cost_nothing():
    torch.manual_seed(0)
    loss = own_loss("categorical", target_entropy=0.3)
    with torch.no_grad():
        [*loss.actor_network_params.parameters()][-1][0] = -torch.inf
    out = loss(batch("categorical", 8))
    sum(losses(out).values()).backward()
    assert all(value.isfinite() for value in out.values())
    gradients = [p.grad for p in loss.actor_network_params.parameters()]
    assert all(g.isfinite().all() for g in gradients)


# ------------------------------------------------------------------ keys and copies


@pytest.mark.parametrize("kind", KINDS)
def test_out_keys_and_in_keys(kind):
    loss = own_loss(kind)
    out = loss(batch(kind, 5))
    assert set(out.keys()) == set(loss.out_keys)
    if kind == "hybrid":
        assert loss.out_keys == [
            "loss_actor",
            "loss_qvalue",
            "loss_alpha",
            "alpha_discrete",
            "alpha_continuous",
            "entropy_discrete",
            "entropy_continuous",
        ]
        assert loss.in_keys[:2] == [CONTINUOUS, DISCRETE]
    else:
        actor = ["loss_actor"] if kind == "categorical" else []
        assert loss.out_keys == [*actor, "loss_qvalue", "loss_alpha", "alpha", "entropy"]
        assert loss.in_keys[0] == "action"


def test_the_parts_of_a_hybrid_action_are_renamed_together_or_apart():
    torch.manual_seed(0)
    actor = hybrid_actor(action_key=("move", "continuous"))
    critic = hybrid_critic(4, 2, 3, num_cells=[16])
    critic.in_keys[1] = ("move", "continuous")
    data = batch("hybrid", 5)
    data["move"] = data.pop("action")
    loss = HybridSACLoss(actor, critic)
    loss.set_keys(action="move")
    assert ("move", "discrete") in loss.in_keys
    assert loss(data.clone())["loss_qvalue"].isfinite()
    data["kind"] = data["move"].pop("discrete")
    loss.set_keys(action_discrete="kind")
    assert loss(data)["loss_qvalue"].isfinite()
    states = data.select("observation")
    assert {"kind", ("move", "continuous")} <= set(loss.policy()(states).keys(True, True))
    loss.set_keys(action=None)
    assert loss.tensor_keys.action_discrete == DISCRETE


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_gains_its_priority_and_nothing_else(kind):
    data = batch(kind, 5)
    before = data.clone()
    own_loss(kind)(data)
    assert set(data.keys(True, True)) == {*before.keys(True, True), "td_error"}
    assert (data.exclude("td_error") == before).all()


@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_independent_and_pickles_complete(kind):
    torch.manual_seed(0)
    loss = own_loss(kind, normalize_entropy_reward=True)
    data = batch(kind, 5)
    assert set(loss.state_dict()) == set(own_loss(kind, normalize_entropy_reward=True).state_dict())
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        state = copy.deepcopy(loss.state_dict())
        torch.manual_seed(1)
        out = other(data.clone())
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        assert all(torch.equal(state[name], value) for name, value in loss.state_dict().items())
        torch.manual_seed(1)
        found = copy.deepcopy(loss)(data.clone())
        assert all(torch.equal(found[name], value) for name, value in losses(out).items())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entropy", ["expected", "sampled"])
def test_one_graph_without_breaks(kind, entropy):
    torch.manual_seed(0)
    loss = own_loss(kind, discrete_entropy=entropy, target_entropy="auto")
    data = batch(kind, 8)
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.manual_seed(1)
    wanted = loss(data.clone())
    torch.manual_seed(1)
    found = compiled(data.clone())
    for name, value in losses(wanted).items():
        torch.testing.assert_close(found[name], value)


def test_a_single_critic_and_a_list_keep_their_weights():
    critics = [action_value_critic(4, 3, num_cells=[16]) for _ in range(3)]
    loss = DiscreteSACLoss(critics)
    first = loss.qvalue_network_params["module", "0", "weight"]
    for i, critic in enumerate(critics):
        assert torch.equal(first[i], critic.module[0].weight)
    alone = DiscreteSACLoss(critics[0], num_qvalue_nets=1)
    assert torch.equal(
        alone.qvalue_network_params["module", "0", "weight"][0], critics[0].module[0].weight
    )


@pytest.mark.parametrize("kind", ["boltzmann", "categorical"])
def test_collects_in_an_environment(kind):
    torch.manual_seed(0)
    base = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env = TransformedEnv(base, InitTracker())
    actor = categorical_actor(4, 2, num_cells=[16]) if kind == "categorical" else None
    loss = DiscreteSACLoss(action_value_critic(4, 2, num_cells=[16]), actor)
    frames = torch.cat(list(Collector(env, loss.policy(), frames_per_batch=25, total_frames=50)))
    assert set(frames["action"].tolist()) == {0, 1}
    assert loss(frames)["loss_qvalue"].isfinite()


# ------------------------------------------------------------------ target entropies and specs


def test_the_number_of_actions_comes_from_the_spec_or_from_the_critics():
    auto = 0.394398
    declared = DiscreteSACLoss(action_value_critic(4, 3), action_spec=Categorical(3))
    assert declared.target_entropy == pytest.approx(auto, abs=1e-6)
    by_actor = DiscreteSACLoss(action_value_critic(4, 3), categorical_actor(4, 3))
    assert by_actor.target_entropy == declared.target_entropy
    silent = DiscreteSACLoss(action_value_critic(4, 3))
    assert silent.target_entropy is None
    silent.load_state_dict(declared.state_dict())
    data = batch("boltzmann", 6)
    assert silent(data.clone())["loss_alpha"] == declared(data.clone())["loss_alpha"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_hybrid_loss_reads_a_composite_spec(whole):
    inner = Composite(
        continuous=Bounded(-2.0, 2.0, (4, 2)), discrete=Categorical(3, (4,)), shape=(4,)
    )
    spec = Composite(action=inner, shape=(4,)) if whole else inner
    loss = own_loss("hybrid", action_spec=spec)
    assert loss.target_entropy_discrete == pytest.approx(0.394398, abs=1e-6)
    assert loss.target_entropy_continuous == pytest.approx(2 * math.log(0.4), abs=1e-6)
    named = own_loss("hybrid", action_spec=spec, target_entropy=("scaled_log_k", -3.0))
    assert named.target_entropy_discrete == pytest.approx(0.98 * math.log(3))
    assert named.target_entropy_continuous == -3.0
    seen = own_loss("hybrid", action_spec=spec, target_entropy=lambda part: part.shape.numel())
    assert (seen.target_entropy_discrete, seen.target_entropy_continuous) == (1.0, 2.0)


def test_an_entropy_no_policy_can_have_is_pointed_out():
    with pytest.warns(UserWarning, match=r"no policy .* entropy of 2 nats \(0 to 1.09861"):
        own_loss("boltzmann", action_spec=Categorical(3), target_entropy=2.0)


REFUSED = {
    "one value here": ("boltzmann", {"alpha_init": (1.0, 1.0)}, "alpha_init takes one value"),
    "three of two": (
        "hybrid",
        {"target_entropy": [1.0, 1.0, 1.0]},
        r"one for each of \(discrete, continuous\)",
    ),
    "neg_dim": ("boltzmann", {"target_entropy": "neg_dim"}, "of discrete actions is not 'auto'"),
    "neg_dim of a hybrid": ("hybrid", {"target_entropy": "neg_dim"}, "pass a pair"),
    "scaled_log_k of a hybrid": (
        "hybrid",
        {"target_entropy": "scaled_log_k"},
        "target_entropy 'scaled_log_k' is not",
    ),
    "function without a spec": (
        "boltzmann",
        {"target_entropy": lambda spec: 1.0},
        "needs the action spec",
    ),
    "infinite": ("boltzmann", {"target_entropy": math.inf}, "must be finite"),
    "min_prob": ("boltzmann", {"min_prob": 0.0}, "min_prob must be in"),
    "discrete_entropy": ("boltzmann", {"discrete_entropy": "exact"}, "discrete_entropy must be"),
    "one-hot spec": (
        "boltzmann",
        {"action_spec": OneHot(3)},
        "OneHot, wanted Categorical, indices: GymEnv",
    ),
    "box spec": ("boltzmann", {"action_spec": Bounded(-1.0, 1.0, (2,))}, "wanted Categorical"),
    "leaf spec of a hybrid": ("hybrid", {"action_spec": Categorical(3)}, "needs a Composite"),
    "spec of other actions": ("categorical", {"action_spec": Categorical(4)}, "has 4 actions"),
    "clipping": ("hybrid", {"dqda_clipping": -1.0}, "dqda_clipping"),
    "mask": ("hybrid", {"parameter_mask": [[0.5, 1.0]]}, "parameter_mask must be a matrix"),
}


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_impossible_options_are_refused(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        own_loss(kind, **options)


MISSHAPEN = {
    "one-hot": (
        "boltzmann",
        lambda d: d.set("action", nn.functional.one_hot(d["action"], 3)),
        r"has the shape \[5, 3\], which looks one-hot.*argmax.*categorical_action_encoding",
    ),
    "trailing dimension": (
        "boltzmann",
        lambda d: d.set("action", d["action"].unsqueeze(-1)),
        r"has the shape \[5, 1\], wanted an index of the shape \[5\]",
    ),
    "floating point": (
        "boltzmann",
        lambda d: d.set("action", d["action"].float()),
        "is of dtype torch.float32: .* an integer dtype, from 0 to 2",
    ),
    "too large": (
        "boltzmann",
        lambda d: d["action"][2:3].fill_(3),
        "action 'action' holds the index 3: wanted indices from 0 to 2",
    ),
    "negative": (
        "categorical",
        lambda d: d["action"][2:3].fill_(-1),
        "action 'action' holds the index -1: wanted indices from 0 to 2",
    ),
    "hybrid too large": (
        "hybrid",
        lambda d: d[DISCRETE][2:3].fill_(7),
        r"action \('action', 'discrete'\) holds the index 7: wanted indices from 0 to 2",
    ),
    "no action": ("boltzmann", lambda d: d.pop("action"), r"set_keys\(action=...\)"),
    "hybrid one-hot": (
        "hybrid",
        lambda d: d.set(DISCRETE, nn.functional.one_hot(d[DISCRETE], 3)),
        "looks one-hot",
    ),
    "no discrete part": (
        "hybrid",
        lambda d: d["action"].pop("discrete"),
        r"set_keys\(action_discrete=...\)",
    ),
    "no continuous part": (
        "hybrid",
        lambda d: d["action"].pop("continuous"),
        r"set_keys\(action_continuous=...\)",
    ),
    "vector reward": (
        "boltzmann",
        lambda d: d["next"].set("reward", torch.zeros(5, 2)),
        r"shape \[5, 3, 1\], wanted \[5, 3, 2\] .* one output for each reward dimension",
    ),
}


@pytest.mark.parametrize(("kind", "spoil", "message"), MISSHAPEN.values(), ids=MISSHAPEN.keys())
def test_a_bad_batch_is_named_in_one_line(kind, spoil, message):
    data = batch(kind, 5)
    spoil(data)
    with pytest.raises(BatchError, match=message):
        own_loss(kind)(data)


@pytest.mark.parametrize("kind", KINDS)
def test_indices_of_invalid_steps_and_of_any_integer_type_are_read(kind):
    data = batch(kind, 5)
    key = DISCRETE if kind == "hybrid" else "action"
    data["collector", "mask"] = torch.tensor([True] * 4 + [False])
    loss = own_loss(kind)
    found = []
    for dtype in (torch.int64, torch.uint8, torch.int16, torch.uint16):
        torch.manual_seed(0)
        found.append(loss(data.clone().set(key, data[key].to(dtype)))["loss_qvalue"])
    data[key][4] = 99
    torch.manual_seed(0)
    found.append(loss(data)["loss_qvalue"])
    assert len({value.item() for value in found}) == 1


def critic_of(inputs: int, outputs, reads: list, writes: str = "action_value") -> TensorDictModule:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = MLP(in_features=inputs, out_features=outputs, num_cells=[16])

        def forward(self, *parts):
            return self.net(torch.cat([part.float() for part in parts], -1))

    return TensorDictModule(Net(), reads, [writes])


BAD_NETWORKS = {
    "critic reads the action": (
        "boltzmann",
        lambda: DiscreteSACLoss(state_action_critic(4, 2, num_cells=[16])),
        "reads the action 'action': with discrete actions a critic reads the state alone",
    ),
    "another key": (
        "boltzmann",
        lambda: DiscreteSACLoss(critic_of(4, 3, ["observation"], "q")),
        r"writes \['q'\], not 'action_value': .*set_keys\(action_value=...\)",
    ),
    "wrong dimensions": (
        "boltzmann",
        lambda: DiscreteSACLoss(critic_of(4, torch.Size([3, 2, 2]), ["observation"])),
        "wanted .* and K values",
    ),
    "other number of actions": (
        "boltzmann",
        lambda: own_loss("boltzmann", action_spec=Categorical(4)),
        "values of 3 discrete actions, but the action spec has 4",
    ),
    "actor with other actions": (
        "categorical",
        lambda: DiscreteSACLoss(
            action_value_critic(4, 3, num_cells=[16]),
            ProbabilisticActor(
                TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"]),
                in_keys=["logits"],
                distribution_class=torch.distributions.Categorical,
            ),
        ),
        "the actor has 2 actions, but qvalue_network writes 3",
    ),
    "one-hot actor": (
        "categorical",
        lambda: DiscreteSACLoss(
            action_value_critic(4, 3, num_cells=[16]),
            ProbabilisticActor(
                TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
                in_keys=["logits"],
                distribution_class=OneHotCategorical,
            ),
        ),
        "OneHotCategorical, wanted a torch.distributions.Categorical",
    ),
    "hybrid critic without c": (
        "hybrid",
        lambda: HybridSACLoss(hybrid_actor(), action_value_critic(4, 3, num_cells=[16])),
        r"not the continuous action \('action', 'continuous'\)",
    ),
    "hybrid critic reads d": (
        "hybrid",
        lambda: HybridSACLoss(
            hybrid_actor(), critic_of(7, 3, ["observation", CONTINUOUS, DISCRETE])
        ),
        "reads the discrete action",
    ),
    "mask of another shape": (
        "hybrid",
        lambda: own_loss("hybrid", parameter_mask=[[1, 0], [0, 1]]),
        r"parameter_mask has the shape \[2, 2\], wanted \[3, 2\]",
    ),
    "weights without outputs": (
        "boltzmann",
        lambda: own_loss("boltzmann", reward_weights=[1.0, 2.0]),
        "the reward is a scalar",
    ),
}


@pytest.mark.parametrize(("kind", "build", "message"), BAD_NETWORKS.values(), ids=BAD_NETWORKS)
def test_networks_that_do_not_fit_are_refused(kind, build, message):
    with pytest.raises(BatchError, match=message):
        build()(batch(kind, 5))


def test_an_actor_without_densities_of_its_own_cannot_be_masked():
    net = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=[CONTINUOUS],
        spec=Bounded(-1.0, 1.0, (2,)),
        distribution_class=TanhNormal,
    )
    critic = hybrid_critic(4, 2, 3, num_cells=[16])
    assert HybridSACLoss(actor, critic)(batch("hybrid", 5))["loss_actor"].isfinite()
    loss = HybridSACLoss(actor, critic, parameter_mask=torch.ones(3, 2))
    with pytest.raises(BatchError, match="needs the density of each dimension"):
        loss(batch("hybrid", 5))


def test_a_continuous_loss_takes_no_pairs():
    with pytest.raises(ConfigError, match="alpha_init takes one value"):
        ContinuousSACLoss(
            tanh_gaussian_actor(4, [-1.0] * 2, [1.0] * 2),
            state_action_critic(4, 2),
            alpha_init=(1.0, 1.0),
        )
