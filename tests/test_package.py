"""What ``import rlkit_sac`` gives."""

import ast
import importlib
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import rlkit_sac


def test_sub_packages_and_losses_are_attributes() -> None:
    names = {module.name for module in pkgutil.iter_modules(rlkit_sac.__path__)}
    internal = {
        "__main__",
        "_version",
        "action_bounds",
        "cli",
        "output",
        "recipe_files",
        "signals",
        "trained_policies",
        "valid_steps",
    }
    for name in names - internal:
        assert getattr(rlkit_sac, name).__name__ == f"rlkit_sac.{name}"
        assert f"``rlkit_sac.{name}``" in rlkit_sac.__doc__
        assert name in dir(rlkit_sac)
    for name in vars(rlkit_sac.objectives):
        if name.endswith("Loss"):
            assert getattr(rlkit_sac, name) is getattr(rlkit_sac.objectives, name)
            assert name in dir(rlkit_sac)
    for name in ("train", "Run"):
        assert getattr(rlkit_sac, name) is getattr(rlkit_sac.runs.train, name)
        assert name in dir(rlkit_sac)
    with pytest.raises(AttributeError, match="module 'rlkit_sac' has no attribute 'los'"):
        rlkit_sac.los  # noqa: B018


def test_the_names_of_each_package_are_what_help_lists() -> None:
    for package in pkgutil.iter_modules(rlkit_sac.__path__, "rlkit_sac."):
        if package.ispkg and package.name != "rlkit_sac.cli":
            module = importlib.import_module(package.name)
            imports = ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
            names = [x.asname for x in imports if isinstance(x, ast.alias) and x.asname]
            names = [name for name in names if callable(getattr(module, name))]  # and no types
            assert sorted(module.__all__) == sorted(names)
            text = pydoc.plain(pydoc.render_doc(module))
            assert all(name in text for name in names)


def test_analysis_comes_without_pytorch() -> None:
    program = (
        "import sys, rlkit_sac; rlkit_sac.analysis.load_runs; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
