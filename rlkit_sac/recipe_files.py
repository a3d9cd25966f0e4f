"""The scripts of recipes: finding, describing, importing and running them."""

from __future__ import annotations

import ast
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

from rlkit_sac.errors import ConfigError, suggestion


def shipped_recipes() -> dict[str, Path]:
    """Return the scripts of the recipes that come with the package, by name.

    They are inside an installed package, and beside the package in a checkout.

    >>> list(shipped_recipes())
    ['acer', 'clone', 'discrete_sac', 'hybrid_sac', 'kl_prior_sac', 'sac', 'sweep', ...]
    """
    package = Path(__file__).parent
    folders = (package / "recipes", package.parent / "recipes")
    scripts = next(filter(None, (sorted(folder.glob("*.py")) for folder in folders)), [])
    return {script.stem: script.resolve() for script in scripts}


def find_recipe(name: str) -> Path:
    """Return the script of a recipe.

    Args:
        name: the name of a recipe that comes with the package, or the path of a script, which ends
            in ``.py``.

    Raises:
        ConfigError: there is no such recipe; the error lists all recipes, similar names first.

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
    recipes, stem = shipped_recipes(), name.replace("-", "_").lower()
    if stem in recipes:
        return recipes[stem]
    advice = f"{suggestion(stem, recipes)}; a script of your own is given by its path"
    raise ConfigError(f"unknown recipe {name!r}; {advice}")


def recipe_script(info: Mapping[str, Any], run: str) -> Path:
    """Return the script of the recipe that started a run, for a recipe of the package.

    The files of a run do not choose what code is run: a user's own script has to be named.

    Args:
        info: the contents of ``run.json``.
        run: the run directory, for the error.

    Raises:
        ConfigError: another script started the run. The error has the command that resumes it.

    >>> recipe_script({"script": "elsewhere/recipes/sac.py"}, "a_run").name
    'sac.py'
    >>> recipe_script({"script": "my_sac.py"}, "a_run")
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: a_run was begun by my_sac.py, no recipe of this installation; ...
    """
    script = Path(info["script"])
    recipe = shipped_recipes().get(script.stem)
    # The installation that the script was part of may be gone.
    is_gone = script.parent.name == "recipes" and not script.exists()
    if recipe is not None and (is_gone or (script.exists() and script.samefile(recipe))):
        return recipe
    raise ConfigError(
        f"{run} was begun by {script}, no recipe of this installation; to run that script: "
        f"{shlex.join(['rlkit-sac', 'train', str(script), '--resume', run])}"
    )


def recipe_summary(script: Path) -> str:
    """Return the first line of the docstring of a script.

    >>> recipe_summary(find_recipe("sac"))
    'Soft actor-critic for continuous actions.'
    """
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


class _DeclarationLoader(SourceFileLoader):
    """A loader that runs only the declarations of a recipe's options, and imports no PyTorch."""

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.get_data(self.path))
        tree.body = [node for node in tree.body if _is_declaration(node)]
        return self.source_to_code(tree, self.path)


def _is_declaration(node: ast.stmt) -> bool:
    """Return whether a statement is the docstring, a dataclass, ``main``, or an import for them."""
    match node:
        case ast.ImportFrom(module=str(name)):
            return name.split(".")[0] in sys.stdlib_module_names or "rlkit_sac.config" in name
        case ast.Expr(ast.Constant()) | ast.FunctionDef(name="main"):
            return True
    return isinstance(node, ast.ClassDef) and bool(node.decorator_list)


def print_help(script: Path, options: Sequence[str]) -> None:
    """Print the options of a recipe and exit if the command line has ``--help``.

    PyTorch is not imported. A script whose classes need more than ``rlkit_sac.config`` is left to
    print its help when it runs.

    Args:
        script: the script of the recipe.
        options: the command line of the recipe.
    """
    if not {"-h", "--help"} & set(options):
        return
    from rlkit_sac.config.read import set_options
    from rlkit_sac.config.run import SeedsConfig

    with (
        suppress(OSError, ImportError, NameError, ConfigError),
        open_recipe(script, loader=_DeclarationLoader) as (_, config_class),
    ):
        config = config_class()
        several = [SeedsConfig()] if {"seed", "resume"} <= vars(config).keys() else []
        set_options([*several, config], options)


@contextmanager
def open_recipe(
    script: Path, *, loader: type[SourceFileLoader] = SourceFileLoader
) -> Iterator[tuple[Any, type[Any]]]:
    """Import a recipe, and yield its module and the class of its configuration.

    In the block the script can import files that lie beside it.

    Args:
        script: the script of the recipe.
        loader: the class that loads the script.

    Raises:
        ConfigError: the script has no ``main(config: Class)``.

    >>> with open_recipe(find_recipe("sac")) as (_, config_class):
    ...     config_class.__name__
    'SACConfig'
    """
    with _set_argv_and_path(script):
        name = f"rlkit_sac_recipe_{script.stem}"
        spec = spec_from_file_location(name, script, loader=loader(name, str(script)))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their types up there
        spec.loader.exec_module(module)
        main: Any = getattr(module, "main", None)
        annotations = getattr(main, "__annotations__", {})
        config_class: Any = next(iter(annotations.values()), None)
        if isinstance(config_class, str):  # with `from __future__ import annotations`
            config_class = getattr(module, config_class, None)
        if not hasattr(config_class, "__dataclass_fields__"):
            raise ConfigError(f"{script} is no recipe: it has no main(config: Class)")
        yield module, config_class


def run_script(script: Path, options: Sequence[str]) -> None:
    """Run a recipe in this process, as ``python script options`` does.

    Args:
        script: the script of the recipe.
        options: the command line of the recipe.

    Raises:
        SystemExit: one of the reasons of :func:`~rlkit_sac.runs.run_recipe`.
    """
    print_help(script, options)
    with _set_argv_and_path(script, *options):
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _set_argv_and_path(script: Path, *options: str) -> Iterator[None]:
    """Set ``sys.argv`` and ``sys.path`` in the block as ``python script options`` does."""
    argv, path = sys.argv, sys.path.copy()
    sys.argv = [str(script), *options]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
