"""Updates of every loss, by one process or by a rank of several.

``python rank_cases.py <folder> <rank> <ranks> <case> …`` writes ``<folder>/<rank>.pt``: for each
case the parameters, targets and scalars after some updates.
"""

import functools
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.distributed import FileStore, ProcessGroup, group, init_process_group
from torchrl.objectives import LossModule, SoftUpdate, ValueEstimators

from rlkit_sac.config import UpdateConfig, ValueUpdateConfig
from rlkit_sac.errors import RunError
from rlkit_sac.modules import SameActionPrior
from rlkit_sac.objectives import ACERLoss
from rlkit_sac.runs import parameter_groups, update_steps
from rlkit_sac.updates import Update
from tests.objectives.acer_memory import make_recurrent_acer
from tests.objectives.acer_memory import make_rows as acer_rows
from tests.objectives.acer_networks import NUM_ACTIONS, make_acer, make_segments
from tests.objectives.losses import make_batch, own_loss
from tests.objectives.memory_references import SPECS, recurrent_loss
from tests.runs.recipe_updates import make_acer_update
from tests.updates.joint_noise import ROWS, JointNoise

UPDATES = 5
RANKS = 2


def dtype_of(case: str) -> torch.dtype:
    """The precision that a case is run with."""
    return torch.float64 if case.endswith(("clipped", "recompute")) else torch.float32


def with_before(batch: TensorDict) -> TensorDict:
    batch["prev_action"] = batch["action"].flip(0)
    batch["is_init"] = torch.rand(len(batch), 1) < 0.3
    return batch


def with_prior() -> LossModule:
    return own_loss("continuous", prior_network=SameActionPrior(SPECS["continuous"]))


def with_memory(kind: str) -> LossModule:
    return recurrent_loss(kind, "gru").make_value_estimator(ValueEstimators.TDLambda)


def memory_rows(kind: str, size: int) -> TensorDict:
    rows = make_batch(kind, size, 4)
    rows["prev_action"] = rows["action"].roll(1, 1)
    rows["is_init"] = torch.rand(size, 4, 1) < 0.3
    return rows


ACER_MEMORY = {"kind": "lstm", "size": 4, "num_actions": NUM_ACTIONS}

#: A loss, and a batch of some rows.
LOSSES: dict[str, tuple[Callable[[], LossModule], Callable[[int], TensorDict]]] = {
    **{
        kind: (functools.partial(own_loss, kind), functools.partial(make_batch, kind))
        for kind in ("continuous", "boltzmann", "categorical", "hybrid", "value")
    },
    "redq": (
        lambda: own_loss("continuous", num_qvalue_nets=4, target_subset=2),
        functools.partial(make_batch, "continuous"),
    ),
    "prior": (with_prior, lambda size: with_before(make_batch("continuous", size))),
    "memory": (functools.partial(with_memory, "hybrid"), functools.partial(memory_rows, "hybrid")),
    "acer_discrete": (
        lambda: make_acer("discrete", trust_region_delta=0.01)[0],
        lambda size: make_segments("discrete", size, 4, padded=False),
    ),
    "acer_continuous": (
        lambda: make_acer("continuous", trust_region_delta=0.01)[0],
        lambda size: make_segments("continuous", size, 4, padded=False),
    ),
    "acer_memory": (
        lambda: make_recurrent_acer("discrete", ACER_MEMORY, shared=True),
        lambda size: acer_rows("discrete", size, 4),
    ),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "clipped": {"max_grad_norm": 0.05},
    "recompute": {"recompute": True},
    "compiled": {"compile_from": 1, "max_grad_norm": 0.05},
    "own noise": {"max_grad_norm": 0.05},
    "own noise, compiled": {"compile_from": 1, "max_grad_norm": 0.05},
}


def make_update(loss: LossModule, group: ProcessGroup | None, **options: Any) -> Update:
    if isinstance(loss, ACERLoss):
        return make_acer_update(loss, group=group, **options)
    groups = parameter_groups(loss)
    config = ValueUpdateConfig() if "value" in groups else UpdateConfig()
    return Update(
        loss,
        {name: torch.optim.Adam(each, 1e-2, eps=1e-3, fused=True) for name, each in groups.items()},
        update_steps(config, groups),
        target_updater=SoftUpdate(loss, tau=0.1),
        group=group,
        **options,
    )


def convert(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def run_case(
    case: str, rank: int | None = None, group: ProcessGroup | None = None
) -> dict[str, Tensor]:
    """Everything after some updates, on a rank's half of each batch or, without one, on all."""
    name, _, options = case.partition("/")
    dtype = dtype_of(case)
    make_loss, batch_of = LOSSES[name]
    torch.manual_seed(1 + (rank or 0))  # ranks begin with other parameters than rank 0
    loss = make_loss().to(dtype)
    update = make_update(loss, group, **OPTIONS[options])
    sums: dict[str, Tensor] = {}
    torch.manual_seed(2)
    if name == "redq" and group is None:
        loss.critic_order = torch.arange(loss.num_qvalue_nets)
    for _ in range(UPDATES):
        batch = batch_of(RANKS * ROWS).apply(functools.partial(convert, dtype=dtype))
        share = batch if rank is None else batch.chunk(RANKS)[rank].clone()
        noise = nullcontext() if options.startswith("own") else JointNoise(rank)
        with noise, warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*run uncompiled")
            scalars = update(share)
        sums = {key: sums.get(key, 0) + value.double() for key, value in scalars.items()}
    state = {f"state {key}": value.detach() for key, value in loss.state_dict().items()}
    return state | {f"scalar {key}": value / UPDATES for key, value in sums.items()}


def run_nan(rank: int, group: ProcessGroup) -> str:
    """The error of an update of which one rank has a bad number; it changes nothing."""
    make_loss, batch_of = LOSSES["continuous"]
    torch.manual_seed(1)
    update = make_update(make_loss(), group)
    batches = [batch_of(ROWS) for _ in range(2)]
    update(batches[0])
    before = {key: value.clone() for key, value in update.loss_module.state_dict().items()}
    if rank == 1:
        batches[1]["next", "reward"][3] = torch.nan
    try:
        update(batches[1])
    except RunError as error:
        after = update.loss_module.state_dict()
        assert all(value.equal(after[key]) for key, value in before.items())
        return str(error)
    return "no error"


def main(folder: Path, rank: int, cases: list[str]) -> None:
    store = FileStore(str(folder / "store"), RANKS)
    init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    joint: ProcessGroup = group.WORLD
    results: dict[str, Any] = {"nan": run_nan(rank, joint)}
    for case in cases:
        results[case] = run_case(case, rank, joint)
    torch.save(results, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
