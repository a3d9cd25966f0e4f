"""The recipes as files: where they lie, what they are, how they are run."""

from __future__ import annotations

import ast
import difflib
import os
import runpy
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from rlkit_sac.errors import ConfigError


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name.

    An installed package has them inside of it, a checkout beside it.

    >>> list(shipped_recipes())
    ['acer', 'clone', 'discrete_sac', 'hybrid_sac', 'kl_prior_sac', 'sac', 'sweep', ...]
    """
    package = Path(__file__).parent
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


def recipe_script(info: Mapping[str, Any], run: str) -> Path:
    """The recipe of the package that began a run.

    The files of a run do not choose what code is run: a script of someone's own has to be named.

    Args:
        info: the run's ``run.json``.
        run: the run directory, for the error.

    Raises:
        ConfigError: for another script, with the command that resumes the run.

    >>> recipe_script({"script": "elsewhere/recipes/sac.py"}, "a_run").name
    'sac.py'
    >>> recipe_script({"script": "my_sac.py"}, "a_run")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: a_run was begun by my_sac.py, no recipe of this installation; ...
    """
    script = Path(info["script"])
    recipe = shipped_recipes().get(script.stem)
    gone = script.parent.name == "recipes" and not script.exists()  # with another installation
    if recipe is not None and (gone or (script.exists() and script.samefile(recipe))):
        return recipe
    raise ConfigError(
        f"{run} was begun by {script}, no recipe of this installation; to run that script: "
        f"{shlex.join(['rlkit-sac', 'train', str(script), '--resume', run])}"
    )


def recipe_summary(script: Path) -> str:
    """The first line of a script's docstring.

    >>> recipe_summary(find_recipe("sac"))
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
    from rlkit_sac.config.run import SeedsConfig

    with (
        suppress(OSError, ImportError, NameError, ConfigError),
        open_recipe(script, loader=_Declarations) as (_, config_class),
    ):
        config = config_class()
        several = [SeedsConfig()] if {"seed", "resume"} <= vars(config).keys() else []
        set_options([*several, config], options)


@contextmanager
def open_recipe(
    script: Path, *, loader: type[SourceFileLoader] = SourceFileLoader
) -> Iterator[tuple[Any, type[Any]]]:
    """The module of a recipe, and the class of its configuration.

    In the block the script can import what lies beside it.

    Args:
        script: of the recipe.
        loader: reads it.

    Raises:
        ConfigError: for a script without ``main(config: Class)``.

    >>> with open_recipe(find_recipe("sac")) as (_, config_class):
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
        annotations = getattr(main, "__annotations__", {})
        config_class: Any = next(iter(annotations.values()), None)
        if isinstance(config_class, str):  # as `from __future__ import annotations` has them
            config_class = getattr(module, config_class, None)
        if not hasattr(config_class, "__dataclass_fields__"):
            raise ConfigError(f"{script} is no recipe: it has no main(config: Class)")
        yield module, config_class


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
