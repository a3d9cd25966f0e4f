"""A recipe that trains nothing: it writes evaluations, and fails or waits as it is told."""

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from rlkit_sac.config import BaseCollectorConfig, EnvConfig, EvaluationConfig, LoggingConfig, Seed
from rlkit_sac.errors import BatchError, ConfigError, RunError
from rlkit_sac.runs import RunDirectory, run_recipe
from rlkit_sac.runs.stop import TIME_LIMIT_CODE, Interrupted, StopRequest, deferred_signals


@dataclass
class Config:
    """Evaluations of a given value, and what goes wrong."""

    env: EnvConfig = field(default_factory=EnvConfig)
    collector: BaseCollectorConfig = field(
        default_factory=lambda: BaseCollectorConfig(total_frames=100)
    )
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(interval=10))
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: Seed = 0
    """Seed."""
    resume: str | None = None
    """Run to resume."""
    value: float = 1.0
    """Mean return of all evaluations, plus ten times the seed."""
    fault: str = "none"
    """What goes wrong."""
    fail: dict[str, str] = field(default_factory=dict)
    """What goes wrong instead, by seed."""


FAULTS = {
    "run": RunError("reward is NaN at frame 10"),
    "batch": BatchError("no 'observation'"),
    "bug": ZeroDivisionError("oops"),
    "time": Interrupted(TIME_LIMIT_CODE, "stopped by time_limit, after 60 seconds"),
}


def main(config: Config) -> Path:
    fault = config.fail.get(f"seed{config.seed}", config.fault)
    if fault == "config":
        raise ConfigError("the replay buffer does not fit", "nor does the environment")
    with RunDirectory.create(
        config, recipe="test", task="Task", seed=config.seed, root=config.logging.dir
    ) as run:
        run.begin()
        print(run.path, flush=True)
        if fault == "block":
            sys.stdin.read()
        with deferred_signals() as stop:
            for frames in range(10, 101, 10):
                value = config.value + 10 * config.seed
                row = {"frames": frames, "return_mean": value, "return_std": 0.5}
                run.write("evaluations", row)
                fail(fault)
                if fault == "wait":
                    wait_to_save(run.path, stop)
                if fault in ("wait", "saved"):
                    (run.path / "checkpoints" / "step_10").mkdir(parents=True)
                    (run.path / "checkpoints" / "step_10" / "checkpoint.json").touch()
                stop.obey()
                if fault == "saved":
                    raise RunError("no space left on device")
    return run.path


def fail(fault: str) -> None:
    if fault in FAULTS:
        raise FAULTS[fault]
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


def wait_to_save(run: Path, stop: StopRequest) -> None:
    (run / "ready").touch()
    while not stop.exit_code:
        time.sleep(0.05)
    (run / "stopping").touch()
    while not Path("may_save").exists():
        time.sleep(0.05)


if __name__ == "__main__":
    run_recipe(main, Config)
