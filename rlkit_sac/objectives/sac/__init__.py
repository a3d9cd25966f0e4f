"""The losses of soft actor-critic."""
