"""What both collectors say when an environment fails, or does not go on where it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rlkit_sac.errors import EnvironmentFault


def doubts_about(kept: Sequence[bool]) -> list[str]:
    """Why environments do not go on where a loaded state left them; empty if they do.

    Args:
        kept: for each environment whether its episode goes on.

    >>> doubts_about([True, True])
    []
    """
    if all(kept):
        return []
    return [
        f"the state of {list(kept).count(False)} of {len(kept)} environments could not be saved "
        "in the middle of an episode; the next episode begins there"
    ]


@contextmanager
def telling_frames(frames: int, batch: int) -> Iterator[None]:
    """In the block an `EnvironmentFault` tells the frames of the run.

    Args:
        frames: of the run so far.
        batch: frames collected in the block.
    """
    try:
        yield
    except EnvironmentFault as fault:
        when = (
            f"frame {frames + 1}" if batch == 1 else f"the frames {frames + 1} to {frames + batch}"
        )
        raise EnvironmentFault(f"at {when} of the run: {fault}") from fault.__cause__
