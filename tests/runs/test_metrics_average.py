import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit_sac.runs.log import MetricsAverage

numbers = st.floats(-1e6, 1e6, width=32)


def test_by_hand() -> None:
    average = MetricsAverage()
    for mean, low, high in ((1.0, -2.0, 5.0), (2.0, 3.0, -1.0), (6.0, 0.5, 4.0)):
        row = {"q0_mean": mean, "q0_min": low, "q0_max": high, "minimum": mean}
        average.add({name: torch.tensor(value) for name, value in row.items()})
    assert average.compute() == {"q0_mean": 3.0, "q0_min": -2.0, "q0_max": 5.0, "minimum": 3.0}


def test_a_name_counts_where_it_was_reported() -> None:
    average = MetricsAverage()
    average.add({"loss": torch.tensor(1.0)})
    average.add({"loss": torch.tensor(3.0), "grad_norm_actor": torch.tensor(10.0)})
    found = average.compute()
    assert found == {"loss": 2.0, "grad_norm_actor": 10.0}
    assert list(found) == ["loss", "grad_norm_actor"]


@given(values=st.lists(numbers, min_size=1, max_size=20))
def test_mean_minimum_and_maximum(values: list[float]) -> None:
    average = MetricsAverage()
    for value in values:
        average.add({name: torch.tensor(value).double() for name in ("q", "q_min", "q_max")})
    found = average.compute()
    assert found["q"] == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-6)
    assert found["q_min"] == min(values)
    assert found["q_max"] == max(values)
