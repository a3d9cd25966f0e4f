"""Clusters that cannot be had, that leave signals alone, and that lose a machine."""

from __future__ import annotations

from pathlib import Path

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
