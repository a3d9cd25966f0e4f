"""Why the state of an environment cannot be saved."""


class CannotSaveError(Exception):
    """A value in the environment that cannot be turned into plain data."""
