"""Python values and the state of environments in mid-episode as plain data, without pickle."""

from rlkit_sac.envs.state.errors import CannotSaveError
from rlkit_sac.envs.state.objects import fixed_parts, read_simulator, write_simulator
from rlkit_sac.envs.state.values import Node, ValueReader, ValueWriter

__all__ = [
    "CannotSaveError",
    "Node",
    "ValueReader",
    "ValueWriter",
    "fixed_parts",
    "read_simulator",
    "write_simulator",
]
