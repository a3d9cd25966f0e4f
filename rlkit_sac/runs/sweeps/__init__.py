"""A search for the options of a recipe: many runs of different settings, judged by Optuna."""
