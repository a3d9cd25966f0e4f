"""The policy of a run as one file that acts without this package: ONNX, or PyTorch's format."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from rlkit_sac._version import __version__
from rlkit_sac.envs.action_masks import ACTION_MASK
from rlkit_sac.envs.spaces import leaves
from rlkit_sac.errors import ConfigError, RunError, as_run_error, check_installed
from rlkit_sac.modules import PlainPolicy
from rlkit_sac.runs.acting import Act, own_tensor
from rlkit_sac.runs.directory import RunDirectory
from rlkit_sac.runs.files import write_atomically
from rlkit_sac.runs.policy import find_policy, load_act

ExportFormat = Literal["onnx", "torch"]
File = Callable[[Sequence[Tensor]], list[NDArray[Any]]]  # acts

#: Largest difference between a file and the policy, where a dimension of the action is 2 wide or
#: less; in proportion where it is wider.
TOLERANCE = 1e-5


def export_policy(
    run_dir: Path | str,
    path: Path | str,
    *,
    format: ExportFormat = "onnx",
    which: Literal["last", "best"] = "last",
    into: TensorDictModuleBase | None = None,
) -> dict[str, Any]:
    """Write the deterministic policy of a run to a file that acts in the task without this package.

    The file computes what ``load_policy(run).act(observation)`` does for N observations, with
    normalization of observations and bounds of actions; see
    :meth:`~rlkit_sac.runs.acting.Act.described` for the tensors. Before it is written,
    it is run on batches of 1, 3 and 5 random observations, in several steps if the policy has a
    memory, and compared with the policy.

    Args:
        run_dir: the run directory, or one of its ``checkpoints/step_<frames>``.
        path: the file; its folder is made where missing.
        format: ``"onnx"``, or ``"torch"`` for a program that ``torch.export.load`` reads.
        which: the newest checkpoint of the run, or the checkpoint of the best evaluation.
        into: the same argument of :func:`~rlkit_sac.runs.load_policy`, for networks that the
            package does not build.

    Returns:
        ``rlkit_sac_version``, ``task``, and types and shapes of ``inputs`` and ``outputs`` by their
        names, in order. A program of PyTorch holds them as the extra file ``metadata.json``, an
        ONNX file as its metadata and its graph.

    Raises:
        ConfigError: for another format, or if a package of the extra ``onnx`` is missing.
        RunError: as ``load_policy`` and ``act``; if the policy cannot be exported, if the file
            would act otherwise than the policy, or cannot be written. Nothing is written then.

    >>> import tempfile
    >>> from rlkit_sac.envs import describe_task, make_env
    >>> from rlkit_sac.modules import tanh_gaussian_actor
    >>> from rlkit_sac.runs import save_policy
    >>> folder = Path(tempfile.mkdtemp())
    >>> task = describe_task(make_env("Pendulum-v1"))
    >>> save_policy(folder, tanh_gaussian_actor(3, [-1.0], [1.0]), task=task)
    >>> export_policy(folder, folder / "policy.pt2", format="torch")["outputs"]
    {'action': 'float32 [N, 1]'}
    >>> program = torch.export.load(folder / "policy.pt2").module()
    >>> program(torch.zeros(4, 3))[0].shape
    torch.Size([4, 1])
    """
    if format not in get_args(ExportFormat):
        raise ConfigError(f"format is {format!r}; choose 'onnx' or 'torch'")
    if format == "onnx":
        check_installed("onnx", "onnxscript", "onnxruntime", extra="onnx")
    path = Path(path)
    folder = find_policy(Path(run_dir), which)
    act = load_act(folder, into=into)
    inputs, outputs = act.described()
    run = folder.absolute().parents[1]
    metadata = {
        "rlkit_sac_version": __version__,
        "task": RunDirectory(run).info["task"] if (run / "run.json").exists() else None,
        "inputs": inputs,
        "outputs": outputs,
    }
    logger = logging.getLogger("torch.onnx")  # PyTorch reports on itself
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content, file = _WRITERS[format](_program(act), metadata)
            _check(act, file)
    finally:
        logger.setLevel(level)
    write_atomically(path, content)
    return metadata


class _TaskPolicy(nn.Module):
    """A copy of a policy on the CPU, between tensors of the task."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.act, self.plain = act, PlainPolicy(act.policy).cpu()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        entries = self.act.entries(inputs, own_tensor(self.plain))
        written = self.plain(*(entries[key] for key in self.plain.in_keys))
        values = written if isinstance(written, tuple) else (written,)
        return self.act.outputs(dict(zip(self.plain.out_keys, values, strict=True)))


def _program(act: Act) -> ExportedProgram:
    batch = Dim("N")
    example, _ = act.inputs(*_example(act, 2))
    shapes = (tuple({0: batch} for _ in example),)
    text = "its networks must be traceable by torch.export, for any number of observations"
    with as_run_error(f"the policy cannot be exported ({text})", Exception):
        program = torch.export.export(_TaskPolicy(act), tuple(example), dynamic_shapes=shapes)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    return program


def _onnx(program: ExportedProgram, metadata: Mapping[str, Any]) -> tuple[bytes, File]:
    import onnxruntime
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    names = list(metadata["inputs"])
    written = torch.onnx.export(
        program,
        input_names=names,
        output_names=list(metadata["outputs"]),
        dynamic_shapes=({0: "N"},) * len(names),  # the name of the dimension
        verbose=False,
        dynamo=True,
    )
    assert written is not None
    ClearMetadataAndDocStringPass()(written.model)
    texts = {name: value or "" for name, value in metadata.items() if not isinstance(value, dict)}
    written.model.metadata_props.update(texts)
    content = written.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def file(inputs: Sequence[Tensor]) -> list[NDArray[Any]]:
        arrays = [value.numpy() for value in inputs]
        return session.run(None, dict(zip(names, arrays, strict=True)))

    return content, file


def _torch(program: ExportedProgram, metadata: Mapping[str, Any]) -> tuple[bytes, File]:
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={"metadata.json": json.dumps(metadata)})
    content = buffer.getvalue()
    loaded = torch.export.load(io.BytesIO(content)).module()
    return content, lambda inputs: [action.numpy() for action in loaded(*inputs)]


_STEPS = 4  # of the episodes on which a policy with memory is compared
_WRITERS = {"onnx": _onnx, "torch": _torch}


def _example(act: Act, number: int, step: int = 0, state: Any = None) -> tuple[Any, ...]:
    """Return N random observations, and the other arguments of :meth:`Act.inputs`."""
    is_init = mask = None
    space = batch_space(act.task.observe.space, number)
    space.seed(number + 10 * step)
    if state is not None:
        is_init = np.arange(number) == step - 1
    if ACTION_MASK in act.policy.in_keys:
        mask = np.random.default_rng(step).random((number, act.task.act.num_choices or 0)) < 0.5
        mask[:, step % mask.shape[1]] = True
    return space.sample(), state, is_init, mask


def _check(act: Act, file: File) -> None:
    """Compare a file with the policy it was made of, one with memory over several steps."""
    names = act.described()[1]
    has_memory = any(name.startswith("next.") for name in names)
    for number in (1, 3, 5):
        state: dict[str, NDArray[Any]] | None = None
        for step in range(_STEPS if has_memory else 1):
            observation, state, is_init, mask = example = _example(act, number, step, state)
            found = file(act.inputs(*example)[0])
            action = act(observation, state, is_init=is_init, action_mask=mask)
            if has_memory:
                action, state = action
            wanted = [
                (value, np.maximum(1, 0.5 * (of.high - of.low)) if isinstance(of, Box) else 0)
                for _, of, value in leaves(act.task.act.space, action)
            ]
            wanted += [(value, np.maximum(1, np.abs(value))) for value in (state or {}).values()]
            for name, mine, (value, scale) in zip(names, found, wanted, strict=True):
                difference = np.abs(mine.astype(np.float64) - value)
                if mine.shape != value.shape or not (difference <= TOLERANCE * scale).all():
                    raise RunError(
                        f"the file would not act as the policy: {name} differs by "
                        f"{difference.max():.3g} for {number} observations; nothing was written"
                    )
