"""The state of a Gymnasium environment in mid-episode, as plain data."""

from rlkit_sac.envs.simulator.errors import CannotSaveError
from rlkit_sac.envs.simulator.objects import fixed_parts, read_simulator, write_simulator

__all__ = ["CannotSaveError", "fixed_parts", "read_simulator", "write_simulator"]
