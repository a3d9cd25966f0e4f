import hashlib
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torchrl.data import Categorical
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import ProbabilisticActor

from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.modules import (
    GaussianHead,
    TanhGaussian,
    UniformPrior,
    action_value_critic,
    policy_states,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import DiscreteSACLoss
from rlkit_sac.runs.policies.files import load_policy, save_policy
from tests.runs.policies.policies import KINDS, RECURRENT, make_policy, random_state

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


def test_a_loaded_policy_acts_the_same(tmp_path: Path) -> None:
    saved(tmp_path)
    policy = load_policy(tmp_path)
    assert not any(module.training for module in policy.modules())
    assert torch.equal(actions(policy), actions(build()))
    for name, tensor in build().state_dict().items():
        assert torch.equal(policy.state_dict()[name], tensor)


@pytest.mark.parametrize("kind", KINDS)
def test_every_policy_of_a_loss_is_rebuilt(tmp_path: Path, kind: str) -> None:
    policy = make_policy(kind)
    random_state(policy)
    before = torch.random.get_rng_state()
    save_policy(tmp_path, policy)
    assert torch.equal(torch.random.get_rng_state(), before)
    loaded = load_policy(tmp_path)
    assert (loaded.in_keys, loaded.out_keys) == (policy.in_keys, policy.out_keys)
    assert type(loaded) is type(policy)
    for mode in (ExplorationType.DETERMINISTIC, ExplorationType.RANDOM):
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


@pytest.mark.parametrize("kind", RECURRENT)
def test_every_policy_with_memory_is_rebuilt(tmp_path: Path, kind: str) -> None:
    policy = make_policy(kind)
    random_state(policy)
    save_policy(tmp_path, policy)
    loaded = load_policy(tmp_path)
    assert (loaded.in_keys, loaded.out_keys) == (policy.in_keys, policy.out_keys)
    assert policy_states(loaded) == policy_states(policy) != {}
    for name, tensor in policy.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    save_policy(tmp_path / "again", loaded)
    for name in ("policy.json", "policy.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_policy_keeps_its_precision(tmp_path: Path) -> None:
    policy = make_policy("boltzmann").double()
    save_policy(tmp_path, policy)
    for name, tensor in load_policy(tmp_path).state_dict().items():
        assert torch.equal(tensor, policy.state_dict()[name])
        assert tensor.dtype == policy.state_dict()[name].dtype


def test_arrays_are_noted_as_lists(tmp_path: Path) -> None:
    policy = tanh_gaussian_actor(3, np.array([-2.0], np.float32), np.array([0.3], np.float32))
    save_policy(tmp_path, policy)
    assert torch.equal(actions(load_policy(tmp_path)), actions(policy))


# ------------------------------------------------------------------ modules of the user's own


def own_policy(width: int = 8) -> ProbabilisticActor:
    """A network that the package has no function for."""
    network = torch.nn.Sequential(
        torch.nn.Linear(3, width), torch.nn.ELU(), torch.nn.Linear(width, 2), GaussianHead()
    )
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        distribution_class=TanhGaussian,
    )


def exchange_activation(policy: ProbabilisticActor) -> None:
    policy.module[0].module[0][1] = torch.nn.ELU()


def add_normalization(policy: ProbabilisticActor) -> None:
    policy.module[0].module[0][1] = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Tanh())


def exchange_distribution(policy: ProbabilisticActor) -> None:
    policy.module[1].distribution_kwargs["high"] = torch.tensor([0.4])


@pytest.mark.parametrize(
    "exchange", [exchange_activation, add_normalization, exchange_distribution]
)
def test_a_module_that_was_changed_after_it_was_built_is_one_of_the_users_own(
    tmp_path: Path, exchange: Callable[[ProbabilisticActor], None]
) -> None:
    policy, same = build(1), build(2)
    for each in (policy, same):
        exchange(each)
    save_policy(tmp_path, policy)
    with pytest.raises(RunError, match=r"policy\.json is of a policy .* into=policy"):
        load_policy(tmp_path)
    assert load_policy(tmp_path, into=same) is same
    assert torch.equal(actions(same), actions(policy))


def exchange_last_relu(policy: TensorDictModule) -> None:
    places = [
        (parent, name)
        for parent in policy.modules()
        for name, child in parent.named_children()
        if isinstance(child, torch.nn.ReLU)
    ]
    setattr(*places[-1], torch.nn.Softplus())


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_part_of_a_policy_is_found(tmp_path: Path, kind: str) -> None:
    policy, same = make_policy(kind), make_policy(kind)
    for each in (policy, same):
        exchange_last_relu(each)
    save_policy(tmp_path, policy)
    with pytest.raises(RunError, match="into="):
        load_policy(tmp_path)
    load_policy(tmp_path, into=same)
    for name, tensor in policy.state_dict().items():
        assert torch.equal(same.state_dict()[name], tensor)


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


def test_a_known_policy_may_be_filled_in_as_well(tmp_path: Path) -> None:
    saved(tmp_path)
    mine = build(1)
    load_policy(tmp_path, into=mine)
    assert torch.equal(actions(mine), actions(build()))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: own_policy(9), "size mismatch for module.0.module.0.weight"),
        (lambda: make_policy("normalized"), "Missing key.*normalizer"),
        (
            lambda: TensorDictModule(torch.nn.Tanh(), ["observation"], ["action"]),
            "Unexpected key",
        ),
    ],
)
def test_a_module_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, other: Callable[[], TensorDictModule], message: str
) -> None:
    save_policy(tmp_path, own_policy())
    with pytest.raises(RunError, match=message) as error:
        load_policy(tmp_path, into=other())
    assert str(tmp_path / "policy.safetensors") in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_of_rewards_are_filled_in(tmp_path: Path) -> None:
    def policy(weights: list[float] | None) -> TensorDictModule:
        critic = action_value_critic(3, 2, num_cells=[4], reward_dim=2)
        return DiscreteSACLoss(critic, reward_weights=weights).policy()

    save_policy(tmp_path, policy([1.0, -0.5]))
    for mine in (policy(None), policy([2.0, 2.0])):
        filled = load_policy(tmp_path, into=mine)
        assert filled.reward_weights.value.tolist() == [1.0, -0.5]
    assert load_policy(tmp_path).reward_weights.value.tolist() == [1.0, -0.5]


class WithAct(TensorDictModuleBase):
    """Has a layer of the name that loading would give to its own method."""

    def __init__(self) -> None:
        super().__init__()
        self.in_keys, self.out_keys = ["observation"], ["action"]
        self.linear, self.act = torch.nn.Linear(3, 1), torch.nn.Tanh()

    def forward(self, states: TensorDict) -> TensorDict:
        return states.set("action", self.act(self.linear(states["observation"])))


def test_a_name_that_no_folder_can_have_is_one_line() -> None:
    with pytest.raises(RunError, match=r"x cannot be read: File name too long$"):
        load_policy("x" * 300)


def test_an_attribute_act_of_a_module_is_kept(tmp_path: Path) -> None:
    policy, mine = WithAct(), WithAct()
    save_policy(tmp_path, policy)
    assert load_policy(tmp_path, into=mine) is mine
    assert isinstance(mine.act, torch.nn.Tanh)
    assert torch.equal(actions(mine), actions(policy))
    known = build()
    save_policy(tmp_path, known, task=PENDULUM)
    for _ in range(2):  # the second time in place of the first
        load_policy(tmp_path, into=known)
    assert known.act(np.zeros(3)).shape == (1,)


# ------------------------------------------------------------------ devices


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    saved(tmp_path)
    for into in (None, build()):
        with pytest.raises(ConfigError, match="device 'cuda:77' is not available here"):
            load_policy(tmp_path, device="cuda:77", into=into)
    assert torch.equal(actions(load_policy(tmp_path, device=torch.device("cpu"))), actions(build()))


def test_float64_is_narrowed_where_the_device_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run on the CPU, whose normalizer has float64, loaded on MPS."""
    policy = make_policy("normalized")
    random_state(policy)
    save_policy(tmp_path, policy)
    moved = []

    def to(self: torch.nn.Module, device: torch.device) -> torch.nn.Module:
        moved.append(({value.dtype for value in self.state_dict().values()}, device.type))
        return self

    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    with monkeypatch.context() as patch:
        patch.setattr(type(policy), "to", to)
        loaded = load_policy(tmp_path, device="mps")
    assert moved == [({torch.float32, torch.int64}, "mps")]
    torch.testing.assert_close(actions(loaded), actions(policy))


def test_a_policy_that_acts_by_a_prior_is_filled_in(tmp_path: Path) -> None:
    def policy() -> TensorDictModule:
        critic, prior = action_value_critic(3, 2, num_cells=[4]), UniformPrior(Categorical(2))
        return DiscreteSACLoss(critic, prior_network=prior).policy()

    first = policy()
    save_policy(tmp_path, first)
    with pytest.raises(RunError, match="into="):
        load_policy(tmp_path)
    assert torch.equal(actions(load_policy(tmp_path, into=policy())), actions(first))


def test_weights_in_another_memory_layout_are_saved(tmp_path: Path) -> None:
    image = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    policy = TensorDictModule(image, ["observation"], ["action"])
    save_policy(tmp_path, policy)
    other = TensorDictModule(torch.nn.Conv2d(3, 4, 3), ["observation"], ["action"])
    load_policy(tmp_path, into=other)
    assert torch.equal(other.module.weight, image.weight)


# ------------------------------------------------------------------ which checkpoint, and damage


def test_the_newest_complete_checkpoint_is_taken(tmp_path: Path) -> None:
    for frames, seed in [(900, 1), (10_000, 2), (5_000, 3)]:
        saved(tmp_path, frames, seed)
    (tmp_path / "checkpoints" / "step_20000").mkdir()
    (tmp_path / "checkpoints" / "step_20000" / "policy.safetensors").write_bytes(b"half")
    assert torch.equal(actions(load_policy(tmp_path)), actions(build(2)))


def test_saving_again_replaces(tmp_path: Path) -> None:
    saved(tmp_path, seed=0)
    step = saved(tmp_path, seed=1)
    assert torch.equal(actions(load_policy(tmp_path)), actions(build(1)))
    names = sorted(file.name for file in step.iterdir())
    assert names == ["policy.json", "policy.safetensors"]


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no .*step_<frames>/policy\.json"):
        load_policy(tmp_path)
    step = saved(tmp_path)
    (step / "policy.safetensors").unlink()
    with pytest.raises(RunError, match=re.escape(str(step / "policy.safetensors"))):
        load_policy(tmp_path)


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


@settings(deadline=None, max_examples=30)
@given(data=st.data(), name=st.sampled_from(["policy.json", "policy.safetensors"]))
def test_a_truncated_file_is_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    run = tmp_path_factory.mktemp("run")
    file = saved(run) / name
    content = file.read_bytes()
    file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(RunError, match=re.escape(str(file))):
        load_policy(run)
    shutil.rmtree(run)


def forge(step: Path, **changes: Any) -> None:
    """Rewrite policy.json with a valid checksum."""
    description = json.loads((step / "policy.json").read_text())
    del description["sha256"]
    description |= changes
    canonical = json.dumps(description, sort_keys=True)
    description["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    (step / "policy.json").write_text(json.dumps(description))


def box(size: int) -> dict[str, Any]:
    return {"kind": "Box", "dtype": "float32", "shape": [size], "low": -1.0, "high": 1.0}


PENDULUM = {
    "observation_space": box(3),
    "observation_indices": None,
    "action_space": box(1),
    "rescale_actions": True,
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format_version": 1}, "has format version 1, this version reads 2"),
        ({"format_version": 3}, "has format version 3, this version reads 2"),
        ({"arguments": {**ARGUMENTS, "num_cells": [8, 9]}}, "does not fit"),
        ({"weights_sha256": None}, "is damaged"),
    ],
)
def test_a_description_of_another_version_or_policy_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    step = saved(tmp_path)
    forge(step, **changes)
    with pytest.raises(RunError, match=reason) as caught:
        load_policy(tmp_path)
    assert str(step) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[1]", "{}", "3"])
def test_a_description_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    step = saved(tmp_path)
    (step / "policy.json").write_text(content)
    with pytest.raises(RunError, match=re.escape(str(step / "policy.json"))):
        load_policy(tmp_path)


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


def test_weights_of_another_policy_are_refused(tmp_path: Path) -> None:
    step = saved(tmp_path)
    content = safetensors.torch.save({"weight": torch.zeros(3)})
    (step / "policy.safetensors").write_bytes(content)
    forge(step, weights_sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(RunError, match=r"does not fit: .*Missing key"):
        load_policy(tmp_path)
