"""The task of a run, built once to check it, and what other checks need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tensordict import TensorDictBase
from torchrl.data import Categorical, Composite
from torchrl.envs import EnvBase

from rlkit_sac.data.replay.transition import example_transition
from rlkit_sac.envs.specs import reward_dim
from rlkit_sac.errors import ConfigError

# What the losses of soft actor-critic read of a transition.
_TRANSITION = (
    "observation",
    "action",
    *(("next", key) for key in ("observation", "reward", "done", "terminated")),
)


ActionKind = Literal["discrete", "continuous", "hybrid"]


@dataclass(frozen=True)
class TaskFacts:
    """What is known of a task that passed the checks of a recipe.

    Attributes:
        transition: one as replay stores it, without batch dimensions.
        reward_dim: dimensions of the reward, 1 for a scalar.
        action_kind: what the policy chooses.
    """

    transition: TensorDictBase
    reward_dim: int
    action_kind: ActionKind


def stored_transition(env: EnvBase) -> TensorDictBase:
    """One transition as the recipes of soft actor-critic store it.

    Args:
        env: of the task.

    >>> from rlkit_sac.envs import make_env
    >>> stored_transition(make_env("Pendulum-v1"))["next", "reward"].shape
    torch.Size([1])
    """
    return example_transition(env, _TRANSITION)


def action_kind(env: EnvBase) -> ActionKind:
    """Whether actions are indices, vectors, or both at once.

    Args:
        env: of the task.

    >>> from rlkit_sac.envs import make_env
    >>> action_kind(make_env("CartPole-v1"))
    'discrete'
    """
    spec = env.full_action_spec_unbatched["action"]
    if isinstance(spec, Composite):
        return "hybrid"
    return "discrete" if isinstance(spec, Categorical) else "continuous"


def check_task(
    env: EnvBase,
    checks: Sequence[Callable[[EnvBase], object]],
    *,
    transition: Callable[[EnvBase], TensorDictBase] = stored_transition,
) -> TaskFacts:
    """Run all checks of a recipe on its environment.

    Args:
        env: of the task.
        checks: each raises `ConfigError` for a task that the recipe cannot learn.
        transition: one as the recipe stores it. Default: :func:`stored_transition`.

    Raises:
        ConfigError: with the messages of all checks that failed, one line each.

    >>> from rlkit_sac.envs import continuous_action_bounds, make_env
    >>> check_task(make_env("Pendulum-v1"), [continuous_action_bounds]).action_kind
    'continuous'
    >>> check_task(make_env("CartPole-v1"), [continuous_action_bounds])
    Traceback (most recent call last):
        ...
    rlkit_sac.errors.ConfigError: this algorithm acts in continuous spaces, but the actions are ...
    """
    problems = [problem for check in checks if (problem := _problem(check, env)) is not None]
    if problems:
        raise ConfigError("\n".join(problems))
    return TaskFacts(transition(env), reward_dim(env), action_kind(env))


def _problem(check: Callable[[EnvBase], object], env: EnvBase) -> str | None:
    try:
        check(env)
    except ConfigError as error:
        return str(error)
    return None
