import hashlib
import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import Categorical

from rlkit_sac.errors import ConfigError, RunError
from rlkit_sac.modules import (
    BehaviorPolicy,
    UniformPrior,
    action_value_critic,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import DiscreteSACLoss
from rlkit_sac.runs.policy_files import load_policy, save_policy

BUILDER = "tanh_gaussian_actor"
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
    save_policy(step, build(seed), builder=BUILDER, arguments=ARGUMENTS)
    return step


def actions(policy: TensorDictModule) -> torch.Tensor:
    observation = torch.linspace(-2, 2, 30).reshape(10, 3)
    return policy(TensorDict(observation=observation, batch_size=[10]))["action"]


def test_a_loaded_policy_acts_the_same(tmp_path: Path) -> None:
    saved(tmp_path)
    policy = load_policy(tmp_path)
    assert not any(module.training for module in policy.modules())
    assert torch.equal(actions(policy), actions(build()))
    for name, tensor in build().state_dict().items():
        assert torch.equal(policy.state_dict()[name], tensor)


BEHAVIOR = {
    "categorical_behavior_policy": (categorical_actor, categorical_actor_critic, "num_actions"),
    "gaussian_behavior_policy": (gaussian_actor, gaussian_actor_critic, "action_dim"),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("builder", BEHAVIOR)
def test_policies_that_tell_their_distribution_are_rebuilt(
    tmp_path: Path, builder: str, shared: bool
) -> None:
    alone, both, name = BEHAVIOR[builder]
    arguments: dict[str, Any] = {"observation_dim": 3, name: 2, "num_cells": [8, 8]}
    actor = both(**arguments).get_policy_operator() if shared else alone(**arguments)
    policy = BehaviorPolicy(actor)
    step = tmp_path / "checkpoints" / "step_500"
    save_policy(step, policy, builder=builder, arguments=arguments | {"shared_trunk": shared})
    loaded = load_policy(tmp_path)
    assert torch.equal(actions(loaded), actions(policy))
    assert loaded.out_keys == policy.out_keys


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
    """Rewrite policy.json with a valid checksum, as someone with this source could."""
    description = json.loads((step / "policy.json").read_text())
    del description["sha256"]
    description |= changes
    canonical = json.dumps(description, sort_keys=True)
    description["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    (step / "policy.json").write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format_version": 2}, "has format version 2, this version reads 1"),
        ({"builder": "os.system"}, r"unknown builder 'os\.system'; known are"),
        ({"builder": ["x"]}, "unknown builder"),
        ({"arguments": {"command": "ls"}}, "does not hold the policy"),
        ({"arguments": ["ls"]}, "does not hold the policy"),
        ({"arguments": {**ARGUMENTS, "num_cells": [8, 9]}}, "does not hold the policy"),
        ({"arguments": {**ARGUMENTS, "action_low": ["a"]}}, "does not hold the policy"),
        ({"weights_sha256": None}, "is damaged"),
    ],
)
def test_a_foreign_description_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    step = saved(tmp_path)
    forge(step, **changes)
    with pytest.raises(RunError, match=reason) as caught:
        load_policy(tmp_path)
    assert str(step) in str(caught.value)


@pytest.mark.parametrize("content", ["[1]", "{}", "3", "[" * 100_000])
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
    forge(step, weights_sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(RunError, match=r"policy\.safetensors"):
        load_policy(tmp_path)
    assert not trap.exists()
    pickle.loads(content)
    assert trap.exists()


def test_weights_of_another_policy_are_refused(tmp_path: Path) -> None:
    step = saved(tmp_path)
    content = safetensors.torch.save({"weight": torch.zeros(3)})
    (step / "policy.safetensors").write_bytes(content)
    forge(step, weights_sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(RunError, match="does not hold the policy"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    ("builder", "arguments"),
    [("eval", ARGUMENTS), (BUILDER, {"x": torch.zeros(1)}), (BUILDER, {"x": float("nan")})],
)
def test_what_could_not_be_loaded_is_not_saved(
    tmp_path: Path, builder: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"unknown builder|JSON"):
        save_policy(tmp_path / "step_1", build(), builder=builder, arguments=arguments)
    assert not (tmp_path / "step_1").exists()


def test_a_policy_that_acts_by_a_prior_is_not_saved(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"observation_dim": 3, "num_actions": 2, "num_cells": [4]}
    prior = UniformPrior(Categorical(2))
    loss = DiscreteSACLoss(action_value_critic(**arguments), prior_network=prior)
    with pytest.raises(ConfigError, match="that acts by a prior cannot be saved"):
        save_policy(
            tmp_path / "step_1", loss.policy(), builder="boltzmann_policy", arguments=arguments
        )
    assert not (tmp_path / "step_1").exists()
