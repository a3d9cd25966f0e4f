"""Why a state cannot be saved."""


class CannotSaveError(TypeError):
    """A value that cannot be turned into plain data."""
