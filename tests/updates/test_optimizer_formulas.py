"""The written-out steps of optimizers against PyTorch's own, over several steps."""

from collections.abc import Callable

import pytest
import torch
from torch.optim import Adam, AdamW, Optimizer, RMSprop

from rlkit_sac.updates.optimizer_formulas import take_step

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "Adam": lambda p: Adam(p, lr=0.1),
    "Adam, fused": lambda p: Adam(p, lr=0.1, fused=True, eps=1e-4),
    "Adam, other rates": lambda p: Adam(p, lr=0.1, betas=(0.5, 0.9)),
    "Adam without moments": lambda p: Adam(p, lr=0.1, betas=(0.0, 0.0)),
    "AdamW": lambda p: AdamW(p, lr=0.1, weight_decay=0.3),
    "RMSprop": lambda p: RMSprop(p, lr=0.1),
    "RMSprop, other rates": lambda p: RMSprop(p, lr=0.1, alpha=0.8, eps=1e-5),
    "groups": lambda p: Adam([{"params": p[:1], "lr": 0.5, "eps": 0.1}, {"params": p[1:]}], 0.01),
}


def parameters() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 2), (4,), ())
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [value.requires_grad_() for value in values]


def gradients(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters()]


def rates(optimizer: Optimizer) -> list[torch.Tensor]:
    return [torch.tensor(group["lr"], dtype=torch.float64) for group in optimizer.param_groups]


def own_step(optimizer: Optimizer, values: list[torch.Tensor | None]) -> None:
    owned = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter, value in zip(owned, values, strict=True):
        parameter.grad = value
    optimizer.step()


def assert_equal(first: Optimizer, second: Optimizer) -> None:
    for own, other in zip(first.param_groups, second.param_groups, strict=True):
        for p, q in zip(own["params"], other["params"], strict=True):
            torch.testing.assert_close(p, q, rtol=1e-13, atol=1e-14)
            assert set(first.state[p]) == set(second.state[q])
            for key, value in first.state[p].items():
                if torch.is_tensor(value):
                    torch.testing.assert_close(second.state[q][key], value, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_steps_are_those_of_pytorch(make: Callable[..., Optimizer]) -> None:
    first, second = make(parameters()), make(parameters())
    own_step(first, gradients(0))
    own_step(second, gradients(0))
    for seed in range(1, 5):
        own_step(first, gradients(seed))
        take_step(second, gradients(seed), rates(second), torch.tensor(True))
        assert_equal(first, second)


def test_a_parameter_without_a_gradient_stays_and_its_step_is_not_counted() -> None:
    first, second = Adam(parameters(), 0.1), Adam(parameters(), 0.1)
    own_step(first, gradients(0))
    own_step(second, gradients(0))
    some: list[torch.Tensor | None] = [None, *gradients(1)[1:]]
    own_step(first, some)
    take_step(second, some, rates(second), torch.tensor(True))
    assert_equal(first, second)
    own_step(first, gradients(2))
    take_step(second, gradients(2), rates(second), torch.tensor(True))
    assert_equal(first, second)
