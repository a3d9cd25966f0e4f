"""The collector of a run whose frames come from workers on Ray."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlkit_sac.data.batch_steps import steps_per_batch
from rlkit_sac.data.entries import NestedEntries
from rlkit_sac.data.workers.cluster import check_capacity, import_ray
from rlkit_sac.data.workers.worker import Worker, policy_values
from rlkit_sac.errors import ConfigError, RlkitSacError, RunError, WorkersLost, summary
from rlkit_sac.signals import ignore_signals

_SECONDS_TO_START = 300.0  # at least: imports take long on a busy machine
_SECONDS_TO_CLOSE = 5.0
_SLICE = 1.0  # seconds between two moments at which signals are handled


@dataclass(eq=False, repr=False)
class WorkerCollector:
    """A collector whose frames come from workers, processes on a Ray cluster.

    In the mode ``sync`` a batch holds frames of all workers, who wait for each other and for the
    learner. With a policy on the CPU, batches and random numbers are those of
    :func:`~rlkit_sac.data.make_collector` with all these environments, bit for bit. In the mode
    ``async`` each batch is that of one worker, yielded as it comes; workers collect while the
    learner updates, with parameters that may be older. Every frame that was asked for is yielded,
    in batches of whole, consecutive steps, so that slices must stay within one batch
    (``within_batches`` of the samplers).

    A worker that dies is made anew, its environments begin their next episodes, and what was lost,
    at most one batch, is collected again; a warning says so.

    Ray must have been started: make the collector, iterate over it and call its ``shutdown``
    inside of :func:`~rlkit_sac.data.ray_cluster`.

    Args:
        create_env: a function called in a worker as ``create_env(first_index=i)``, which makes the
            environments i, i + 1, ... of the run, such as a partial of
            :func:`~rlkit_sac.envs.make_env`.
        policy: the acting policy; workers follow its parameters and buffers.
        workers: number of workers.
        num_envs: number of environments of each worker, as `create_env` makes them.
        total_frames: frames of the run; the last batch may go beyond.
        frames_per_batch: frames of each batch, a multiple of the number of its environments.
        init_random_frames: the same argument of `make_collector`.
        random_policy: the same argument of `make_collector`.
        mode: ``sync`` or ``async``.
        first_index: number of the first environment.
        updates: a function that returns the number of updates so far.
        publish_interval: least number of updates between two publications of the parameters to
            asynchronous workers.
        restarts: number of restarts of each worker. After that, asynchronous workers go on
            without it.
        patience: seconds to wait for any batch. Workers may take 300 seconds to start, or as long
            as this if it is more.
        cpus: number of CPUs that the scheduler sets aside for each worker; below 1 for environments
            that mostly wait.

    Attributes:
        inexact_reasons: the reasons why the run does not continue exactly from a loaded state.
        on_gap: a function called before a joint batch that does not follow the one before it,
            because a worker began anew. Default: nothing.

    Raises:
        ConfigError: if Ray has not been started, the cluster cannot place the workers, or their
            environments cannot be made or cannot share a batch evenly.
        WorkersLost: if a worker has not started in time.
    """

    create_env: Callable[..., EnvBase]
    policy: TensorDictModuleBase
    _: KW_ONLY
    workers: int
    num_envs: int
    total_frames: int
    frames_per_batch: int
    init_random_frames: int = 0
    random_policy: TensorDictModuleBase | None = None
    mode: Literal["sync", "async"] = "sync"
    first_index: int = 0
    updates: Callable[[], int]
    publish_interval: int = 1
    restarts: int = 10
    patience: float = 300.0
    cpus: float = 1.0

    def __post_init__(self) -> None:
        policy, random_policy = self.policy, self.random_policy
        workers, num_envs = self.workers, self.num_envs
        self.on_gap: Callable[[], object] | None = None
        self._is_sync = self.mode == "sync"
        joined = workers if self._is_sync else 1
        steps_per_batch(self.frames_per_batch, num_envs * joined)
        check_capacity(workers, self.cpus)
        self._ray = import_ray()
        self.inexact_reasons: Sequence[str] = ()
        self.frames = 0
        self._device = next((tensor.device for tensor in policy.parameters()), torch.device("cpu"))
        # Of each environment: how many episodes have begun, and the number of its trajectory.
        self._begun = np.zeros(workers * num_envs, np.int64)
        self._trajectories = np.zeros(workers * num_envs, np.int64)
        self._deaths = [0] * workers
        self._published: Any = None
        self._publish_at = 0
        # Calls that are not answered yet, and their workers: for a batch, and to start.
        self._pending: dict[Any, int] = {}
        self._starting: dict[Any, int] = {}
        self._names: dict[int, str] = {}  # of workers, with process and host once they have started
        self._end_reason = "the workers have been ended"
        self._make_actor = partial(
            self._ray.remote(num_cpus=self.cpus, max_restarts=0)(_Actor).remote,
            self.create_env,
            self._ray.put(_copy_to_cpu(policy)),
            num_envs=num_envs,
            joined=joined,
            frames_per_batch=self.frames_per_batch // joined,
            init_random_frames=self.init_random_frames,
            random_policy=None if random_policy is None else _copy_to_cpu(random_policy),
            first_index=self.first_index,
            seed=torch.initial_seed() % 2**64,
        )
        self._actors: dict[int, Any] = {}
        for worker in range(workers):
            self._start_worker(worker)
        while self._starting:
            self._receive_batches()

    def end(self) -> None:
        """End the iteration after the present batch."""
        self.total_frames = self.frames

    def __iter__(self) -> Iterator[TensorDictBase]:
        while self.frames < self.total_frames:
            batch = self._joint_batch() if self._is_sync else self._first_batch()
            self.frames += batch.numel()
            self._ask_idle_workers()
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return the frames so far, and the states of the workers after their present batches.

        The state of a worker that is lost, or has failed in the middle of a batch, is None.
        """
        return {
            "frames": self.frames,
            "workers": self._call_all("state_dict", self.patience),
            "begun": self._begun.tolist(),
            "trajectories": self._trajectories.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; a worker without one begins the next episodes.

        The next batches of asynchronous workers come after those that they had on their way.

        Raises:
            ConfigError: for other environments or another number of workers than the state has.
            WorkersLost: a worker does not answer.
        """
        states = state["workers"]
        if len(states) != len(self._deaths):
            text = f"{len(states)} workers were saved, there are {len(self._deaths)}"
            raise ConfigError(f"{text}: workers.number must be that of the saved run")
        self.frames = state["frames"]
        self._begun[:], self._trajectories[:] = state["begun"], state["trajectories"]
        saved = {index: (state,) for index, state in enumerate(states) if state is not None}
        reasons = self._call_all("load_state_dict", self.patience, saved)
        self.inexact_reasons = []
        if not self._is_sync:
            self.inexact_reasons = ["the batches of asynchronous workers come in another order"]
            # Batches that were on their way are lost, and episodes may have begun in them.
            self._trajectories[:] = self._begun.sum() + np.arange(len(self._begun))
            self._begun += 1
        if lost := [self._names[index] for index in saved if reasons[index] is None]:
            raise WorkersLost(f"{' and '.join(lost)} died, or hung, while loading a state")
        for index, reason in enumerate(reasons):
            if index not in saved:
                self._stop_worker(index)
                self._start_worker(index)
                reason = ["it was lost; its environments begin their next episodes"]
            self.inexact_reasons += [f"worker {index}: {text}" for text in reason]

    def shutdown(self) -> None:
        """Close the environments, and end the workers."""
        if self._ray.is_initialized():
            self._call_all("shutdown", _SECONDS_TO_CLOSE)
            self._give_up()

    def _joint_batch(self) -> TensorDictBase:
        """Return the next batch of all workers together."""
        self._publish_parameters()
        frames, generator = self.frames, torch.get_rng_state().numpy()
        answers: dict[int, Any] = {}
        while len(answers) < len(self._deaths):
            for worker in self._idle_workers() - answers.keys():
                self._request_batch(worker, frames, generator)
            answers.update(self._receive_batches())
        parts = [answers[worker] for worker in range(len(answers))]
        torch.set_rng_state(torch.tensor(parts[0][1]))
        return self._join_batch([entries for entries, _ in parts], 0)

    def _first_batch(self) -> TensorDictBase:
        """Return the batch that came first."""
        answers: dict[int, Any] = {}
        while not answers:
            self._ask_idle_workers()
            answers = self._receive_batches()
        ((worker, (entries, _)),) = answers.items()
        return self._join_batch([entries], worker)

    def _ask_idle_workers(self) -> None:
        """Ask each asynchronous worker that has nothing to do for a batch, if one is wanted."""
        if self._is_sync:
            return
        for worker in sorted(self._idle_workers()):
            frames = self.frames + len(self._pending) * self.frames_per_batch
            if frames < self.total_frames:
                self._publish_parameters()
                seed = int(torch.randint(2**63 - 1, ()))
                generator = torch.Generator().manual_seed(seed).get_state()
                self._request_batch(worker, frames, generator.numpy())

    def _idle_workers(self) -> Set[int]:
        return self._actors.keys() - {*self._pending.values(), *self._starting.values()}

    def _publish_parameters(self) -> None:
        """Make new parameters available to the workers, if it is time."""
        made = self.updates()
        if self._is_sync or self._published is None or made >= self._publish_at:
            self._published = self._ray.put(policy_values(self.policy))
            self._publish_at = made + self.publish_interval

    def _request_batch(self, worker: int, frames: int, generator: NDArray[np.uint8]) -> None:
        call = self._actors[worker].collect.remote(frames, generator, self._published)
        self._pending[call] = worker

    def _receive_batches(self) -> dict[int, Any]:
        """Return the next batch, by worker; an empty dict if a worker died or only started.

        Raises:
            RlkitSacError: the error that a worker raised.
            WorkersLost: no worker is left, or none has answered in time.
        """
        calls = self._pending | self._starting
        seconds = max(self.patience, _SECONDS_TO_START if self._starting else 0.0)
        call = next(self._completed_calls(calls, seconds), None)
        if call is None:
            self._give_up(calls.values(), seconds)
            raise WorkersLost(self._end_reason)
        worker = calls[call]
        try:
            answer = self._call_result(call, worker)
        except self._ray.exceptions.RayError as error:
            self._recover(worker, error)
            return {}
        except RlkitSacError:
            self._give_up()
            raise
        if self._pending.pop(call, None) is not None:
            return {worker: answer}
        del self._starting[call]
        if answer is not None:
            self._names[worker] = f"worker {worker} ({answer})"
        return {}

    def _completed_calls(self, calls: Iterable[Any], seconds: float) -> Iterator[Any]:
        """Yield each of some calls when it is answered, until a time is over."""
        waiting, deadline = list(calls), time.monotonic() + seconds
        while waiting and time.monotonic() < deadline:
            done, waiting = self._ray.wait(waiting, timeout=_SLICE)
            yield from done

    def _call_result(self, call: Any, worker: int) -> Any:
        """Return the answer of a worker to a call.

        Raises:
            RlkitSacError: the error that the worker raised.
            RayError: the worker is lost.
        """
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:  # whose text is the traceback
            cause, name = error.cause, self._names[worker]
            if isinstance(cause, RlkitSacError):
                raise type(cause)(*(f"{name}: {line}" for line in cause.args)) from cause.__cause__
            raise RunError(f"{name} raised {summary(cause)}") from error.with_traceback(None)

    def _recover(self, worker: int, error: Exception) -> None:
        """Make a worker that died anew and ask it again, or go on without it."""
        self._deaths[worker] += 1
        self._stop_worker(worker)
        died, restarts = f"{self._names[worker]} died ({type(error).__name__})", self.restarts
        gone = f"{died} after {restarts} restarts (workers.restarts)"
        if self._deaths[worker] <= restarts:
            _warn(f"{died}: restart {self._deaths[worker]} of {restarts} (workers.restarts)")
            self._start_worker(worker)
            if self._is_sync and self.on_gap is not None:
                self.on_gap()
        elif self._is_sync or not self._actors:
            self._give_up()
            raise WorkersLost(gone) from error
        else:
            _warn(f"{gone}; the others go on")

    def _start_worker(self, worker: int) -> None:
        """Make a worker, or make it again."""
        envs = self._begun.reshape(-1, self.num_envs)
        actor = self._make_actor(index=worker, episodes=envs[worker].tolist())
        self._actors[worker], self._names[worker] = actor, f"worker {worker} (starting)"
        self._starting |= {actor.begin.remote(): worker, actor.start.remote(): worker}

    def _stop_worker(self, worker: int) -> None:
        self._ray.kill(self._actors.pop(worker))
        self._pending = {call: n for call, n in self._pending.items() if n != worker}
        self._starting = {call: n for call, n in self._starting.items() if n != worker}

    def _give_up(self, silent: Iterable[int] = (), seconds: float = 0.0) -> None:
        """End the workers: their next frames would not follow those that the learner has.

        Args:
            silent: workers that have not answered.
            seconds: number of seconds they were waited for.
        """
        if names := " and ".join(self._names[worker] for worker in sorted(set(silent))):
            self._end_reason = f"no answer from {names} in {seconds:g} s (workers.patience)"
        for worker in list(self._actors):
            self._stop_worker(worker)

    def _call_all(
        self, method: str, seconds: float, arguments: Mapping[int, tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Call a method of the workers, and return its results; None for a lost or new worker.

        If one does not answer in time, all are ended.

        Args:
            method: name of the method.
            seconds: number of seconds to wait.
            arguments: the arguments for each worker to call. Default: all workers, no arguments.
        """
        if arguments is None:
            arguments = dict.fromkeys(self._actors.keys() - set(self._starting.values()), ())
        calls = {
            getattr(self._actors[worker], method).remote(*values): worker
            for worker, values in arguments.items()
        }
        answers: list[Any] = [None] * len(self._deaths)
        waiting = set(calls)
        for call in self._completed_calls(calls, seconds):
            waiting.remove(call)
            with suppress(self._ray.exceptions.RayError):
                answers[calls[call]] = self._call_result(call, calls[call])
        if waiting:
            self._give_up([calls[call] for call in waiting], seconds)
        return answers

    def _join_batch(
        self, parts: Sequence[Mapping[NestedKey, NDArray[Any]]], worker: int
    ) -> TensorDictBase:
        """Return the batch of the entries of consecutive workers, from one on."""
        arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        envs = slice(worker * self.num_envs, (worker + len(parts)) * self.num_envs)
        arrays["collector", "traj_ids"] = self._number_trajectories(arrays["is_init"][..., 0], envs)
        if len(arrays["is_init"]) == 1:
            arrays = {key: array[0] for key, array in arrays.items()}
        values = [torch.from_numpy(array).to(self._device) for array in arrays.values()]
        shape = torch.Size(arrays["collector", "traj_ids"].shape)
        return NestedEntries(list(arrays))(values, shape, self._device)

    def _number_trajectories(self, begins: NDArray[np.bool_], envs: slice) -> NDArray[np.int64]:
        """Return the trajectory numbers of frames ``[n, T]``, in the order of their starts."""
        order = begins.T.cumsum().reshape(begins.T.shape).T
        numbers = np.where(begins, self._begun.sum() + order - 1, -1)
        numbers[:, 0] = np.where(begins[:, 0], numbers[:, 0], self._trajectories[envs])
        numbers = np.maximum.accumulate(numbers, 1)
        self._trajectories[envs] = numbers[:, -1]
        self._begun[envs] += begins.sum(1)
        return numbers


def _warn(text: str) -> None:
    clear_line = "\r\x1b[K" if sys.stderr.isatty() else ""  # of a progress bar
    print(f"{clear_line}warning: {text}", file=sys.stderr)


class _Actor(Worker):
    def begin(self) -> str:
        """Return the process and host of the worker; called first."""
        ignore_signals()  # programs that an environment starts would inherit the held signals
        return f"pid {os.getpid()} on {import_ray().util.get_node_ip_address()}"


def _copy_to_cpu(policy: TensorDictModuleBase) -> TensorDictModuleBase:
    """Return a copy of a policy on the CPU; specs of TorchRL move in a module's own ``to`` only."""
    copy = deepcopy(policy)
    for module in copy.modules():
        module.to("cpu")
    return copy
