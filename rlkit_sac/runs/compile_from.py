"""From which update on a run is compiled."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

import torch

#: Updates that a run makes uncompiled, so that short runs are spared the time of compiling.
UNCOMPILED_UPDATES = 1_000


def first_compiled_update(
    choice: Literal["auto"] | bool,
    device: torch.device | None,
    *,
    uncompiled: int = UNCOMPILED_UPDATES,
) -> int | None:
    """Count of the first update to compile, known before the run begins.

    It depends neither on the clock nor on the length of the run, so that a run of 2N frames equals
    one of N frames that went on for N.

    Args:
        choice: ``True`` for the first update, ``False`` for none, ``"auto"`` for the one after
            ``uncompiled`` ones where a compiler is at hand.
        device: of the update.
        uncompiled: updates that take as long as a run is to wait before it compiles. Default:
            1,000.

    >>> first_compiled_update(True, torch.device("cpu"))
    1
    """
    if choice == "auto":
        return uncompiled + 1 if _can_compile(device) else None
    return 1 if choice else None


def _can_compile(device: torch.device | None) -> bool:
    kind = "cpu" if device is None else device.type
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return kind == "cuda" or (kind == "cpu" and shutil.which(compiler) is not None)
