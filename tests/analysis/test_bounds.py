import inspect

import numpy as np
import pytest

from rlkit_sac import analysis
from rlkit_sac.errors import ConfigError

# What each argument cannot be, wherever it is one.
WRONG = {
    "last": [0, -1, 9],
    "confidence": [0, 1, 95, -0.5, np.nan, "0.9", True],
    "statistic": ["median", None, np.median],
    "references": [(1.0, 1.0), (0.0,), (0.0, 0.5, 1.0), "ab", 3.0],
    "data": ["runs", None],
    "column": ["recipe"],
}
CASES = [
    (function, name, wrong)
    for function in map(vars(analysis).get, analysis.__all__)
    if "data" in inspect.signature(function).parameters
    for name in WRONG
    if name in inspect.signature(function).parameters
    for wrong in WRONG[name]
]


@pytest.mark.parametrize(("function", "name", "wrong"), CASES)
def test_an_argument_out_of_its_bounds_is_refused_by_name(table, function, name, wrong):
    task, parameters = "Pendulum-v1", inspect.signature(function).parameters
    data = table([(100, 1.0), (200, 2.0)], [(100, 5.0), (200, 3.0)])
    given = {"data": data.assign(recipe=["a", "a", "b", "b"]), "threshold": 2}
    given |= {"references": {task: (0, 10)}, name: {task: wrong} if name == "references" else wrong}
    with pytest.raises(ConfigError, match=rf"{name[:9]}.* (is|are) "):
        function(**{key: value for key, value in given.items() if key in parameters})


def test_numbers_of_numpy_are_numbers(table):
    data = table([(100, 1.0), (200, 2.0)], [(100, 5.0), (200, 3.0)])
    options = {"confidence": np.float32(0.5), "resamples": np.int64(9), "seed": np.uint8(1)}
    assert len(analysis.learning_curves(data, frames=np.int32(2), **options)) == 2
    assert len(analysis.learning_curves(data, frames=np.array([100, 150]), **options)) == 2
    assert len(analysis.final_performance(data, last=np.int64(2), **options)) == 1
    references = {"Pendulum-v1": np.array([10, 0])}  # of which less is better
    assert analysis.aggregate_scores(data, references)["value"].tolist() == [0.75]
