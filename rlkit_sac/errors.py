"""The exceptions of the package, which share a base class, and checks that raise them."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from itertools import takewhile
from traceback import format_exception
from typing import Any

# The largest float32; environments often write "unbounded" so instead of infinity.
_UNBOUNDED = (2 - 2**-23) * 2.0**127


def one_line(text: str, max_length: int = 1_000) -> str:
    r"""Return a text as one line: escapes for control characters, and a long text shortened.

    Args:
        text: any text, also with lone surrogates.
        max_length: the number of characters to keep; the middle of a longer text is left out.

    >>> one_line("a\nb"), one_line("1" * 5000, max_length=4)
    ('a\\nb', '11[...4996 more...]11')
    """
    if len(text) > max_length:
        half = max_length // 2
        text = f"{text[:half]}[...{len(text) - 2 * half} more...]{text[-half:]}"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def summary(error: BaseException) -> str:
    """Return type and message of an exception, or the message of one of this package, as one line.

    >>> summary(ValueError("no", 1)), summary(SystemExit()), summary(ConfigError("no"))
    ("ValueError: ('no', 1)", 'SystemExit', 'no')
    """
    text = " ".join(str(error).split())
    if isinstance(error, RlkitSacError):
        return one_line(text)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


class RlkitSacError(Exception):
    """Base class of every error this package raises on purpose.

    Each argument is a line of the message, whatever characters it quotes.
    """

    def __str__(self) -> str:
        return "\n".join(one_line(str(line)) for line in self.args)


class ConfigError(RlkitSacError, ValueError):
    """The error of an option, argument, space or network that cannot work.

    It is raised before anything is created. Recipes report it in one line and exit with code 2.
    """


class TaskError(ConfigError):
    """The error of a task that an algorithm cannot learn."""


class BatchError(RlkitSacError, ValueError):
    """The error of a TensorDict without a needed entry, or with one of a wrong shape."""


class RunError(RlkitSacError, RuntimeError):
    """The error of a failure during a run. Recipes exit with code 1."""


class WorkersLost(RunError):  # noqa: N818 (the name says what happened)
    """No worker process is left, or none has answered in time."""


class EnvironmentFault(RunError):  # noqa: N818 (EnvironmentError is another name of OSError)
    """The error of an environment that raised; it names environment, episode and seed.

    In another process than the environment's, its cause is a `RemoteTraceback`.
    """

    def __reduce__(self) -> tuple[object, ...]:
        cause = self.__cause__ and RemoteTraceback(environment_traceback(self.__cause__))
        return type(self), self.args, {"__cause__": cause}


class RemoteTraceback(Exception):  # noqa: N818 (it is shown, never raised)
    """The traceback of an exception in another process, as text."""


# Modules between a step of the loop and the code of an environment.
_STEPPING = ("rlkit_sac.", "gymnasium.core", "gymnasium.utils.", "gymnasium.wrappers.", "torchrl.")


def environment_traceback(error: BaseException) -> str:
    """Return the traceback of an error from the first frame of an environment on.

    It is empty if no frame is of an environment.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_STEPPING):
        trace = trace.tb_next
    if trace is None:
        return "" if error.__traceback__ else str(error)  # a `RemoteTraceback`
    return "".join(format_exception(type(error), error, trace)).rstrip()


def error_text(error: BaseException) -> str:
    """Return the lines that the console shows for an error, one for each line of its message.

    The exception behind an `EnvironmentFault` comes with its :func:`environment_traceback`.

    >>> print(error_text(ConfigError("--seed: must be >= 0", "unknown option --sed")))
    error: --seed: must be >= 0
    error: unknown option --sed
    """
    lines = [f"error: {line}" for line in str(error).splitlines()]
    if isinstance(error, EnvironmentFault) and error.__cause__ is not None:
        lines = [environment_traceback(error.__cause__), *lines]
    return "\n".join(filter(None, lines))


def refuse(problems: Sequence[str]) -> None:
    """Raise one `ConfigError` with a line for each problem, if there are any."""
    if problems:
        raise ConfigError(*problems)


def suggestion(name: str, known: Collection[str]) -> str:
    """Return advice for a wrong name: the known ones, the most similar one first.

    >>> suggestion("gama", ["alpha", "gamma"])
    'did you mean gamma? There are gamma, alpha'
    """
    near = get_close_matches(name, known, n=len(known))
    names = ", ".join(dict.fromkeys([*near, *known]))
    return f"did you mean {near[0]}? There are {names}" if near else f"there are {names}"


def repeated_options(argv: Sequence[str]) -> list[str]:
    """Return a line for each option other than ``--config`` that a command line repeats.

    Args:
        argv: the arguments after the program's name; options after ``--`` may repeat others.

    >>> repeated_options(["--seed", "1", "--seed=2", "--jobs", "2", "--", "--jobs", "1"])
    ['--seed: is given 2 times; give it once']
    """
    names = (word.partition("=")[0] for word in takewhile("--".__ne__, argv))
    counts = Counter(name for name in names if name.startswith("--") and name != "--config")
    return [f"{name}: is given {n} times; give it once" for name, n in counts.items() if n > 1]


@contextmanager
def prefix_errors(prefix: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Turn errors in the block into a `ConfigError` whose lines begin with a prefix.

    Args:
        prefix: the beginning of each line, such as the key of the option that the error is about.
        *kinds: further exceptions to turn into it, such as those of a user's own code.

    Raises:
        ConfigError: the block raised an error of this package, an `OSError`, or one of ``kinds``.

    >>> with prefix_errors("device"):
    ...     raise ConfigError("there is no GPU")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: device: there is no GPU
    """
    kinds = (RlkitSacError, OSError, *kinds)
    try:
        yield
    except kinds as error:
        text = str(error) if isinstance(error, RlkitSacError) else summary(error)
        lines = (f"{prefix}: {line}" for line in text.split("\n"))
        raise ConfigError(*lines) from error.__cause__ or error


@contextmanager
def as_run_error(text: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an `OSError` in the block, or others, into a `RunError` that says what failed, and why.

    Args:
        text: the beginning of the message.
        *kinds: further exceptions to turn into it, such as those of a library.

    >>> with as_run_error("cannot read notes"):
    ...     open("nowhere/notes")
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.RunError: cannot read notes: No such file or directory
    """
    kinds = (OSError, *kinds)
    try:
        yield
    except kinds as error:
        raise RunError(f"{text}: {getattr(error, 'strerror', None) or summary(error)}") from error


def check_installed(*packages: str, extra: str) -> None:
    """Check that packages are installed, without importing them.

    Args:
        *packages: the names of the packages.
        extra: the extra of this package that installs them.

    Raises:
        ConfigError: a package is missing; the error says how to install it.

    >>> check_installed("torch", "tachyon", extra="plots")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the package tachyon is missing: pip install 'rlkit_sac[plots]'
    """
    for name in packages:
        spec = find_spec(name)
        # A folder of that name without code, such as W&B leaves behind, has a spec but no origin.
        if spec is None or spec.origin is None:
            raise ConfigError(f"the package {name} is missing: pip install 'rlkit_sac[{extra}]'")


def check_bounds(low: Any, high: Any, where: str = "") -> None:
    """Refuse bounds without a finite, positive width in their own precision.

    Args:
        low: lower bounds, a tensor of any shape.
        high: upper bounds of the same shape.
        where: the owner of the bounds for the error, such as ``" of 'continuous'"``.

    Raises:
        ConfigError: naming the first dimension whose bounds are not usable.

    >>> import torch
    >>> check_bounds(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, torch.inf]))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: action dimension [1] has the bounds [0.0, inf]: wanted finite ...
    """
    width = high - low
    for index in (~((width > 0) & (width < _UNBOUNDED))).nonzero().tolist():
        lower, upper = low[tuple(index)].item(), high[tuple(index)].item()
        raise ConfigError(
            f"action dimension {index}{where} has the bounds [{lower}, {upper}]: wanted finite "
            "ones, the lower below the upper"
        )
