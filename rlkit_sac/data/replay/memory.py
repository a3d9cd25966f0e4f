"""How much memory a device or directory has left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def free_device_memory(device: torch.device | str) -> int | None:
    """Returns the bytes that new tensors on ``device`` can take; None where unknown.

    For CUDA devices, their own memory; for others, that of the host: the memory available without
    swapping, or what is left of the limit of a container's control group, if that is less. Where
    the system reports neither, all physical memory.

    Args:
        device: where the tensors would lie.

    >>> free = free_device_memory("cpu")
    >>> free is None or free > 0
    True
    """
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    known = [free for free in (_host_memory(), _cgroup_memory()) if free is not None]
    return min(known, default=None)


def free_disk_space(directory: Path) -> int:
    """Returns the free bytes of the file system that holds ``directory``, which may not exist yet.

    Args:
        directory: where the files would lie.

    >>> free_disk_space(Path("not/yet/there")) > 0
    True
    """
    directory = directory.absolute()
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free


def _host_memory() -> int | None:
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _cgroup_memory() -> int | None:
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        statistics = (_CGROUP / "memory.stat").read_text().split()
    except (OSError, ValueError):  # no control group, or no limit ("max")
        return None
    # Cached files count as used but are given back under pressure.
    cached = int(statistics[statistics.index("inactive_file") + 1])
    return max(0, limit - used + cached)
