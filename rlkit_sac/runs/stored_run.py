"""The task of a stored run, and how the run evaluates its policy there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from rlkit_sac.config import EnvConfig, EvaluationConfig
from rlkit_sac.config.bounds import Seed
from rlkit_sac.config.flat import options_of
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.evaluation import EvaluationResult, evaluate
from rlkit_sac.runs.random_streams import evaluation_seed


@dataclass(frozen=True)
class StoredRun:
    """What an evaluation of a run depends on, besides its policy.

    Attributes:
        path: the run directory.
        frames: at the checkpoint.
        task: of the run.
        seed: of its evaluations.
        episodes: of each evaluation.
        deterministic: whether evaluations take the mode of the policy.
        reward_weights: ``[M]``, ``None`` for ones.
    """

    path: Path
    frames: int
    task: EnvConfig
    seed: int
    episodes: int
    deterministic: bool
    reward_weights: Tensor | None

    def evaluate(self, policy: TensorDictModuleBase) -> EvaluationResult:
        """Evaluate a policy, on the CPU, as the run does.

        Args:
            policy: the acting module.

        Raises:
            RunError: as of :func:`~rlkit_sac.runs.evaluate`.
        """
        with closing_env(make_env(self.task.id, **self.task.arguments())) as env:
            names = ("episodes", "seed", "deterministic", "reward_weights")
            return evaluate(policy, env, **{name: getattr(self, name) for name in names})


@dataclass
class _Options:
    env: EnvConfig = field(default_factory=EnvConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: Seed = 0


def read_run(checkpoint: Path, **other: Any) -> StoredRun:
    """Read how a run evaluates the policy of a checkpoint.

    Args:
        checkpoint: one of its ``checkpoints/step_<frames>``.
        other: attributes of other values; those that are None stay as they were.

    Raises:
        ConfigError: if the checkpoint is missing or damaged.
    """
    found, config = Checkpoint.find(checkpoint), _Options()
    stored = found.config
    for key, option in options_of(config).items():
        setattr(option.section, option.name, stored.get(key, option.value))
    weights = stored.get("loss.reward_weights")
    reward_weights = None if weights is None else torch.tensor(weights, dtype=torch.float32)
    run = StoredRun(
        path=found.run_path,
        frames=found.frames,
        task=config.env,
        seed=evaluation_seed(config.seed),
        episodes=config.evaluation.episodes,
        deterministic=config.evaluation.deterministic,
        reward_weights=reward_weights,
    )
    return replace(run, **{name: value for name, value in other.items() if value is not None})
