import json

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.runs.files import join_state, split_state

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NESTED = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner)
    ),
    max_leaves=20,
)


def on_disk_and_back(state):
    tree, tensors = split_state(state)
    content = safetensors.torch.save(tensors)
    return join_state(json.loads(json.dumps(tree)), safetensors.torch.load(content))


def same(a, b) -> bool:
    """Equal in type and value at every depth; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


@given(NESTED)
def test_plain_values_come_back_the_same(state):
    assert same(on_disk_and_back(state), state)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[1.0, float("nan")], [float("-inf"), -0.0]]),
        torch.tensor(3, dtype=torch.int64),
        torch.zeros(0, 4),
        torch.tensor([True, False]),
        torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T,
        torch.randn(3).to(torch.bfloat16),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_tensors_keep_every_bit(value):
    found = on_disk_and_back({"a": [value, {"b": value}]})
    for tensor in (found["a"][0], found["a"][1]["b"]):
        assert (tensor.dtype, tensor.shape) == (value.dtype, value.shape)
        assert torch.equal(tensor.nan_to_num(7.0), value.nan_to_num(7.0))


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int8", "uint8", "uint32", "uint64", "bool"]
)
def test_arrays_keep_type_and_value(dtype):
    array = np.arange(5).astype(dtype)
    found = on_disk_and_back((array, array[3]))
    assert isinstance(found[0], np.ndarray)
    assert found[0].dtype == array.dtype
    assert (found[0] == array).all()
    assert (found[1].dtype, found[1].shape) == (array.dtype, ())
    assert found[1] == array[3]


def test_a_split_state_does_not_change_with_what_it_was_taken_from():
    weight = torch.ones(2)
    tree, tensors = split_state({"weight": weight})
    weight.zero_()
    assert join_state(tree, tensors)["weight"].tolist() == [1.0, 1.0]
