"""Soft actor-critic for every action space, and ACER, as TorchRL components."""
