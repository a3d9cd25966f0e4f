"""Choices that the options repeat, since they import nothing of torch."""

from typing import Any, get_args, get_type_hints

import pytest

from rlkit_sac import config
from rlkit_sac.config import loss, update
from rlkit_sac.data.replay.buffer import StorageKind
from rlkit_sac.functional.categorical import CategoricalSpace
from rlkit_sac.functional.gaussian import GaussianSpace
from rlkit_sac.functional.sac import CriticReduction, LossFunction
from rlkit_sac.graph import MatmulPrecision
from rlkit_sac.modules.encoders import EncoderKind
from rlkit_sac.modules.layers import ACTIVATIONS, LogStdMode
from rlkit_sac.modules.temperature import AlphaParametrization


def choices(section: type, option: str) -> Any:
    """The literals that an option's type lists."""
    hint = get_type_hints(section)[option]
    inner = [each for each in get_args(hint) if get_args(each)] or [hint]
    return {value for each in inner for value in get_args(each)} - {type(None)}


@pytest.mark.parametrize(
    ("own", "owner"),
    [
        (get_args(update.MatmulPrecision), get_args(MatmulPrecision)),
        (get_args(loss.AlphaParametrization), get_args(AlphaParametrization)),
        (choices(config.BaseNetworkConfig, "activation"), ACTIVATIONS),
        (choices(config.BaseNetworkConfig, "encoder"), get_args(EncoderKind)),
        (choices(config.GaussianNetworkConfig, "log_std_mode"), get_args(LogStdMode)),
        (choices(config.ReplayConfig, "storage"), get_args(StorageKind)),
        (choices(config.LossConfig, "loss_function"), get_args(LossFunction)),
        (choices(config.LossConfig, "policy_reduction"), get_args(CriticReduction)),
        (
            choices(config.ACERLossConfig, "trust_region_space"),
            (*get_args(CategoricalSpace), *get_args(GaussianSpace)),
        ),
    ],
)
def test_the_choices_are_those_of_their_owner(own: Any, owner: Any) -> None:
    assert set(own) == set(owner)
