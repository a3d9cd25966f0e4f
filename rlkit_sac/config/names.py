"""What is said of an option that does not exist: the names that come near."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from rlkit_sac.config.command_line import Setting
from rlkit_sac.config.flat import RENAMED


def unknown_option(setting: Setting, keys: Collection[str]) -> str:
    """The error of an option that does not exist.

    Args:
        setting: what was given for it.
        keys: all options by dotted key.

    >>> unknown_option(Setting("sed", 1, "a.yaml:3: sed"), ["seed", "env.id"])
    'a.yaml:3: sed: unknown key; did you mean seed?'
    """
    members = ", ".join(f"--{key}" for key in keys if key.startswith(f"{setting.key}."))
    if members:
        return f"--{setting.key} is a section; set one of its options: {members}"
    dashes = "--" if setting.on_command_line else ""
    if RENAMED.get(setting.key) in keys:
        advice = f"{setting.key} is now {RENAMED[setting.key]}"
    elif near := _near(setting.key, keys):
        advice = f"did you mean {' or '.join(dashes + key for key in near)}?"
    else:
        advice = "see --help for all options"
    if setting.on_command_line:
        return f"unknown option {setting.where}; {advice}"
    return f"{setting.where}: unknown key; {advice}"


def _near(key: str, keys: Collection[str]) -> list[str]:
    """The nearest key, or those in any section whose last name is the nearest."""
    names: dict[str, list[str]] = {}
    for each in keys:
        names.setdefault(each.rpartition(".")[2], []).append(each)
    name = key.rpartition(".")[2].replace("-", "_")
    if near := difflib.get_close_matches(key, keys, n=1, cutoff=0.75):
        return near
    near = [name] if name in names else difflib.get_close_matches(name, names, n=1)
    return names[near[0]] if near else []
