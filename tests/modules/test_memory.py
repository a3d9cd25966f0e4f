"""Memories on rows and on their steps; tests/functional/test_memory.py compares with PyTorch's."""

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import set_recurrent_mode

from rlkit_sac.modules import GRUMemory, LSTMMemory
from rlkit_sac.modules.memory import policy_states, state_keys, state_primer

INPUTS, UNITS = 3, 5
KINDS = {"gru": GRUMemory, "lstm": LSTMMemory}


def keys_of(kind: str) -> dict[str, list]:
    states = ["state"] if kind == "gru" else ["state_h", "state_c"]
    after = [("next", key) for key in states]
    return {"in_keys": ["x", *states], "out_keys": ["y", *after]}


def make(kind: str, layers: int = 1):
    torch.manual_seed(0)
    return KINDS[kind](INPUTS, UNITS, layers, **keys_of(kind)).double()


def rows_of(*shape: int) -> TensorDict:
    """Random inputs of rows; a third of the steps begin an episode."""
    return TensorDict(
        x=torch.randn(*shape, INPUTS).double(),
        is_init=torch.rand(*shape, 1) < 0.3,
        batch_size=shape,
    )


def with_start(rows: TensorDict, memory) -> TensorDict:
    """The rows with random states, of which those at the first steps count."""
    rows = rows.clone()
    shape = (memory.gru if hasattr(memory, "gru") else memory.lstm).num_layers, UNITS
    for key in state_keys(memory):
        rows[key] = torch.randn(*rows.batch_size, *shape).double()
    return rows


def by_steps(memory, rows: TensorDict) -> list[TensorDict]:
    """Each step of the rows, called with the state that the step before wrote."""
    steps: list[TensorDict] = []
    for step in rows.unbind(-1):
        step = step.clone()
        if steps:
            for key in state_keys(memory):
                step[key] = steps[-1]["next", key]
        else:
            step["is_init"] = torch.zeros_like(step["is_init"])
        steps.append(memory(step))
    return steps


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 6)])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_their_steps_whatever_is_init_says_of_the_first(kind, layers, shape) -> None:
    memory = make(kind, layers)
    rows = with_start(rows_of(*shape), memory)
    rows["is_init"][..., 0, :] = torch.rand(*shape[:-1], 1) < 0.5
    with set_recurrent_mode(True):
        found = memory(rows.clone())
    wanted = by_steps(memory, rows)
    for key in ["y", *(("next", key) for key in state_keys(memory))]:
        expected = torch.stack([step[key] for step in wanted], len(shape) - 1)
        torch.testing.assert_close(found[key], expected, rtol=1e-12, atol=1e-12)


def test_a_policy_tells_the_states_that_it_carries_and_an_environment_can_hold_them() -> None:
    gru, lstm = make("gru", 2), make("lstm")
    assert policy_states(gru) == {"state": torch.Size([2, UNITS])}
    head = TensorDictModule(nn.Linear(UNITS, 1), ["y"], ["action"])
    assert policy_states(TensorDictSequential(lstm, head)) == {
        "state_h": torch.Size([1, UNITS]),
        "state_c": torch.Size([1, UNITS]),
    }
    assert policy_states(head) == {}
    assert set(state_primer(lstm).primers.keys()) == {"state_h", "state_c"}
