"""Critics that describe values by distributions over atoms, against the formulas in float64."""

import pytest
import torch
from torch.testing import assert_close

from rlkit_sac import functional as F
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import action_value_critic, state_action_critic
from rlkit_sac.objectives import DiscreteSACLoss
from tests.objectives.comparison import check
from tests.objectives.losses import KINDS, make_batch, own_loss
from tests.objectives.networks import make_data

ATOMS = 7


OPTIONS = {
    "defaults": {},
    "far beyond the atoms": {"reward_scale": 9.0, "alpha_init": 3.0},
    "mask and weights": {"mask": True, "weights": True, "qvalue_coef": 0.5},
    "five critics, their mean": {"critics": 5, "policy_reduction": "mean"},
    "no entropy reward": {"use_entropy_reward": False, "policy_loss_steps": "all"},
    "prior": {"prior": "uniform", "alpha_init": 0.3},
    "two atoms": {"atoms": 2},
    "1 to 3 steps": {"several_steps": True, "gamma": 0.7},
    "TD(lambda)": {"batch": (3, 5), "lmbda": 0.9, "mask": True},
    "n steps, one after another": {"batch": (3, 4), "lmbda": 1.0, "deactivate_vmap": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", ["continuous", "boltzmann", "categorical", "hybrid"])
def test_the_losses_equal_the_formulas(kind: str, options: dict) -> None:
    options = {"atoms": ATOMS} | options
    for seed in range(2):
        check(kind, seed=seed, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"parameter_mask": [[1, 0], [0, 1], [1, 1]], "mask_critics": True},
        {"critics": 4, "target_subset": 2, "discrete_entropy": "sampled"},
    ],
)
def test_masks_and_subsets_equal_the_formulas(options: dict) -> None:
    for seed in range(2):
        check("hybrid", seed=seed, atoms=ATOMS, **options)


def test_a_projection_keeps_the_mean_unless_values_are_beyond_the_ends() -> None:
    torch.manual_seed(0)
    values, weights = 3 * torch.randn(500, 9).double(), torch.rand(500, 9).double()
    weights /= weights.sum(-1, keepdim=True)
    found = F.project_onto_atoms(values, weights, 101)
    assert_close(found.sum(-1), torch.ones(500).double())
    mean = (found * F.value_atoms(101, values)).sum(-1)
    assert_close(mean, (weights * values.clamp(-5, 5)).sum(-1))
    outside = F.clipped_share(values, weights)
    kept = outside == 0
    assert 50 < kept.sum() < 450
    assert_close(mean[kept], (weights * values).sum(-1)[kept])


def test_values_on_atoms_stay_there_and_nan_does_not_end_the_process() -> None:
    atoms = F.value_atoms(11, torch.zeros((), dtype=torch.float64))
    assert_close(
        F.project_onto_atoms(atoms, torch.full((11,), 1 / 11).double(), 11).sum(),
        torch.ones(()).double(),
    )
    for place, atom in enumerate(atoms):
        found = F.project_onto_atoms(atom.reshape(1), torch.ones(1).double(), 11)
        assert_close(found, torch.eye(11)[place].double())
    assert F.project_onto_atoms(torch.tensor([torch.nan]), torch.ones(1), 3).isnan().any()


@pytest.mark.parametrize("kind", KINDS)
def test_losses_policies_and_copies_take_them(kind: str) -> None:
    torch.manual_seed(0)
    loss = own_loss(kind, critic={"atoms": 11}, diagnostics=True)
    data = make_batch(kind, 6)
    out = loss(data)
    assert 0 <= out["clipped_share"] <= 1
    assert set(out.keys()) == set(loss.out_keys)
    sum(value for name, value in out.items() if name.startswith("loss")).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in loss.parameters())
    action = loss.policy()(data.select("observation"))["action"]
    assert action.shape == data["action"].shape


def test_a_critic_that_writes_no_value_is_refused() -> None:
    critic = action_value_critic(4, 3, num_cells=[16], atoms=5)
    loss = DiscreteSACLoss(critic.module[0])
    with pytest.raises(BatchError, match="not 'action_value'"):
        loss(make_batch("boltzmann", 4))


def test_vector_rewards_are_refused() -> None:
    with pytest.raises(ConfigError, match="got 5 for 2 reward dimensions"):
        state_action_critic(3, 1, reward_dim=2, atoms=5)
    with pytest.raises(ConfigError, match="for others: got 1 for 1"):
        state_action_critic(3, 1, atoms=1)
    loss = own_loss("continuous", critic={"atoms": 5})
    with pytest.raises(BatchError, match=r"wanted .* for rewards of 2 dimensions"):
        loss(make_data("continuous", 4, rewards=2).float())
