"""Messages of both collectors on failed environments and inexact resumption."""

from __future__ import annotations

from collections.abc import Sequence

from rlkit_sac.errors import EnvironmentFault


def inexact_reasons(kept: Sequence[bool]) -> list[str]:
    """Why environments do not continue exactly from a loaded state; empty if they do.

    Args:
        kept: for each environment whether its episode continues exactly.

    >>> inexact_reasons([True, True])
    []
    """
    if all(kept):
        return []
    return [
        f"the state of {list(kept).count(False)} of {len(kept)} environments could not be saved "
        "in the middle of an episode; the next episode begins there"
    ]


def with_frame(fault: EnvironmentFault, frames: int, batch: int) -> EnvironmentFault:
    """The fault with the frames of the run in its message.

    Args:
        fault: of an environment.
        frames: of the run so far.
        batch: frames collected when it happened.

    >>> with_frame(EnvironmentFault("environment 0 raised OSError"), 10, 1)
    EnvironmentFault('at frame 11 of the run: environment 0 raised OSError')
    """
    when = f"frame {frames + 1}" if batch == 1 else f"the frames {frames + 1} to {frames + batch}"
    return EnvironmentFault(f"at {when} of the run: {fault}")
