"""Soft actor-critic as TorchRL components: losses, networks, recipes and analysis."""
