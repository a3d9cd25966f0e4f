import json
import pickle
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import nn
from torchrl.data import Categorical
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import ProbabilisticActor

from rlkit_sac.errors import RunError
from rlkit_sac.modules import (
    GaussianHead,
    NormalizedPolicy,
    ObservationNormalizer,
    TanhGaussian,
    action_value_critic,
    gaussian_actor,
    policy_states,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import DiscreteSACLoss
from rlkit_sac.runs.policy import load_policy, save_policy
from tests.runs.policies import KINDS, RECURRENT, make_policy, random_state

OBSERVATIONS = torch.linspace(-2, 2, 30).reshape(10, 3)
ARGUMENTS: dict[str, Any] = {
    "observation_dim": 3,
    "action_low": [-2.0],
    "action_high": [0.3],
    "num_cells": [8, 8],
    "activation": "tanh",
}


def build(seed: int = 0) -> TensorDictModule:
    torch.manual_seed(seed)
    return tanh_gaussian_actor(**ARGUMENTS)


def saved(run: Path, frames: int = 500, seed: int = 0) -> Path:
    step = run / "checkpoints" / f"step_{frames}"
    save_policy(step, build(seed))
    return step


def actions(policy: TensorDictModule) -> torch.Tensor:
    return policy(TensorDict(observation=OBSERVATIONS, batch_size=[10]))["action"]


@pytest.mark.parametrize("kind", KINDS | RECURRENT)
def test_every_policy_of_a_loss_is_rebuilt(tmp_path: Path, kind: str) -> None:
    policy = make_policy(kind)
    random_state(policy)
    before = torch.random.get_rng_state()
    save_policy(tmp_path, policy)
    assert torch.equal(torch.random.get_rng_state(), before)
    loaded = load_policy(tmp_path)
    assert (loaded.in_keys, loaded.out_keys) == (policy.in_keys, policy.out_keys)
    assert type(loaded) is type(policy)
    assert not any(module.training for module in loaded.modules())
    assert policy_states(loaded) == policy_states(policy)
    assert bool(policy_states(policy)) == (kind in RECURRENT)
    torch.testing.assert_close(loaded.state_dict(), policy.state_dict(), rtol=0, atol=0)
    for mode in (ExplorationType.DETERMINISTIC, ExplorationType.RANDOM) if kind in KINDS else ():
        outs = []
        for each in (policy, loaded):
            torch.manual_seed(1)
            with set_exploration_type(mode), torch.no_grad():
                outs.append(each(TensorDict(observation=OBSERVATIONS, batch_size=[10])))
        assert (outs[0] == outs[1]).all()
    # What was loaded can be saved again.
    save_policy(tmp_path / "again", loaded)
    for name in ("policy.json", "policy.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


# ------------------------------------------------------------------ modules of the user's own


def own_policy(width: int = 8, activation: type[nn.Module] = nn.ELU) -> ProbabilisticActor:
    """A network that the package has no function for."""
    network = nn.Sequential(nn.Linear(3, width), activation(), nn.Linear(width, 2), GaussianHead())
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        distribution_class=TanhGaussian,
    )


def test_the_weights_of_an_unknown_module_are_saved_and_filled_in(tmp_path: Path) -> None:
    policy, mine = own_policy(), own_policy()
    save_policy(tmp_path, policy)
    assert json.loads((tmp_path / "policy.json").read_text())["builder"] is None
    with pytest.raises(RunError) as error:
        load_policy(tmp_path)
    assert "\n" not in str(error.value)
    weight = mine.module[0].module[0].weight
    loaded = load_policy(tmp_path, into=mine)
    assert loaded is mine
    assert mine.module[0].module[0].weight is weight  # in place
    assert not mine.training
    assert torch.equal(actions(mine), actions(policy))


def actor(**options: Any) -> ProbabilisticActor:
    return tanh_gaussian_actor(**ARGUMENTS | options)


def normalized(clip: float | None) -> NormalizedPolicy:
    return NormalizedPolicy(actor(), ObservationNormalizer(3, clip=clip))


def boltzmann(**options: Any) -> TensorDictModuleBase:
    critic = action_value_critic(3, 4, num_cells=[8])
    return DiscreteSACLoss(critic, action_spec=Categorical(4), **options).policy()


def written_by_hand(activation: type[nn.Module]) -> ProbabilisticActor:
    """The weights of :func:`actor`, by layers of one's own."""
    a, b, c = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)
    layers = nn.Sequential(a, activation(), b, activation(), c)
    low, high = torch.tensor([-2.0]), torch.tensor([0.3])
    return ProbabilisticActor(
        TensorDictModule(nn.Sequential(layers, GaussianHead()), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        distribution_class=TanhGaussian,
        distribution_kwargs={"low": low, "high": high},
    )


@pytest.mark.parametrize(
    ("policy", "other"),
    [
        (actor(), actor(activation="elu")),
        (actor(), actor(action_low=[-1.0])),
        (actor(), actor(tanh_loc=True)),
        (actor(), actor(log_std_mode="tanh")),
        (actor(), actor(log_std_max=1.0)),
        (actor(), written_by_hand(nn.ReLU)),
        (normalized(None), normalized(5.0)),
        (boltzmann(), boltzmann(max_alpha=0.1)),
        (gaussian_actor(3, 1, num_cells=[8, 8]), actor()),
    ],
)
def test_a_module_in_which_the_weights_are_another_function_is_refused(
    tmp_path: Path, policy: TensorDictModuleBase, other: TensorDictModuleBase
) -> None:
    save_policy(tmp_path, policy)
    load_policy(tmp_path, into=deepcopy(policy))
    with pytest.raises(RunError, match="does not fit"):
        load_policy(tmp_path, into=other)


@pytest.mark.parametrize("same", [written_by_hand(nn.Tanh), actor(output_init=0.1)])
def test_a_module_in_which_they_are_the_same_function_is_accepted(
    tmp_path: Path, same: TensorDictModuleBase, recwarn: pytest.WarningsRecorder
) -> None:
    policy = actor()
    save_policy(tmp_path, policy)
    torch.testing.assert_close(actions(load_policy(tmp_path, into=same)), actions(policy))
    assert not recwarn


def test_of_a_policy_that_cannot_be_built_other_layers_are_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    save_policy(tmp_path, own_policy())
    load_policy(tmp_path, into=own_policy())
    assert not recwarn
    with pytest.warns(UserWarning, match="was ELU and is Tanh here"):
        load_policy(tmp_path, into=own_policy(activation=nn.Tanh))


# ------------------------------------------------------------------ which checkpoint, and damage


def test_the_newest_complete_checkpoint_is_taken(tmp_path: Path) -> None:
    for frames, seed in [(900, 1), (10_000, 2), (5_000, 3)]:
        saved(tmp_path, frames, seed)
    (tmp_path / "checkpoints" / "step_20000").mkdir()
    (tmp_path / "checkpoints" / "step_20000" / "policy.safetensors").write_bytes(b"half")
    assert torch.equal(actions(load_policy(tmp_path)), actions(build(2)))


@settings(deadline=None, max_examples=100)
@given(data=st.data(), name=st.sampled_from(["policy.json", "policy.safetensors"]))
def test_a_flipped_bit_is_refused_by_name_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    run = tmp_path_factory.mktemp("run")
    file = saved(run) / name
    content = bytearray(file.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    try:
        policy = load_policy(run)
    except RunError as error:
        assert str(file) in str(error)  # noqa: PT017
    else:
        assert name == "policy.json"  # white space, or another spelling of the same JSON
        assert torch.equal(actions(policy), actions(build()))
    shutil.rmtree(run)


def test_a_pickle_in_place_of_the_weights_is_never_executed(tmp_path: Path) -> None:
    step = saved(tmp_path)
    trap = tmp_path / "trap"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (trap,)

    content = pickle.dumps(Bomb())
    (step / "policy.safetensors").write_bytes(content)
    with pytest.raises(RunError, match=r"policy\.safetensors is damaged"):
        load_policy(tmp_path)
    assert not trap.exists()
    pickle.loads(content)
    assert trap.exists()
