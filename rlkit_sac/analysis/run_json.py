"""The file ``run.json`` of a run, and other JSON files, as they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlkit_sac.errors import RunError

#: What each ``run.json`` says of its run.
IDENTITY = ("recipe", "task", "seed", "status")


def read_description(file: Path) -> dict[str, Any]:
    r"""Read a ``run.json``.

    Args:
        file: where it is.

    Returns:
        Its entries: ``recipe``, ``task``, ``seed``, ``status`` and others.

    Raises:
        RunError: naming the file, if it is missing, damaged, or lacks one of these.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "run.json"
        >>> _ = file.write_text('{"recipe": "sac", "task": "Ant-v5", "seed": 0}')
        >>> read_description(file)
        Traceback (most recent call last):
        rlkit_sac.errors.RunError: .../run.json is damaged: it has no 'status'
    """
    content = read_json(file)
    for name in IDENTITY:
        if not isinstance(content, dict) or name not in content:
            raise RunError(f"{file} is damaged: it has no {name!r}")
    return content


def read_json(file: Path) -> Any:
    """Read a JSON file of a run.

    Args:
        file: where it is.

    Raises:
        RunError: naming the file, if it is missing or not JSON.
    """
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{file} is damaged: it is not JSON ({error})") from error
