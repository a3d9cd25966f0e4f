"""A disk of a few MiB that only this process sees, for scripts that tests start as processes."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000

# Begins a script: ends it with the exit code 77 where the system permits no such disk.
MOUNT = """
from tests.small_disk import fill, mount
mount({path!r}, size={size!r})
"""
NOT_PERMITTED = 77


def mount(path: str, *, size: str) -> None:
    """Mount an empty file system at a folder; for the scripts that begin with ``MOUNT``."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    try:
        if libc.unshare(_NEW_USER | _NEW_MOUNTS):
            raise OSError(ctypes.get_errno(), "no new namespace")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"size={size}".encode()):
            raise OSError(ctypes.get_errno(), "no new mount")
    except (AttributeError, OSError) as error:  # no Linux, or not for this user
        print(error, file=sys.stderr)
        sys.exit(NOT_PERMITTED)


def fill(folder: str | Path) -> None:
    """Take all space that is left, to the last byte."""
    with (Path(folder) / "filler").open("wb", buffering=0) as file:
        for block in (2**16, 2**10, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(block)) == block:
                    pass
