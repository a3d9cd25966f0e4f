"""Clusters that cannot be had, that leave signals alone, and that lose a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run

REFUSED = """
from rlkit_sac.data import ray_cluster
from rlkit_sac.data.workers.cluster import check_capacity
from rlkit_sac.errors import ConfigError

try:
    check_capacity(1, 1.0)
except ConfigError as error:
    print(error)
for address in ("127.0.0.1:9", "nohost"):
    try:
        with ray_cluster(address, workers=1):
            print("connected")
    except ConfigError as error:
        print(error)
"""

SIGNALS = """
import signal

import ray

from rlkit_sac.data import ray_cluster
from rlkit_sac.errors import ConfigError

numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
before = [signal.getsignal(number) for number in numbers]
try:
    with ray_cluster(workers=999):
        print("too many")
except ConfigError as error:
    print(error)
print(ray.is_initialized())
with ray_cluster(workers=1, cpus=0.5):
    print([signal.getsignal(number) for number in numbers] == before)
    with ray_cluster(workers=1, cpus=0.5):
        pass
    print(ray.is_initialized())
print(ray.is_initialized())
"""

REMOVED = """
from functools import partial

from ray.cluster_utils import Cluster

from rlkit_sac.data import make_worker_collector, ray_cluster
from rlkit_sac.envs import make_env
from rlkit_sac.modules import tanh_gaussian_actor

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
node = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
with ray_cluster(cluster.address, workers=2):
    collector = make_worker_collector(
        partial(make_env, "Pendulum-v1"),
        tanh_gaussian_actor(3, [-1.0], [1.0]),
        workers=2,
        num_envs=1,
        total_frames=3000,
        frames_per_batch=10,
        updates=lambda: 0,
        mode="async",
    )
    for number, batch in enumerate(collector):
        if number == 5:
            cluster.remove_node(node, allow_graceful=False)
    print(collector.frames, collector.state_dict()["workers"].count(None))
    collector.shutdown()
cluster.shutdown()
"""


def output(script: str, folder: Path) -> list[str]:
    path = folder / "script.py"
    path.write_text(script)
    finished = run(path, cwd=folder)
    assert finished.returncode == 0, finished.stderr
    return [*finished.stdout.splitlines(), finished.stderr]


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    not_started, first, second, _ = output(REFUSED, tmp_path)
    assert not_started.startswith("Ray has not been started: ")
    assert first.startswith("no Ray cluster at workers.address '127.0.0.1:9': ConnectionRefused")
    assert second == (
        "no Ray cluster at workers.address 'nohost': it has no port; give host:port of its head "
        "node, or auto"
    )


@pytest.mark.slow
def test_a_cluster_lasts_as_long_as_its_block(tmp_path: Path) -> None:
    too_many, *flags, _ = output(SIGNALS, tmp_path)
    assert too_many.startswith("999 workers of 1 CPUs each need 999, the Ray cluster has ")
    assert flags == ["False", "True", "True", "False"]


@pytest.mark.slow
def test_a_machine_that_is_gone(tmp_path: Path) -> None:
    *_, counts, errors = output(REMOVED, tmp_path)
    assert counts == "3000 1"
    assert "restart 1 of 10" in errors
