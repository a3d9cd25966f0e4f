"""Configuration files: YAML read with line numbers, written so that it reads back the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import yaml

from rlkit_sac.config.command_line import Setting

_MOST_CHARACTERS = 100_000  # of a file, also with its aliases written out
_VALUE = 10  # what each value counts besides
_MOST_LEVELS = 50
_BOOL, _FLOAT, _INT, _MERGE, _NULL = (
    f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "merge", "null")
)
# YAML 1.1, which PyYAML follows, reads 1e-3 as a string, but 1:30 as 90, 010 as 8, and dates.
_INTEGER = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)$")
_NUMBER = re.compile(
    r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_ERRORS = (yaml.YAMLError, ValueError, OverflowError)  # of what PyYAML cannot read


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._size = 0
        self._sizes: dict[yaml.Node | None, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """A value without a tag, neither deep nor, with its aliases written out, large."""
        event, before = self.peek_event(), self._size
        self._level += 1
        if self._level > _MOST_LEVELS:
            raise self._refusal("has lists or mappings nested too deeply", event)
        if getattr(event, "tag", None) not in (None, "!"):
            raise self._refusal(f"write the value without its tag {event.tag}", event)
        node = super().compose_node(parent, index)
        self._level -= 1
        if not isinstance(event, yaml.AliasEvent):
            self._size += _VALUE + len(getattr(event, "value", ""))
            self._sizes[node] = self._size - before
        elif node in self._sizes:
            self._size += self._sizes[node]
        else:
            raise self._refusal(f"the value of &{event.anchor} contains itself", event)
        if self._size > _MOST_CHARACTERS:
            raise self._refusal("has too many values, its aliases written out", event)
        return node

    @staticmethod
    def _refusal(problem: str, event: Any) -> yaml.YAMLError:
        return yaml.composer.ComposerError(problem=problem, problem_mark=event.start_mark)

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


_Loader.add_constructor(_INT, _Loader.construct_yaml_int)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, text) for tag, text in known if tag in (_BOOL, _MERGE, _NULL)]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, _INTEGER, list("-+0123456789"))
for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(_FLOAT, _NUMBER, list("-+0123456789."))


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
    except OSError as error:
        return [], [f"{path}: cannot be read: {error.strerror}"]
    except _ERRORS as error:  # also of a path with a null character
        return [], [_describe(path, error)]
    settings: list[Setting] = []
    problems: list[str] = []
    seen: set[str] = set()

    def walk(node: yaml.Node, prefix: str) -> None:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
            return  # an empty file or section leaves every default
        if not isinstance(node, yaml.MappingNode):
            what = f"section '{prefix[:-1]}'" if prefix else "the file"
            problems.append(f"{path}:{line}: {what} must hold 'key: value' lines")
            return
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                problems.append(f"{path}:{line}: a key must be a name, not a list or mapping")
                continue
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
            except _ERRORS as error:
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
    except _ERRORS:
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
    return f"{where}: {' '.join(str(text).split())}"
