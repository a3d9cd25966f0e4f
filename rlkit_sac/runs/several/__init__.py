"""Several runs of a recipe, each in a process: one configuration with many seeds, or a sweep."""
