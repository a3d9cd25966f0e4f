"""What is said of an option that does not exist: the names that come near."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import get_args

from rlkit_sac.config.command_line import Setting
from rlkit_sac.config.flat import RENAMED, Option

_USUAL = (
    ("env env_id env_name environment task", "env.id"),
    ("workers worker num_workers n_workers num_actors", "workers.number"),
    ("timesteps total_timesteps total_steps num_timesteps num_steps", "collector.total_frames"),
    ("start_steps random_steps warmup_steps", "collector.init_random_frames"),
    ("learning_starts update_after", "collector.learning_starts update.replay_start_size"),
    ("train_freq update_every rollout_steps", "collector.frames_per_batch collector.t_max"),
    (
        "n_step n_steps nstep seq_len sequence_length slice_len",
        "replay.slice_length collector.t_max",
    ),
    ("buffer buffer_size replay_size", "replay.capacity"),
    ("memory_size", "network.memory_size replay.capacity"),
    ("rnn recurrent use_lstm use_rnn lstm gru", "network.memory"),
    ("rnn_hidden_size lstm_hidden_size rnn_size", "network.memory_size"),
    ("net_arch hidden_sizes hidden_size hidden_dim hidden_layers hidden", "network.num_cells"),
    ("discount discount_factor", "loss.gamma"),
    ("alpha ent_coef temperature init_temperature", "loss.alpha_init loss.beta"),
    ("autotune auto_alpha learn_alpha", "loss.fixed_alpha"),
    ("target_entropy", "loss.target_entropy loss.target_kld_per_dim loss.beta"),
    ("n_critics num_critics", "loss.num_qvalue_nets"),
    ("policy_lr actor_lr", "update.lr_actor update.lr"),
    ("critic_lr q_lr", "update.lr_qvalue update.lr"),
    (
        "lr learning_rate",
        "update.lr update.lr_actor update.lr_qvalue update.lr_value update.lr_alpha",
    ),
    ("tau polyak", "update.target_update_tau"),
    ("gradient_steps utd updates_per_step", "update.utd_ratio update.n_times_replay"),
    ("policy_frequency policy_delay", "update.periods"),
    ("grad_clip gradient_clip", "update.max_grad_norm"),
    ("eval_freq eval_interval", "evaluation.interval"),
    ("save_freq", "checkpoint.interval"),
    ("logdir log_dir output_dir", "logging.dir"),
    ("cuda gpu", "device"),
)
#: Dotted keys by what other libraries call an option; a recipe has some of them.
USUAL_NAMES = {name: keys.split() for names, keys in _USUAL for name in names.split()}


def unknown_option(setting: Setting, options: Mapping[str, Option]) -> str:
    """The error of an option that does not exist.

    Args:
        setting: what was given for it.
        options: all options by dotted key.

    >>> from rlkit_sac.config.flat import options_of
    >>> from rlkit_sac.runs import RunConfig
    >>> options = options_of(RunConfig())
    >>> unknown_option(Setting("sed", 1, "a.yaml:3: sed"), options)
    'a.yaml:3: sed: unknown key; did you mean seed?'
    >>> unknown_option(Setting("tau", "0.01", "--tau", on_command_line=True), options)
    'unknown option --tau; did you mean --update.target_update_tau?'
    >>> unknown_option(Setting("no-progress", None, "--no-progress", on_command_line=True), options)
    'unknown option --no-progress; write --logging.progress false'
    """
    dashes = "--" if setting.on_command_line else ""
    without_no = re.sub(r"(^|\.)no[-_]", r"\1", setting.key)
    near = _near(without_no, options)
    asked = f"did you mean {' or '.join(dashes + key for key in near)}?"
    members = ", ".join(f"--{key}" for key in options if key.startswith(f"{setting.key}."))
    if members:
        is_usual = setting.key in USUAL_NAMES
        advice = f"{asked} Its options are" if is_usual else "set one of its options:"
        return f"--{setting.key} is a section; {advice} {members}"
    if RENAMED.get(setting.key) in options:
        advice = f"{setting.key} is now {RENAMED[setting.key]}"
    elif setting.key == "version":
        advice = "rlkit-sac --version shows it"
    elif near and without_no != setting.key and _is_switch(options[near[0]]):
        advice = f"write {dashes}{near[0]} false"
    else:
        advice = asked if near else "see --help for all options"
    if setting.on_command_line:
        return f"unknown option {setting.where}; {advice}"
    return f"{setting.where}: unknown key; {advice}"


def _is_switch(option: Option) -> bool:
    return bool in (option.hint, *get_args(option.hint))


def _near(key: str, options: Mapping[str, Option]) -> list[str]:
    """Keys of the usual name, else the nearest key, or those in any section of the nearest name."""
    names: dict[str, list[str]] = {}
    for each in options:
        names.setdefault(each.rpartition(".")[2], []).append(each)
    section, _, name = key.replace("-", "_").rpartition(".")
    usual = [each for each in USUAL_NAMES.get(name, ()) if each in options]
    if usual:
        return [each for each in usual if each.startswith(f"{section}.")] or usual
    if near := difflib.get_close_matches(key, options, n=1, cutoff=0.75):
        return near
    near = [name] if name in names else difflib.get_close_matches(name, names, n=1)
    return names[near[0]] if near else []
