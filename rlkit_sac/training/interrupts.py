"""Recognizing Ctrl-C."""

from __future__ import annotations


def is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an exception.

    A KeyboardInterrupt that arrives inside one of TensorDict's context managers may come out as
    another exception with the interrupt as its context.

    >>> try:
    ...     try:
    ...         raise KeyboardInterrupt
    ...     finally:
    ...         raise RuntimeError("cleaning up failed")
    ... except RuntimeError as error:
    ...     is_interrupt(error)
    True
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
