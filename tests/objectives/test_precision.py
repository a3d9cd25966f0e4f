"""A loss that is cast to float64 computes as one that was built in it."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite
from torchrl.envs.utils import ExplorationType, set_exploration_type

from tests.objectives.comparison import assert_same, results
from tests.objectives.losses import loss_class, networks_of
from tests.objectives.networks import make_data

LOW, HIGH = [-0.3, 0.1], [0.7, 30.1]  # none of which float32 can hold
KINDS = ["continuous", "boltzmann", "categorical", "hybrid"]
OPTIONS = {
    "defaults": {},
    "below the smallest alpha": {"alpha_init": 0.01, "min_alpha": 0.3},
    "above the largest alpha": {"alpha_init": 7.0, "max_alpha": 0.7},
    "direct alpha": {"alpha_parametrization": "direct", "max_alpha": 0.7},
    "fixed alpha": {"alpha_init": 0.3, "fixed_alpha": True},
    "reward weights": {"reward_weights": [0.3, -0.7]},
    "coefficients": {"gamma": 0.97, "qvalue_coef": 0.3, "reward_scale": 0.1, "min_prob": 0.3},
    "running mean": {"normalize_entropy_reward": True},
}


def build(kind: str, dtype: torch.dtype, options: dict):
    low, high = (torch.tensor(bound, dtype=torch.float64) for bound in (LOW, HIGH))
    box = Bounded(low, high, dtype=torch.float64)
    if kind == "continuous":
        options = {"action_spec": box, "dqda_clipping": 0.1, **options}
    if kind == "hybrid":
        spec = Composite(continuous=box, discrete=Categorical(3))
        mask = [[True, False], [False, True], [True, True]]
        options = {"action_spec": spec, "parameter_mask": mask, **options}
    rewards = 2 if "reward_weights" in options else 1
    torch.set_default_dtype(dtype)
    try:
        networks = networks_of(kind, low=LOW, high=HIGH, reward_dim=rewards, num_cells=[16])
        return loss_class(kind)(**networks, **options)
    finally:
        torch.set_default_dtype(torch.float32)


def values(loss, data: TensorDict) -> dict[str, torch.Tensor]:
    """Losses, scalars, priorities, gradients, greedy actions and projected temperatures."""
    torch.manual_seed(3)
    out = results(loss, data)
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        acted = loss.policy()(data.select("observation"))
    out |= {str(key): acted[key] for key in acted.keys(True, True) if "action" in key}
    loss.project_parameters()
    return out | {f"state {name}": tensor for name, tensor in loss.state_dict().items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("cast", ["double", "to"])
def test_a_cast_loss_equals_one_built_in_float64(kind, options, cast):
    torch.manual_seed(0)
    built = build(kind, torch.float64, options)
    loss = build(kind, torch.float32, options)
    loss = loss.double() if cast == "double" else loss.to(torch.float64)
    loss.load_state_dict(built.state_dict())
    torch.manual_seed(1)
    data = make_data(kind, 6, rewards=2 if "reward_weights" in options else 1, low=LOW, high=HIGH)
    wanted, found = values(built, data), values(loss, data)
    assert_same(found, wanted)


def test_reward_weights_survive_a_cast_and_its_return():
    options = {"reward_weights": [0.3, -0.7]}
    loss = build("boltzmann", torch.float32, options)
    policy = loss.policy()
    assert loss.double().reward_weights.tolist() == [0.3, -0.7]
    assert policy.reward_weights.value.dtype == torch.float64
    assert torch.equal(loss.float().reward_weights, torch.tensor([0.3, -0.7]))
    loss.reward_weights = None
    assert loss.double().reward_weights is None
