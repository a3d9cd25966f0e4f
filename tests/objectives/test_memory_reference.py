"""Losses with memories against references that walk through each episode by itself."""

import warnings

import pytest
import torch
from torchrl.objectives import ValueEstimators

from rlkit_sac.modules import ObservationNormalizer, RewardNormalizer, SameActionPrior, UniformPrior
from tests.objectives.losses import KINDS
from tests.objectives.memory_references import (
    SPECS,
    Reference,
    assert_same_as_reference,
    make_pair,
    make_rows,
)

EVERY = ("actor", "critic", "value")


def estimate(pair: Reference, lmbda: float) -> None:
    for loss in (pair.loss, pair.plain):
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda, gamma=0.9)


@pytest.mark.parametrize(  # each pair of values once
    ("cells", "layers", "burn_in", "lmbda"),
    [("gru", 1, 0, 0.8), ("gru", 1, 2, 0.0), ("lstm", 2, 0, 0.0), ("lstm", 2, 2, 0.8)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_loss(kind: str, cells: str, layers: int, burn_in: int, lmbda: float) -> None:
    torch.manual_seed(0)
    pair = make_pair(kind, cells, layers, burn_in=burn_in)
    if lmbda:
        estimate(pair, lmbda)
    stored = EVERY if burn_in else ("actor",)
    assert_same_as_reference(pair, make_rows(kind, pair.memory, stored=stored))


@pytest.mark.parametrize("steps", ["next", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_policies_that_are_trained_at_the_next_states(kind: str, steps: str) -> None:
    torch.manual_seed(0)
    pair = make_pair(kind, "gru", 2, burn_in=1, policy_loss_steps=steps, policy_reduction="mean")
    estimate(pair, 0.5)
    assert_same_as_reference(pair, make_rows(kind, pair.memory, stored=EVERY))


@pytest.mark.parametrize("kind", KINDS)
def test_priors_and_reductions_to_each_step(kind: str) -> None:
    torch.manual_seed(0)
    prior = SameActionPrior(SPECS[kind], 0.7, 0.15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = make_pair(kind, burn_in=2, prior_network=prior, reduction="none", alpha_init=0.3)
    assert_same_as_reference(pair, make_rows(kind, pair.memory, stored=("actor",)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "value"])
def test_some_of_several_targets_with_layer_norms_and_vector_rewards(monkeypatch, kind) -> None:
    torch.manual_seed(0)
    order = torch.tensor([2, 0, 1])  # a loss without memories draws it later
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: order)
    pair = make_pair(
        kind,
        "lstm",
        rewards=2,
        critics=3,
        target_subset=2,
        layer_norm=True,
        reward_weights=[1.0, -0.5],
        diagnostics=True,
        burn_in=1,
    )
    rows = make_rows(kind, pair.memory, rewards=2, critics=3, stored=("actor", "critic"))
    rows["priority_weight"] = torch.rand(rows.batch_size).double() + 0.1
    assert_same_as_reference(pair, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_one_critic_and_normalized_observations_and_rewards(kind: str) -> None:
    torch.manual_seed(0)
    seen = torch.randn(20, 4).double() * 2 + 1
    normalizers = {
        "observation_normalizer": ObservationNormalizer(4),
        "reward_normalizer": RewardNormalizer(0.9),
    }
    normalizers["observation_normalizer"].update(seen)
    normalizers["reward_normalizer"].update(seen[:, :1] * 3, seen[:, :1] > 2)
    pair = make_pair(kind, critics=1, burn_in=2, **normalizers)
    assert_same_as_reference(pair, make_rows(kind, pair.memory, critics=1, stored=EVERY))


def test_hybrid_actions_with_a_parameter_mask_a_prior_for_one_part_and_all_steps() -> None:
    torch.manual_seed(0)
    pair = make_pair(
        "hybrid",
        parameter_mask=[[True, False], [True, True], [False, True]],
        prior_network=(None, UniformPrior(SPECS["hybrid"])),
        policy_loss_steps="all",
        normalize_entropy_reward=True,
        dqda_clipping=0.5,
        burn_in=1,
    )
    assert_same_as_reference(pair, make_rows("hybrid", pair.memory, stored=("critic",)))


@pytest.mark.parametrize("kind", ["continuous", "hybrid"])
def test_networks_run_one_by_one(kind: str) -> None:
    torch.manual_seed(0)
    pair = make_pair(kind, "lstm", deactivate_vmap=True, burn_in=1)
    assert_same_as_reference(pair, make_rows(kind, pair.memory, stored=("actor", "critic")))
