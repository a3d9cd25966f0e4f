from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlkit_sac.functional import soft_lambda_return, soft_td_target


def column(*values: Any) -> Tensor:
    """``[T, 1]``."""
    dtype = torch.bool if isinstance(values[0], bool) else torch.float64
    return torch.tensor(values, dtype=dtype).unsqueeze(-1)


REWARD, VALUE, BONUS = column(1.0, 2.0, 3.0), column(4.0, 6.0, 8.0), column(0.2, 0.4, 0.6)
NEVER = column(False, False, False)
SECOND = column(False, True, False)


def half(**changes: Tensor) -> list[float]:
    """The three-step example with gamma = lambda = 1/2."""
    arguments = {
        "reward": REWARD,
        "terminated": NEVER,
        "cut": NEVER,
        "next_value": VALUE,
        "next_bonus": BONUS,
    } | changes
    return soft_lambda_return(**arguments, gamma=0.5, lmbda=0.5).flatten().tolist()


def test_one_step_targets_by_hand() -> None:
    terminated = column(False, False, True)
    target = soft_td_target(REWARD, terminated, VALUE, gamma=0.9)
    assert target.flatten().tolist() == pytest.approx([4.6, 7.4, 3.0], abs=1e-12)


def test_a_terminal_next_value_leaks_neither_forward_nor_backward() -> None:
    value = column(4.0, torch.nan, torch.inf).requires_grad_()
    target = soft_td_target(REWARD, column(False, True, True), value, gamma=0.5)
    assert target.flatten().tolist() == [3.0, 2.0, 3.0]
    target.sum().backward()
    assert value.grad.flatten().tolist() == [0.5, 0.0, 0.0]


def test_lambda_return_by_hand() -> None:
    # G_3 = 3 + .5 * 8;  G_2 = 2 + .5 (.5 * 6 + .5 (7 + .4));
    # G_1 = 1 + .5 (.5 * 4 + .5 (5.35 + .2))
    assert half() == pytest.approx([3.3875, 5.35, 7.0], abs=1e-12)


def test_a_cut_restarts_from_the_value() -> None:
    # G_2 = 2 + .5 * 6;  G_1 = 1 + .5 (.5 * 4 + .5 (5 + .2))
    assert half(cut=SECOND) == pytest.approx([3.3, 5.0, 7.0], abs=1e-12)


def test_nothing_from_behind_a_cut_leaks_forward_or_backward() -> None:
    reward = column(1.0, 2.0, torch.nan).requires_grad_()
    value = column(4.0, 6.0, torch.nan).requires_grad_()
    arguments = {"gamma": 0.5, "lmbda": 0.5}
    found = soft_lambda_return(reward, NEVER, SECOND, value, BONUS, **arguments)[:2]
    assert found.flatten().tolist() == pytest.approx([3.3, 5.0], abs=1e-12)
    found.sum().backward()
    assert reward.grad.flatten().tolist() == [1.0, 1.25, 0.0]
    # dG_1/dV_1 = .5 * .5;  dG_2/dV_2 = .5, and dG_1/dV_2 = .5 * .5 * .5
    assert value.grad.flatten().tolist() == [0.25, 0.625, 0.0]


def draw(seed: int, rows: int, steps: int, rewards: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    terminated = torch.rand(rows, steps, 1) < 0.2
    return {
        "reward": torch.randn(rows, steps, rewards, dtype=torch.float64),
        "terminated": terminated,
        "cut": terminated | (torch.rand(rows, steps, 1) < 0.2),
        "next_value": torch.randn(rows, steps, rewards, dtype=torch.float64),
        "next_bonus": torch.randn(rows, steps, 1, dtype=torch.float64),
    }


def n_step(data: dict[str, Tensor], row: int, t: int, n: int, m: int, gamma: float) -> float:
    """Reward and entropy of n steps, and the value behind them."""
    total = 0.0
    for k in range(n):
        total += gamma**k * data["reward"][row, t + k, m].item()
        if k:
            total += gamma**k * data["next_bonus"][row, t + k - 1, 0].item()
    if not data["terminated"][row, t + n - 1, 0]:
        total += gamma**n * data["next_value"][row, t + n - 1, m].item()
    return total


def mixture(data: dict[str, Tensor], row: int, t: int, m: int, gamma: float, lmbda: float) -> float:
    """The lambda-return as the geometric mixture of all the n-step returns there are."""
    last = t
    while last + 1 < data["reward"].shape[1] and not data["cut"][row, last, 0]:
        last += 1
    longest = last - t + 1
    total = lmbda ** (longest - 1) * n_step(data, row, t, longest, m, gamma)
    for n in range(1, longest):
        total += (1 - lmbda) * lmbda ** (n - 1) * n_step(data, row, t, n, m, gamma)
    return total


sizes = {
    "seed": st.integers(0, 100_000),
    "rows": st.integers(1, 3),
    "steps": st.integers(1, 8),
    "rewards": st.integers(1, 2),
}
unit = st.floats(0, 1)


@given(**sizes, gamma=unit, lmbda=unit)
def test_the_recursion_is_the_mixture_of_n_step_returns(
    seed: int, rows: int, steps: int, rewards: int, gamma: float, lmbda: float
) -> None:
    data = draw(seed, rows, steps, rewards)
    found = soft_lambda_return(**data, gamma=gamma, lmbda=lmbda)
    for row in range(rows):
        for t in range(steps):
            for m in range(rewards):
                wanted = mixture(data, row, t, m, gamma, lmbda)
                assert found[row, t, m].item() == pytest.approx(wanted, rel=1e-10, abs=1e-10)


def test_lambda_one_on_a_slice_is_the_soft_n_step_return() -> None:
    found = soft_lambda_return(REWARD, NEVER, NEVER, VALUE, BONUS, gamma=0.5, lmbda=1.0)
    # 1 + .5 (2 + .2) + .25 (3 + .4) + .125 * 8
    assert found[0].item() == pytest.approx(3.95, abs=1e-12)
