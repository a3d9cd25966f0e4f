"""The replay buffer of a run, and prior data: transitions of a run, or of a TensorDict on disk."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from torchrl.data import Bounded, Composite, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.envs import EnvBase
from torchrl.objectives import LossModule

from rlkit_sac.config import CollectorConfig, ReplayConfig
from rlkit_sac.config.run import BaseRunConfig
from rlkit_sac.data import (
    HindsightTransform,
    PrioritizedSampler,
    SliceSampler,
    StepSampler,
    demonstrations,
    make_replay_buffer,
)
from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.replay.buffer import fit_to_example
from rlkit_sac.data.replay.n_steps import n_step_example
from rlkit_sac.envs.goals import goal_arguments
from rlkit_sac.errors import ConfigError, check_installed, prefix_errors
from rlkit_sac.runs.checkpoint import Checkpoint
from rlkit_sac.runs.machine import num_ranks, share_of_rank
from rlkit_sac.runs.policy import stored_task
from rlkit_sac.runs.units import check_units
from rlkit_sac.valid_steps import MASK, TRAJECTORY, drop_invalid

# The beginning of the name of a data set of Minari.
_MINARI = "minari:"


def stored_keys(config: BaseRunConfig, loss_module: LossModule) -> list[NestedKey]:
    """Return the keys of the entries of a frame that the replay buffer of a run stores.

    Args:
        config: the options of the run.
        loss_module: the loss, whose inputs and states of memory are stored.

    >>> from rlkit_sac.modules import state_action_critic, tanh_gaussian_actor
    >>> from rlkit_sac.objectives import ContinuousSACLoss
    >>> from rlkit_sac.runs import RunConfig
    >>> networks = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    >>> stored_keys(RunConfig(), ContinuousSACLoss(*networks))
    ['action', ('next', 'reward'), ..., 'observation', ('next', 'observation')]
    """
    states = loss_module.state_keys if config.replay.store_state else []
    of_episodes = config.replay.n_steps > 1 or getattr(config.replay, "goals", None) is not None
    trajectory = [TRAJECTORY] if of_episodes else []
    return [*loss_module.in_keys, *states, *trajectory]


def make_replay(
    config: BaseRunConfig, env: EnvBase, example: TensorDictBase, *, sampler: Sampler | None = None
) -> TensorDictReplayBuffer:
    """Return the replay buffer of a run, or of this process under ``torchrun``, with prior data.

    Args:
        config: the options of the run.
        env: the environment for training, from :func:`make_envs`.
        example: one transition without batch dimensions, as it will be stored.
        sampler: a sampler that replaces the one that the options ask for.

    Raises:
        ConfigError: as :func:`~rlkit_sac.data.make_replay_buffer`, with the name of the option.
    """
    replay, num_samples = config.replay, config.replay.batch_size
    if config.replay.n_steps > 1:
        if example.get("prev_action", None) is not None:
            raise ConfigError("replay.n_steps: must be 1 with a prior that reads prev_action")
        example = n_step_example(example)
    if num_samples % num_ranks():
        text = f"a multiple of the {num_ranks()} processes of torchrun, got {num_samples}"
        raise ConfigError(f"replay.batch_size: must be {text}")
    options = replay.arguments() | {"batch_size": num_samples // num_ranks()}
    source = replay.prior_data if isinstance(replay, ReplayConfig) else None
    # The checkpoints of a run hold the prior transitions that were put into the buffer.
    if source is not None and (config.resume is None or options["prior_share"] is not None):
        with prefix_errors("replay.prior_data"):
            data = read_prior_data(source, env, gamma=config.loss.gamma)
            data = check_prior_data(data, example, env.full_action_spec_unbatched)
            if data.get(TRAJECTORY, None) is not None:  # other numbers than those of the run
                data[TRAJECTORY] = data[TRAJECTORY] + 2**40
            options["prior_data"] = data
    with prefix_errors("replay.capacity"):
        buffer = make_replay_buffer(
            example,
            **options,
            sampler=_make_sampler(config, env) if sampler is None else sampler,
            gamma=config.loss.gamma,
            device=env.device,
        )
    if isinstance(replay, ReplayConfig) and replay.goals is not None:
        with prefix_errors("replay.goals"):
            goals = goal_arguments(env, replay.reward_function)
        goals |= {"strategy": replay.goals, "her_ratio": replay.her_ratio}
        buffer.append_transform(HindsightTransform(buffer, **goals))
    _check_first_sample(config)
    return buffer


def _make_sampler(config: BaseRunConfig, env: EnvBase) -> Sampler | None:
    """Return the sampler of the replay buffer; ``None`` draws single transitions uniformly."""
    replay = config.replay
    layout = {"capacity": replay.capacity, **config.replay_layout()}
    steps = StepSampler(**layout) if config.env.frame_stack > 1 else None
    if isinstance(replay, ReplayConfig) and replay.prioritized:
        frames = replay.priority_beta_frames
        return PrioritizedSampler(
            replay.capacity,
            alpha=replay.priority_alpha,
            beta=replay.priority_beta,
            beta_frames=None if frames is None else share_of_rank(frames),
            eps=replay.priority_eps,
            steps=steps,
            device=env.device if replay.storage == "tensor" else "cpu",
        )
    return SliceSampler(replay.slice_length, **layout) if replay.slice_length > 1 else steps


def _check_first_sample(config: BaseRunConfig) -> None:
    """Refuse a start of learning before the buffer holds slices or stacks."""
    starts, stack = config.collector.learning_starts, config.env.frame_stack
    frames = config.row_length + stack - 1 + config.replay.n_steps - 1
    if not isinstance(config.collector, CollectorConfig) or frames == 1:
        return
    steps = steps_per_batch(config.collector.batch_frames(config.batch_envs), config.batch_envs)
    needed = -(-frames // steps) * steps * config.batch_envs * num_ranks()
    if starts < needed:
        slices = f"slices of {config.row_length} frames" if config.row_length > 1 else "samples"
        stacks = f" in stacks of {stack} (env.frame_stack)" if stack > 1 else ""
        raise ConfigError(
            f"collector.learning_starts: {slices}{stacks} need at least {needed}, got {starts}"
        )


def check_prior_data(
    data: TensorDictBase, transition: TensorDictBase, action_spec: Composite
) -> TensorDictBase:
    """Return transitions with the entries that replay stores, and actions of the task.

    Args:
        data: the transitions ``[*]``.
        transition: one transition of replay, without batch dimensions.
        action_spec: the action spec of one environment of the task.

    Returns:
        The transitions ``[n]``.

    Raises:
        ConfigError: naming the entry that is missing, of another shape or type, not finite, or an
            action that the task does not have.

    >>> from torchrl.data import Categorical
    >>> data = TensorDict(action=torch.tensor([0, 7]), batch_size=[2])
    >>> spec = Composite(action=Categorical(2))
    >>> check_prior_data(data, data[0], spec)
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: 'action' of the prior data goes from 0 to 7, in the task from ...
    """
    rows = fit_to_example(data, transition)
    for key, part in action_spec.items(True, True):
        values = rows.get(key)
        if isinstance(part, Bounded):
            low, high = part.space.low.cpu(), part.space.high.cpu()
            slack = (high - low) * 5e-4
        else:
            low, high = torch.tensor(0), torch.tensor(part.space.n - 1)
            slack = torch.tensor(0)
        if ((values < low - slack) | (values > high + slack)).any():
            raise ConfigError(
                f"{key!r} of the prior data goes from {values.min().item():.4g} to "
                f"{values.max().item():.4g}, in the task from {low.tolist()} to {high.tolist()}: "
                "choose the task and env.rescale_actions as in the data"
            )
    return rows


def read_prior_data(
    path: Path | str, env: EnvBase | None = None, *, gamma: float | None = None
) -> TensorDictBase:
    """Return transitions of a run's replay, or of a TensorDict on disk.

    Args:
        path: run directory, for the replay of its newest checkpoint (under ``torchrun``, that of
            its first process), or one of its ``checkpoints/step_<frames>``; ``minari:`` and the
            name of a data set of Minari, with an environment of its task; or a folder that
            ``TensorDict.save`` wrote, without the steps whose ``("collector", "mask")`` or
            ``"mask"`` is false or whose ``("collector", "traj_ids")`` is -1; or the ``storage`` of
            what ``dumps`` of a TorchRL buffer wrote.
        env: an environment, whose actions must have the same units as the data. Default: any.
        gamma: the discount with which the rewards of several steps must have been summed. Default:
            any.

    Returns:
        The transitions ``[*]``, on the CPU.

    Raises:
        ConfigError: naming the folder, if it holds no transitions or a damaged file; or for actions
            in other units, or another discount.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = TensorDict(observation=torch.zeros(5, 3), batch_size=[5]).save(folder)
    >>> read_prior_data(folder).shape
    torch.Size([5])
    """
    if str(path).startswith(_MINARI):
        return _read_minari(str(path).removeprefix(_MINARI), env)
    folder = Path(path)
    if (folder / "meta.json").is_file():
        # Wrong content of a file can cause any error.
        with prefix_errors(f"{path} cannot be read", Exception):
            data = TensorDict.load_memmap(folder, allow_pickle=False)
            note = folder / "storage_metadata.json"  # of a buffer, perhaps not full
            if note.is_file():
                data = data[: json.loads(note.read_text())["len"]]
            # An entry "mask" may also be one of allowed actions.
            of_steps = data.get("mask", data).numel() == data.numel()
            return drop_invalid(data, [MASK, "mask"] if of_steps else [MASK])
    with prefix_errors("wanted a folder that TensorDict.save wrote, or a run"):
        start = Checkpoint.find(folder)
    with prefix_errors(f"{path} cannot be read"):
        task, capacity = stored_task(start.folder), start.state()["replay"]["capacity"]
    if env is not None:
        check_units(task, env, path)
    own = start.config.get("loss.gamma")
    if start.config.get("replay.n_steps", 1) > 1 and gamma not in (None, own):
        raise ConfigError(f"{path} has rewards of several steps, summed with gamma {own}")
    with prefix_errors(f"{path} cannot be read"):
        return torch.cat([rows for _, rows in start.replay()])[-capacity:]


def _read_minari(name: str, env: EnvBase | None) -> TensorDictBase:
    """Return the transitions of a data set of Minari, which is downloaded unless it is there."""
    check_installed("minari", extra="minari")
    import minari

    if env is None:
        raise ConfigError(f"{_MINARI}{name} needs the environment of its task")
    # Errors of the network, of its file, or of another version.
    with prefix_errors(f"{_MINARI}{name} cannot be read", Exception):
        dataset = minari.load_dataset(name, download=True)
    return demonstrations(dataset.iterate_episodes(), env)
