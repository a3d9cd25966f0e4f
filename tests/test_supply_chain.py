"""What may not enter the code: what runs the content of a file, or a shell, or asks the network."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "rlkit_sac").rglob("*.py"), *(ROOT / "recipes").rglob("*.py")])

# Modules, functions and methods by their full names, with all that is inside of them.
FORBIDDEN = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"),
    *("eval", "exec", "compile", "__import__", "builtins", "code", "codeop", "ctypes"),
    *("runpy", "importlib.import_module", "importlib.util.spec_from_file_location"),
    "pkgutil.resolve_name",
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
    (
        "rlkit_sac/recipe_files.py",
        "importlib.util.spec_from_file_location",
    ): "the recipe that the user names, and those of the package",
    ("rlkit_sac/recipe_files.py", "runpy"): "the recipe that the user names",
    ("rlkit_sac/envs/gym_env.py", "importlib.import_module"): "the module of env.id",
    ("rlkit_sac/modules/blueprints.py", "pkgutil.resolve_name"): "the module of network.builder",
    ("rlkit_sac/envs/goals.py", "pkgutil.resolve_name"): "the module of replay.reward_function",
    ("rlkit_sac/data/workers/cluster.py", "socket"): "whether a Ray cluster answers at its address",
    ("rlkit_sac/runs/prior.py", "pkgutil.resolve_name"): "the module of prior.factory",
    ("rlkit_sac/runs/export.py", "torch.export.load"): "what it has just written",
    ("recipes/benchmarks/gpu.py", "subprocess"): "the tests of devices, and speed.py",
    ("rlkit_sac/runs/seeds.py", "subprocess"): "the same command again, for each seed",
    ("rlkit_sac/runs/directory.py", "subprocess"): "git, which names the commit",
    ("rlkit_sac/analysis/report.py", "urllib"): "urllib.parse, which quotes addresses of files",
    ("recipes/benchmarks/speed.py", "subprocess"): "a process for each timing",
    ("recipes/benchmarks/fast.py", "subprocess"): "a process for each run",
    ("recipes/benchmarks/variants.py", "subprocess"): "a process for each variant",
    (
        "recipes/benchmarks/peers/stable_baselines.py",
        "importlib.import_module",
    ): "the library that is compared",
}


def findings(source: str) -> set[str]:
    """What a file has that is forbidden."""
    names: dict[str, str] = {name: name for name in dir(builtins)}
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                names |= {each.asname: each.name} if each.asname else {top: top}
            found |= forbidden(*(each.name for each in node.names))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            own = {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
            names |= own
            found |= forbidden(*own.values())
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            head, dot, rest = ast.unparse(node).partition(".")
            found |= forbidden(names.get(head, "") + dot + rest)
        elif isinstance(node, ast.Call):
            text = ast.unparse(node)
            found |= {option for option in ("shell=True", "allow_pickle=True") if option in text}
            if text.startswith("torch.load(") and "weights_only=True" not in text:
                found.add("torch.load without weights_only=True")
    return found


def forbidden(*names: str) -> set[str]:
    return {each for each in FORBIDDEN for name in names if f"{name}.".startswith(f"{each}.")}


def test_no_code_runs_what_a_file_holds() -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), what)
        for file in FILES
        for what in findings(file.read_text(encoding="utf-8"))
    }
    assert len(FILES) > 150
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set(), "these are no longer needed"
