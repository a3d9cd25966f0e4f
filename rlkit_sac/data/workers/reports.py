"""An error of a worker on its way to the process of the run."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from rlkit_sac import errors
from rlkit_sac.errors import RlkitSacError, RunError, summary

_TRACE_LENGTH = 9000


def report_of(error: BaseException, who: str) -> list[str]:
    """An error as texts that another process makes it from, by :func:`reported_error`.

    Args:
        error: what was raised; what is not of this package becomes a `RunError`.
        who: raised it.

    >>> report_of(ValueError("no"), "worker 0")[:2]
    ['RunError', 'worker 0 raised ValueError: no']
    """
    is_ours = isinstance(error, RlkitSacError)
    fault = error if is_ours else RunError(f"{who} raised {summary(error)}")
    trace = "".join(traceback.format_exception(error))
    return [type(fault).__name__, str(fault)[:1000], trace[-_TRACE_LENGTH:]]


def reported_error(report: Sequence[str]) -> RlkitSacError:
    """The error of :func:`report_of`, its traceback as its cause."""
    kind, text, trace = report
    fault: RlkitSacError = getattr(errors, kind, RunError)(text)
    fault.__cause__ = WorkerTraceback(f"\n{trace}")
    return fault


class WorkerTraceback(Exception):  # noqa: N818 (it is shown, never raised)
    """The traceback of an exception in another process."""
