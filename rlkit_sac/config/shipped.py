"""The configuration files that a recipe comes with, by their names."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from rlkit_sac.errors import ConfigError


def default_config(config_class: type[object]) -> Path | None:
    """Return the file of a recipe's defaults, ``default.yaml``, if it comes with one.

    Args:
        config_class: the configuration, which the script of the recipe defines.

    >>> default_config(dict)
    """
    return next((file for file in _config_files(config_class) if file.stem == "default"), None)


def _config_files(config_class: type[object]) -> list[Path]:
    """The configuration files that lie in ``configs/<recipe>`` beside the script of a recipe."""
    script = Path(getattr(sys.modules.get(config_class.__module__), "__file__", None) or "")
    return sorted((script.parent / "configs" / script.stem).glob("*.yaml"))


def find_config(given: str, config_class: type[object]) -> Path:
    """The file that ``--config`` means.

    A recipe comes with the files of the folder ``configs/<recipe>`` beside its script.

    Args:
        given: a path, or the name of such a file: ``halfcheetah``, ``sac/halfcheetah.yaml``.
        config_class: the configuration, which the script of the recipe defines.

    Returns:
        The file, or the path that was given for a recipe that comes with none.

    Raises:
        ConfigError: if there is neither, naming the recipe that has one, or near names.

    >>> find_config("my_settings.yaml", dict)
    PosixPath('my_settings.yaml')
    """
    path = Path(given)
    files = _config_files(config_class)
    is_path = given.startswith((".", "/", "~")) or path.suffix not in ("", ".yaml")
    if not files or is_path or not path.name or (path.exists() and not path.is_dir()):
        return path
    wanted = path.with_suffix("").parts
    for file in files:
        if file.with_suffix("").parts[-len(wanted) :] == wanted:
            return file
    folder = files[0].parent
    if others := sorted(folder.parent.glob(f"*/{path.stem}.yaml")):
        own = " and ".join(file.parent.name for file in others)
        raise ConfigError(f"{path.stem} is a configuration of {own}, not of {folder.name}")
    names = [file.stem for file in files]
    near = difflib.get_close_matches(path.stem, names, n=len(names))
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(
        f"there is no file {given}, and no configuration of this name; {hint}{folder.name} comes "
        f"with {', '.join(dict.fromkeys([*near, *names]))}"
    )
