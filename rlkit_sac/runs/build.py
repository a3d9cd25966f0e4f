"""Construction of the parts of a run from its options; each function checks its own options."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from tensordict.nn import TensorDictModuleBase
from torch.nn import Parameter
from torchrl.data import TensorDictReplayBuffer
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.objectives import LossModule

from rlkit_sac.config import EnvConfig, UpdateConfig
from rlkit_sac.config.options import check_config
from rlkit_sac.config.run import BaseRunConfig
from rlkit_sac.data import LocalCollector, WorkerCollector, make_collector
from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.collect.policy_entries import written_entries
from rlkit_sac.data.workers.cluster import ray_cluster
from rlkit_sac.envs import closing_env, describe_task, make_env, reward_dim
from rlkit_sac.envs.gym_env import find_env_spec
from rlkit_sac.envs.specs import action_mask_key
from rlkit_sac.envs.tasks import NAMESPACE
from rlkit_sac.errors import ConfigError, TaskError, check_installed, prefix_errors
from rlkit_sac.modules import CorrelatedNoise
from rlkit_sac.runs.checkpoint import Checkpoint, step_folders
from rlkit_sac.runs.evaluation import evaluation_env, seed_everything
from rlkit_sac.runs.launch import Session
from rlkit_sac.runs.machine import (
    device_of_rank,
    interrupted_run,
    process_group,
    rank,
    rank_seed,
    resolve_device,
    share_of_rank,
)
from rlkit_sac.runs.networks import has_images
from rlkit_sac.runs.policy import check_spaces
from rlkit_sac.runs.pretrained import PARAMETER_PREFIXES
from rlkit_sac.runs.resume import check_resume
from rlkit_sac.runs.video import check_video
from rlkit_sac.updates.schedule import UpdateSchedule
from rlkit_sac.updates.steps import LossStep, Step, TargetStep
from rlkit_sac.updates.update import Update

#: Time limit in frames of a task that declares none.
TIME_LIMIT = 10_000


class Parts(NamedTuple):
    """The parts that a recipe makes for its run.

    Attributes:
        loss_module: a loss with a method ``policy`` and, for vector rewards, an attribute
            ``reward_weights``, as the losses of this package have them.
        update: the update of the loss.
        replay: the replay buffer.
        collector: the collector of the environment for training.
    """

    loss_module: LossModule
    update: Update
    replay: TensorDictReplayBuffer
    collector: LocalCollector | WorkerCollector


@contextmanager
def make_envs(
    config: BaseRunConfig, session: Session | None = None
) -> Iterator[tuple[EnvBase, EnvBase, Session]]:
    """Seed everything, and open the environments for training and for evaluation.

    With ``workers.number``, Ray runs in the block, and the environment for training only provides
    specs. Under ``torchrun`` each process gets its own environments and random streams, and the
    processes are connected for the block.

    Args:
        config: the options of the run. A task without a time limit gets one, see
            :func:`limit_episodes`.
        session: the callback and the checkpoint that the run is started with. Default: a new
            session, which resumes ``config.resume``.

    Returns:
        The environment for training, the environment for evaluations, and the session to pass to
        :func:`~rlkit_sac.runs.training_run`.

    Raises:
        ConfigError: for wrong options, all named at once; or for a problem with the machine, the
            run to resume or the task, also inside the block, after the name of the option.

    >>> from rlkit_sac.runs import RunConfig
    >>> with make_envs(RunConfig(device="cpu")) as (env, eval_env, _):
    ...     env is eval_env
    False
    """
    session = Session() if session is None else session
    restarted = interrupted_run()
    if restarted is not None and step_folders(restarted / "checkpoints"):
        config.resume = str(restarted)
    check_config(config)
    device = _check_machine(config)
    if session.env_function and config.workers.number:
        text = "other processes cannot make the environments of a function: give an id"
        raise ConfigError(f"workers.number: {text}")
    _find_start(config, session)
    seed, evaluation = rank_seed(config.seed), config.evaluation
    with ExitStack() as opened:
        seed_everything(seed)
        env = opened.enter_context(_training_env(config, device))
        _check_options_fit_task(config, env)
        if session.start is not None:
            with prefix_errors("resume"):
                check_spaces(session.start.folder, env)
        if (workers := config.workers).number:
            with prefix_errors("workers.address" if workers.address else "workers.number"):
                opened.enter_context(
                    ray_cluster(workers.address, workers=workers.number, cpus=workers.cpus)
                )
        torch.set_num_threads(config.num_threads)
        opened.enter_context(process_group(device))
        seed_everything(seed)  # again, since the lines above may draw random numbers
        starts, frames = config.collector.learning_starts, config.collector.total_frames
        if starts >= frames:
            _warn(f"no update in {frames} frames: collector.learning_starts is {starts}")
        with prefix_errors("env.id"):
            task, episodes = evaluation.env(config.env), evaluation.episodes
            eval_env = evaluation_env(task, episodes=episodes, device=device)
        opened.enter_context(closing_env(eval_env))
        if describe_task(eval_env) != describe_task(env):
            text = "the task has other spaces with them: leave them out"
            raise ConfigError(f"evaluation.kwargs: {evaluation.kwargs}: {text}")
        try:
            yield env, eval_env, session
        except TaskError as error:
            raise ConfigError(f"env.id: {error}") from error.__cause__


def _check_machine(config: BaseRunConfig) -> torch.device:
    """Check that the packages that options need are installed, and return the device."""
    for key, package, is_needed in (
        ("workers.number", "ray", config.workers.number),
        ("logging.tensorboard", "tensorboard", config.logging.tensorboard),
        ("logging.wandb", "wandb", config.logging.wandb),
    ):
        if is_needed:
            with prefix_errors(key):
                check_installed(package, extra=package)
    with prefix_errors("device"):
        return device_of_rank(resolve_device(config.device))


def _find_start(config: BaseRunConfig, session: Session) -> None:
    """Find and check the run to resume, if any, and give the task a time limit."""
    with prefix_errors("resume"):
        if config.resume is not None and session.start is None:
            session.find_start(config.resume)
    start, directory = session.start, session.directory
    with prefix_errors("env.id"):
        limit_episodes(config.env, start)
    if start is not None and directory is not None:
        with prefix_errors("resume"):
            if edited := ", ".join(check_resume(config, start, directory.info)):
                file = start.run_path / "config.yaml"
                _warn(f"{file} was edited ({edited}), but is not read again: give them as options")


@contextmanager
def _training_env(config: BaseRunConfig, device: torch.device) -> Iterator[EnvBase]:
    """Open the environment for training; it may set the number of environments.

    With workers it only provides specs.
    """
    num_envs = config.batch_envs
    with prefix_errors("env.id"):
        env = make_env(
            config.env.id,
            **config.env.arguments(),
            num_envs=num_envs,
            first_index=num_envs * rank(),
            seed=config.seed,
            device=device,
            critic_keys=config.critic_keys,
            noise_color=config.collector.noise_color,
        )
    with closing_env(env):
        if not config.workers.number:
            num_envs = config.env.num_envs = env.batch_size.numel()
        with prefix_errors("collector.frames_per_batch"):
            steps_per_batch(config.collector.batch_frames(num_envs), num_envs)
        yield env


def _check_options_fit_task(config: BaseRunConfig, env: EnvBase) -> None:
    """Refuse options that need another task."""
    if config.evaluation.video:
        with prefix_errors("evaluation.video"):
            check_video(config.evaluation.env(config.env))
    if (pixels := config.update.random_shift) and not has_images(env):
        text = f"is {pixels}, but the task has no images: leave it out"
        raise ConfigError(f"update.random_shift: {text}")
    with prefix_errors("env.id"):
        dim = reward_dim(env)
    weights = getattr(config.loss, "reward_weights", None)
    if weights is not None and (dim == 1 or len(weights) != dim):
        raise ConfigError(
            "loss.reward_weights: must hold a weight for each dimension of a vector reward, and "
            f"the task's reward has {dim}; got {weights}"
        )


def limit_episodes(env: EnvConfig, start: Checkpoint | None = None) -> None:
    """Give a task that declares no time limit one of :data:`TIME_LIMIT` frames, and warn of it.

    Without a limit an evaluation might never end. A resumed run keeps the limit it began with.

    Args:
        env: the options of the task; ``max_episode_steps`` is set in place.
        start: the checkpoint that the run resumes from, if any.

    Raises:
        ConfigError: for an unknown task.

    >>> config = EnvConfig(id="Blackjack-v1")
    >>> limit_episodes(config)  # prints a warning
    >>> config.max_episode_steps
    10000
    """
    task = find_env_spec(env.id)
    declared = task.max_episode_steps is not None or task.namespace == NAMESPACE
    if declared or env.max_episode_steps is not None:
        return
    if start is not None:
        env.max_episode_steps = start.config["env.max_episode_steps"]
        return
    env.max_episode_steps = TIME_LIMIT
    text = f"its episodes end after {TIME_LIMIT} frames (env.max_episode_steps)"
    _warn(f"{env.id} declares no time limit: {text}")


def warn_of_masks(env: EnvBase, policy: TensorDictModuleBase) -> None:
    """Warn of a policy that ignores the masks of allowed actions that its task gives.

    Args:
        env: the environment of the task.
        policy: the policy that acts in it.
    """
    key = action_mask_key(env)
    if key is not None and key not in policy.in_keys:
        _warn(
            "the task gives masks of allowed actions, which the policy does not read: call "
            f"loss_module.set_keys(action_mask={key!r}), or set env.action_mask to false"
        )


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def make_run_collector(
    config: BaseRunConfig,
    env: EnvBase,
    policy: TensorDictModuleBase,
    update: Update,
    *,
    random_policy: TensorDictModuleBase | None = None,
) -> LocalCollector | WorkerCollector:
    """Return the collector of a run: in this process, or with ``workers.number`` in workers.

    Args:
        config: the options of the run.
        env: the environment for training, from :func:`~rlkit_sac.runs.make_envs`.
        policy: the policy, on the environment's device; workers follow its parameters.
        update: the update of the run; its count says when workers need new parameters.
        random_policy: the same argument of :func:`~rlkit_sac.data.make_collector`.

    Raises:
        ConfigError: if the workers cannot be started.
    """
    warn_of_masks(env, policy)
    if config.collector.noise_color:
        policy = CorrelatedNoise(policy)
        mode = set_exploration_type(ExplorationType.RANDOM)
        with prefix_errors("collector.noise_color"), mode:
            written_entries(policy, env.fake_tensordict())  # refuses other distributions
    options: dict[str, Any] = {
        "total_frames": share_of_rank(config.collector.total_frames),
        "frames_per_batch": config.collector.batch_frames(config.batch_envs),
        "init_random_frames": share_of_rank(config.collector.init_random_frames),
        "random_policy": random_policy,
    }
    workers, num_envs = config.workers, config.env.num_envs
    if not workers.number:
        return make_collector(env, policy, **options)
    options |= asdict(workers)
    del options["address"], options["number"]
    # The task itself, since it may be registered in this process alone.
    task = find_env_spec(config.env.id)
    return WorkerCollector(
        partial(
            make_env,
            task,
            num_envs=num_envs,
            seed=config.seed,
            critic_keys=config.critic_keys,
            noise_color=config.collector.noise_color,
            **config.env.arguments(),
        ),
        policy,
        workers=workers.number,
        num_envs=num_envs,
        first_index=rank() * workers.number * num_envs,
        updates=lambda: update.count,
        **options,
    )


def parameter_groups(loss_module: LossModule) -> dict[str, list[Parameter]]:
    """Return the trainable parameters of a loss, grouped by the step that trains them.

    A loss without an actor, a value network or a learned temperature has no such group.

    Args:
        loss_module: a loss of the soft actor-critic family.

    Raises:
        ConfigError: for a parameter that no step trains.

    >>> from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    >>> from rlkit_sac.objectives import ContinuousSACLoss
    >>> networks = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    >>> list(parameter_groups(ContinuousSACLoss(*networks)))
    ['actor', 'qvalue', 'alpha']
    >>> list(parameter_groups(ContinuousSACLoss(*networks, fixed_alpha=True)))
    ['actor', 'qvalue']
    """
    groups: dict[str, list[Parameter]] = {name: [] for name in PARAMETER_PREFIXES}
    for key, parameter in loss_module.named_parameters():
        names = [name for name, begins in PARAMETER_PREFIXES.items() if key.startswith(begins)]
        if not names:
            known = ", ".join(chain(*PARAMETER_PREFIXES.values()))
            raise ConfigError(f"no step of the update trains {key!r}: it knows {known}")
        groups[names[0]].append(parameter)
    return {name: parameters for name, parameters in groups.items() if parameters}


def update_steps(
    config: UpdateConfig, groups: Collection[str], *, learning_starts: int = 0
) -> list[Step]:
    """Return the steps of the update, in the order of ``config.order``.

    Steps on parameters that the loss does not train, such as a fixed temperature, are left out.
    Where actor and temperature start later, they have a step of their own.

    Args:
        config: the order and periods of the steps, and the steps that recompute their losses.
        groups: the names from :func:`parameter_groups`; optimizers have the same names.
        learning_starts: the number of frames before the first update.

    >>> update_steps(UpdateConfig(order=["qvalue", "alpha", "target"]), ["actor", "qvalue"])
    [LossStep(losses=('loss_qvalue',), optimizers=('qvalue',), ...), TargetStep(period=1)]
    """
    steps: list[Step] = []
    schedule = UpdateSchedule(learning_starts=learning_starts, utd_ratio=config.utd_ratio)
    start = schedule.due(config.actor_starts, made=0)
    for entry in config.step_groups():
        period = config.periods.get(entry[0], 1)
        if entry == ["target"]:
            steps.append(TargetStep(period))
            continue
        names = [name for name in (groups if entry == ["joint"] else entry) if name in groups]
        late = [name for name in names if start and name in ("actor", "alpha")]
        recompute = any(name in config.recompute_steps() for name in entry)
        for part, begins in (([name for name in names if name not in late], 0), (late, start)):
            if part:
                losses = tuple(f"loss_{name}" for name in part)
                steps.append(LossStep(losses, tuple(part), period, recompute, begins))
    return steps
