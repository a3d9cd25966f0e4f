"""The configuration files that a recipe comes with, and their look-up by name."""

from __future__ import annotations

import sys
from pathlib import Path

from rlkit_sac.errors import ConfigError, suggestion


def default_config(config_class: type[object]) -> Path | None:
    """Return the file of a recipe's defaults, ``default.yaml``, or None if there is no such file.

    Args:
        config_class: the configuration class in the script of the recipe.

    >>> default_config(dict)
    """
    return next((file for file in _config_files(config_class) if file.stem == "default"), None)


def _config_files(config_class: type[object]) -> list[Path]:
    """Return the files in the folder ``configs/<recipe>`` beside the script of a recipe."""
    script = Path(getattr(sys.modules.get(config_class.__module__), "__file__", None) or "")
    return sorted((script.parent / "configs" / script.stem).glob("*.yaml"))


def find_config(name: str, config_class: type[object]) -> Path:
    """Return the file that ``--config`` names.

    Args:
        name: a path, or the name of a file in the folder ``configs/<recipe>`` beside the script of
            the recipe: ``halfcheetah``, ``sac/halfcheetah.yaml``.
        config_class: the configuration class in the script of the recipe.

    Returns:
        The file; the path itself for a recipe without configuration files.

    Raises:
        ConfigError: there is no such file. The error names the recipe that has one, or similar
            names.

    >>> find_config("my_settings.yaml", dict)
    PosixPath('my_settings.yaml')
    """
    path = Path(name)
    files = _config_files(config_class)
    is_path = name.startswith((".", "/", "~")) or path.suffix not in ("", ".yaml")
    if not files or is_path or not path.name or (path.exists() and not path.is_dir()):
        return path
    parts = path.with_suffix("").parts
    for file in files:
        if file.with_suffix("").parts[-len(parts) :] == parts:
            return file
    folder = files[0].parent
    if others := sorted(folder.parent.glob(f"*/{path.stem}.yaml")):
        owners = " and ".join(file.parent.name for file in others)
        raise ConfigError(f"{path.stem} is a configuration of {owners}, not of {folder.name}")
    advice = suggestion(path.stem, [file.stem for file in files])
    raise ConfigError(
        f"there is no file {name}, and {folder.name} has no configuration of this name; {advice}"
    )
