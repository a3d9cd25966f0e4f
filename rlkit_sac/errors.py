"""The package's exceptions: one family, so that callers can catch all of it at once."""


class RlkitSacError(Exception):
    """Base class of every error this package raises on purpose."""


class ConfigError(RlkitSacError, ValueError):
    """A configuration, argument, space or network that cannot work.

    It is found before anything is created. Recipes report it in one line and exit with code 2.
    """


class BatchError(RlkitSacError, ValueError):
    """A TensorDict that lacks an entry or holds one of the wrong shape."""


class RunError(RlkitSacError, RuntimeError):
    """Something that failed while a run was under way. Recipes exit with code 1."""


class EnvironmentFault(RunError):  # noqa: N818 (EnvironmentError is another name of OSError)
    """An exception raised inside an environment, with the environment, episode and seed."""
