"""What may not enter the code: what runs the content of a file, or a shell, or asks the network."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "rlkit_sac").rglob("*.py"), *(ROOT / "recipes").rglob("*.py")])

# Modules, functions and methods by their full names, with all that is inside of them.
FORBIDDEN = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"),
    *("eval", "exec", "compile", "__import__", "builtins", "code", "codeop", "ctypes"),
    *("runpy", "importlib.import_module", "importlib.util.spec_from_file_location"),
    *("subprocess", "pty", "os.system", "os.popen", "tempfile.mktemp"),
    *("os.execl", "os.execv", "os.execve", "os.execvp", "os.spawnl", "os.spawnv", "os.startfile"),
    *("yaml.load_all", "yaml.full_load", "yaml.full_load_all", "yaml.unsafe_load"),
    *("yaml.unsafe_load_all", "yaml.Loader", "yaml.FullLoader", "yaml.UnsafeLoader"),
    *("torch.hub", "torch.package", "torch.jit.load", "torch.export.load"),
    *("pandas.read_pickle", "numpy.lib"),
    *("socket", "http", "urllib", "requests", "httpx", "aiohttp", "ftplib", "smtplib"),
}
ALLOWED = {
    ("rlkit_sac/__init__.py", "importlib.import_module"): "its own sub-packages",
    ("rlkit_sac/cli/check_env.py", "runpy"): "the recipes of the package, to see their checks",
    ("rlkit_sac/cli/recipe_files.py", "runpy"): "the recipe that the user names",
    ("rlkit_sac/envs/gym_env.py", "importlib.import_module"): "the module of env.id",
    ("rlkit_sac/data/workers/cluster.py", "socket"): "whether a Ray cluster answers at its address",
    ("rlkit_sac/runs/loss_parts.py", "importlib.import_module"): "the module of prior.factory",
    ("rlkit_sac/runs/policies/export.py", "torch.export.load"): "what it has just written",
    ("rlkit_sac/runs/tables/run_directory.py", "subprocess"): "git, which names the commit",
    ("recipes/benchmarks/speed.py", "subprocess"): "a process for each timing",
    (
        "recipes/benchmarks/peers/own_recipe.py",
        "importlib.util.spec_from_file_location",
    ): "a recipe of this repository",
}


def findings(source: str) -> set[str]:
    """What a file has that is forbidden."""
    tree = ast.parse(source)
    names: dict[str, str] = {}  # what a name of the file stands for
    bases = {
        each.name: [ast.unparse(base) for base in each.bases]
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
    }
    found: list[str] = []
    for node in sorted(
        (node for node in ast.walk(tree) if hasattr(node, "lineno")),
        key=lambda node: (node.lineno, node.col_offset),
    ):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names |= {alias.asname: alias.name} if alias.asname else {top: top}
                found += forbidden(alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found += forbidden(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            found += forbidden(full_name(node, names))
        elif isinstance(node, ast.Call):
            found += unsafe_call(full_name(node.func, names), node, bases)
    return set(found)


def forbidden(name: str) -> list[str]:
    parts = name.split(".")
    starts = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return [start for start in starts if start in FORBIDDEN]


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """Of something imported or built in; others have none."""
    head, dot, rest = ast.unparse(node).partition(".")
    return names[head] + dot + rest if head in names else head if head in dir(builtins) else ""


def unsafe_call(name: str, call: ast.Call, bases: dict[str, list[str]]) -> Iterator[str]:
    """Of functions that are safe with some arguments alone."""
    options = {each.arg: ast.unparse(each.value) for each in call.keywords}
    if options.get("shell", "False") != "False":
        yield "shell"
    if options.get("allow_pickle", "False") != "False":
        yield "allow_pickle"
    if name == "torch.load" and options.get("weights_only") != "True":
        yield "torch.load without weights_only=True"
    if name == "yaml.load":
        loader = options.get("Loader", ast.unparse(call.args[1]) if call.args[1:] else "")
        safe = {"yaml.SafeLoader", "yaml.CSafeLoader"}
        if not {loader, *bases.get(loader, [])} & safe:
            yield "yaml.load without a SafeLoader"


def test_no_code_runs_what_a_file_holds() -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), what)
        for file in FILES
        for what in findings(file.read_text(encoding="utf-8"))
    }
    assert len(FILES) > 150
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set(), "these are no longer needed"
