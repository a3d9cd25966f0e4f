"""Discrete and hybrid losses against the formulas, values and gradients, in float64."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torchrl.objectives import ValueEstimators

from rlkit_sac.objectives import HybridSACLoss
from tests.objectives.comparison import TOLERANCE, assert_close, compare, make_batch, picked
from tests.objectives.discrete_networks import (
    NUM_ACTIONS,
    make_critic,
    make_discrete_data,
    make_discrete_loss,
    waiting_times,
)
from tests.objectives.discrete_references import DiscreteOptions, Draw, act, losses
from tests.objectives.networks import (
    ACTION_DIM,
    NoisyTanhGaussian,
    over_atoms,
    plain_data,
    plain_weights,
)
from tests.objectives.options import COMMON, PRIORS, SEQUENCES
from tests.objectives.prior_references import NAMES, make_prior

KINDS = ["boltzmann", "categorical", "hybrid"]


def factors_of(kind: str) -> list[str]:
    return ["discrete", "continuous"] if kind == "hybrid" else [""]


def of_factor(name: str, factor: str) -> str:
    return f"{name}_{factor}" if factor else name


def reference_options(loss, kind, critics, actions, lmbda, options) -> DiscreteOptions:
    out = DiscreteOptions(kind, actions, critics, lmbda=lmbda, **picked(DiscreteOptions, options))
    modes = options.get("alpha_parametrization", "log")
    for place, factor in enumerate(factors_of(kind)):
        out.alpha[factor] = float(loss.alpha(factor))
        out.mode[factor] = modes if isinstance(modes, str) else modes[place]
        out.target_entropy[factor] = None
        if isinstance(getattr(loss, of_factor("log_alpha", factor)), nn.Parameter):
            target = getattr(loss, of_factor("target_entropy", factor))
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


def check(
    kind: str,
    *,
    batch: tuple[int, ...] = (7,),
    rewards: int = 1,
    critics: int = 2,
    actions: int = NUM_ACTIONS,
    lmbda: float = 0.0,
    mask: bool = False,
    weights: bool = False,
    several_steps: bool = False,
    prior: str | None = None,
    network: tuple[Callable[..., nn.Module], Callable[..., Tensor]] | None = None,
    atoms: int | None = None,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    **options,
) -> None:
    """The loss with ``options`` against the reference.

    Args:
        network: what makes a critic of numbers of actions and rewards, and its formula.
        atoms: of critics over atoms.
    """
    torch.manual_seed(seed)
    case = None if prior is None else make_prior(prior, kind, actions=actions)
    if case is not None:
        options["prior_network"] = case.module
    critic = None if network is None else network[0](actions, rewards).double()
    if atoms is not None:
        critic = over_atoms(make_critic(kind, actions, atoms))
    loss = make_discrete_loss(kind, actions, rewards, critics, critic, **options)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    both = make_batch(
        make_discrete_data(kind, *batch, actions=actions, rewards=rewards),
        mask=mask,
        weights=weights,
        several_steps=several_steps,
        prior=case is not None,
    )
    draw, next_draw = make_draw(*batch, actions=actions), make_draw(*batch, actions=actions)
    parameters = {
        name: getattr(loss, name).detach().clone().requires_grad_()
        for name in (of_factor("log_alpha", factor) for factor in factors_of(kind))
    }
    o = reference_options(loss, kind, critics, actions, lmbda, options)
    o.atoms = atoms
    if case is not None:
        o.log_prior_c = lambda obs, c: case.continuous(obs, c, both.before(obs))
        o.log_prior_d = lambda obs, c: case.discrete(obs, c, both.before(obs))
    if network is not None:
        o.network = network[1]
    if "target_subset" in options:
        loss.critic_order = torch.randperm(critics)
        o.target_members = loss.critic_order[: options["target_subset"]].tolist()
    plain = plain_weights(loss)
    by_factor = dict(zip(factors_of(kind), parameters.values(), strict=True))
    wanted = losses(plain, by_factor, both.inputs, draw, next_draw, o)

    def run():
        return call(loss, both.data, next_draw, draw, options)

    compare(loss, both, wanted, plain, parameters, run, tolerance)


def make_draw(*batch: int, actions: int = NUM_ACTIONS) -> Draw:
    waiting = torch.empty(*batch, actions).double().exponential_()
    return Draw(torch.randn(*batch, ACTION_DIM).double(), waiting)


def call(loss, data, next_draw: Draw, draw: Draw, options: dict):
    """The loss, with the noise of its draws put in: the draw at s' comes first."""
    hybrid, sampled = isinstance(loss, HybridSACLoss), options.get("discrete_entropy") == "sampled"
    draws = (next_draw, draw)
    NoisyTanhGaussian.queue = [each.noise for each in draws if hybrid]
    queue = [each.waiting_times for each in draws if sampled]
    with waiting_times(queue):
        out = loss(data)
    assert not NoisyTanhGaussian.queue
    assert not queue
    return out


DISCRETE = COMMON | {
    "two actions": {"actions": 2},
    "one action": {"actions": 1},
    "sampled entropy": {"discrete_entropy": "sampled", "alpha_init": 0.4},
    "policy losses on s and s', sampled": {
        "policy_loss_steps": "all",
        "discrete_entropy": "sampled",
    },
    "lambda one, sampled": {"batch": (4, 3), "lmbda": 1.0, "discrete_entropy": "sampled"},
    "everything": {
        **SEQUENCES,
        "critics": 3,
        "discrete_entropy": "sampled",
        "alpha_init": 0.3,
        "alpha_parametrization": "direct",
        "reward_scale": 2.0,
        "loss_function": "smooth_l1",
    },
}

MASK = [[1, 0], [0, 1], [0, 0]]

MASKED = {
    "parameter_mask": MASK,
    "alpha_init": (0.2, 0.4),
    "policy_loss_steps": "all",
    "dqda_clipping": 0.05,
    "batch": (3, 4),
    "lmbda": 0.7,
    "discrete_entropy": "sampled",
}

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
    "masked parameters, all options": MASKED,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", DISCRETE.values(), ids=DISCRETE.keys())
def test_each_option_equals_the_formula(kind, options):
    for seed in range(2):
        check(kind, seed=seed, **options)


@pytest.mark.parametrize("options", HYBRID.values(), ids=HYBRID.keys())
def test_options_of_the_hybrid_loss_equal_the_formula(options):
    for seed in range(2):
        check("hybrid", seed=seed, **options)


DISCRETE_PRIORS = PRIORS | {
    "targets": {"target_kld_discrete": 0.3, "alpha_init": 0.4},
    "one action": {"actions": 1},
    "sampled": {"discrete_entropy": "sampled", "alpha_init": 0.5},
    "sequences with everything": {
        **SEQUENCES,
        "alpha_init": 0.3,
        "alpha_parametrization": "exp",
    },
}

HYBRID_PRIORS = {
    "targets": {"target_kld_per_dim": 0.7, "target_kld_discrete": 0.1},
    "clipped action gradient": {"dqda_clipping": 0.02, "alpha_init": (0.2, 0.6)},
    "masked parameters": {"parameter_mask": MASK, "alpha_init": 0.3},
    "masked parameters, all options": {**MASKED, "target_kld_per_dim": 0.4},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", DISCRETE_PRIORS.values(), ids=DISCRETE_PRIORS.keys())
def test_a_prior_enters_as_in_the_formula(kind, prior, options):
    for seed in range(2):
        check(kind, prior=prior, seed=seed, **options)


@pytest.mark.parametrize("prior", NAMES)
@pytest.mark.parametrize("options", HYBRID_PRIORS.values(), ids=HYBRID_PRIORS.keys())
def test_a_prior_over_both_parts_enters_as_in_the_formula(prior, options):
    for seed in range(2):
        check("hybrid", prior=prior, seed=seed, **options)


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
    check(kind, batch=(3, 4), **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("discrete_entropy", ["expected", "sampled"])
def test_each_factor_is_centered_by_its_own_running_mean(kind, discrete_entropy):
    torch.manual_seed(0)
    loss = make_discrete_loss(
        kind, normalize_entropy_reward=True, alpha_init=0.3, discrete_entropy=discrete_entropy
    )
    plain, factors = plain_weights(loss), factors_of(kind)
    options = {"discrete_entropy": discrete_entropy}
    o = reference_options(loss, kind, 2, NUM_ACTIONS, 0.0, options)
    parameters = {factor: torch.tensor(0.3).log() for factor in factors}
    means = dict.fromkeys(factors, 0.0)
    for count in range(1, 4):
        data = make_discrete_data(kind, 6)
        draw, next_draw = make_draw(6), make_draw(6)
        here = act(plain, data["observation"], draw, o)
        there = act(plain, data["next", "observation"], next_draw, o)
        for factor in factors:
            both = torch.cat([here.log_pi[factor], there.log_pi[factor]]).mean().item()
            means[factor] += 8 / (7 + count) * (both - means[factor])
        o.log_prob_mean = dict(means)
        wanted = losses(plain, parameters, plain_data(data), draw, next_draw, o)
        out = call(loss, data, next_draw, draw, options)
        assert_close(out["loss_qvalue"], wanted["loss_qvalue"].mean())
        assert_close(data["td_error"], wanted["td_error"])
