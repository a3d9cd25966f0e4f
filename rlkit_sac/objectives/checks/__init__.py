"""Checks of batches, networks and specs, with errors that say what to change."""
