"""One configuration run with several seeds: one after another or at the same time."""
