"""Videos of a policy in its task."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import torch
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp

from rlkit_sac.config import EnvConfig
from rlkit_sac.envs import closing_env, make_env
from rlkit_sac.envs.adapted_env import adapted_task
from rlkit_sac.envs.torchrl_env import base_env, gym_envs
from rlkit_sac.errors import ConfigError, as_run_error, check_installed, prefix_errors, summary
from rlkit_sac.functional import weigh_rewards
from rlkit_sac.runs.evaluation import LONGEST_EPISODE, separate_random_streams
from rlkit_sac.runs.policy import StoredRun, check_spaces, find_policy, load_policy
from rlkit_sac.trained_policies import output_folder

VideoFormat = Literal["mp4", "gif"]


def record_video(
    policy: TensorDictModuleBase,
    env: EnvBase,
    folder: Path | str,
    *,
    episodes: int = 1,
    seed: int = 0,
    format: VideoFormat = "mp4",
    prefix: str = "",
    reward_weights: torch.Tensor | None = None,
) -> dict[Path, float]:
    """Record whole episodes of a policy's deterministic mode, one file for each.

    With the same seed, :func:`~rlkit_sac.runs.evaluate` in one environment has the same episodes.
    The random generators are restored at the end. Files have names such as
    ``episode_0-return_-123.45.mp4``, and the task's ``render_fps``, or else 30 images per second.

    Args:
        policy: the acting module, in evaluation mode, as ``load_policy`` returns it; its memory is
            reset for each episode.
        env: ``make_env(..., render_mode="rgb_array")``, a single environment on the policy's
            device.
        folder: the folder of the files, which is created where missing; old files are replaced.
        episodes: number of episodes, at least 1.
        seed: the seed of the first episode, at least 0.
        format: ``"mp4"`` (H.264) or ``"gif"``.
        prefix: the beginning of the names of the files.
        reward_weights: weights ``[M]`` of a vector reward; default ones.

    Returns:
        The return of each episode by the path of its file.

    Raises:
        ConfigError: if a package of the extra ``video`` is missing, or the task cannot be rendered
            on this machine.
        RunError: if a file cannot be written.

    >>> import tempfile
    >>> from rlkit_sac.modules import hybrid_critic, tanh_gaussian_actor
    >>> from rlkit_sac.objectives import HybridSACLoss
    >>> env = make_env("Platform-v0", render_mode="rgb_array")
    >>> key = ("action", "continuous")
    >>> actor = tanh_gaussian_actor(9, [-1.0] * 3, [1.0] * 3, action_key=key)
    >>> policy = HybridSACLoss(actor, hybrid_critic(9, 3, 3)).policy().eval()
    >>> (file,) = record_video(policy, env, tempfile.mkdtemp(), format="gif")
    >>> file.name
    'episode_0-return_....gif'
    """
    check_installed("imageio", "imageio_ffmpeg", extra="video")
    from imageio.v2 import get_writer

    fps = getattr(_task(env), "metadata", {}).get("render_fps") or 30
    options: dict[str, Any] = {"fps": fps, "macro_block_size": 2}
    if format == "gif":
        options = {"duration": 1000 / fps, "loop": 0}
    folder = Path(folder)
    partial = folder / f".{os.getpid()}.partial.{format}"
    files = {}
    with (
        as_run_error(f"cannot write videos in {folder}"),
        separate_random_streams(seed),
        set_exploration_type(ExplorationType.DETERMINISTIC),
        torch.no_grad(),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for episode in range(episodes):
                env.set_seed(seed + episode)
                total = _record_episode(policy, env, get_writer(partial, **options))
                value = weigh_rewards(total, reward_weights).item()
                file = folder / f"{prefix}episode_{episode}-return_{value:.2f}.{format}"
                os.replace(partial, file)
                files[file] = value
        finally:
            partial.unlink(missing_ok=True)
    return files


def record_run(
    run_dir: Path | str,
    *,
    which: Literal["last", "best"] = "last",
    into: TensorDictModuleBase | None = None,
    folder: Path | str | None = None,
    seed: int | None = None,
    **options: Any,
) -> dict[Path, float]:
    """Record the policy of a run in the run's own task, with its time limit.

    Args:
        run_dir: the run directory, or one of its ``checkpoints/step_<frames>``.
        which: the newest checkpoint of the run, or the checkpoint of the best evaluation.
        into: the same argument of :func:`~rlkit_sac.runs.load_policy`; moved to the CPU.
        folder: the folder of the files. Default: ``videos`` in the run directory.
        seed: the seed of the first episode. Default: the seed of the run's evaluations, whose
            first episodes are recorded.
        options: ``episodes`` and ``format`` of :func:`record_video`.

    Returns:
        The same as :func:`record_video`; names of files begin with ``step_<frames>-``.

    Raises:
        ConfigError: as :func:`record_video`.
        RunError: as ``load_policy``, or if a file cannot be written.
    """
    checkpoint = find_policy(Path(run_dir), which)
    run, policy = StoredRun(checkpoint), load_policy(checkpoint, into=into, device="cpu")
    with closing_env(_rendering_env(run.task)) as env:
        check_spaces(run.folder, env)
        return record_video(
            policy,
            env,
            output_folder(run.path) / "videos" if folder is None else folder,
            seed=run.options["seed"] if seed is None else seed,
            prefix=f"step_{run.frames}-",
            reward_weights=run.options["reward_weights"],
            **options,
        )


def record_best(run_dir: Path, policy: TensorDictModuleBase) -> None:
    """Record the best policy of a run that has ended, and print the file; a failure is a warning.

    Args:
        run_dir: the run directory.
        policy: the policy of the run, with any weights; it is not changed.
    """
    try:
        (file,) = record_run(run_dir, which="best", into=deepcopy(policy))
    except Exception as error:  # of a library for graphics, or of the task
        warnings.warn(f"no video was recorded: {summary(error)}", stacklevel=2)
    else:
        print(f"video            {file}")


def check_video(task: EnvConfig) -> None:
    """Check that videos of a task can be recorded on this machine, by rendering one image.

    Args:
        task: the options of a task.

    Raises:
        ConfigError: if a package of the extra ``video`` is missing.

    >>> check_video(EnvConfig("Platform-v0"))
    """
    check_installed("imageio", "imageio_ffmpeg", extra="video")
    with closing_env(_rendering_env(task)) as env:
        if env.batch_size.numel() > 1:
            text = f"a video is of one environment, got {env.batch_size.numel()}"
            raise ConfigError(f"{text}: give evaluation.kwargs that make one")
        env.reset()
        _image(env)


def _record_episode(policy: TensorDictModuleBase, env: EnvBase, video: Any) -> torch.Tensor:
    """Record one episode, close the video, and return the sum of rewards ``[M]``."""
    with closing(video):  # the video's own `with` would leave it open after an exception
        state = env.reset()
        video.append_data(_image(env))
        for _ in range(LONGEST_EPISODE):
            step = env.step(policy(state))
            video.append_data(_image(env))
            if step["next", "done"].all():
                break
            state = step_mdp(step)  # includes the states of a policy with memory
    return step["next", "episode_reward"]


def _rendering_env(task: EnvConfig) -> EnvBase:
    return make_env(task.id, **task.arguments(), render_mode="rgb_array")


def _image(env: EnvBase) -> Any:
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        os.environ.setdefault("MUJOCO_GL", "egl")  # the default needs a display
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # the default complains
    advice = "for tasks of MuJoCo, MUJOCO_GL=egl or MUJOCO_GL=osmesa chooses what to render with"
    with prefix_errors(f"the task cannot be rendered on this machine ({advice})", Exception):
        return _task(env).render()


def _task(env: EnvBase) -> Any:
    """Return the environment that renders: Gymnasium's, or TorchRL's under all transforms."""
    return gym_envs(env)[0] if adapted_task(env) is None else base_env(env)
