"""A call of `rlkit_sac.train`, as the recipe that it runs sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym


@dataclass
class PythonSession:
    """What a recipe that Python runs does differently: it raises its errors, and calls back.

    Attributes:
        callback: called with the :class:`~rlkit_sac.runs.TrainingRun` at the end of each step; true
            ends the run.
        makes_env: whether a function of the caller makes the environments.
        path: the run directory, once the recipe has ended.
    """

    callback: Callable[[Any], object] | None = None
    makes_env: bool = False
    path: Path | None = None


_CURRENT: ContextVar[PythonSession | None] = ContextVar("python_session", default=None)


def python_session() -> PythonSession | None:
    """The session whose recipe is running, if Python runs it.

    >>> python_session() is None
    True
    """
    return _CURRENT.get()


@contextmanager
def in_session(session: PythonSession) -> Iterator[None]:
    """In the block recipes belong to a session.

    >>> with in_session(PythonSession(makes_env=True)):
    ...     python_session().makes_env
    True
    """
    token = _CURRENT.set(session)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def missing_function(info: Mapping[str, Any], path: Path) -> str | None:
    """What is said of a run whose environments a function made, where there is no such function.

    Args:
        info: the run's ``run.json``.
        path: the run directory.

    >>> missing_function({"task": "Pendulum-v1"}, Path("a_run")) is None
    True
    """
    if not info.get("env_function") or info["task"] in gym.registry:
        return None
    return (
        f"a Python function made the environments of {path}: resume or evaluate it from Python, "
        f"with {resume_in_python(path, makes_env=True)}"
    )


def resume_in_python(path: Path, *, makes_env: bool) -> str:
    """Python that resumes a run.

    >>> resume_in_python(Path("a_run"), makes_env=True)
    "rlkit_sac.Run('a_run', env=function).resume()"
    """
    env = ", env=function" if makes_env else ""
    return f"rlkit_sac.Run({path.as_posix()!r}{env}).resume()"
