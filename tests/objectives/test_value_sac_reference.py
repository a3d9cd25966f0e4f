"""Every option of the loss with a value network against the formulas, in float64."""

import pytest
import torch
from torchrl.objectives import ValueEstimators

from rlkit_sac.objectives import ValueSACLoss
from tests.objectives.networks import (
    ACTION_DIM,
    NoisyTanhGaussian,
    make_data,
    make_value_loss,
    plain_data,
    plain_weights,
)
from tests.objectives.prior_references import NAMES, add_before, make_prior, steps_before
from tests.objectives.references import Options, act
from tests.objectives.value_references import value_losses

TOLERANCE = 1e-10  # relative and absolute; the bar for the package is 1e-8


def compare(
    *,
    batch: tuple[int, ...] = (7,),
    rewards: int = 1,
    critics: int = 2,
    lmbda: float = 0.0,
    mask: bool = False,
    weights: bool = False,
    prior: str | None = None,
    seed: int = 0,
    **options,
) -> None:
    """The loss with ``options`` against the reference, for values and for every gradient."""
    torch.manual_seed(seed)
    case = None if prior is None else make_prior(prior, "continuous")
    if case is not None:
        options["prior_network"] = case.module
    loss = make_value_loss(rewards, critics, **options)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    low, high = options.get("low", [-1.0] * ACTION_DIM), options.get("high", [1.0] * ACTION_DIM)
    data = make_data(*batch, rewards=rewards, low=torch.tensor(low), high=torch.tensor(high))
    if case is not None:
        add_before(data)
    share = torch.ones(*batch).double()
    if weights:
        data["priority_weight"] = torch.rand(*batch).double() + 0.1
        share = share * data["priority_weight"]
    inputs = plain_data(data)
    valid = torch.ones(*batch, dtype=torch.bool)
    if mask:
        valid = torch.rand(*batch) < 0.7
        valid[..., 0] = True
        data["collector", "mask"] = inputs["mask"] = valid
        share = share * valid
        garbage = torch.full_like(data["observation"], torch.nan)
        data["observation"] = torch.where(valid[..., None], data["observation"], garbage)
        data["next", "observation"] = torch.where(
            valid[..., None], data["next", "observation"], garbage
        )
    noise, next_noise = torch.randn(2, *batch, ACTION_DIM).double()
    asks_for_next = lmbda or options.get("policy_loss_steps", "first") != "first"
    NoisyTanhGaussian.queue = [next_noise, noise] if asks_for_next else [noise]

    parameter = loss.log_alpha.detach().clone().requires_grad_()
    reference = Options(
        lmbda=lmbda,
        alpha=float(loss.alpha()),
        target_entropy=0.0 if options.get("fixed_alpha") else loss.target_entropy,
        **{
            name: options[name]
            for name in Options.__dataclass_fields__
            if name in options and name != "target_entropy"
        },
    )
    if case is not None:
        before, before_next = steps_before(data)
        befores = {id(inputs["obs"]): before, id(inputs["next_obs"]): before_next}
        reference.log_prior = lambda obs, action: case.continuous(
            obs, action, befores[id(obs)]
        ).sum(-1)
    plain = plain_weights(loss)
    wanted = value_losses(plain, parameter, inputs, noise, next_noise, critics, reference)
    priority = wanted.pop("td_error") * valid
    wanted = {name: (each * share).sum() / share.sum() for name, each in wanted.items()}

    out = loss(data)
    assert not NoisyTanhGaussian.queue
    assert_close(data["td_error"], priority)
    for name, each in wanted.items():
        assert_close(out[name], each)
    for name in wanted:  # each alone, as every loss trains its own parameters alone
        loss.zero_grad()
        for w in plain.values():
            w.grad = None
        parameter.grad = None
        if out[name].requires_grad:
            out[name].backward(retain_graph=True)
            wanted[name].backward(retain_graph=True)
        owners = {"actor": "loss_actor", "q": "loss_qvalue", "v": "loss_value"}
        for short, grad in live_gradients(loss).items():
            if owners[short.split(".")[0].rstrip("0123456789")] == name:
                assert_close(grad, plain[short].grad)
            else:
                assert grad is None or not grad.any()
        if name == "loss_alpha" and not options.get("fixed_alpha"):
            assert_close(loss.log_alpha.grad, parameter.grad)
        elif isinstance(loss.log_alpha, torch.nn.Parameter):
            assert loss.log_alpha.grad is None


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def live_gradients(loss: ValueSACLoss) -> dict[str, torch.Tensor | None]:
    layers = {
        "w1": ("0", "weight"),
        "b1": ("0", "bias"),
        "w2": ("2", "weight"),
        "b2": ("2", "bias"),
    }
    out = {}
    for short, path in layers.items():
        actor = loss.actor_network_params[("module", "0", "module", "0", *path)]
        out[f"actor.{short}"] = actor.grad
        out[f"v.{short}"] = loss.value_network_params[("module", *path)].grad
        stacked = loss.qvalue_network_params[("module", "net", *path)].grad
        for i in range(loss.num_qvalue_nets):
            out[f"q{i}.{short}"] = None if stacked is None else stacked[i]
    return out


OPTIONS = {
    "defaults": {},
    "one critic": {"critics": 1},
    "five critics": {"critics": 5},
    "gamma": {"gamma": 0.5},
    "l1": {"loss_function": "l1"},
    "smooth l1": {"loss_function": "smooth_l1"},
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "half mean squared error": {"qvalue_coef": 0.5},
    "reward scale": {"reward_scale": 0.1},
    "fixed alpha": {"alpha_init": 0.2, "fixed_alpha": True},
    "alpha above its bound": {"alpha_init": 7.0, "max_alpha": 0.7},
    "exp alpha": {"alpha_init": 0.2, "alpha_parametrization": "exp"},
    "direct alpha": {"alpha_init": 0.2, "alpha_parametrization": "direct"},
    "negative dimension": {"target_entropy": "neg_dim"},
    "clipped action gradient": {"dqda_clipping": 0.05},
    "no entropy reward": {"use_entropy_reward": False},
    "policy losses on s and s'": {"policy_loss_steps": "all"},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "bounds": {"low": [-2.0, 0.1], "high": [0.5, 0.3]},
    "three rewards": {"rewards": 3},
    "signed reward weights": {"rewards": 3, "reward_weights": [0.5, -2.0, 0.0]},
    "mask": {"mask": True},
    "importance weights": {"weights": True},
    "mask and importance weights": {"mask": True, "weights": True},
    "no vmap": {"deactivate_vmap": True},
    "sequences": {"batch": (3, 5)},
    "lambda": {"batch": (3, 5), "lmbda": 0.6},
    "lambda one": {"batch": (4, 3), "lmbda": 1.0},
    "lambda, masked": {"batch": (3, 6), "lmbda": 0.8, "mask": True},
    "vector rewards on sequences": {
        "batch": (3, 5),
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "lmbda": 0.9,
        "mask": True,
        "weights": True,
        "dqda_clipping": 0.02,
        "critics": 3,
        "policy_loss_steps": "all",
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_each_option_equals_the_formula(options):
    for seed in range(3):
        compare(seed=seed, **options)


PRIORS = {
    "defaults": {},
    "target": {"target_kld_per_dim": 0.7, "alpha_init": 0.3},
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "no entropy reward": {"use_entropy_reward": False},
    "sequences with everything": {
        "batch": (3, 5),
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "lmbda": 0.9,
        "mask": True,
        "weights": True,
        "dqda_clipping": 0.02,
        "policy_loss_steps": "all",
        "target_kld_per_dim": 0.2,
    },
}


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", PRIORS.values(), ids=PRIORS.keys())
def test_a_prior_enters_as_in_the_formula(prior, options):
    for seed in range(2):
        compare(prior=prior, seed=seed, **options)


def test_normalized_entropy_reward_centers_the_target_of_the_value_network():
    torch.manual_seed(0)
    loss = make_value_loss(normalize_entropy_reward=True, alpha_init=0.3)
    plain = plain_weights(loss)
    mean = 0.0
    for call in range(1, 4):
        data = make_data(6)
        noise, next_noise = torch.randn(2, 6, ACTION_DIM).double()
        o = Options(alpha=0.3, target_entropy=loss.target_entropy)
        both = [
            act(plain, data["observation"], noise, o)[1],
            act(plain, data["next", "observation"], next_noise, o)[1],
        ]
        mean += 8 / (7 + call) * (torch.cat(both).mean().item() - mean)
        o.log_prob_mean = mean
        parameter = torch.tensor(0.3).log()
        wanted = value_losses(plain, parameter, plain_data(data), noise, next_noise, 2, o)
        NoisyTanhGaussian.queue = [next_noise, noise]
        out = loss(data)
        for name in ("loss_value", "loss_qvalue", "loss_actor"):
            assert_close(out[name], wanted[name].mean())


def test_the_critics_and_the_value_network_meet_at_the_soft_value_of_a_constant_reward():
    """One state for ever, reward 1: V = Q + alpha H with Q = 1 + gamma V, whatever the policy."""
    torch.manual_seed(0)
    gamma, bias = 0.9, ("module", "2", "bias")
    loss = make_value_loss(gamma=gamma, fixed_alpha=True, alpha_init=0.5, critics=1)
    data = make_data(64)
    data["next", "terminated"][:] = False
    data["next", "reward"][:] = 1.0
    noise = torch.randn(64, ACTION_DIM).double()
    with torch.no_grad():
        for params in (
            loss.qvalue_network_params,
            loss.value_network_params,
            loss.target_value_network_params,
        ):
            for value in params.values(True, True):
                value.zero_()
        plain, o = plain_weights(loss), Options(alpha=0.5)
        entropy = -act(plain, data["observation"], noise, o)[1].mean()
        v = (1 + 0.5 * entropy) / (1 - gamma)
        loss.value_network_params[bias].fill_(v)
        loss.target_value_network_params[bias].fill_(v)
        loss.qvalue_network_params["module", "net", "2", "bias"].fill_(v - 0.5 * entropy)
    NoisyTanhGaussian.queue = [noise]
    out = loss(data)
    out["loss_value"].backward()
    assert_close(out["loss_qvalue"].detach(), torch.zeros(()).double())
    assert_close(loss.value_network_params[bias].grad, torch.zeros(1).double())
