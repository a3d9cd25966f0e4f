"""One small Ray cluster for all tests of workers."""

from collections.abc import Iterator

import pytest

from rlkit_sac.data import ray_cluster

CPUS = 0.5


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    with ray_cluster(workers=2, cpus=CPUS):
        yield
