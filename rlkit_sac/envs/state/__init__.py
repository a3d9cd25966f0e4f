"""The state of a Gymnasium environment in mid-episode, as plain data."""

from rlkit_sac.envs.state.errors import CannotSaveError
from rlkit_sac.envs.state.objects import fixed_parts, read_simulator, write_simulator

__all__ = ["CannotSaveError", "fixed_parts", "read_simulator", "write_simulator"]
