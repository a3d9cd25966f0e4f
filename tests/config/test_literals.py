"""Choices that the options repeat, since they import no other part of the package."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from rlkit_sac import config
from rlkit_sac.config import acer, collection, loss, update
from rlkit_sac.data.collect.collector import CollectorKind
from rlkit_sac.data.replay.buffer import StorageKind
from rlkit_sac.functional.categorical import CategoricalSpace
from rlkit_sac.functional.gaussian import GaussianSpace
from rlkit_sac.functional.sac import CriticReduction, LossFunction
from rlkit_sac.graph import MatmulPrecision
from rlkit_sac.modules import ActionKind
from rlkit_sac.modules.encoders import EncoderKind
from rlkit_sac.modules.perceptron import ACTIVATIONS, LogStdMode
from rlkit_sac.modules.temperature import AlphaParametrization
from rlkit_sac.objectives import (
    ContinuousSACOptions,
    DiscreteSACOptions,
    HybridSACOptions,
    SACOptions,
)


def choices(section: type, option: str) -> Any:
    """The literals that an option's type lists."""
    hint = get_type_hints(section)[option]
    inner = [each for each in get_args(hint) if get_args(each)] or [hint]
    return {value for each in inner for value in get_args(each)} - {type(None)}


@pytest.mark.parametrize(
    ("own", "owner"),
    [
        (get_args(acer.ActionKind), get_args(ActionKind)),
        (get_args(collection.CollectorKind), get_args(CollectorKind)),
        (get_args(update.MatmulPrecision), get_args(MatmulPrecision)),
        (get_args(loss.AlphaParametrization), get_args(AlphaParametrization)),
        (choices(config.LayersConfig, "activation"), ACTIVATIONS),
        (choices(config.LayersConfig, "encoder"), get_args(EncoderKind)),
        (choices(config.GaussianNetworkConfig, "log_std_mode"), get_args(LogStdMode)),
        (choices(config.ReplayConfig, "storage"), get_args(StorageKind)),
        (choices(config.LossConfig, "loss_function"), get_args(LossFunction)),
        (choices(config.LossConfig, "policy_loss_steps"), choices(SACOptions, "policy_loss_steps")),
        (choices(config.LossConfig, "policy_reduction"), get_args(CriticReduction)),
        (
            choices(config.DiscreteLossConfig, "discrete_entropy"),
            choices(DiscreteSACOptions, "discrete_entropy"),
        ),
        (
            choices(config.ACERLossConfig, "trust_region_space"),
            (*get_args(CategoricalSpace), *get_args(GaussianSpace)),
        ),
    ],
)
def test_the_choices_are_those_of_their_owner(own: Any, owner: Any) -> None:
    assert set(own) == set(owner)


#: Options that recipes set themselves, or that only users of the losses need.
OF_RECIPES = {
    *("action_spec", "burn_in", "deactivate_vmap", "diagnostics", "encoder_network"),
    *(
        "observation_normalizer",
        "prior_network",
        "reduction",
        "reward_normalizer",
        "scalar_output_mode",
    ),
    "use_prioritized_weights",
}


@pytest.mark.parametrize(
    ("section", "options", "left_out"),
    [
        (config.ContinuousLossConfig, ContinuousSACOptions, {"target_kld_per_dim"}),
        (config.KLPriorLossConfig, ContinuousSACOptions, {"target_entropy"}),
        (config.DiscreteLossConfig, DiscreteSACOptions, {"target_kld_discrete"}),
        (config.HybridLossConfig, HybridSACOptions, set()),
    ],
)
def test_options_of_losses_are_there_with_the_defaults_of_the_losses(
    section: Any, options: Any, left_out: set[str]
) -> None:
    own = {field.name: field.default for field in fields(options)}
    given = section().arguments()
    assert own.keys() - given.keys() == OF_RECIPES | left_out
    given.pop("parameter_mask", None)  # true where the task's own mask is asked for
    assert given == {name: own[name] for name in given}
