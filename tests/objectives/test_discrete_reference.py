"""Discrete and hybrid losses against the formulas, values and gradients, in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrl.objectives import ValueEstimators

from rlkit_sac.objectives.sac import discrete_factor
from rlkit_sac.objectives.sac.factors import factor_key
from tests.objectives.discrete_networks import (
    NUM_ACTIONS,
    live_gradients,
    make_discrete_data,
    make_discrete_loss,
    plain_weights,
)
from tests.objectives.discrete_references import DiscreteOptions, Draw, act, losses
from tests.objectives.networks import ACTION_DIM, NoisyTanhGaussian
from tests.objectives.prior_references import NAMES, add_before, make_prior, steps_before

TOLERANCE = 1e-10  # relative and absolute; the bar for the package is 1e-8
KINDS = ["boltzmann", "categorical", "hybrid"]


def assert_close(found, wanted) -> None:
    torch.testing.assert_close(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def plain_data(data) -> dict:
    out = {
        "obs": data["observation"],
        "next_obs": data["next", "observation"],
        "reward": data["next", "reward"],
        "terminated": data["next", "terminated"],
        "done": data["next", "done"],
    }
    if isinstance(data["action"], torch.Tensor):
        out["index"] = data["action"]
    else:
        out |= {"index": data["action", "discrete"], "continuous": data["action", "continuous"]}
    mask = data.get(("collector", "mask"), None)
    return out if mask is None else out | {"mask": mask}


def reference_options(loss, kind, critics, actions, lmbda, options) -> DiscreteOptions:
    named = {n: options[n] for n in DiscreteOptions.__dataclass_fields__ if n in options}
    named.pop("target_entropy", None)
    out = DiscreteOptions(kind, actions, critics, lmbda=lmbda, **named)
    for factor in loss.factors:
        out.alpha[factor] = float(loss.alpha(factor))
        out.mode[factor] = loss.temperatures[factor].mode
        out.target_entropy[factor] = None
        if factor not in loss.fixed_factors:
            target = getattr(loss, factor_key("target_entropy", factor))
            if target is None:  # the number of actions was not declared
                target = named_target(options, actions)
                if "prior_network" in options:
                    target = -0.5 * math.log(actions)
            out.target_entropy[factor] = target
    return out


def named_target(options: dict, actions: int) -> float:
    if "scaled_log_k" in str(options.get("target_entropy")):
        return 0.98 * math.log(actions)
    p = options.get("min_prob", 0.1)
    rest = p * (math.log(actions - 1) - math.log(p)) if actions > 1 else 0.0
    return rest - (1 - p) * math.log(1 - p) if actions > 1 else 0.0


def compare(
    kind: str,
    *,
    batch: tuple[int, ...] = (7,),
    rewards: int = 1,
    critics: int = 2,
    actions: int = NUM_ACTIONS,
    lmbda: float = 0.0,
    mask: bool = False,
    weights: bool = False,
    prior: str | None = None,
    seed: int = 0,
    **options,
) -> None:
    """The loss with ``options`` against the reference, for values and for every gradient."""
    torch.manual_seed(seed)
    case = None if prior is None else make_prior(prior, kind, actions=actions)
    if case is not None:
        options["prior_network"] = case.module
    loss = make_discrete_loss(kind, actions, rewards, critics, **options)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    data = make_discrete_data(kind, *batch, actions=actions, rewards=rewards)
    if case is not None:
        add_before(data)
    if mask:
        valid = torch.rand(*batch) < 0.7
        valid[..., 0] = True
        data["collector", "mask"] = valid
        spoiled = torch.where(valid, 1.0, torch.nan).double().unsqueeze(-1)
        data["observation"] = data["observation"] * spoiled
        data["next", "reward"] = data["next", "reward"] * spoiled
    if weights:
        data["priority_weight"] = torch.rand(*batch).double() + 0.1
    draws = [
        Draw(torch.randn(*batch, ACTION_DIM).double(), torch.randint(actions, batch))
        for _ in range(2)
    ]
    draw, next_draw = draws  # the draw at s' comes first
    parameters = {
        factor: getattr(loss, factor_key("log_alpha", factor)).detach().clone().requires_grad_()
        for factor in loss.factors
    }
    o = reference_options(loss, kind, critics, actions, lmbda, options)
    plain, inputs = plain_weights(loss), plain_data(data)
    if mask:
        inputs = {
            name: torch.nan_to_num(x) if x.is_floating_point() else x for name, x in inputs.items()
        }
    if case is not None:
        before, before_next = steps_before(data)
        befores = {id(inputs["obs"]): before, id(inputs["next_obs"]): before_next}
        o.log_prior_c = lambda obs, c: case.continuous(obs, c, befores[id(obs)])
        o.log_prior_d = lambda obs, c: case.discrete(obs, c, befores[id(obs)])
    wanted = losses(plain, parameters, inputs, draw, next_draw, o)
    priority = wanted.pop("td_error")
    share = torch.ones(*batch).double()
    if weights:
        share = share * data["priority_weight"]
    if mask:
        share = share * data["collector", "mask"]
        priority = priority * data["collector", "mask"]
    wanted = {name: (each * share).sum() / share.sum() for name, each in wanted.items()}

    out = call(loss, data, next_draw, draw)
    assert_close(data["td_error"], priority)
    assert {name for name in out.keys() if name.startswith("loss")} == set(wanted)  # noqa: SIM118
    for name, each in wanted.items():
        assert_close(out[name], each)
    sum(out[name] for name in wanted).backward()
    sum(wanted.values()).backward()
    for name, grad in live_gradients(loss).items():
        assert_close(grad, plain[name].grad)
    assert all(w.grad is None for name, w in plain.items() if name.startswith("target"))
    for factor, parameter in parameters.items():
        if factor not in loss.fixed_factors:
            assert_close(getattr(loss, factor_key("log_alpha", factor)).grad, parameter.grad)


def call(loss, data, *draws: Draw):
    """The loss, with the noise of its draws put in."""
    NoisyTanhGaussian.queue = [each.noise for each in draws]
    indices = [each.index for each in draws]
    original = discrete_factor.sample_categorical
    discrete_factor.sample_categorical = lambda log_prob: indices.pop(0)
    try:
        return loss(data)
    finally:
        discrete_factor.sample_categorical = original


COMMON = {
    "defaults": {},
    "one critic": {"critics": 1},
    "four critics": {"critics": 4},
    "two actions": {"actions": 2},
    "one action": {"actions": 1},
    "gamma": {"gamma": 0.5},
    "l1": {"loss_function": "l1"},
    "smooth l1": {"loss_function": "smooth_l1"},
    "half mean squared error": {"qvalue_coef": 0.5},
    "reward scale": {"reward_scale": 0.1},
    "alpha": {"alpha_init": 0.2},
    "fixed alpha": {"alpha_init": 0.2, "fixed_alpha": True},
    "alpha below its bound": {"alpha_init": 0.01, "min_alpha": 0.3},
    "alpha above its bound": {"alpha_init": 7.0, "max_alpha": 0.7},
    "exp alpha": {"alpha_init": 0.2, "alpha_parametrization": "exp"},
    "direct alpha": {"alpha_init": 0.2, "alpha_parametrization": "direct"},
    "target entropy": {"target_entropy": 0.7},
    "min_prob": {"min_prob": 0.4},
    "sampled entropy": {"discrete_entropy": "sampled", "alpha_init": 0.4},
    "no entropy reward": {"use_entropy_reward": False},
    "policy losses on s and s'": {"policy_loss_steps": "all"},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "policy losses on s and s', sampled": {
        "policy_loss_steps": "all",
        "discrete_entropy": "sampled",
    },
    "three rewards": {"rewards": 3},
    "signed reward weights": {"rewards": 3, "reward_weights": [0.5, -2.0, 0.0]},
    "mask": {"mask": True},
    "importance weights": {"weights": True},
    "mask and importance weights": {"mask": True, "weights": True},
    "no vmap": {"deactivate_vmap": True},
    "sequences": {"batch": (3, 5)},
    "lambda": {"batch": (3, 5), "lmbda": 0.6},
    "lambda one, sampled": {"batch": (4, 3), "lmbda": 1.0, "discrete_entropy": "sampled"},
    "lambda, masked": {"batch": (3, 6), "lmbda": 0.8, "mask": True},
    "everything": {
        "batch": (3, 5),
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "lmbda": 0.9,
        "mask": True,
        "weights": True,
        "critics": 3,
        "discrete_entropy": "sampled",
        "alpha_init": 0.3,
        "alpha_parametrization": "direct",
        "reward_scale": 2.0,
        "loss_function": "smooth_l1",
        "policy_loss_steps": "all",
    },
}

MASK = [[1, 0], [0, 1], [0, 0]]

HYBRID = {
    "pair of alphas": {"alpha_init": (0.2, 0.9)},
    "pair of bounds": {"min_alpha": (None, 2.0), "max_alpha": [0.5, None]},
    "pair of modes": {"alpha_parametrization": ("exp", "direct"), "alpha_init": 0.3},
    "only the discrete alpha fixed": {"fixed_alpha": (True, False), "alpha_init": 0.4},
    "only the continuous alpha fixed": {"fixed_alpha": (False, True), "alpha_init": 0.4},
    "pair of target entropies": {"target_entropy": ("scaled_log_k", "neg_dim")},
    "clipped action gradient": {"dqda_clipping": 0.02},
    "clipped, weighted": {
        "dqda_clipping": 0.02,
        "rewards": 2,
        "reward_weights": [1.0, -3.0],
        "weights": True,
    },
    "masked parameters": {"parameter_mask": MASK, "alpha_init": 0.3},
    "masked parameters, all options": {
        "parameter_mask": MASK,
        "alpha_init": (0.2, 0.4),
        "policy_loss_steps": "all",
        "dqda_clipping": 0.05,
        "batch": (3, 4),
        "lmbda": 0.7,
        "discrete_entropy": "sampled",
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", COMMON.values(), ids=COMMON.keys())
def test_each_option_equals_the_formula(kind, options):
    for seed in range(2):
        compare(kind, seed=seed, **options)


@pytest.mark.parametrize("options", HYBRID.values(), ids=HYBRID.keys())
def test_options_of_the_hybrid_loss_equal_the_formula(options):
    for seed in range(2):
        compare("hybrid", seed=seed, **options)


PRIORS = {
    "defaults": {},
    "targets": {"target_kld_discrete": 0.3, "alpha_init": 0.4},
    "one action": {"actions": 1},
    "fixed alpha": {"alpha_init": 0.2, "fixed_alpha": True},
    "sampled": {"discrete_entropy": "sampled", "alpha_init": 0.5},
    "no entropy reward": {"use_entropy_reward": False},
    "mean of the critics": {"policy_reduction": "mean", "critics": 3},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "signed reward weights": {"rewards": 3, "reward_weights": [0.5, -2.0, 0.0]},
    "sequences with everything": {
        "batch": (3, 5),
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "lmbda": 0.9,
        "mask": True,
        "weights": True,
        "alpha_init": 0.3,
        "alpha_parametrization": "exp",
        "policy_loss_steps": "all",
    },
}

HYBRID_PRIORS = {
    "targets": {"target_kld_per_dim": 0.7, "target_kld_discrete": 0.1},
    "clipped action gradient": {"dqda_clipping": 0.02, "alpha_init": (0.2, 0.6)},
    "masked parameters": {"parameter_mask": MASK, "alpha_init": 0.3},
    "masked parameters, all options": {
        "parameter_mask": MASK,
        "alpha_init": (0.2, 0.4),
        "policy_loss_steps": "all",
        "dqda_clipping": 0.05,
        "batch": (3, 4),
        "lmbda": 0.7,
        "discrete_entropy": "sampled",
        "target_kld_per_dim": 0.4,
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", PRIORS.values(), ids=PRIORS.keys())
def test_a_prior_enters_as_in_the_formula(kind, prior, options):
    for seed in range(2):
        compare(kind, prior=prior, seed=seed, **options)


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", HYBRID_PRIORS.values(), ids=HYBRID_PRIORS.keys())
def test_a_prior_over_both_parts_enters_as_in_the_formula(prior, options):
    for seed in range(2):
        compare("hybrid", prior=prior, seed=seed, **options)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1000),
    critics=st.integers(1, 3),
    actions=st.integers(1, 4),
    alpha_init=st.floats(0.05, 3.0),
    reward_weights=st.none() | st.lists(st.floats(-2, 2), min_size=2, max_size=3),
    lmbda=st.sampled_from([0.0, 0.5, 1.0]),
    discrete_entropy=st.sampled_from(["expected", "sampled"]),
    use_entropy_reward=st.booleans(),
    policy_loss_steps=st.sampled_from(["first", "next", "all"]),
    alpha_parametrization=st.sampled_from(["log", "exp", "direct"]),
    mask=st.booleans(),
    dqda_clipping=st.none() | st.floats(0.001, 1.0),
)
def test_combinations_equal_the_formula(kind, reward_weights, dqda_clipping, **options):
    if reward_weights is not None:
        options |= {"reward_weights": reward_weights, "rewards": len(reward_weights)}
    if kind == "hybrid":
        options["dqda_clipping"] = dqda_clipping
    compare(kind, batch=(3, 4), **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("discrete_entropy", ["expected", "sampled"])
def test_each_factor_is_centered_by_its_own_running_mean(kind, discrete_entropy):
    torch.manual_seed(0)
    loss = make_discrete_loss(
        kind, normalize_entropy_reward=True, alpha_init=0.3, discrete_entropy=discrete_entropy
    )
    plain = plain_weights(loss)
    options = {"discrete_entropy": discrete_entropy}
    o = reference_options(loss, kind, 2, NUM_ACTIONS, 0.0, options)
    parameters = {factor: torch.tensor(0.3).log() for factor in loss.factors}
    means = dict.fromkeys(loss.factors, 0.0)
    for count in range(1, 4):
        data = make_discrete_data(kind, 6)
        draw, next_draw = (
            Draw(torch.randn(6, ACTION_DIM).double(), torch.randint(NUM_ACTIONS, (6,)))
            for _ in range(2)
        )
        here = act(plain, data["observation"], draw, o)
        there = act(plain, data["next", "observation"], next_draw, o)
        for factor in loss.factors:
            both = torch.cat([here.log_pi[factor], there.log_pi[factor]]).mean().item()
            means[factor] += 8 / (7 + count) * (both - means[factor])
        o.log_prob_mean = dict(means)
        wanted = losses(plain, parameters, plain_data(data), draw, next_draw, o)
        out = call(loss, data, next_draw, draw)
        assert_close(out["loss_qvalue"], wanted["loss_qvalue"].mean())
        assert_close(data["td_error"], wanted["td_error"])
