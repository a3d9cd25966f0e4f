"""The time of one update from images, with an encoder of each network and with one of all.

    python recipes/benchmarks/image_update.py
    python recipes/benchmarks/image_update.py --sides '[24]' --batch_size 64 --compiled true

Continuous soft actor-critic from stacks of gray images, with the encoder that the recipes choose
for their size; beside the updates, the random shift of a batch by 4 pixels. All take turns, so
that they meet the same load of the machine; the table shows medians over the rounds, and of the
ratios of shared to separate encoders 95 % bootstrap intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import torch
from timing import UpdateTimingConfig, run_cases
from update import make_update, transitions

from rlkit_sac.config import PositiveInt, UpdateConfig
from rlkit_sac.data import random_shift
from rlkit_sac.modules import (
    EncoderOptions,
    observation_encoder,
    state_action_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.encoders import Layout
from rlkit_sac.objectives import ContinuousSACLoss
from rlkit_sac.runs import run_recipe


@dataclass
class ImageTimingConfig(UpdateTimingConfig):
    """The sizes of an update, and how often it is timed."""

    rounds: PositiveInt = 10
    """Rounds, in which each contestant has one turn."""
    updates: PositiveInt = 1
    """Updates of a turn."""
    warm_up: PositiveInt = 2
    """Updates of each contestant before the first turn."""
    sides: list[PositiveInt] = field(default_factory=lambda: [84])
    """Pixels of a side of the images."""
    channels: PositiveInt = 3
    """Images of a stack."""
    batch_size: PositiveInt = 64
    """Transitions of an update."""
    compiled: bool = False
    """Also time compiled updates."""


def main(config: ImageTimingConfig) -> None:
    """Measure all sizes."""
    ratios = {
        "shared / apart": ("shared_ms", "apart_ms"),
        "compiled": ("shared_compiled_ms", "apart_compiled_ms"),
    }
    run_cases(config, [{"side": side} for side in config.sides], measure, ratios=ratios)


def measure(side: int, config: ImageTimingConfig) -> pd.DataFrame:
    """One row for each round, in milliseconds a call."""
    shape = [config.channels, side, side]
    layout = [{"key": "observation", "shape": shape, "scale": 255, "channels": "first"}]
    images = torch.randint(256, (2, config.batch_size, *shape), dtype=torch.uint8)
    batch = transitions(*images, action=2 * torch.rand(config.batch_size, 1) - 1)
    contestants = {"shift_ms": partial(random_shift, batch, layout, 4)}
    for name, shared in (("apart", False), ("shared", True)):
        eager = make_update(make_loss(layout, shared), UpdateConfig())
        contestants[f"{name}_ms"] = partial(eager, batch)
        if config.compiled:
            compiled = make_update(make_loss(layout, shared), UpdateConfig(), compile_from=1)
            contestants[f"{name}_compiled_ms"] = partial(compiled, batch)
    return config.take_turns(contestants)


def make_loss(layout: Layout, shared: bool) -> ContinuousSACLoss:
    """The loss of the recipe, by its default options, with its networks."""
    inputs: EncoderOptions = {"layout": layout}
    encoder = observation_encoder(layout) if shared else None
    if encoder is not None:
        inputs = {"layout": [{"key": "features", "shape": [encoder.module.num_features]}]}
    actor, critic = tanh_gaussian_actor(inputs, [-1.0], [1.0]), state_action_critic(inputs, 1)
    return ContinuousSACLoss(actor, critic, encoder_network=encoder)


if __name__ == "__main__":
    run_recipe(main, ImageTimingConfig)
