"""The collector of a run."""

from __future__ import annotations

from functools import partial
from typing import Any

from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.data import AnyCollector, WorkerCollector, make_collector, make_worker_collector
from rlkit_sac.envs import make_env
from rlkit_sac.envs.gym_env import find_env_spec
from rlkit_sac.runs.machine import of_this_rank, rank
from rlkit_sac.runs.preflight import warn_of_masks
from rlkit_sac.runs.run_config import BaseRunConfig
from rlkit_sac.updates.update import Update


def run_collector(
    config: BaseRunConfig,
    env: EnvBase,
    policy: TensorDictModuleBase,
    update: Update,
    *,
    random_policy: TensorDictModuleBase | None = None,
) -> AnyCollector | WorkerCollector:
    """The collector of a run, in this process or, with ``workers.number``, in others.

    Args:
        config: of the run.
        env: of :func:`~rlkit_sac.runs.make_envs`.
        policy: acts on the environment's device; workers follow its parameters.
        update: of the run, whose count says when workers need new parameters.
        random_policy: as of :func:`~rlkit_sac.data.make_collector`.

    Raises:
        ConfigError: if the workers cannot be started.
    """
    warn_of_masks(env, policy)
    options: dict[str, Any] = {
        "total_frames": of_this_rank(config.collector.total_frames),
        "frames_per_batch": config.collector.batch_frames(config.batch_envs),
        "init_random_frames": of_this_rank(config.collector.init_random_frames),
        "random_policy": random_policy,
        "kind": config.collector.kind,
    }
    workers = config.workers
    if not workers.number:
        return make_collector(env, policy, **options)
    # The task itself, since it may be registered in this process alone.
    task = find_env_spec(config.env.id)
    return make_worker_collector(
        partial(
            make_env,
            task,
            num_envs=config.env.num_envs,
            seed=config.seed,
            **config.env.arguments(),
        ),
        policy,
        workers=workers.number,
        num_envs=config.env.num_envs,
        first_index=rank() * workers.number * config.env.num_envs,
        mode=workers.mode,
        updates=lambda: update.count,
        publish_interval=workers.publish_interval,
        restarts=workers.restarts,
        patience=workers.patience,
        cpus=workers.cpus,
        **options,
    )
