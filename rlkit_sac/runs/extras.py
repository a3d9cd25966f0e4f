"""Whether the packages of an extra are installed."""

from importlib.util import find_spec

from rlkit_sac.errors import ConfigError


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
