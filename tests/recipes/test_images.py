"""Every recipe on images: exact resume, and what is made of the policy of a run."""

import json
import shlex
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.data import example_transition
from rlkit_sac.data.entries import row_layout
from rlkit_sac.envs import FrameStack, make_env, observation_layout
from rlkit_sac.envs.spaces import leaves
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import NormalizedPolicy, policy_states
from rlkit_sac.runs import export_policy, load_policy, record_run
from tests import image_tasks
from tests.recipes.running import (
    ACER,
    DISCRETE,
    HYBRID,
    ONE_EPISODE,
    PRIOR,
    SAC,
    VALUE,
    Recipe,
    assert_policy_repeats_the_last_evaluation,
    each_case,
)
from tests.recipes.test_memory import GRU
from tests.reliability.runs import newest, replay_of
from tests.runs.test_acting import stacked

slow = pytest.mark.slow


def dot(observation: str, action: str) -> str:
    kwargs = json.dumps({"observation": observation, "action": action})
    return f"--env.id tests/Dot-v0 --env.kwargs '{kwargs}' --network.encoder_features 12"


def check_policy(run: Path, observation: str, action: str, *, frame_stack: int = 1) -> None:
    """The saved policy acts on observations of the task, alone and in a file, and is recorded."""
    assert_policy_repeats_the_last_evaluation(run)
    assert len(record_run(run, format="gif", episodes=1)) == 1
    task: gym.Env[Any, Any] = image_tasks.Dot(observation, action)
    task = FrameStack(task, frame_stack) if frame_stack > 1 else task
    policy, (raw, _) = load_policy(run), task.reset(seed=3)
    both = [raw, task.reset(seed=4)[0]]
    one, both = policy.act(raw), policy.act(stacked(task.observation_space, both))
    if policy_states(policy):
        (one, _), (both, _) = one, both
    pairs = zip(leaves(task.action_space, one), leaves(task.action_space, both), strict=True)
    for (_, _, alone), (_, _, together) in pairs:
        np.testing.assert_allclose(together[0], alone, rtol=1e-4, atol=1e-5)
    described = export_policy(run, run / "policy.pt2", format="torch")["inputs"]
    kinds = [text.split()[0] for name, text in described.items() if "observation" in name]
    names = {"uint8": "uint8", "bool": "bool", "float32": "float32"}
    parts = [leaf for _, leaf, _ in leaves(image_tasks.OBSERVATIONS[observation])]
    assert kinds == [names.get(str(leaf.dtype), "int64") for leaf in parts]


SHARED = "--network.shared_encoder true --update.random_shift 2"
NORMALIZED = "--normalization.observations true"
STACKS = "--env.frame_stack 3 --replay.capacity 24"
MASKED = "--loss.parameter_mask true --loss.mask_critics true --network.critic_action_layer last"
TRUNK = "--network.shared_trunk true --network.critic_layer_norm false"
CASES: dict[str, tuple[Recipe, int, str, str, str]] = {
    "sac": (SAC, 33, "mixed", "box", NORMALIZED),
    "sac, shared": (SAC, 33, "mixed", "box", f"{SHARED} {NORMALIZED}"),
    "value_sac": (VALUE, 33, "color", "box", "--network.encoder none"),
    "kl_prior_sac": (PRIOR, 33, "images", "box", "--prior.kind same_action"),
    "kl_prior_sac, shared": (PRIOR, 33, "images", "box", f"{SHARED} --prior.kind same_action"),
    "discrete_sac": (DISCRETE, 33, "planes", "discrete", "--env.num_envs 3"),
    "actor": (DISCRETE, 33, "mixed", "discrete", f"{GRU} --actor true --network.encoder impala"),
    "memory": (DISCRETE, 36, "mixed", "discrete", GRU),
    "actor, shared": (DISCRETE, 33, "mixed", "discrete", f"{GRU} --actor true {SHARED}"),
    "boltzmann, shared": (DISCRETE, 33, "color", "discrete", f"{GRU} {SHARED}"),
    "hybrid, shared": (HYBRID, 33, "mixed", "hybrid", f"{SHARED} --loss.parameter_mask true"),
    "hybrid_sac": (HYBRID, 33, "mixed", "hybrid", "--loss.parameter_mask true"),
    "masked": (HYBRID, 33, "color", "hybrid", MASKED),
    "acer": (ACER, 40, "planes", "discrete", ""),
    "acer, shifted": (ACER, 40, "mixed", "box", "--update.random_shift 4"),
    "acer, trunk": (ACER, 40, "mixed", "box", TRUNK),
    "acer, memory": (ACER, 40, "mixed", "discrete", "--network.memory lstm"),
    "sac, stacks": (SAC, 33, "mixed", "box", f"{STACKS} {NORMALIZED} --env.num_envs 3"),
    "priorities, stacks": (SAC, 33, "color", "box", f"{STACKS} --replay.prioritized true"),
    "value_sac, stacks": (VALUE, 33, "color", "box", f"{STACKS} --replay.storage memmap"),
    "discrete_sac, stacks": (DISCRETE, 36, "planes", "discrete", f"{STACKS} {GRU}"),
    "hybrid_sac, stacks": (HYBRID, 33, "images", "hybrid", STACKS),
    "acer, stacks": (ACER, 40, "mixed", "discrete", STACKS),
}


@each_case(CASES, slow=CASES.keys() - {"discrete_sac", "acer"})
def test_runs_resume_exactly_and_their_policies_act(workplace, capsys, case):
    recipe, half, observation, action, options = case
    arguments = shlex.split(f"{dot(observation, action)} {options}")
    stacks = STACKS in options
    recipe.assert_resumes_exactly(capsys, half, *arguments, capacity=24 if stacks else None)
    first = min((workplace / "runs").glob("*/*/*"))
    check_policy(first, observation, action, frame_stack=3 if stacks else 1)


@slow
@pytest.mark.parametrize("shared", ["false", "true"])
def test_a_policy_of_images_is_a_prior_and_an_onnx_file(workplace, shared):
    task = shlex.split(dot("mixed", "box"))
    source = SAC.train(*task, *SAC.early, "--network.shared_encoder", shared)
    PRIOR.train(*task, "--prior.kind", "policy", "--prior.run", str(source))
    import onnxruntime

    inputs = export_policy(source, source / "policy.onnx")["inputs"]
    raw, _ = image_tasks.Dot("mixed").reset(seed=0)
    values = [value for *_, value in leaves(image_tasks.OBSERVATIONS["mixed"], raw)]
    feeds = {
        name: np.asarray(value)[None].astype(text.split()[0])
        for (name, text), value in zip(inputs.items(), values, strict=True)
    }
    (found,) = onnxruntime.InferenceSession(source / "policy.onnx").run(None, feeds)
    np.testing.assert_allclose(found[0], load_policy(source).act(raw), atol=1e-5)


def test_replay_keeps_bytes_and_the_statistics_are_of_the_vector(workplace):
    task = make_env("tests/Dot-v0")
    images, rest = 2 * (12 * 14 * 3 + 2 * 12 * 14), 2 * 5 * 4 + 2 * 4 + 4 + 1 + 1
    observed = [entry["key"] for entry in observation_layout(task)]
    after = [("next", key) for key in (*observed, "reward", "done", "terminated")]
    example = example_transition(task, [*observed, "action", *after])
    assert row_layout(example).width == images + rest + 2  # whole numbers of four
    options = [*shlex.split(dot("mixed", "box")), "--normalization.observations", "true"]
    policy = load_policy(SAC.train(*options, *ONE_EPISODE))
    assert policy.normalizer.observation_dim == 5
    images = {"image_view_0": torch.zeros(2, 12, 14).bool(), "image_view_2": torch.zeros(12, 14, 3)}
    vector = torch.randn(5)
    states = TensorDict({**images, "observation": vector}, batch_size=[])
    policy(states)
    assert torch.equal(states["observation"], vector)


@slow
def test_images_alone_have_nothing_to_normalize(workplace):
    options = [*shlex.split(dot("images", "box")), "--normalization.observations", "true"]
    run = SAC.train(*options, "--collector.total_frames", "96", *ONE_EPISODE)
    assert not isinstance(load_policy(run), NormalizedPolicy)


def test_replay_stores_each_frame_of_a_stack_once(workplace):
    options = shlex.split(f"{dot('mixed', 'box')} --env.frame_stack 4")
    run = SAC.train(*options, *SAC.early, "--collector.total_frames", "40")
    rows = replay_of(run, newest(run))
    shapes = sorted(list(value.shape) for key, value in rows.items() if "image" in key)
    assert shapes == 2 * [[40, 2, 12, 14]] + 2 * [[40, 12, 14, 3]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--env.id Pendulum-v1 --env.frame_stack 4", "has no image"),
        ("--env.id tests/Dot-v0 --env.frame_stack 17", "env.frame_stack"),
        (
            "--config published --env.id tests/Dot-v0 --env.frame_stack 4 --workers.number 2"
            " --workers.mode async",
            "workers.mode: must be sync where env.frame_stack is above 1",
        ),
        (
            "--env.id tests/Dot-v0 --env.frame_stack 4 --collector.learning_starts 3",
            "samples in stacks of 4 (env.frame_stack) need at least 4, got 3",
        ),
    ],
)
def test_stacks_that_cannot_be_are_refused(workplace, capsys, options, message):
    SAC.assert_refused(capsys, workplace, options, message)


@slow
def test_a_run_starts_with_the_encoder_of_another(workplace):
    task = shlex.split(dot("color", "box"))
    run = SAC.train(*task, "--network.shared_encoder", "true")
    options = ["--network.shared_encoder", "true", "--collector.learning_starts", "120"]
    start = ["--warm_start.run", str(run), "--warm_start.modules", "[qvalue]"]
    names = [name for name in load_policy(run).state_dict() if "parts" in name]
    assert len(names) == 4
    for further, same in ((start, True), ([], False)):
        found = load_policy(SAC.train(*task, *options, *further)).state_dict()
        assert all(torch.equal(found[n], load_policy(run).state_dict()[n]) for n in names) is same
    with pytest.raises(ConfigError, match=r"warm_start\.modules: actor needs qvalue"):
        SAC.train(*task, *options, *start[:-1], "[actor]")


@pytest.mark.parametrize("option", ["network.shared_encoder true", "update.random_shift 4"])
def test_options_of_images_are_refused_where_there_are_none(workplace, capsys, option):
    name, value = option.split()
    message = f"{name}: is {value}, but the task has no images: leave it out"
    SAC.assert_refused(capsys, workplace, f"--{option}", message)


def test_a_value_network_shares_no_encoder(workplace, capsys):
    task = "--env.id tests/Dot-v0 --env.kwargs.observation images"
    message = "network.shared_encoder: must be false: a value network has an encoder of its own"
    VALUE.assert_refused(capsys, workplace, f"{task} --network.shared_encoder true", message)
