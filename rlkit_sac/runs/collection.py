"""The collector of a run."""

from __future__ import annotations

from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.data import AnyCollector, make_collector
from rlkit_sac.runs.ranks import of_this_rank
from rlkit_sac.runs.run_config import BaseRunConfig
from rlkit_sac.updates.update import Update


def run_collector(
    config: BaseRunConfig,
    env: EnvBase,
    policy: TensorDictModuleBase,
    update: Update,
    *,
    random_policy: TensorDictModuleBase | None = None,
) -> AnyCollector:
    """The collector of a run, in this process or, with ``workers.number``, in others.

    Args:
        config: of the run.
        env: of :func:`~rlkit_sac.runs.make_envs`.
        policy: acts on the environment's device; workers follow its parameters.
        update: of the run, whose count says when workers need new parameters.
        random_policy: as of :func:`~rlkit_sac.data.make_collector`.
    """
    return make_collector(
        env,
        policy,
        total_frames=of_this_rank(config.collector.total_frames),
        frames_per_batch=config.collector.batch_frames(config.batch_envs),
        init_random_frames=of_this_rank(config.collector.init_random_frames),
        random_policy=random_policy,
        kind=config.collector.kind,
    )
