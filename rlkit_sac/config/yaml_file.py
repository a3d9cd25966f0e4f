"""Configuration files: YAML read with line numbers, written so that it reads back the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import yaml

from rlkit_sac.config.command_line import Setting

_FLOAT, _NULL = "tag:yaml.org,2002:float", "tag:yaml.org,2002:null"
# YAML 1.1, which PyYAML follows, wants a dot in a float and reads 1e-3 as a string.
_SHORT_FLOAT = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                text = f"key {key!r} appears twice"
                raise yaml.constructor.ConstructorError(problem=text, problem_mark=node.start_mark)
            seen.add(key if isinstance(key, Hashable) else None)
        return super().construct_mapping(node, deep=deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value = super().construct_yaml_int(node)
        str(value)  # ValueError for one too long to be shown, which may be read in hexadecimal
        return value


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(_FLOAT, _SHORT_FLOAT, list("-+0123456789."))


def read_yaml(path: Path, sections: Collection[str]) -> tuple[list[Setting], list[str]]:
    r"""Read a configuration file into flat entries, collecting everything that is wrong with it.

    Args:
        path: the file.
        sections: dotted keys to descend into; any other mapping is one value.

    Returns:
        the settings in the file's order, and one message per problem.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.yaml"
    >>> _ = file.write_text("seed: 3\nupdate:\n  lr_actor: 1e-3\n")
    >>> read_yaml(file, {"update"})[0][1]
    Setting(key='update.lr_actor', value=0.001, where='...a.yaml:3: update.lr_actor', ...)
    """
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
    except UnicodeDecodeError as error:
        return [], [f"{path}: is not a UTF-8 text file ({error.reason} at byte {error.start})"]
    except (OSError, ValueError) as error:  # the latter for a path with a null character
        return [], [f"{path}: cannot be read: {getattr(error, 'strerror', error)}"]
    except (yaml.YAMLError, RecursionError) as error:
        return [], [_describe(path, error)]
    settings: list[Setting] = []
    problems: list[str] = []

    def walk(node: yaml.Node, prefix: str) -> None:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
            return  # an empty file or section leaves every default
        if not isinstance(node, yaml.MappingNode):
            what = f"section '{prefix[:-1]}'" if prefix else "the file"
            problems.append(f"{path}:{line}: {what} must hold 'key: value' lines")
            return
        seen = set()
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = f"{prefix}{key_node.value}"
            if key in seen:
                problems.append(f"{path}:{line}: key '{key}' appears twice")
            seen.add(key)
            if key in sections:
                walk(value_node, f"{key}.")
                continue
            try:
                value = loader.construct_object(value_node, deep=True)
                settings.append(Setting(key, value, f"{path}:{line}: {key}"))
            except (yaml.YAMLError, ValueError, RecursionError) as error:
                problems.append(_describe(path, error))

    if root is not None:
        walk(root, "")
    return settings, problems


def read_value_text(text: str) -> Any:
    """A number, truth value, list, mapping or ``null`` in YAML; any other text means itself.

    >>> read_value_text("[1e3, a]"), read_value_text("[1"), read_value_text("'a'")
    ([1000.0, 'a'], '[1', "'a'")
    """
    try:
        if text.isdecimal():
            return int(text)  # YAML 1.1 has 010 for eight
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    is_value = isinstance(value, int | float | list | dict) or text in ("null", "~")
    return value if is_value else text


def to_yaml(values: dict[str, Any]) -> str:
    """Write nested values as YAML that `read_yaml` reads back equal, in the given order.

    >>> print(to_yaml({"seed": 0, "network": {"num_cells": [64, 64]}, "id": "1e3"}), end="")
    seed: 0
    network:
      num_cells: [64, 64]
    id: '1e3'
    """
    return yaml.dump(
        values, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True
    )


def _describe(path: Path, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    text = getattr(error, "problem", None) or str(error)
    if isinstance(error, RecursionError):
        text = "has lists or mappings nested too deeply"
    return f"{where}: {' '.join(str(text).split())}"
