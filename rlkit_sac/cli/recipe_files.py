"""The recipes as files: where they lie, what they are, how they are run."""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, get_type_hints

from rlkit_sac.errors import ConfigError


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name.

    An installed package has them inside of it, a checkout beside it.

    >>> list(shipped_recipes())
    ['acer', 'clone', 'discrete_sac', 'hybrid_sac', 'kl_prior_sac', 'sac', 'sweep', 'value_sac']
    """
    package = Path(__file__).parents[1]
    folders = (package / "recipes", package.parent / "recipes")
    files = next((found for each in folders if (found := sorted(each.glob("*.py")))), [])
    return {file.stem: file.resolve() for file in files}


def find_recipe(name: str) -> Path:
    """The script of a recipe.

    Args:
        name: of one that comes with the package, or the path of a script that ends in ``.py``.

    Raises:
        ConfigError: if there is none; near names come first.

    >>> find_recipe("discrete-sac").name
    'discrete_sac.py'
    >>> find_recipe("ppo.py")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: there is no script ppo.py
    """
    if name.endswith(".py"):
        if not os.path.isfile(name):
            raise ConfigError(f"there is no script {name}")
        return Path(name)
    recipes, wanted = shipped_recipes(), name.replace("-", "_").lower()
    if wanted in recipes:
        return recipes[wanted]
    near = difflib.get_close_matches(wanted, recipes, n=len(recipes))
    advice = f"did you mean {near[0]}? There are" if near else "there are"
    others = ", ".join(dict.fromkeys([*near, *recipes]))
    raise ConfigError(
        f"unknown recipe {name!r}; {advice} {others}; a script of your own is given by its path"
    )


def summary(script: Path) -> str:
    """The first line of a script's docstring.

    >>> summary(find_recipe("sac"))
    'Soft actor-critic for continuous actions.'
    """
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


class _Declarations(SourceFileLoader):
    """Loads of a recipe what tells its options: no other statement is run, nor PyTorch imported."""

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.get_data(self.path))
        tree.body = [node for node in tree.body if _declares(node)]
        return self.source_to_code(tree, self.path)


def _declares(node: ast.stmt) -> bool:
    """Whether a statement is the docstring, a dataclass, ``main``, or an import that they need."""
    match node:
        case ast.ImportFrom(module=str(name)):
            return name.split(".")[0] in sys.stdlib_module_names or "rlkit_sac.config" in name
        case ast.Expr(ast.Constant()) | ast.FunctionDef(name="main"):
            return True
    return isinstance(node, ast.ClassDef) and bool(node.decorator_list)


def print_help(script: Path, options: Sequence[str]) -> None:
    """Print the options of a recipe and exit, if they are asked for, without PyTorch.

    A script whose classes need more than its imports from ``rlkit_sac.config`` answers by itself.

    Args:
        script: the recipe.
        options: its command line.
    """
    if not {"-h", "--help"} & set(options):
        return
    from rlkit_sac.config.read import set_options
    from rlkit_sac.config.run import SeveralOptions

    with (
        suppress(OSError, ImportError, NameError, ConfigError),
        opened_recipe(script, loader=_Declarations) as (_, config_class),
    ):
        config = config_class()
        several = [SeveralOptions()] if {"seed", "resume"} <= vars(config).keys() else []
        set_options([*several, config], options)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Add ``RECIPE``; what comes after it is for the recipe."""
    text = "name of a recipe, see `rlkit-sac recipes`, or path of a script (.py)"
    parser.add_argument("recipe", metavar="RECIPE", help=text)
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``options``: all that comes after the other arguments."""
    options = parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options.required = False  # else an error asks for them too


@contextmanager
def opened_recipe(
    script: Path, *, loader: type[SourceFileLoader] = SourceFileLoader
) -> Iterator[tuple[Callable[[Any], Path], type[Any]]]:
    """The function ``main`` of a recipe, and the class of its configuration.

    In the block the script can import what lies beside it.

    Args:
        script: of the recipe.
        loader: reads it.

    Raises:
        ConfigError: for a script without ``main(config: Class)``.

    >>> with opened_recipe(find_recipe("sac")) as (_, config_class):
    ...     config_class.__name__
    'SACConfig'
    """
    with _started(script):
        name = f"rlkit_sac_recipe_{script.stem}"
        spec = spec_from_file_location(name, script, loader=loader(name, str(script)))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look their types up
        spec.loader.exec_module(module)
        main: Any = getattr(module, "main", None)
        hints = get_type_hints(main) if callable(main) else {}
        config_class: Any = next(iter(hints.values()), None)
        if not hasattr(config_class, "__dataclass_fields__"):
            raise ConfigError(f"{script} is no recipe: it has no main(config: Class)")
        yield main, config_class


def run_script(script: Path, options: Sequence[str]) -> None:
    """Run a recipe in this process, as ``python script options`` does.

    Args:
        script: the recipe.
        options: its command line.

    Raises:
        SystemExit: as :func:`~rlkit_sac.runs.run_recipe`.
    """
    print_help(script, options)
    with _started(script, *options):
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _started(script: Path, *options: str) -> Iterator[None]:
    """In the block arguments and import path are those of ``python script options``."""
    argv, path = sys.argv, sys.path.copy()
    sys.argv = [str(script), *options]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
