"""Critics with a mask: K passes, each of which reads the parameters of its own action alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor
from torchrl.modules import MLP
from torchrl.objectives import ValueEstimators

from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import (
    MaskedCritic,
    ObservationNormalizer,
    SameActionPrior,
    UniformPrior,
    action_value_critic,
    hybrid_critic,
)
from rlkit_sac.objectives import HybridSACLoss
from tests.objectives.comparison import results
from tests.objectives.discrete_networks import make_discrete_data, make_discrete_loss
from tests.objectives.masked_networks import CONTINUOUS, DISCRETE, MASK, NETWORKS, masked_values
from tests.objectives.memory_references import (
    SPECS,
    assert_same_as_reference,
    make_networks,
    make_pair,
    make_rows,
    memory_of,
    with_nan,
)
from tests.objectives.networks import (
    ACTION_DIM,
    OBSERVATION_DIM,
    NoisyTanhGaussian,
    move_targets,
)
from tests.objectives.prior_references import NAMES
from tests.objectives.test_discrete_reference import check

SHARED = [[1, 1], [1, 0], [0, 1]]
MASKED = {"parameter_mask": MASK, "mask_critics": True, "alpha_init": 0.3}

EACH_NETWORK = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def exact(**options) -> None:
    check("hybrid", tolerance=1e-12, **MASKED | options)


# ------------------------------------------------------------------ K separate passes


@EACH_NETWORK
def test_masked_critics_are_one_pass_for_each_action(network):
    exact(network=network, critics=1)
    exact(network=network, critics=2, rewards=3, reward_weights=[0.5, -2.0, 0.3])
    exact(network=network, critics=5, batch=(2, 3))


OPTIONS = {
    "shared parameters": {"parameter_mask": SHARED},
    "one by one": {"deactivate_vmap": True},
    "all in the entropy": {"mask_entropy": False},
    "some targets, mean": {"critics": 5, "target_subset": 2, "policy_reduction": "mean"},
    "clipped": {"dqda_clipping": 0.02},
    "sampled entropy": {"discrete_entropy": "sampled"},
    "policy losses on s and s'": {"policy_loss_steps": "all"},
    "policy losses on s'": {"policy_loss_steps": "next"},
    "importance weights, invalid steps": {"mask": True, "weights": True},
    "lambda": {"batch": (3, 5), "lmbda": 0.7, "mask": True},
    "everything": {
        **{"batch": (3, 5), "rewards": 2, "reward_weights": [1.0, -0.3], "lmbda": 0.9},
        **{"mask": True, "weights": True, "critics": 3, "target_subset": 2},
        **{"discrete_entropy": "sampled", "dqda_clipping": 0.05, "policy_loss_steps": "all"},
        **{"policy_reduction": "mean", "mask_entropy": False, "loss_function": "smooth_l1"},
    },
}


QUICK = {"perceptron, last layer", "network of one's own"}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(network, id=name, marks=[pytest.mark.slow] * (name not in QUICK))
        for name, network in NETWORKS.items()
    ],
)
def test_options_use_the_masked_values(network, options):
    exact(network=network, **options)


@pytest.mark.parametrize("mask_entropy", [True, False])
@pytest.mark.parametrize("prior", NAMES)
def test_a_prior_multiplies_the_policy_of_the_masked_values(prior, mask_entropy):
    for name in ("perceptron", "network of one's own"):
        exact(network=NETWORKS[name], prior=prior, mask_entropy=mask_entropy)
        exact(
            network=NETWORKS[name],
            prior=prior,
            mask_entropy=mask_entropy,
            **{"batch": (3, 4), "lmbda": 0.7, "policy_loss_steps": "all"},
            **{"dqda_clipping": 0.05, "discrete_entropy": "sampled"},
        )


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    network=st.sampled_from(sorted(NETWORKS)),
    parameter_mask=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=4
    ),
    seed=st.integers(0, 1000),
    critics=st.integers(1, 3),
    reward_weights=st.none() | st.lists(st.floats(-2, 2), min_size=2, max_size=3),
    lmbda=st.sampled_from([0.0, 0.5, 1.0]),
    discrete_entropy=st.sampled_from(["expected", "sampled"]),
    policy_loss_steps=st.sampled_from(["first", "next", "all"]),
    policy_reduction=st.sampled_from(["min", "mean"]),
    mask_entropy=st.booleans(),
    mask=st.booleans(),
    deactivate_vmap=st.booleans(),
    dqda_clipping=st.none() | st.floats(0.001, 1.0),
)
def test_combinations_equal_separate_passes(network, parameter_mask, reward_weights, **options):
    if reward_weights is not None:
        options |= {"reward_weights": reward_weights, "rewards": len(reward_weights)}
    mask = {"parameter_mask": parameter_mask, "actions": len(parameter_mask)}
    check(
        "hybrid",
        network=NETWORKS[network],
        batch=(3, 4),
        **MASKED | mask | options,
        tolerance=1e-11,
    )


@EACH_NETWORK
def test_the_module_writes_separate_passes_too(network):
    torch.manual_seed(0)
    for batch, rewards in (((), 2), ((5,), 1), ((2, 3), 2)):
        critic = network[0](3, rewards).double()
        masked, data = MaskedCritic(critic, MASK), states(*batch)
        found, wanted = masked(data.clone()), masked_values(critic, data, MASK)
        torch.testing.assert_close(found["action_value"], wanted, rtol=1e-12, atol=1e-12)
        assert found.batch_size == batch
        assert torch.equal(found[CONTINUOUS], data[CONTINUOUS])
        assert masked.in_keys == critic.in_keys
        assert set(masked.out_keys) == set(found.keys()) - {"observation", "action"}


def states(*batch: int) -> TensorDict:
    action = TensorDict(continuous=torch.rand(*batch, ACTION_DIM).double() - 0.5, batch_size=batch)
    observation = torch.randn(*batch, OBSERVATION_DIM).double()
    return TensorDict(observation=observation, action=action, batch_size=batch)


# ------------------------------------------------------------------ derivatives


def values_of(module: HybridSACLoss | MaskedCritic, data: TensorDict, c: Tensor) -> Tensor:
    """Values ``[R, B, K, M]`` of the critics of a loss, or of one."""
    inputs = data.clone()
    inputs[CONTINUOUS] = c
    if isinstance(module, HybridSACLoss):
        return module.critics.values(module._members(module.qvalue_network_params), inputs)
    value = module(inputs)["action_value"]
    return value.reshape(1, *data.batch_size, len(module.mask), -1)


@pytest.mark.parametrize(
    "through", ["loss", pytest.param("loss, one by one", marks=pytest.mark.slow), "module"]
)
@EACH_NETWORK
def test_the_derivative_for_an_unused_parameter_is_zero_exactly(network, through):
    torch.manual_seed(0)
    rewards = 2
    critic = network[0](3, rewards).double()
    if through == "module":
        module = MaskedCritic(critic, MASK)
    else:
        one_by_one = through.endswith("one by one")
        module = make_discrete_loss("hybrid", critic=critic, deactivate_vmap=one_by_one, **MASKED)
    data = states(4)
    c, step = data[CONTINUOUS], 1e-6
    # A value depends on the action of its sample alone, so that sums have all derivatives.
    slope = torch.autograd.functional.jacobian(lambda c: values_of(module, data, c).sum(1), c)
    assert slope.shape[1:] == (3, rewards, 4, ACTION_DIM)
    used = torch.tensor(MASK).bool()
    for k, j in np.ndindex(3, ACTION_DIM):
        found, shift = slope[:, k, ..., j], torch.zeros(ACTION_DIM).double()
        shift[j] = step
        up, down = values_of(module, data, c + shift), values_of(module, data, c - shift)
        if not used[k, j]:
            assert (found == 0).all()
            assert torch.equal(up[:, :, k], down[:, :, k])
            continue
        wanted = ((up - down) / (2 * step))[:, :, k].movedim(1, -1)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8)
        assert (found != 0).all()


@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    unused=arrays(np.float64, (3, 4, ACTION_DIM), elements=st.floats()),
    mask_entropy=st.booleans(),
    lmbda=st.sampled_from([0.0, 0.8]),
)
def test_nothing_depends_on_unused_parameters_of_stored_actions(name, unused, mask_entropy, lmbda):
    torch.manual_seed(0)
    critic = NETWORKS[name][0](3, 1).double()
    loss = make_discrete_loss("hybrid", critic=critic, **MASKED, mask_entropy=mask_entropy)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    data = make_discrete_data("hybrid", 3, 4)
    other = data.clone()
    used = torch.tensor(MASK).bool()[data[DISCRETE]]
    other[CONTINUOUS] = torch.where(used, data[CONTINUOUS], torch.from_numpy(unused))
    noise, outs = torch.randn(2, 3, 4, ACTION_DIM).double(), []
    for batch in (data, other):
        NoisyTanhGaussian.queue = list(noise)
        outs.append(results(loss, batch))
    for key, value in outs[0].items():
        assert torch.equal(outs[1][key], value), key


@pytest.mark.parametrize("options", [{}, MASKED], ids=["plain", "masked"])
def test_what_a_critic_writes_after_its_values_is_not_taken_for_them(options):
    torch.manual_seed(0)
    critic = TensorDictSequential(
        hybrid_critic(OBSERVATION_DIM, ACTION_DIM, 3, num_cells=[5]),
        TensorDictModule(
            MLP(in_features=3, out_features=3, num_cells=[4]), ["action_value"], ["x"]
        ),
    ).double()
    data, outs = make_discrete_data("hybrid", 5), []
    for one_by_one in (False, True):
        torch.manual_seed(1)
        loss = make_discrete_loss("hybrid", critic=critic, deactivate_vmap=one_by_one, **options)
        NoisyTanhGaussian.queue = list(torch.randn(2, 5, ACTION_DIM).double())
        outs.append(results(loss, data))
    for key, value in outs[0].items():
        torch.testing.assert_close(outs[1][key], value, rtol=1e-12, atol=1e-12, msg=key)


# ------------------------------------------------------------------ a parameter that no action uses


NONE_USES = [[1, 0], [1, 0], [0, 0]]


def last_layer(loss: HybridSACLoss) -> tuple[Tensor, Tensor]:
    """Weight and bias whose rows are loc_0, loc_1, log scale_0, log scale_1."""
    params = loss.actor_network_params
    path = "module", "0", "module", "0", "2"
    return params[(*path, "weight")], params[(*path, "bias")]


@EACH_NETWORK
def test_with_the_mask_in_the_entropy_an_unused_parameter_has_no_gradient(network):
    """No value reads it, and the weight of its density is the probability that it is used, which
    is a sum over no actions: zero in every state, whatever the policy. Its loc and scale stay what
    the hidden layers, which the other dimensions train, make of them."""
    torch.manual_seed(0)
    options = MASKED | {"parameter_mask": NONE_USES, "policy_loss_steps": "all"}
    for clipping in (None, 0.01):
        loss = make_discrete_loss(
            "hybrid", critic=network[0](3, 1).double(), dqda_clipping=clipping, **options
        )
        NoisyTanhGaussian.queue = list(torch.randn(2, 6, ACTION_DIM).double())
        loss(make_discrete_data("hybrid", 6))["loss_actor"].backward()
        for parameter in last_layer(loss):
            assert (parameter.grad[1::2] == 0).all()
            assert (parameter.grad[0::2] != 0).all()


@pytest.mark.parametrize("discrete_entropy", ["expected", "sampled"])
@EACH_NETWORK
def test_without_it_the_gradient_is_that_of_its_own_entropy(network, discrete_entropy):
    """With u = loc + scale eps, log pi_j = -eps^2 / 2 - log scale - log(1 - tanh(u)^2) + constant,
    so that d/d loc = 2 tanh(u) and d/d log scale = 2 tanh(u) scale eps - 1, both times alpha_c."""
    torch.manual_seed(0)
    loss = make_discrete_loss(
        "hybrid",
        critic=network[0](3, 1).double(),
        parameter_mask=NONE_USES,
        mask_critics=True,
        mask_entropy=False,
        discrete_entropy=discrete_entropy,
        alpha_init=(0.2, 0.7),
    )
    data, noise = make_discrete_data("hybrid", 6), torch.randn(2, 6, ACTION_DIM).double()
    dist = loss.get_stateful_net("actor_network").get_dist_params(data.select("observation"))
    loc, scale, eps = dist["loc"][:, 1], dist["scale"][:, 1], noise[1, :, 1]
    NoisyTanhGaussian.queue = list(noise)
    loss(data)["loss_actor"].backward()
    _, bias = last_layer(loss)
    t = torch.tanh(loc + scale * eps)
    of_loc, of_log_scale = 0.7 * 2 * t, 0.7 * (2 * t * scale * eps - 1)
    near = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(bias.grad[1], of_loc.mean(), **near)
    torch.testing.assert_close(bias.grad[3], of_log_scale.mean(), **near)


def most_random_scale() -> float:
    """The scale of the largest entropy of tanh(scale eps).

    log scale + E[log(1 - tanh(scale eps)^2)] has its maximum where 1 = 2 scale E[eps tanh(scale
    eps)].
    """
    eps = torch.linspace(-12.0, 12.0, 40_001, dtype=torch.float64)
    density = torch.exp(-0.5 * eps**2) / math.sqrt(2 * math.pi)
    low, high = 0.1, 3.0
    for _ in range(60):
        scale = (low + high) / 2
        mean = torch.trapezoid(eps * torch.tanh(scale * eps) * density, eps).item()
        rises = 2 * scale * mean < 1
        low, high = (scale, high) if rises else (low, scale)
    return low


def test_without_it_the_unused_parameter_goes_to_the_largest_entropy():
    """Every sample of the batch is a node of a quadrature, with its weight: the mean is exact."""
    torch.manual_seed(0)
    loss = make_discrete_loss(
        "hybrid", parameter_mask=NONE_USES, mask_critics=True, mask_entropy=False, alpha_init=0.5
    )
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    noise = torch.from_numpy(nodes).unsqueeze(-1).expand(-1, ACTION_DIM)
    data = make_discrete_data("hybrid", 1).expand(len(nodes)).clone()
    data["priority_weight"] = torch.from_numpy(shares / shares.sum())
    actor = list(loss.actor_network_params.parameters())
    optimizer = torch.optim.LBFGS(actor, max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        NoisyTanhGaussian.queue = [noise]
        optimizer.zero_grad()
        total = loss.actor_loss(data)[0]
        total.backward()
        return total

    optimizer.step(closure)
    dist = loss.get_stateful_net("actor_network").get_dist_params(data[:1].select("observation"))
    assert dist["loc"][0, 1].item() == pytest.approx(0.0, abs=1e-4)
    assert dist["scale"][0, 1].item() == pytest.approx(most_random_scale(), abs=1e-4)


# ------------------------------------------------------------------ memories


@pytest.mark.parametrize(
    ("cells", "layers", "lmbda"),
    [
        ("gru", 1, 0.8),
        pytest.param("gru", 1, 0.0, marks=pytest.mark.slow),
        pytest.param("lstm", 2, 0.0, marks=pytest.mark.slow),
        pytest.param("lstm", 2, 0.8, marks=pytest.mark.slow),
    ],
)
def test_critics_with_a_memory_remember_once_and_make_passes_behind_it(cells, layers, lmbda):
    torch.manual_seed(0)
    options = {"parameter_mask": MASK, "mask_critics": True, "burn_in": 2}
    pair = make_pair("hybrid", cells, layers, **options)
    if lmbda:
        for loss in (pair.loss, pair.plain):
            loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda, gamma=0.9)
    rows = make_rows("hybrid", pair.memory, stored=("actor", "critic"))
    assert_same_as_reference(pair, rows)


def test_critics_with_a_memory_a_prior_vector_rewards_and_normalized_observations():
    torch.manual_seed(0)
    normalizer = ObservationNormalizer(4)
    normalizer.observe(torch.randn(20, 4).double() * 2 + 1)
    pair = make_pair(
        "hybrid",
        rewards=2,
        reward_weights=[1.0, -0.5],
        layer_norm=True,
        parameter_mask=SHARED,
        mask_critics=True,
        mask_entropy=False,
        prior_network=(None, UniformPrior(SPECS["hybrid"])),
        observation_normalizer=normalizer,
        policy_loss_steps="all",
        dqda_clipping=0.5,
        burn_in=1,
    )
    rows = make_rows("hybrid", pair.memory, rewards=2, stored=("critic",))
    assert_same_as_reference(pair, rows)


def test_critics_with_a_memory_whose_last_layer_reads_the_action():
    """In a batched call as in separate calls of each critic, which MaskedCritic defines."""
    torch.manual_seed(0)
    memory, outs = memory_of("hybrid", "gru", 1), []
    networks = make_networks("hybrid", memory)
    shape = {"num_cells": [6, 5], "activation": "tanh", "action_layer": "last", "memory": memory}
    networks["qvalue_network"] = [hybrid_critic(4, 2, 3, **shape).double() for _ in range(2)]
    rows = make_rows("hybrid", memory, stored=("actor", "critic"))
    for one_by_one in (False, True):
        loss = HybridSACLoss(
            **networks,
            **MASKED,
            action_spec=SPECS["hybrid"],
            prior_network=SameActionPrior(SPECS["hybrid"]),
            burn_in=1,
            deactivate_vmap=one_by_one,
        )
        torch.manual_seed(1)
        move_targets(loss.target_qvalue_network_params)
        outs.append(results(loss, with_nan(rows)))
    for key, value in outs[0].items():
        torch.testing.assert_close(outs[1][key], value, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ errors


def test_critics_have_no_mask_without_one():
    with pytest.raises(ConfigError, match="mask_critics is true without a parameter_mask: pass"):
        make_discrete_loss("hybrid", mask_critics=True)


@pytest.mark.parametrize("name", ["perceptron", "layer norms, last layer", "no hidden layer"])
@pytest.mark.parametrize("mask_entropy", [True, False])
@pytest.mark.parametrize(
    "mask", [[[1, 0]] * 2, [[1, 0]] * 4, [[1, 0, 0]] * 3, [[1]] * 3], ids=lambda mask: len(mask)
)
def test_a_mask_of_another_shape_is_named_in_the_call(name, mask, mask_entropy):
    critic = NETWORKS[name][0](3, 1).double()
    options = {"mask_critics": True, "mask_entropy": mask_entropy}
    loss = make_discrete_loss("hybrid", critic=critic, parameter_mask=mask, **options)
    columns = len(mask[0])
    if columns == 2:
        wanted = rf"(3 discrete actions|the shape \[3\]).*mask has {len(mask)} rows: wanted one"
    else:
        wanted = rf"parameter_mask has the shape \[3, {columns}\].* 2 dimensions: wanted one column"
    NoisyTanhGaussian.queue = list(torch.randn(2, 5, ACTION_DIM).double())
    with pytest.raises(BatchError, match=wanted) as caught:
        loss(make_discrete_data("hybrid", 5))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mask", [[1, 0], [[0.5, 1]], [[1], [1, 0]], torch.zeros(0, 2)], ids=str)
def test_what_is_no_mask_is_refused(mask):
    critic = hybrid_critic(OBSERVATION_DIM, ACTION_DIM, 3).double()
    deep = torch.ones(2, 2, 3, 2)
    for make in (
        lambda: MaskedCritic(critic, mask),
        lambda: MaskedCritic(critic, deep),
        lambda: make_discrete_loss("hybrid", critic=critic, parameter_mask=mask),
        lambda: make_discrete_loss("hybrid", critic=critic, parameter_mask=deep[0]),
    ):
        with pytest.raises(ConfigError, match="parameter_mask must be a matrix") as caught:
            make()
        assert "\n" not in str(caught.value)


def test_a_critic_that_does_not_read_the_continuous_action_is_refused():
    critic = action_value_critic(OBSERVATION_DIM, 3, num_cells=[5]).double()
    named = r"reads \['observation'\], not the continuous action \('action', 'continuous'\)"
    with pytest.raises(ConfigError, match=named):
        MaskedCritic(critic, MASK)
    loss = make_discrete_loss("hybrid", critic=critic, **MASKED)
    with pytest.raises(BatchError, match=named):
        loss(make_discrete_data("hybrid", 5))


def test_a_critic_without_a_value_for_each_action_is_refused():
    net = TensorDictModule(torch.nn.Linear(ACTION_DIM, 1).double(), [CONTINUOUS], ["action_value"])
    for shape in ((), (4,)):
        with pytest.raises(BatchError, match=r"of the shape \[1\] for a state, but the mask has 3"):
            MaskedCritic(net, MASK)(states(*shape))
    wide = MaskedCritic(hybrid_critic(OBSERVATION_DIM, ACTION_DIM, 3).double(), [[1, 0, 0]] * 3)
    with pytest.raises(BatchError, match=r"the shape \[3, 3\].* has 2 dimensions"):
        wide(states(4))
