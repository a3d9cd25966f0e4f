"""Algorithms with Stable-Baselines3's interface, evaluated as they learn.

    python recipes/benchmarks/peers/stable_baselines.py sbx.CrossQ --output evaluations.csv

Settings are the defaults of the library, but for one thread; with ``--fast``, SBX's SAC has those
of our defaults that it knows, targets with a tau of 0.01, and an actor that is trained at every
third update.
"""

from __future__ import annotations

import argparse
import csv
import time
from importlib import import_module
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization


class Evaluations(BaseCallback):
    """Evaluates the deterministic policy, and ends after some seconds."""

    def __init__(self, env: Any, given: argparse.Namespace) -> None:
        super().__init__()
        self._env, self._given, self._rows = env, given, [("frames", "return_mean", "seconds")]

    def _on_step(self) -> bool:
        if self.num_timesteps % self._given.interval == 0:
            if self._given.fast:
                sync_envs_normalization(self.training_env, self._env)
            mean, _ = evaluate_policy(self.model, self._env, n_eval_episodes=5)
            self._rows.append((self.num_timesteps, mean, time.time() - self._given.start))
            with open(self._given.output, "w", newline="") as file:
                csv.writer(file).writerows(self._rows)
        return time.time() - self._given.start < self._given.limit


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("algorithm", help="module and class, such as sb3_contrib.TQC")
    parser.add_argument("--fast", action="store_true", help="settings like our defaults")
    parser.add_argument("--task", default="HalfCheetah-v5")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--interval", type=int, default=2_500)
    parser.add_argument("--limit", type=float, default=600, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=float, default=time.time(), help="of the clock")
    parser.add_argument("--output", required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    env, evaluated = (make_vec_env(given.task, seed=given.seed + index) for index in range(2))
    options: dict[str, Any] = {}
    if given.fast:
        env = VecNormalize(env, clip_obs=1e9, clip_reward=1e9)
        evaluated = VecNormalize(evaluated, clip_obs=1e9, norm_reward=False, training=False)
        options = {
            **{"batch_size": 128, "learning_rate": 6e-4, "ent_coef": "auto_0.01"},
            **{"target_entropy": -env.action_space.shape[0] / 2, "learning_starts": 1_000},
            **{"tau": 0.01, "policy_delay": 3, "policy_kwargs": {"layer_norm": True}},
        }
    module, name = given.algorithm.rsplit(".", 1)
    algorithm = getattr(import_module(module), name)
    model = algorithm("MlpPolicy", env, seed=given.seed, device="cpu", **options)
    model.learn(given.frames, callback=Evaluations(evaluated, given))


if __name__ == "__main__":
    main()
