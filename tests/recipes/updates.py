"""The update that a recipe makes, without a run."""

from typing import Any

import pytest
from torch.nn import Module

from rlkit_sac.updates import Update
from tests.recipes.loading import load_recipe


class Made(Exception):  # noqa: N818 (not an error)
    """Ends a recipe where its update is made."""

    def __init__(self, update: Update) -> None:
        self.update = update


def update_of(recipe: str, config: Any, *, loss_module: Module | None = None) -> Update:
    """The update that a recipe makes of a configuration, or of another loss."""

    def make(own_loss: Module, *args: Any, **options: Any) -> Update:
        raise Made(Update(own_loss, *args, **options))

    module = load_recipe(recipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Update", make)
        if loss_module is not None:
            patch.setattr(module, "ACERLoss", lambda **networks: loss_module)
        with pytest.raises(Made) as made:
            module.main(config)
    return made.value.update
