"""``rlkit-sac check-env``: show the spaces of a task, and the recipes that train it.

Examples:
    rlkit-sac check-env Pendulum-v1
    rlkit-sac check-env HardMove-v0 --env.kwargs.num_actuators 6
    rlkit-sac check-env my_tasks:Reach-v0 --env.max_episode_steps 100

Python also looks for the module my_tasks in the current folder.
"""

from __future__ import annotations

import argparse
import io
import shlex
import textwrap
from contextlib import redirect_stderr
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlkit_sac.cli.run_arguments import add_options
from rlkit_sac.errors import ConfigError
from rlkit_sac.recipe_files import open_recipe, shipped_recipes

if TYPE_CHECKING:
    from torchrl.envs import EnvBase

    from rlkit_sac.config import EnvConfig

SUMMARY = "show the spaces of an environment, and which recipes train it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the id; the options after it are those of the section ``env``."""
    parser.usage = "rlkit-sac check-env ID [--env.OPTION VALUE ...]"
    parser.add_argument(
        "id", metavar="ID", help="Gymnasium id, Name-v0 or module:Name-v0; or module:function"
    )
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the spaces of a task, and the recipes that train it or refuse it; return an exit code.

    The exit code is 1 if no recipe trains the task.
    """
    from rlkit_sac.config import EnvConfig, parse_config
    from rlkit_sac.envs import check_env, closing_env, make_env
    from rlkit_sac.runs import limit_episodes

    config_class = make_dataclass("", [("env", EnvConfig, field(default_factory=EnvConfig))])
    config: Any = parse_config(config_class, [*arguments.options, "--env.id", arguments.id])
    task: EnvConfig = config.env
    limit_episodes(task)  # warns of a task without a limit, as training does
    with closing_env(make_env(task.id, **task.arguments())) as env:
        for name, text in _task_facts(env).items():
            print(f"{name:<15} {text}")
    scripts = {
        name: script
        for name, script in shipped_recipes().items()
        if (script.parent / "configs" / name).is_dir()  # the others make no runs
    }
    names = sorted(scripts, key=lambda name: name not in ("sac", "discrete_sac", "hybrid_sac"))
    refusals = {name: _refusals(scripts[name], task) for name in names}
    fitting = [name for name in names if not refusals[name]]
    print("\nrecipes")
    for name in fitting:
        print(f"{name:<16}trains it")
    for name in filter(refusals.get, names):
        print(f"{name:<16}refuses it: {'; '.join(refusals[name])}")
    if fitting:
        command = ["rlkit-sac", "train", fitting[0], "--env.id", task.id, *arguments.options]
        print(f"\ntrain it: {shlex.join(command)}")
    else:
        print('\nno recipe trains it; "Your own task" in the documentation says what it needs')
    check_env(task.id, kwargs=task.kwargs, max_episode_steps=task.max_episode_steps)
    return 0 if fitting else 1


def _task_facts(env: EnvBase) -> dict[str, str]:
    """Return the spaces of the task, the inputs of networks and other facts, as texts by name."""
    from gymnasium.spaces import Dict

    from rlkit_sac.envs import action_mask_key, parameter_mask, reward_dim
    from rlkit_sac.envs.adapted_env import adapted_task
    from rlkit_sac.envs.specs import find_conversion
    from rlkit_sac.envs.torchrl_env import gym_envs

    task = find_conversion(env)
    policy_action = task.act.agent_space()
    if isinstance(policy_action, Dict):  # hybrid
        policy_action = policy_action["action"]
    spaces = {
        "observation": task.observe.space,
        **{f"  {key}": space for key, space in _network_inputs(env).items()},
        "action": task.act.space,
        "  policy gives": policy_action,
    }
    facts = {name: textwrap.shorten(str(space), 160) for name, space in spaces.items()}
    dim = reward_dim(env)
    facts["reward"] = "a number" if dim == 1 else f"a vector of {dim} numbers"
    if (mask := parameter_mask(env)) is not None:
        rows = (f"{k}: {row.nonzero().flatten().tolist()}" for k, row in enumerate(mask))
        text = f"continuous dimensions that each choice uses, {', '.join(rows)}"
        facts["mask"] = textwrap.shorten(text, 160)
    if (key := action_mask_key(env)) is not None:
        facts["allowed"] = f"a mask of {env.observation_spec_unbatched[key].shape[-1]} actions"
    if adapted_task(env) is not None:
        facts["environments"] = f"{env.batch_size.numel()} in one, on {env.device}"
    elif (limit := gym_envs(env)[0].spec.max_episode_steps) is not None:
        facts["time limit"] = f"{limit} frames"
    return facts


def _network_inputs(env: EnvBase) -> dict[str, object]:
    """Return the inputs of networks by entry: one space, or a text for each image."""
    from rlkit_sac.envs import observation_layout
    from rlkit_sac.envs.specs import find_conversion
    from rlkit_sac.modules.encoders import encoder_kind, image_size

    layout = observation_layout(env)
    inputs = dict(find_conversion(env).observe.agent_space())
    if not any("scale" in entry for entry in layout):
        return {"network sees": inputs["observation"]}
    for entry in layout:
        if "scale" in entry:
            channels, height, width = image_size(entry)
            inputs[entry["key"]] = (
                f"an image of {channels} channels ({entry['channels']}), {height} x {width}, "
                f"divided by {entry['scale']}; network.encoder {encoder_kind(entry)}"
            )
    return inputs


def _refusals(recipe: Path, task: EnvConfig) -> list[str]:
    """Return the reasons why a recipe with its defaults cannot train a task; empty if it can."""
    from rlkit_sac.runs import make_envs, read_config

    with open_recipe(recipe) as (module, config_class), redirect_stderr(io.StringIO()):
        config = read_config(config_class, [])
        config.env, config.device, config.replay.capacity = task, "cpu", 10_000
        try:
            with make_envs(config) as (env, *_):
                module.build(config, env)
        except ConfigError as error:
            return str(error).removeprefix("env.id: ").splitlines()
    return []
