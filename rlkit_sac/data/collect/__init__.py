"""Collecting frames: TorchRL's collector, and a light one with the same output."""
