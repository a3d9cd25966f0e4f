import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlkit_sac.functional import opc_return, retrace_return

Arguments = dict[str, Tensor]


def draw(seed: int, *batch: int, cuts: float = 0.3) -> Arguments:
    """Random arguments ``[*, T]`` in float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal() -> Tensor:
        return torch.randn(*batch, generator=generator, dtype=torch.float64)

    return {
        "reward": normal(),
        "value": normal(),
        "q": normal(),
        "trace": torch.rand(*batch, generator=generator, dtype=torch.float64),
        "next_value": normal(),
        "cut": torch.rand(*batch, generator=generator) < cuts,
    }


def without_trace(arguments: Arguments) -> Arguments:
    return {name: value for name, value in arguments.items() if name != "trace"}


def by_hand(arguments: Arguments, gamma: float) -> list[float]:
    """Retrace of one row ``[T]``, the way the algorithm is written down."""
    row = {name: value.tolist() for name, value in arguments.items()}
    carry, out = 0.0, []
    for t in reversed(range(len(row["reward"]))):
        if t == len(row["reward"]) - 1 or row["cut"][t]:
            carry = row["next_value"][t]
        target = row["reward"][t] + gamma * carry
        out.append(target)
        carry = row["trace"][t] * (target - row["q"][t]) + row["value"][t]
    return out[::-1]


@given(seed=st.integers(0, 1000), steps=st.integers(1, 50), gamma=st.floats(0, 1))
def test_every_row_is_that_of_the_algorithm(seed: int, steps: int, gamma: float) -> None:
    arguments = draw(seed, 3, steps)
    found = retrace_return(**arguments, gamma=gamma)
    for row in range(3):
        wanted = by_hand({name: value[row] for name, value in arguments.items()}, gamma)
        assert found[row].tolist() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
def test_padding_changes_nothing(garbage: float) -> None:
    clean = draw(1, 2, 8, cuts=0.0)
    valid = torch.tensor([[True] * 5 + [False] * 3, [False] * 2 + [True] * 6])
    clean["cut"][:, 4] = True  # the last before the padding
    dirty = {
        name: value if name == "cut" else value.masked_fill(~valid, garbage)
        for name, value in clean.items()
    }
    for function, change in ((retrace_return, dict), (opc_return, without_trace)):
        found = function(**change(dirty), gamma=0.9, valid=valid)
        wanted = function(**change(clean), gamma=0.9)
        torch.testing.assert_close(found[valid], wanted[valid])
        assert not found[~valid].any()
