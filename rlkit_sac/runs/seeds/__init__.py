"""One configuration run with several seeds: one after another or at the same time."""

from rlkit_sac.runs.seeds.joint import run_seeds
from rlkit_sac.runs.seeds.options import HELP, SeedOptions, seed_errors, split_seed_options

__all__ = ["HELP", "SeedOptions", "run_seeds", "seed_errors", "split_seed_options"]
