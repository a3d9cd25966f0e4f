"""Replay buffers and their samplers."""
