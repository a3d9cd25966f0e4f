"""A policy exported to a file acts as the policy that was loaded, without this package."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray

from rlkit_sac.envs.observations import ObservationConversion
from rlkit_sac.envs.spaces import leaves, space_to_json
from rlkit_sac.modules import ObservationNormalizer, hybrid_critic, tanh_gaussian_actor
from rlkit_sac.objectives import HybridSACLoss
from rlkit_sac.runs import export_policy, load_policy, save_policy
from tests.runs import test_acting as acting
from tests.runs.policies import CELLS, KINDS, RECURRENT, random_state
from tests.runs.test_acting import stacked

OBSERVATIONS = acting.OBSERVATIONS | {
    "number": Box(-3, 3, ()),
    "multi-discrete": MultiDiscrete([[2, 3], [4, 2]]),
}
ACTIONS = acting.ACTIONS | {"two boxes": Tuple([Discrete(2), Box(0, 30, (1,)), Box(-1, 5, (2,))])}


def weighted_hybrid(dim: int) -> HybridSACLoss:
    key = ("action", "continuous")
    actor = tanh_gaussian_actor(dim, [-1.0] * 3, [1.0] * 3, **CELLS, action_key=key)
    critic = hybrid_critic(dim, 3, 2, **CELLS, reward_dim=2)
    normalizer = ObservationNormalizer(dim)
    weights = {"reward_weights": [1.0, -0.5], "observation_normalizer": normalizer}
    mask = [[True, False, False], [False, True, True]]
    return HybridSACLoss(actor, critic, parameter_mask=mask, mask_critics=True, **weights)


MAKERS = KINDS | RECURRENT | {"weighted rewards": weighted_hybrid}
# Each kind of policy, with an observation space and an action space.
CASES = {
    "tanh-Gaussian": ("float64", "matrix"),
    "normalized": ("tuple", "box"),
    "categorical": ("multi-discrete", "discrete"),
    "boltzmann": ("discrete", "discrete"),
    "wide critics": ("box", "both"),
    "normalized hybrid": ("box", "tuple"),
    "weighted rewards": ("dict", "two boxes"),
    "categorical behavior": ("box", "discrete"),
    "gaussian behavior": ("number", "nested box"),
    "normalized behavior": ("box", "box"),
    "shared trunk": ("box", "choices"),
}
# Kinds that see some entries of the observation alone.
INDICES = {
    "weighted rewards": [4, 0, 2],
    "normalized": [7, 1, 4],
    "two layers of LSTM": [2, 0],
}
QUICK = ["weighted rewards", "boltzmann"]


def task(observations: str, actions: str) -> dict[str, Any]:
    """What `describe_task` writes for an environment of these spaces."""
    return {
        "observation_space": space_to_json(OBSERVATIONS[observations]),
        "observation_indices": None,
        "action_space": space_to_json(ACTIONS[actions]),
        "rescale_actions": True,
    }


def saved(kind: str, folder: Path) -> None:
    torch.manual_seed(0)
    observations, actions = (CASES | REMEMBERED)[kind]
    space, indices = OBSERVATIONS[observations], INDICES.get(kind)
    layout = ObservationConversion(space, indices=indices).layout()
    dim: Any = layout[0]["shape"][0] if len(layout) == 1 else {"layout": layout}
    policy = MAKERS[kind](dim).policy()
    random_state(policy)
    described = task(observations, actions) | {"observation_indices": indices}
    save_policy(folder, policy, task=described)


def example(space: Space[Any], number: int) -> tuple[Any, list[NDArray[Any]]]:
    """N observations at random as ``act`` takes them, and as tensors for the file."""
    space.seed(number)
    each = [space.sample() for _ in range(number)]
    structure = stacked(space, each)
    arrays = [value for *_, value in leaves(space, structure)]
    parts = [leaf for _, leaf, _ in leaves(space)]
    types = [np.float32 if isinstance(part, Box) else np.int64 for part in parts]
    return structure, [a.astype(t) for a, t in zip(arrays, types, strict=True)]


def expected(kind: str, folder: Path) -> dict[str, NDArray[Any]]:
    """Inputs and what ``act`` makes of them, by batch size, direction and position."""
    act, arrays = load_policy(folder).act, {}
    observations, actions = (
        space[name]
        for space, name in zip((OBSERVATIONS, ACTIONS), (CASES | REMEMBERED)[kind], strict=True)
    )
    for number in (1, 3, 5, 64):
        structure, inputs = example(observations, number)
        outputs = [value for *_, value in leaves(actions, act(structure))]
        for side, values in (("in", inputs), ("out", outputs)):
            arrays |= {f"{number} {side} {i}": value for i, value in enumerate(values)}
    return arrays


# Run where neither this package nor PyTorch is imported.
COMPARE = """
import sys
from pathlib import Path
import numpy as np
import onnxruntime

for file in sorted(Path(sys.argv[1]).glob("*/policy.onnx")):
    session = onnxruntime.InferenceSession(file)
    names = [each.name for each in session.get_inputs()]
    stored = np.load(file.with_name("expected.npz"))
    for number in (1, 3, 5, 64):
        of = lambda side: [stored[key] for key in stored if key.startswith(f"{number} {side} ")]
        found = session.run(None, dict(zip(names, of("in"), strict=True)))
        for mine, wanted in zip(found, of("out"), strict=True):
            assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape), file
            difference = np.abs(mine.astype(np.float64) - wanted).max() / 15
            assert difference <= 1e-5, (file, number, difference)
    print(file.parent.name)
assert not {"torch", "rlkit_sac", "tensordict"} & set(sys.modules)
"""


def exported(kind: str, folder: Path) -> dict[str, Any]:
    saved(kind, folder)
    np.savez(folder / "expected.npz", **expected(kind, folder))
    return export_policy(folder, folder / "policy.onnx")


def assert_onnx_files_act(folder: Path, kinds: list[str]) -> None:
    command = [sys.executable, "-c", COMPARE, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == sorted(kinds)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with two ONNX files, and the metadata of each."""
    folder = tmp_path_factory.mktemp("onnx")
    return folder, {kind: exported(kind, folder / kind) for kind in QUICK}


def test_an_onnx_file_acts_where_this_package_is_not_imported(quick: tuple[Path, Any]) -> None:
    assert_onnx_files_act(quick[0], QUICK)


@pytest.mark.slow
def test_onnx_files_of_every_kind_act(tmp_path: Path) -> None:
    kinds = [kind for kind in CASES if kind not in QUICK]
    for kind in kinds:
        exported(kind, tmp_path / kind)
    assert_onnx_files_act(tmp_path, kinds)


@pytest.mark.parametrize("kind", CASES)
def test_a_program_of_pytorch_acts(tmp_path: Path, kind: str) -> None:
    saved(kind, tmp_path)
    metadata = export_policy(tmp_path, tmp_path / "new" / "policy.pt2", format="torch")
    extra = {"metadata.json": ""}
    program = torch.export.load(tmp_path / "new" / "policy.pt2", extra_files=extra).module()
    assert json.loads(extra["metadata.json"]) == metadata
    arrays = expected(kind, tmp_path)
    for number in (1, 3, 5, 64):
        inputs = [arrays[key] for key in arrays if key.startswith(f"{number} in ")]
        found = program(*map(torch.from_numpy, inputs))
        assert len(found) == len(metadata["outputs"])
        for i, action in enumerate(found):
            wanted = arrays[f"{number} out {i}"]
            assert action.numpy().dtype == wanted.dtype
            np.testing.assert_allclose(action, wanted, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------ policies with memory

REMEMBERED = {kind: ("box", actions) for kind, actions in acting.REMEMBERED.items()} | {
    "normalized GRU": ("tuple", "box"),
    "boltzmann GRU": ("discrete", "discrete"),
}


def run_onnx(file: Path) -> Callable[..., list[NDArray[Any]]]:
    session = onnxruntime.InferenceSession(file)
    names = [each.name for each in session.get_inputs()]
    return lambda *inputs: session.run(None, dict(zip(names, inputs, strict=True)))


def run_torch(file: Path) -> Callable[..., list[NDArray[Any]]]:
    program = torch.export.load(file).module()
    return lambda *inputs: [out.numpy() for out in program(*map(torch.from_numpy, inputs))]


@pytest.mark.parametrize(
    ("kind", "format"),
    [
        pytest.param("normalized GRU", "torch", marks=pytest.mark.slow),
        ("boltzmann GRU", "torch"),
        ("two layers of LSTM", "onnx"),
        pytest.param("hybrid LSTM", "torch", marks=pytest.mark.slow),
        pytest.param("hybrid LSTM", "onnx", marks=pytest.mark.slow),
    ],
)
def test_a_memory_acts_over_episodes(tmp_path: Path, kind: str, format: Any) -> None:
    """Three at a time, the second of which begins anew halfway."""
    saved(kind, tmp_path)
    file = tmp_path / "policy"
    metadata = export_policy(tmp_path, file, format=format)
    run = run_onnx(file) if format == "onnx" else run_torch(file)
    observations, actions = REMEMBERED[kind]
    act = load_policy(tmp_path).act
    outputs = list(metadata["outputs"])
    carried = [name for name in metadata["inputs"] if f"next.{name}" in outputs]
    types = [metadata["inputs"][name].split(" ", 1) for name in carried]
    shapes = [tuple(map(int, text[1:-1].replace("N", "3").split(","))) for _, text in types]
    values = [np.ones(s, t[0]) for s, t in zip(shapes, types, strict=True)]
    state: Any = None
    for step in range(8):
        structure, inputs = example(OBSERVATIONS[observations], 3)
        is_init = np.array([step == 0, step in (0, 4), step == 0])
        action, state = act(structure, state, is_init=is_init)
        found = dict(zip(outputs, run(*inputs, is_init, *values), strict=True))
        wanted = [value for *_, value in leaves(ACTIONS[actions], action)]
        wanted += [state[name] for name in carried]
        for (name, mine), value in zip(found.items(), wanted, strict=True):
            assert metadata["outputs"][name].split()[0] == mine.dtype == value.dtype
            np.testing.assert_allclose(mine, value, rtol=1e-5, atol=1e-5)
        values = [found[f"next.{name}"] for name in carried]
