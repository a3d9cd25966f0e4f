"""Trained policies for the package, from the best checkpoints of runs.

    python recipes/benchmarks/make_trained_policies.py --runs '[runs/sac/HalfCheetah-v5/<run>]'

Each becomes a small run directory in `rlkit_sac/policies/`, in place of an earlier one: options,
weights and one evaluation of the files themselves. Weights are rounded to float16, unless the mean
return of 100 episodes changes by more than a standard error.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import safetensors.torch
import torch

from rlkit_sac.runs import load_policy, run_recipe
from rlkit_sac.runs.checkpoint import MANIFEST, Checkpoint
from rlkit_sac.runs.evaluation import EvaluationResult
from rlkit_sac.runs.files import checksum, read_described, sha256, split_state
from rlkit_sac.runs.policy import FORMAT_VERSION, StoredRun, find_policy
from rlkit_sac.trained_policies import FOLDER

EPISODES = 100


@dataclass
class PoliciesConfig:
    """Whose policies, and where they go."""

    runs: list[str] = field(default_factory=list)
    """Run directories below `<recipe>/<task>/`."""
    folder: str = str(FOLDER)
    """Folder of the policies."""


def main(config: PoliciesConfig) -> None:
    """Copy the best policy of each run."""
    torch.set_num_threads(1)
    for run in map(Path, config.runs):
        checkpoint = find_policy(run, "best")
        source = Checkpoint.find(checkpoint)
        final = Path(config.folder, *source.run_path.absolute().parts[-3:-1])
        target = final.with_name(f"{final.name}.new")
        folder = target / "checkpoints" / checkpoint.name
        exact = write_policy(folder, source, torch.float32)
        result = write_policy(folder, source, torch.float16)
        error = exact.returns.std() / EPISODES**0.5
        if exact.returns.mean() - result.returns.mean() > error:
            result = write_policy(folder, source, torch.float32)
        row = {
            "frames": source.frames,
            "episodes": EPISODES,
            "return_mean": float(result.returns.mean()),
            "return_std": float(result.returns.std()),
        }
        if result.successes is not None:
            row["success_rate"] = float(result.successes.mean())
        pd.DataFrame([row]).to_csv(target / "evaluations.csv", index=False)
        shutil.rmtree(final, ignore_errors=True)
        target.rename(final)
        print(f"{final}: {row}")


def write_policy(folder: Path, source: Checkpoint, dtype: torch.dtype) -> EvaluationResult:
    """Write a checkpoint without a state to resume, and evaluate what was written.

    Args:
        folder: the folder of the new checkpoint.
        source: the checkpoint of a run.
        dtype: the type of the weights; statistics of normalizers stay float64.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = safetensors.torch.load((source.folder / "policy.safetensors").read_bytes())
    weights = safetensors.torch.save(
        {name: x.to(dtype) if x.dtype == torch.float32 else x for name, x in tensors.items()}
    )
    policy = read_described(source.folder / "policy.json", version=FORMAT_VERSION)
    policy["weights_sha256"] = sha256(weights)
    manifest = json.loads((source.folder / MANIFEST).read_text())
    tree, _ = split_state({"run": {"evaluations": {"rows": 1}}})
    manifest |= {"files": {}, "segments": {}, "tree": tree}
    manifest["config"] = re.sub("(?m)^logging.dir: .*$", "logging.dir: runs", manifest["config"])
    (folder / "policy.safetensors").write_bytes(weights)
    for name, content in (("policy.json", policy), (MANIFEST, manifest)):
        content.pop("sha256", None)
        content["sha256"] = checksum(content)
        (folder / name).write_text(json.dumps(content))
    return StoredRun(folder, episodes=EPISODES).evaluate(load_policy(folder))


if __name__ == "__main__":
    run_recipe(main, PoliciesConfig)
