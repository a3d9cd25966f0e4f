"""The text of ``--help``, and the advice on unknown options."""

from __future__ import annotations

import argparse
import ast
import difflib
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

FEW_OPTIONS = 25  # up to this number, ``--help`` shows all options
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
    """Return the strings under the fields of a dataclass and of its base classes, by field.

    Args:
        section: the dataclass, in a file of source code.

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
    """Return the help text: each option with its meaning, limits and default, by section.

    The text is as wide as the terminal, and ends with the examples of the recipe. If there are many
    options, it shows the common ones and says how to see the others.

    Args:
        config_class: the configuration. The first line of its docstring says what the program does.
            The docstring of its module has the examples, as indented lines that begin with
            ``rlkit-sac``.
        options: the options by dotted key, with their defaults.
        every: whether to show every option.

    >>> from rlkit_sac.config import CheckpointConfig
    >>> from rlkit_sac.config.options import options_of
    >>> print(format_help(CheckpointConfig, options_of(CheckpointConfig())))
    usage: ... [--config FILE] [--OPTION VALUE ...]
    <BLANKLINE>
    Interval and number of the checkpoints, which hold the whole state of a run.
    ...
      --interval INTERVAL  Frames between two checkpoints. Must be >= 1.
                           (default: 5000)
    ...
    """
    shown = [key for key in options if every or len(options) <= FEW_OPTIONS or key in COMMON]
    examples = _examples(sys.modules[config_class.__module__].__doc__ or "")
    text = f"These are {len(shown)} of {len(options)} options; see all with --help all."
    advice = text if len(shown) < len(options) else ""
    width = shutil.get_terminal_size().columns - 2  # the width of argparse
    parser = argparse.ArgumentParser(
        usage="%(prog)s [--config FILE] [--OPTION VALUE ...]",
        description=textwrap.fill((config_class.__doc__ or "").strip().split("\n")[0], width),
        epilog="\n\n".join(filter(None, [examples, advice])),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file of options, or the name of one that the recipe comes with. Options on the "
        "command line override it.",
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


# The names of some options in other libraries.
_NAMES_ELSEWHERE = {
    **{"learning_rate": "lr", "buffer_size": "capacity", "gradient_steps": "utd_ratio"},
    **{"train_freq": "frames_per_batch", "tau": "target_update_tau", "ent_coef": "alpha_init"},
    **{"total_timesteps": "total_frames", "n_envs": "num_envs", "net_arch": "num_cells"},
    **{"hidden_sizes": "num_cells", "verbose": "progress", "env_kwargs": "kwargs"},
}


def unknown_option(key: str, options: Mapping[str, Option], dashes: str = "") -> str:
    """Return the error message for an option that does not exist, with similar names.

    Args:
        key: the unknown key.
        options: all options by dotted key.
        dashes: the text before the names of options, such as ``--``.

    >>> from rlkit_sac.config import UpdateConfig
    >>> from rlkit_sac.config.options import options_of
    >>> unknown_option("update_tau", options_of(UpdateConfig()), "--")
    'unknown option; did you mean --target_update_tau?'
    """
    if inside := [dashes + option for option in options if option.startswith(f"{key}.")]:
        return f"is a section; its options are {', '.join(inside)}"
    ends = {option: option.rpartition(".")[2] for option in options}
    name = key.replace("-", "_").rpartition(".")[2]
    name = _NAMES_ELSEWHERE.get(name, name)
    near = [option for option, end in ends.items() if end == name]
    near = near or difflib.get_close_matches(key, options, n=1, cutoff=0.75)
    if not near:
        close = difflib.get_close_matches(name, ends.values(), n=1)
        near = [option for option, end in ends.items() if end in close or name in end.split("_")]
    advice = f"did you mean {' or '.join(dashes + option for option in near[:3])}?"
    return f"unknown option; {advice if near else 'see --help all'}"


def _examples(docstring: str) -> str:
    """Return the commands in a docstring, under a heading."""
    commands = [line[2:] for line in docstring.splitlines() if line.startswith("    rlkit-sac ")]
    return "\n".join(["examples:", *commands]) if commands else ""


def _metavar(option: Option) -> str:
    hint = option.hint
    if get_origin(hint) is Literal:
        return f"{{{','.join(get_args(hint))}}}"
    return "{true,false}" if hint is bool else option.name.upper()
