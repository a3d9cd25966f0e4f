"""The policies of runs: their files, and acting by them from NumPy to NumPy."""
