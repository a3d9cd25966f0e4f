"""The file ``run.json`` of a run as it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlkit_sac.errors import RunError
from rlkit_sac.untrusted import read_json

#: What each ``run.json`` says of its run.
IDENTITY = {"recipe": str, "task": str, "seed": int, "status": str}
# What some do.
_MORE = {"command": str, "script": str, "sessions": list, "wandb_id": str}


def read_description(file: Path) -> dict[str, Any]:
    r"""Read a ``run.json``.

    Args:
        file: where it is.

    Returns:
        Its entries: ``recipe``, ``task`` and ``status``, which are text, ``seed``, which is an
        integer, and others.

    Raises:
        RunError: naming the file, if it is missing, damaged, or lacks one of these; and the entry
            that is of another type.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "run.json"
        >>> _ = file.write_text('{"recipe": "sac", "task": "Ant-v5", "seed": 0.5}')
        >>> read_description(file)
        Traceback (most recent call last):
        rlkit_sac.errors.RunError: .../run.json is damaged: its 'seed', of type int, is 0.5
    """
    try:
        content = read_json(file)
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{file} is damaged: it is not JSON ({error})") from error
    if not isinstance(content, dict) or _is_deeper(content, 50):
        raise RunError(f"{file} is damaged: it is no JSON object of a run")
    for name, kind in (IDENTITY | _MORE).items():
        value = content.get(name)
        if type(value) is not kind and (name in IDENTITY or value is not None):
            found = f"is {value!r:.60}" if name in content else "is missing"
            raise RunError(f"{file} is damaged: its {name!r}, of type {kind.__name__}, {found}")
    return content


def _is_deeper(value: Any, levels: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in parts)
