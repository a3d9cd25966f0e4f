"""The package's exceptions: one family, so that callers can catch all of it at once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import takewhile
from math import inf
from numbers import Integral, Real
from traceback import format_exception
from typing import Any

_MOST = 1_000


def one_line(text: str, most: int = _MOST) -> str:
    r"""A text for a message: control characters as escapes, its middle left out where it is long.

    Args:
        text: with anything in it, such as lone surrogates.
        most: characters that are kept.

    >>> one_line("a\nb"), one_line("1" * 5000, most=4)
    ('a\\nb', '11[...4996 more...]11')
    """
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}[...{len(text) - 2 * half} more...]{text[-half:]}"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def summary(error: BaseException) -> str:
    """An exception of somebody else's code as one line.

    >>> summary(ValueError("no", 1)), summary(SystemExit())
    ("ValueError: ('no', 1)", 'SystemExit')
    """
    text = " ".join(str(error).split())
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


class RlkitSacError(Exception):
    """Base class of every error this package raises on purpose.

    Each argument is a line of the message, whatever characters it quotes.
    """

    def __str__(self) -> str:
        return "\n".join(one_line(str(line)) for line in self.args)


class ConfigError(RlkitSacError, ValueError):
    """A configuration, argument, space or network that cannot work.

    It is found before anything is created. Recipes report it in one line and exit with code 2.
    """


class TaskError(ConfigError):
    """A task that an algorithm does not learn."""


class BatchError(RlkitSacError, ValueError):
    """A TensorDict that lacks an entry or holds one of the wrong shape."""


class RunError(RlkitSacError, RuntimeError):
    """Something that failed while a run was under way. Recipes exit with code 1."""


class WorkersLost(RunError):  # noqa: N818 (named as what happened)
    """No worker process is left, or none has answered in time."""


class EnvironmentFault(RunError):  # noqa: N818 (EnvironmentError is another name of OSError)
    """An exception raised inside an environment, with the environment, episode and seed.

    Where it comes from another process, its cause is a `RemoteTraceback`.
    """

    def __reduce__(self) -> tuple[object, ...]:
        cause = self.__cause__ and RemoteTraceback(environment_traceback(self.__cause__))
        return type(self), self.args, {"__cause__": cause}


class RemoteTraceback(Exception):  # noqa: N818 (it is shown, never raised)
    """The traceback of an exception in another process, as a text."""


# The modules that step environments.
_AROUND = ("rlkit_sac.", "gymnasium.core", "gymnasium.utils.", "gymnasium.wrappers.", "torchrl.")


def environment_traceback(error: BaseException) -> str:
    """The traceback from the first frame of an environment on; empty if it has none."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_AROUND):
        trace = trace.tb_next
    if trace is None:
        return "" if error.__traceback__ else str(error)  # a `RemoteTraceback`
    return "".join(format_exception(type(error), error, trace)).rstrip()


def refuse(problems: Sequence[str]) -> None:
    """Raise one `ConfigError` with a line for each problem, if there are any."""
    if problems:
        raise ConfigError(*problems)


def repeated_options(argv: Sequence[str]) -> list[str]:
    """A line for each option that a command line has more than once, but for ``--config``.

    Args:
        argv: the arguments after the program's name; those after ``--`` may override others.

    >>> repeated_options(["--seed", "1", "--seed=2", "--jobs", "2", "--", "--jobs", "1"])
    ['--seed: is given 2 times; give it once']
    """
    own = (word.partition("=")[0] for word in takewhile("--".__ne__, argv))
    counts = Counter(name for name in own if name.startswith("--") and name != "--config")
    return [f"{name}: is given {n} times; give it once" for name, n in counts.items() if n > 1]


@contextmanager
def prefix_errors(option: str) -> Iterator[None]:
    """Let the lines of errors in the block begin with the option that they are about.

    Args:
        option: its dotted key.

    Raises:
        ConfigError: for any error of this package, and for an `OSError`.

    >>> with prefix_errors("device"):
    ...     raise ConfigError("there is no GPU")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: device: there is no GPU
    """
    try:
        yield
    except (RlkitSacError, OSError) as error:
        text = str(error) if isinstance(error, RlkitSacError) else summary(error)
        lines = (f"{option}: {line}" for line in text.split("\n"))
        raise ConfigError(*lines) from error.__cause__ or error


def check_installed(*packages: str, extra: str) -> None:
    """Check that packages are installed, without importing them.

    Args:
        *packages: their names.
        extra: the extra of this package that brings them.

    Raises:
        ConfigError: naming the first one that is missing, and how to install it.

    >>> check_installed("torch", "tachyon", extra="plots")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: the package tachyon is missing: pip install 'rlkit_sac[plots]'
    """
    for name in packages:
        spec = find_spec(name)
        # A mere folder of that name, such as W&B leaves behind, would pass for a package.
        if spec is None or spec.origin is None:
            raise ConfigError(f"the package {name} is missing: pip install 'rlkit_sac[{extra}]'")


def check_number(name: str, *values: Any, above: float = -inf, below: float = inf) -> None:
    """Refuse an argument that is no finite number within its bounds.

    Args:
        name: of the argument.
        *values: what was given: one number, or several.
        above: their bound from below, exclusive.
        below: their bound from above, exclusive.

    Raises:
        ConfigError: one is something else, such as NaN or a bool.

    >>> check_number("confidence", 95, above=0, below=1)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: confidence is 95; give a number between 0 and 1
    """
    for value in values:
        if (
            isinstance(value, bool)
            or not isinstance(value, Real)
            or not above < float(value) < below
        ):
            wanted = "finite number" if below == inf else f"number between {above} and {below}"
            raise ConfigError(f"{name} is {value!r}; give a {wanted}")


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse an argument that is no integer, or too small.

    Args:
        name: of the argument.
        value: what was given.
        least: the smallest that is right.

    Raises:
        ConfigError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ConfigError(f"{name} is {value!r}; give an integer of at least {least}")
