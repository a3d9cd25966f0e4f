"""Python values and the state of environments in mid-episode as plain data, without pickle."""

from rlkit_sac.envs.state.plain_data import CannotSaveError
from rlkit_sac.envs.state.values import Node, ValueReader, ValueWriter

__all__ = ["CannotSaveError", "Node", "ValueReader", "ValueWriter"]
