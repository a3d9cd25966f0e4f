"""Compiled updates as CUDA graphs: the same on a GPU, left out elsewhere or where one errs."""

import warnings

import pytest
import torch

from rlkit_sac.config import UpdateConfig
from rlkit_sac.graph import CUDAGraphFunction
from rlkit_sac.updates import Update
from rlkit_sac.updates import compiled as module
from tests.objectives.losses import own_loss
from tests.objectives.networks import make_data
from tests.runs.recipe_updates import make_update

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make(compile_from: int | None, device: str) -> Update:
    torch.manual_seed(0)
    loss = own_loss("continuous").double().to(device)
    return make_update(loss, UpdateConfig(cuda_graph=True), compile_from=compile_from)


def assert_same_updates(device: str) -> None:
    batches = [make_data("continuous", 6).to(device) for _ in range(5)]
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
    monkeypatch.setattr(module, "any_on_gpu", lambda inputs: True)


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
