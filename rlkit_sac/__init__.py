"""Soft actor-critic as TorchRL components: losses, networks, recipes and analysis."""

__version__ = "0.2.0"
