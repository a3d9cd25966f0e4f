"""Compiled updates as CUDA graphs: the same on a GPU, left out elsewhere or where one errs."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict import TensorDict

from rlkit_sac.config import UpdateConfig
from rlkit_sac.graph import CUDAGraphFunction
from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.updates import Update
from rlkit_sac.updates import compiled as module
from tests.runs.recipe_updates import make_update

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make(compile_from: int | None, device: str) -> Update:
    torch.manual_seed(0)
    cells = {"num_cells": [8, 8]}
    loss = ContinuousSACLoss(
        tanh_gaussian_actor(3, [-1.0], [1.0], **cells), state_action_critic(3, 1, **cells)
    )
    return make_update(
        loss.double().to(device), UpdateConfig(cuda_graph=True), compile_from=compile_from
    )


def batch(device: str) -> TensorDict:
    following = TensorDict(
        observation=torch.randn(6, 3).double(),
        reward=torch.randn(6, 1).double(),
        done=torch.zeros(6, 1, dtype=torch.bool),
        terminated=torch.zeros(6, 1, dtype=torch.bool),
        batch_size=[6],
    )
    action = torch.rand(6, 1).double()
    observation = torch.randn(6, 3).double()
    return TensorDict(observation=observation, action=action, next=following, batch_size=[6]).to(
        device
    )


def assert_same_updates(device: str) -> None:
    batches = [batch(device) for _ in range(5)]
    states = []
    for compile_from in (None, 1):
        update = make(compile_from, device)
        scalars = []
        for seed, each in enumerate(batches):
            torch.manual_seed(seed)
            own = each.clone()
            scalars.append(update(own)["loss_qvalue"])
        states.append((update.loss_module.state_dict(), torch.stack(scalars), own["td_error"]))
    torch.testing.assert_close(states[1], states[0], rtol=1e-8, atol=1e-9)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "compile_graph", lambda graph, inputs: graph)
    monkeypatch.setattr(module, "on_a_gpu", lambda inputs: True)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU could capture it")
def test_what_cannot_be_captured_runs_compiled() -> None:
    with pytest.warns(UserWarning, match="compiled updates run without a CUDA graph"):
        assert_same_updates("cpu")


@needs_gpu
def test_updates_on_a_gpu_are_the_same() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back
        assert_same_updates("cuda")


@needs_gpu
def test_a_graph_follows_its_inputs_and_changes_what_the_function_does() -> None:
    total, rate = torch.zeros(3, device="cuda"), torch.ones((), device="cuda")

    def function(value: torch.Tensor, total: torch.Tensor, rate: torch.Tensor):
        total.add_(rate * value)
        return [total * 2]

    inputs = [torch.ones(3, device="cuda"), total, rate]
    replayed = CUDAGraphFunction(function, inputs, [0])
    total.zero_()
    rate.fill_(0.5)
    (first,) = replayed(torch.full((3,), 4.0, device="cuda"), total, rate)
    (second,) = replayed(torch.full((3,), 2.0, device="cuda"), total, rate)
    assert total.tolist() == [3.0] * 3
    assert (first.tolist(), second.tolist()) == ([4.0] * 3, [6.0] * 3)
