"""Recorded functions against the functions themselves, on inputs they were not recorded with."""

from __future__ import annotations

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


def test_a_detached_parameter_kept_by_a_module_is_the_parameter() -> None:
    parameter = nn.Parameter(torch.ones(3))
    kept = parameter.detach()
    recording = record(lambda: [kept * parameter], [parameter])
    assert len(recording.inputs) == 1
    (found,) = recording.graph(torch.full((3,), 2.0))
    assert found.tolist() == [4.0] * 3


def test_changes_in_place_reach_the_inputs() -> None:
    count = torch.zeros(())

    def step() -> list[torch.Tensor]:
        count.add_(1)
        return [count * 2]

    recording = record(step, [count])
    assert count.item() == 1  # by the recorded call
    (doubled,) = recording.graph(*recording.inputs)
    assert (count.item(), doubled.item()) == (2, 4)


def test_what_is_not_used_is_no_input() -> None:
    a, b = torch.ones(2), torch.ones(3)
    recording = record(lambda: [a + 1], [b, a, a])
    assert [each is a for each in recording.inputs] == [True]


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


def test_elements_are_selected_by_index() -> None:
    x, index = torch.randn(4, 3), torch.tensor([2, 0])
    recording = record(lambda: [x[index], x[:, index]], [x, index])
    other = torch.tensor([1, 3])
    rows, columns = recording.graph(x, other - 1)
    assert torch.equal(rows, x[other - 1])
    assert torch.equal(columns, x[:, other - 1])


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


def test_a_view_made_before_is_refused() -> None:
    parameter = nn.Parameter(torch.ones(4))
    half = parameter.detach()[:2]
    with pytest.raises(NotRecordable, match="a view of an input"):
        record(lambda: [half + 1, parameter * 1], [parameter])


def test_the_error_inside_is_told() -> None:
    def fail() -> list[torch.Tensor]:
        raise ValueError("no such thing\nmore")

    with pytest.raises(NotRecordable, match=r"ValueError: no such thing$") as caught:
        record(fail, [])
    assert isinstance(caught.value.__cause__, ValueError)
