"""Recorded functions against the functions themselves, on inputs they were not recorded with."""

import pytest
import torch
from tensordict import TensorDict
from torch import nn

from rlkit_sac.graph import NotRecordable, record


def test_a_graph_computes_on_new_inputs() -> None:
    x = torch.randn(3, 4)
    graph = record(lambda: [x.T @ x, x.sum()], [x]).graph
    other = torch.randn(3, 4)
    product, total = graph(other)
    torch.testing.assert_close(product, other.T @ other)
    torch.testing.assert_close(total, other.sum())


def test_gradients_are_written_out() -> None:
    weight, x = nn.Parameter(torch.randn(4)), torch.randn(5, 4)

    def gradient() -> list[torch.Tensor]:
        return list(torch.autograd.grad((x @ weight).tanh().sum(), [weight]))

    recording = record(gradient, [weight, x])
    with torch.no_grad():
        weight.add_(1.0)
        x.mul_(-2.0)
        (found,) = recording.graph(*recording.inputs)
    torch.testing.assert_close(found, gradient()[0])


def test_parameters_are_read_where_they_are() -> None:
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(6, 3)
    recording = record(lambda: [network(x)], [x, *network.parameters()])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
        (found,) = recording.graph(*recording.inputs)
    assert torch.equal(found, network(x))


def test_changes_in_place_reach_the_inputs() -> None:
    count = torch.zeros(())

    def step() -> list[torch.Tensor]:
        count.add_(1)
        return [count * 2]

    recording = record(step, [count])
    assert count.item() == 1  # by the recorded call
    (doubled,) = recording.graph(*recording.inputs)
    assert (count.item(), doubled.item()) == (2, 4)


def test_vmap_and_tensordicts_leave_no_trace() -> None:
    weights = nn.Parameter(torch.randn(2, 4, 3))
    data = TensorDict(x=torch.randn(5, 3), batch_size=[5])
    x = data["x"]

    def run() -> list[torch.Tensor]:
        out = torch.vmap(lambda w: data["x"] @ w.T)(weights)
        return list(torch.autograd.grad(out.square().sum(), [weights]))

    recording = record(run, [x, weights])
    with torch.no_grad():
        x.normal_()
        (found,) = recording.graph(*recording.inputs)
    torch.testing.assert_close(found, run()[0])


@pytest.mark.parametrize(
    "function",
    {
        "item": lambda x: [x * x.sum().item()],
        "branch": lambda x: [x if x.sum() > 0 else -x],
        "nonzero": lambda x: [x.nonzero()],
        "mask": lambda x: [x[x > 0]],
    }.values(),
    ids=["item", "branch", "nonzero", "mask"],
)
def test_what_depends_on_values_is_refused(function) -> None:
    x = torch.tensor([1.0, -2.0, 3.0])
    with pytest.raises(NotRecordable, match="values of tensors"):
        record(lambda: function(x), [x])
