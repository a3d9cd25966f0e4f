"""The keyword arguments of the soft actor-critic losses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import TensorSpec

from rlkit_sac.config.bounds import NonNegativeInt
from rlkit_sac.config.conditions import check_config
from rlkit_sac.config.loss import LossConfig
from rlkit_sac.config.values import check_value, plain_value
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode

T = TypeVar("T")
Class = TypeVar("Class", bound=type[Any])

#: One value for all factors of the policy, or a (discrete, continuous) pair.
PerFactor: TypeAlias = T | tuple[T, T] | list[T]


@dataclass(frozen=True, eq=False, kw_only=True)
class SACOptions:
    r"""What all soft actor-critic losses take beside the options of their configuration.

    The latter are the fields of the sections in :mod:`rlkit_sac.config`, such as
    :class:`~rlkit_sac.config.ContinuousLossConfig`, without ``schedules``.

    Raises:
        ConfigError: for a ``burn_in`` below 0.
    """

    encoder_network: TensorDictModuleBase | None = None
    """One encoder of the states for actor and critics, which read what it writes, such as
    ``features``, in place of the observation. ``loss_qvalue`` alone trains it, and it has no
    target, as in DrQ-v2 (Yarats et al. 2021, arXiv:2107.09645)."""

    prior_network: PerFactor[nn.Module | None] = None
    r"""A prior :math:`\pi^0` such as :class:`~rlkit_sac.modules.UniformPrior`, or any module with
    ``in_keys`` and ``get_dist(tensordict)``: :math:`\log\pi - \log\pi^0` replaces
    :math:`\log\pi` everywhere, and a discrete policy without an actor is :math:`\pi_k \propto
    \pi^0_k \exp(\min_i Q_{i,k}/\alpha)`. The loss keeps a copy, which is not trained."""

    action_spec: TensorSpec | None = None
    """Spec of one action, or the composite spec of the environment; default the actor's. Without
    one the number of discrete actions is that of the critics' output."""

    reduction: Reduction = "mean"
    """``"mean"``, ``"sum"`` or ``"none"``, over the valid steps."""

    scalar_output_mode: ScalarOutputMode | None = None
    """With ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars."""

    use_prioritized_weights: Literal[True, False, "auto"] = "auto"
    r"""Whether losses are weighted by ``priority_weight`` (:math:`\sum wl/\sum w`); ``"auto"``: if
    it is present."""

    observation_normalizer: ObservationNormalizer | None = None
    """Normalizes the observations of networks and policy; ``observe()`` updates its statistics."""

    reward_normalizer: RewardNormalizer | None = None
    """Normalizes the rewards in the targets, before ``reward_scale``; updated in the same way."""

    burn_in: int = 0
    """Of networks with a memory, number of first steps of each row that the memories see, without
    gradient and without loss."""

    deactivate_vmap: bool = False
    """Call the critics one after another."""

    diagnostics: bool = False
    """Add statistics of the critics to the output."""

    def __post_init__(self) -> None:
        check_value("burn_in", self.burn_in, NonNegativeInt)


def of_each(name: str, value: Any, factors: Sequence[str]) -> dict[str, Any]:
    """The value of an option for each factor of the policy.

    Args:
        name: of the option.
        value: one for all, or a sequence.
        factors: their names, ``[""]`` for a single one.

    Raises:
        ConfigError: for a sequence of another length.

    >>> of_each("alpha_init", (0.5, 1.0), ["discrete", "continuous"])
    {'discrete': 0.5, 'continuous': 1.0}
    """
    if not isinstance(value, tuple | list):
        return dict.fromkeys(factors, value)
    if len(factors) == 1:
        raise ConfigError(f"{name} takes one value here, not {value!r}")
    if len(value) != len(factors):
        raise ConfigError(
            f"{name} takes one value or one for each of ({', '.join(factors)}), not {value!r}"
        )
    return dict(zip(factors, value, strict=True))


def read_options(
    section: type[Any], given: Mapping[str, Any], *, mask: bool = False
) -> tuple[SACOptions, Any]:
    """The keyword arguments of a loss, those of its section checked as in a configuration.

    Args:
        section: whose fields the loss takes; pairs may be tuples, numbers tensors, and
            ``target_entropy`` functions of the action spec.
        given: the arguments.
        mask: whether there is a mask of parameters, which the section has as ``parameter_mask``.

    Raises:
        ConfigError: with a line for each problem.
    """
    own = {name: value for name, value in given.items() if name in section().arguments()}
    plain = {name: plain_value(_without_functions(value)) for name, value in own.items()}
    options = section(**plain, **({"parameter_mask": True} if mask else {}))
    check_config(options)
    options.target_entropy = own.get("target_entropy", options.target_entropy)
    others = {name: value for name, value in given.items() if name not in own}
    return SACOptions(**others), options


def _without_functions(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_without_functions(each) for each in value]
    return "auto" if callable(value) else value


def takes(section: type[LossConfig]) -> Callable[[Class], Class]:
    """Let the signature of a loss show the options that its ``**options`` are.

    Args:
        section: of a configuration, whose fields the loss takes.

    >>> from rlkit_sac.objectives import DiscreteSACLoss
    >>> inspect.signature(DiscreteSACLoss).parameters["gamma"].default
    0.99
    """

    def add(loss: Class) -> Class:
        own = [*inspect.signature(loss.__init__).parameters.values()][:-1]
        options = inspect.signature(section).parameters
        numbers = [options[name] for name in section().arguments()]
        names = {each.name for each in own}
        shown = [*numbers, *inspect.signature(SACOptions).parameters.values()]
        shown = [each.replace(kind=each.KEYWORD_ONLY) for each in shown if each.name not in names]
        loss.__init__.__signature__ = inspect.Signature([*own, *shown])
        loss.options_class = section
        return loss

    return add
