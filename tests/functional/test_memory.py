"""Recurrent layers against PyTorch's, for one network and for several."""

import pytest
import torch
from torch import Tensor, nn

from rlkit_sac.functional.memory import recurrent_step, unroll_recurrent
from rlkit_sac.modules.memory import layer_weights

INPUTS, UNITS, ROWS, STEPS = 3, 5, 4, 6

EXACT = {torch.float64: 1e-12, torch.float32: 1e-6}


def networks(kind: str, members: int, layers: int, dtype: torch.dtype, **options):
    """R networks of PyTorch, their stacked weights, and a state ``[R, N, L, H]`` of each part."""
    torch.manual_seed(0)
    make = {"gru": nn.GRU, "lstm": nn.LSTM}[kind]
    cells = [
        make(INPUTS, UNITS, layers, batch_first=True, dtype=dtype, **options)
        for _ in range(members)
    ]
    stacked = {
        name: torch.stack([getattr(each, name) for each in cells])
        for name, _ in cells[0].named_parameters()
    }
    shape = (members, ROWS, layers, UNITS)
    state = tuple(torch.randn(shape, dtype=dtype) for _ in range(1 + (kind == "lstm")))
    return cells, layer_weights(stacked.get, layers), state


def run(cells: nn.RNNBase, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """PyTorch's states ``[N, L, H]`` after a row ``[N, T, I]``, one step of it at a time."""
    parts = tuple(each.transpose(0, 1).contiguous() for each in state)
    for step in inputs.split(1, 1):
        _, after = cells(step, parts if len(parts) > 1 else parts[0])
        parts = after if isinstance(after, tuple) else (after,)
    return tuple(each.transpose(0, 1) for each in parts)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("members", [1, 2, 5])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_row_is_its_steps_and_each_step_is_pytorchs(kind, layers, members, dtype) -> None:
    cells, weights, state = networks(kind, members, layers, dtype)
    inputs = torch.randn(members, ROWS, STEPS, INPUTS, dtype=dtype)
    reset = torch.rand(ROWS, STEPS) < 0.3
    rows = unroll_recurrent(inputs, state, reset, weights)
    for t in range(STEPS):
        begins = reset[:, t, None, None]
        state = tuple(torch.where(begins, 0.0, part) for part in state)
        wanted = [
            run(cells[r], inputs[r, :, t : t + 1], tuple(part[r] for part in state))
            for r in range(members)
        ]
        state = recurrent_step(inputs[:, :, t], state, weights)
        for place, part in enumerate(state):
            near = {"rtol": EXACT[dtype], "atol": EXACT[dtype]}
            torch.testing.assert_close(rows[place][:, :, t], part, **near)
            torch.testing.assert_close(part, torch.stack([w[place] for w in wanted]), **near)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gradients_are_pytorchs(kind: str, layers: int) -> None:
    (cells,), _, state = networks(kind, 1, layers, torch.float64)
    inputs = torch.randn(ROWS, STEPS, INPUTS, dtype=torch.float64, requires_grad=True)
    start = tuple(part[0].requires_grad_() for part in state)
    leaves = [inputs, *start, *cells.parameters()]
    weights = layer_weights(lambda name: getattr(cells, name, None), layers)
    reset = torch.zeros(ROWS, STEPS, dtype=torch.bool)
    found = unroll_recurrent(inputs, start, reset, weights)[0][..., -1, :]
    parts = tuple(each.transpose(0, 1).contiguous() for each in start)
    wanted, _ = cells(inputs, parts if len(parts) > 1 else parts[0])
    slope = torch.randn_like(wanted)
    for mine, theirs in zip(
        torch.autograd.grad((found * slope).sum(), leaves),
        torch.autograd.grad((wanted * slope).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_nan_before_a_reset_does_not_remain(kind: str) -> None:
    _, weights, state = networks(kind, 2, 2, torch.float64)
    inputs = torch.randn(2, ROWS, STEPS, INPUTS, dtype=torch.float64)
    reset = torch.zeros(ROWS, STEPS, dtype=torch.bool)
    reset[:, 3] = True
    wanted = unroll_recurrent(inputs, state, reset, weights)
    inputs[:, :, :3] = torch.nan
    start = tuple(torch.full_like(part, torch.inf) for part in state)
    for part, before in zip(unroll_recurrent(inputs, start, reset, weights), wanted, strict=True):
        assert torch.equal(part[:, :, 3:], before[:, :, 3:])
        assert part[:, :, :3].isnan().any()
