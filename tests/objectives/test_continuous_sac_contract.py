"""The loss as a part of TorchRL: its keys, its pieces, and what it leaves alone."""

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
from torchrl.data import Bounded
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate, ValueEstimators, group_optimizers

from rlkit_sac.envs import make_env
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss

LOSSES = ("loss_actor", "loss_qvalue", "loss_alpha")


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = MLP(in_features=6, out_features=1, num_cells=[16])

    def forward(self, observation, action):
        return self.mlp(torch.cat([observation, action], -1))


def foreign_actor(low: float = -1.0, high: float = 1.0, bias: float = 0.0) -> ProbabilisticActor:
    net = MLP(in_features=4, out_features=4, num_cells=[16])
    with torch.no_grad():
        net[-1].bias[:2] += bias
    return ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(net, NormalParamExtractor()),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=Bounded(low, high, (2,)),
        distribution_class=TanhNormal,
        distribution_kwargs={"low": low, "high": high},
        return_log_prob=True,
    )


def foreign_critic() -> ValueOperator:
    return ValueOperator(Critic(), in_keys=["observation", "action"])


def own_loss(**options) -> ContinuousSACLoss:
    return ContinuousSACLoss(
        tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0], num_cells=[16]),
        state_action_critic(4, 2, num_cells=[16]),
        **options,
    )


def batch(*shape: int) -> TensorDict:
    ends = torch.rand(*shape, 1)
    return TensorDict(
        observation=torch.randn(*shape, 4),
        action=torch.rand(*shape, 2) * 2 - 1,
        next=TensorDict(
            observation=torch.randn(*shape, 4),
            reward=torch.randn(*shape, 1),
            done=ends < 0.4,
            terminated=ends < 0.2,
            batch_size=shape,
        ),
        batch_size=shape,
    )


@pytest.mark.parametrize("bound", [1.0, 2.5])
@pytest.mark.parametrize("loss_function", ["l2", "smooth_l1"])
def test_equals_torchrl_where_both_define_the_same(bound, loss_function):
    torch.manual_seed(0)
    actor, critics = foreign_actor(-bound, bound), [foreign_critic(), foreign_critic()]
    options = {"loss_function": loss_function, "alpha_init": 0.3}
    theirs = SACLoss(actor, critics, **options)
    ours = ContinuousSACLoss(actor, critics, target_entropy="neg_dim", **options)
    theirs.make_value_estimator(gamma=0.9)
    ours.make_value_estimator(gamma=0.9)
    data = batch(12)
    outs, gradients = [], []
    for loss in (theirs, ours):
        loss.zero_grad()
        torch.manual_seed(1)
        out = loss(data.clone())
        sum(out[name] for name in LOSSES).backward()
        outs.append(out)
        gradients.append([p.grad.clone() for p in loss.parameters()])
    assert set(outs[0].keys()) == set(outs[1].keys())
    for name, value in outs[0].items():
        torch.testing.assert_close(outs[1][name], value, rtol=1e-5, atol=1e-6)
    for wanted, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("actor", [foreign_actor, "own"])
def test_saturated_actions_are_scored_exactly_in_float32(actor):
    """log pi of a policy beyond tanh's resolution, against the pre-tanh value in float64."""
    torch.manual_seed(0)
    if actor == "own":
        policy = tanh_gaussian_actor(4, [-1.0, -1.0], [1.0, 1.0], num_cells=[16])
        with torch.no_grad():
            list(policy.parameters())[-1][:2] += 18.0
    else:
        policy = actor(bias=18.0)
    loss = ContinuousSACLoss(policy, foreign_critic())
    data = batch(64)
    torch.manual_seed(1)
    entropy = loss(data)["entropy"].item()

    torch.manual_seed(1)
    torch.randn(64, 2)  # the draw at s'
    noise = torch.randn(64, 2).double()
    out = policy.get_dist_params(data.select("observation"))
    loc, scale = out["loc"].double(), out["scale"].double()
    u = loc + scale * noise
    assert (u.abs() > 10).all()  # where float32 rounds tanh to one
    slope = 2 * (math.log(2) - u - nn.functional.softplus(-2 * u))
    log_prob = -0.5 * noise**2 - scale.log() - 0.5 * math.log(2 * math.pi) - slope
    assert entropy == pytest.approx(-log_prob.sum(-1).mean().item(), abs=1e-3)


def test_the_batch_gains_its_priority_and_nothing_else():
    loss = own_loss()
    data = batch(5)
    before = data.clone()
    loss(data)
    assert set(data.keys(True, True)) == {*before.keys(True, True), "td_error"}
    assert (data.exclude("td_error") == before).all()


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
        sum(out[name] for name in LOSSES).backward()
        optimizer.step()
        optimizer.zero_grad()
        target_updater.step()
        history.append(out["loss_qvalue"].item())
    assert history[-1] < 0.2 * history[0]


def test_the_policy_shares_the_live_parameters_whatever_happens_to_the_loss():
    torch.manual_seed(0)
    data = batch(3)
    for change in (
        lambda loss: None,
        lambda loss: loss.double(),
        lambda loss: loss.load_state_dict(own_loss().state_dict()),
    ):
        loss = own_loss()
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


def test_copies_are_independent_and_pickles_complete():
    torch.manual_seed(0)
    loss = own_loss(normalize_entropy_reward=True)
    data = batch(5)
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
        assert all(torch.equal(found[name], out[name]) for name in LOSSES)


def test_nested_keys_name_the_same_numbers():
    torch.manual_seed(0)
    loss, data = own_loss(), batch(5)
    torch.manual_seed(1)
    wanted = loss(data.clone())
    moved = data.clone()
    moved["next"].rename_key_("reward", ("deep", "gain"))
    moved["next"].rename_key_("terminated", ("deep", "over"))
    loss.set_keys(reward=("deep", "gain"), terminated=("deep", "over"), priority=("p", "q"))
    assert ("next", "deep", "gain") in loss.in_keys
    torch.manual_seed(1)
    found = loss(moved)
    assert all(torch.equal(found[name], wanted[name]) for name in LOSSES)
    assert moved["p", "q"].shape == (5,)


def test_td_lambda_of_zero_is_td0():
    torch.manual_seed(0)
    loss, data = own_loss(), batch(4, 6)
    torch.manual_seed(1)
    wanted = loss(data.clone())
    loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=0.0)
    torch.manual_seed(1)
    assert torch.equal(loss(data.clone())["loss_qvalue"], wanted["loss_qvalue"])


def test_td_lambda_of_a_flat_sample_from_replay_is_refused():
    loss, data = own_loss(), batch(6)
    loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=0.9)
    assert loss(data.clone())["loss_qvalue"].isfinite()  # one sequence of six steps
    with pytest.raises(BatchError, match=r"flat sample \[6\] from replay"):
        loss(data.set("index", torch.arange(6)))


def test_dropout_and_layer_norm_in_critics():
    torch.manual_seed(0)

    def critic():
        net = nn.Sequential(
            nn.Linear(6, 8), nn.Dropout(0.5), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1)
        )
        return TensorDictModule(
            Concatenate(net), in_keys=["observation", "action"], out_keys=["state_action_value"]
        )

    loss = ContinuousSACLoss(foreign_actor(), critic())
    data = batch(32)
    out = loss(data)
    out["loss_qvalue"].backward()
    assert all(p.grad.abs().sum() > 0 for p in loss.qvalue_network_params.parameters())
    torch.manual_seed(1)
    first = loss(data.clone())["loss_qvalue"]
    torch.manual_seed(2)
    assert loss(data.clone())["loss_qvalue"] != first


class Concatenate(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        return self.net(torch.cat(inputs, -1))


def test_a_trunk_shared_with_the_actor_leaves_the_critics_a_gradient():
    torch.manual_seed(0)
    trunk = nn.Linear(4, 8)

    class Shared(nn.Module):
        def __init__(self, outputs: int, extra: int) -> None:
            super().__init__()
            self.trunk, self.head = trunk, nn.Linear(8 + extra, outputs)

        def forward(self, observation, *rest):
            return self.head(torch.cat([self.trunk(observation), *rest], -1))

    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(Shared(4, 0), NormalParamExtractor()),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=Bounded(-1.0, 1.0, (2,)),
        distribution_class=TanhNormal,
    )
    critic = TensorDictModule(
        Shared(1, 2), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )
    loss = ContinuousSACLoss(actor, critic)
    loss(batch(6))["loss_qvalue"].backward()
    for p in loss.qvalue_network_params.parameters():
        assert p.grad is not None
        assert p.grad.abs().sum() > 0


MISSHAPEN = {
    "reward": (lambda d: d["next"].pop("reward"), "('next', 'reward')", "set_keys(reward=...)"),
    "action": (lambda d: d.pop("action"), "'action'", "set_keys(action=...)"),
    "terminated": (
        lambda d: d["next"].pop("terminated"),
        "('next', 'terminated')",
        "set_keys(terminated=...)",
    ),
    "observation": (lambda d: d.pop("observation"), "'observation'", "let the networks read"),
    "flat reward": (
        lambda d: d["next"].set("reward", torch.zeros(5)),
        "reward has the shape [5]",
        "trailing dimension",
    ),
    "wide reward": (
        lambda d: d["next"].set("reward", torch.zeros(5, 3)),
        "[5, 3]",
        "one output for each reward dimension",
    ),
    "flat terminated": (
        lambda d: d["next"].set("terminated", torch.zeros(5, dtype=torch.bool)),
        "terminated",
        "wanted [5, 1]",
    ),
    "wide action": (
        lambda d: d.set("action", torch.zeros(5, 3)),
        "action 'action' has the shape [5, 3]",
        "[5, 2]",
    ),
}


@pytest.mark.parametrize(("spoil", "what", "advice"), MISSHAPEN.values(), ids=MISSHAPEN.keys())
def test_a_bad_batch_is_named_in_one_line(spoil, what, advice):
    data = batch(5)
    spoil(data)
    with pytest.raises(BatchError) as error:
        own_loss()(data)
    assert what in str(error.value)
    assert advice in str(error.value)


def test_a_one_step_target_does_not_ask_for_done():
    data = batch(5)
    data["next"].pop("done")
    assert own_loss()(data)["loss_qvalue"].isfinite()
    sequence = batch(2, 3)
    sequence["next"].pop("done")
    loss = own_loss().make_value_estimator(ValueEstimators.TD1)
    with pytest.raises(BatchError, match=r"done"):
        loss(sequence)


REFUSED = {
    "reward weights of a scalar": ({"reward_weights": [1.0]}, "the reward is a scalar"),
    "loss function": ({"loss_function": "huber"}, "loss_function must be one of"),
    "reduction": ({"reduction": "avg"}, "reduction must be one of"),
    "policy loss steps": ({"policy_loss_steps": "last"}, "policy_loss_steps must be one of"),
    "parametrization": ({"alpha_parametrization": "linear"}, "alpha_parametrization"),
    "target entropy": ({"target_entropy": "automatic"}, "target_entropy 'automatic'"),
    "clipping": ({"dqda_clipping": -1.0}, "dqda_clipping"),
    "gamma": ({"gamma": 1.5}, r"gamma must be in \[0, 1\]"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_impossible_options_are_refused(options, message):
    with pytest.raises((ConfigError, BatchError), match=message):
        own_loss(**options)(batch(5))


def test_reward_weights_of_the_wrong_length_are_refused():
    critic = state_action_critic(4, 2, num_cells=[16], reward_dim=3)
    loss = ContinuousSACLoss(foreign_actor(), critic, reward_weights=[1.0, 2.0])
    data = batch(5)
    data["next", "reward"] = torch.randn(5, 3)
    with pytest.raises(BatchError, match=r"reward_weights has the shape \[2\].*3 dimensions"):
        loss(data)
    loss.reward_weights = [1.0, -1.0, 0.0]  # numbers are taken over in the loss's own dtype
    assert loss.double().reward_weights.tolist() == [1.0, -1.0, 0.0]
    assert loss(data.double())["loss_qvalue"].isfinite()
    assert set(loss.state_dict()) == set(ContinuousSACLoss(foreign_actor(), critic).state_dict())
    with pytest.raises(ConfigError, match="finite numbers"):
        loss.reward_weights = [1.0, math.nan, 0.0]


@pytest.mark.parametrize("parametrization", ["log", "exp", "direct"])
@pytest.mark.parametrize("steps", ["first", "all"])
def test_outside_its_bounds_the_temperature_comes_back_in_a_plain_loop(parametrization, steps):
    """Above the largest alpha, with a target that pulls outward, and with one that pulls back."""
    torch.manual_seed(0)
    for target, moves in ((-50.0, True), (50.0, False)):
        loss = own_loss(
            max_alpha=0.5,
            alpha_parametrization=parametrization,
            target_entropy=target,
            policy_loss_steps=steps,
        )
        with torch.no_grad():
            loss.log_alpha.add_(1.0)
        start = loss.log_alpha.item()
        data = batch(6)
        data["collector", "mask"] = torch.tensor([True] + [False] * 5)
        data["priority_weight"] = torch.tensor([2.0] + [math.nan] * 5)
        out = loss(data)
        assert out["alpha"].item() == pytest.approx(0.5)
        assert all(out[name].isfinite() for name in LOSSES)
        out["loss_alpha"].backward()
        assert (loss.log_alpha.grad.item() > 0) == moves
        assert moves or loss.log_alpha.grad.item() == 0
        loss.project_parameters()
        assert loss.log_alpha.item() < start


def test_batch_norm_is_refused():
    critic = TensorDictModule(
        Concatenate(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))),
        in_keys=["observation", "action"],
        out_keys=["state_action_value"],
    )
    with pytest.raises(ConfigError, match=r"BatchNorm1d at 'module.net.1'.*LayerNorm"):
        ContinuousSACLoss(foreign_actor(), critic)


def test_evaluation_mode_reaches_the_networks():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    critic = TensorDictModule(
        Concatenate(net), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )
    loss, data = ContinuousSACLoss(foreign_actor(), critic).eval(), batch(16)
    torch.manual_seed(1)
    first = loss(data.clone())["loss_qvalue"]
    loss.set_vmap_randomness("error")  # nothing random is left in the critics
    torch.manual_seed(1)
    assert loss(data.clone())["loss_qvalue"] == first


def test_bounds_without_a_width_are_refused_whatever_the_target_entropy():
    for low, high in ((0.0, 0.0), (-math.inf, math.inf), (16777216.0, 16777216.5)):
        actor = foreign_actor()
        spec = Bounded(low, high, (2,))
        with pytest.raises(ConfigError, match="action dimension 0 has the bounds"):
            ContinuousSACLoss(actor, foreign_critic(), action_spec=spec, target_entropy=-2.0)


def test_the_spec_of_a_batched_environment_is_refused():
    with pytest.raises(ConfigError, match=r"\[4, 2\].*\[2\].*action_spec_unbatched"):
        own_loss(action_spec=Bounded(-1.0, 1.0, (4, 2)))


def test_a_critic_that_writes_another_key_is_named():
    critic = state_action_critic(4, 2, num_cells=[16])
    critic.out_keys = ["q"]
    with pytest.raises(BatchError, match=r"writes \['q'\], not 'state_action_value'"):
        ContinuousSACLoss(foreign_actor(), critic)(batch(5))


def test_a_distribution_that_does_not_sum_over_the_action_is_refused():
    actor = foreign_actor()
    actor[-1].distribution_kwargs["event_dims"] = 0
    with pytest.raises(BatchError, match="summed over the action's dimensions"):
        ContinuousSACLoss(actor, foreign_critic())(batch(5))


def test_a_critic_that_ignores_the_action_is_refused():
    critic = TensorDictModule(
        nn.Linear(4, 1), in_keys=["observation"], out_keys=["state_action_value"]
    )
    with pytest.raises(BatchError, match="not the action 'action'"):
        ContinuousSACLoss(foreign_actor(), critic)(batch(5))


def test_an_action_key_the_critic_does_not_read_is_named_as_such():
    loss = own_loss()
    loss.set_keys(action=("agent", "action"))
    data = batch(5)
    data["agent", "action"] = data.pop("action")
    with pytest.raises(BatchError, match=r"not the action \('agent', 'action'\)"):
        loss(data)


def test_a_bare_module_as_critic_is_refused():
    with pytest.raises(ConfigError, match="Critic without in_keys: wrap it in a TensorDictModule"):
        ContinuousSACLoss(foreign_actor(), Critic())


def test_estimators_without_entropy_are_refused():
    with pytest.raises(NotImplementedError, match="Available: TD0, TD1, TDLambda"):
        own_loss().make_value_estimator(ValueEstimators.GAE)
    with pytest.raises(ConfigError, match="unknown hyperparameters"):
        own_loss().make_value_estimator(ValueEstimators.TD0, lmbda=0.5)


def test_diagnostics_are_declared_and_finite():
    loss = own_loss(diagnostics=True, num_qvalue_nets=3)
    out = loss(batch(8))
    assert set(out.keys()) == set(loss.out_keys)
    assert {"q2_loss", "q0_min", "explained_variance", "td_error_mean"} <= set(out.keys())
    assert not any(out[name].requires_grad for name in loss.out_keys if not name.startswith("loss"))
