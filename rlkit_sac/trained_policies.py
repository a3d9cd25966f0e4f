"""The trained policies in the package: small run directories to evaluate and to start from."""

from __future__ import annotations

from pathlib import Path, PurePath

from rlkit_sac.errors import ConfigError

FOLDER = Path(__file__).parent / "policies"
PREFIX = "zoo:"


def trained_policies() -> dict[str, Path]:
    """Return the run directory of each trained policy, by its name.

    >>> list(trained_policies())
    ['zoo:...', ...]
    """
    runs = sorted(file.parent for file in FOLDER.glob("*/*/evaluations.csv"))
    return {f"{PREFIX}{run.parent.name}/{run.name}": run for run in runs}


def find_run(run: PurePath | str) -> Path:
    """Return the path of a run directory, or of the trained policy of this name.

    Args:
        run: a path, or a name from :func:`trained_policies`.

    Raises:
        ConfigError: if no trained policy has this name.

    >>> find_run("zoo:sac/Chess")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: there is no zoo:sac/Chess; choose from zoo:...
    """
    name = run.as_posix() if isinstance(run, PurePath) else run
    if not name.startswith(PREFIX):
        return Path(run)
    policies = trained_policies()
    if name not in policies:
        raise ConfigError(f"there is no {name}; choose from {', '.join(policies)}")
    return policies[name]


def output_folder(run: Path) -> Path:
    """Return the folder for files that are made from a run: the present one for the package's.

    Args:
        run: the path of a run directory.
    """
    return Path() if run.is_relative_to(FOLDER) else run
