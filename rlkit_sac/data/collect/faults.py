"""What both collectors say when an environment fails, or does not go on where it was."""

from __future__ import annotations

from collections.abc import Sequence

from rlkit_sac.errors import EnvironmentFault


def inexact_reasons(kept: Sequence[bool]) -> list[str]:
    """Why environments do not go on where a loaded state left them; empty if they do.

    Args:
        kept: for each environment whether its episode goes on.

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
    """The fault with the frames of the run.

    Args:
        fault: of an environment.
        frames: of the run so far.
        batch: frames collected when it happened.

    >>> with_frame(EnvironmentFault("environment 0 raised OSError"), 10, 1)
    EnvironmentFault('at frame 11 of the run: environment 0 raised OSError')
    """
    when = f"frame {frames + 1}" if batch == 1 else f"the frames {frames + 1} to {frames + batch}"
    return EnvironmentFault(f"at {when} of the run: {fault}")
