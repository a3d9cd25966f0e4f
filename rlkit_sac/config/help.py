"""The text of ``--help``, from the dataclasses of a configuration."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from rlkit_sac.config.options import Option, limits_of

FEW = 25  # options that are shown without a choice of the common ones
COMMON = {
    *("seed", "seeds", "jobs", "device", "resume", "actor", "env.id", "env.num_envs", "env.kwargs"),
    *("collector.total_frames", "collector.init_random_frames", "collector.t_max"),
    *("replay.capacity", "replay.batch_size", "network.num_cells", "network.activation"),
    *("loss.gamma", "loss.alpha_init", "loss.target_entropy", "loss.beta"),
    *("update.lr", "update.lr_actor", "update.lr_qvalue", "update.lr_alpha", "update.lr_value"),
    *("update.utd_ratio", "update.n_times_replay", "update.target_update_tau"),
    *("evaluation.interval", "evaluation.episodes", "logging.dir"),
}


@cache
def field_texts(section: type[Any]) -> dict[str, str]:
    """The strings that stand under the fields of a dataclass and of those it inherits from.

    Args:
        section: the dataclass; its source must be readable.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> field_texts(CheckpointConfig)["interval"]
    'Frames between two checkpoints.'
    """
    texts: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if is_dataclass(base):
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(node, ast.ClassDef)
            for field, text in pairwise(node.body):
                match field, text:
                    case (ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words)))):
                        texts[name] = " ".join(words.split())
    return texts


def format_help(
    config_class: type[Any], options: Mapping[str, Option], *, every: bool = False
) -> str:
    """The help text: each option with its meaning, limits and default, grouped by section.

    It is as wide as the terminal, and ends with the examples of the recipe. Of many options it has
    the common ones, and says at its end how to see the others.

    Args:
        config_class: its docstring says what the program does; that of its module has the examples,
            as indented lines that begin with ``rlkit-sac``.
        options: by dotted key, with their defaults.
        every: whether to show every option.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> from rlkit_sac.config.options import options_of
    >>> print(format_help(CheckpointConfig, options_of(CheckpointConfig())))
    usage: ... [--config FILE] [--OPTION VALUE ...]
    <BLANKLINE>
    How often the whole state of a run is saved, and how many checkpoints are kept.
    ...
      --interval INTERVAL  Frames between two checkpoints. Must be >= 1.
                           (default: 5000)
    ...
    """
    shown = [key for key in options if every or len(options) <= FEW or key in COMMON]
    examples = _examples(sys.modules[config_class.__module__].__doc__ or "")
    text = f"These are {len(shown)} of {len(options)} options; see all with --help all."
    rest = text if len(shown) < len(options) else ""
    width = shutil.get_terminal_size().columns - 2  # as argparse has it
    parser = argparse.ArgumentParser(
        usage="%(prog)s [--config FILE] [--OPTION VALUE ...]",
        description=textwrap.fill((config_class.__doc__ or "").strip().split("\n")[0], width),
        epilog="\n\n".join(filter(None, [examples, rest])),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file of options, or the name of one that the recipe comes with; the command "
        "line overrides it.",
    )
    groups: dict[str, Any] = {"": parser}
    for key in shown:
        option, section = options[key], key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        text = field_texts(option.section.__class__).get(option.name, "")
        if limits := limits_of(option.hint):
            text += f" Must be {limits}."
        default = option.value if isinstance(option.value, str) else json.dumps(option.value)
        text += f" (default: {default})"
        groups[section].add_argument(
            f"--{key}", metavar=_metavar(option), help=text.replace("%", "%%")
        )
    return parser.format_help()


def _examples(docstring: str) -> str:
    """The commands of a docstring."""
    commands = [line[2:] for line in docstring.splitlines() if line.startswith("    rlkit-sac ")]
    return "\n".join(["examples:", *commands]) if commands else ""


def _metavar(option: Option) -> str:
    hint = option.hint
    if get_origin(hint) is Literal:
        return f"{{{','.join(get_args(hint))}}}"
    return "{true,false}" if hint is bool else option.name.upper()
