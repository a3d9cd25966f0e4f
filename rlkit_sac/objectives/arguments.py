"""The keyword arguments of the losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import Signature, signature
from typing import Any, Literal, TypeVar, get_type_hints

from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import TensorSpec

from rlkit_sac.config.loss import BaseLossConfig
from rlkit_sac.config.options import NonNegativeInt, check_config, check_values, options_of
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.normalization import ObservationNormalizer, RewardNormalizer

Reduction = Literal["mean", "sum", "none"]
ScalarOutputMode = Literal["exclude", "non_tensor"]
Class = TypeVar("Class", bound=type[Any])


@dataclass(frozen=True, eq=False, kw_only=True)
class LossOptions:
    """The options that every loss has, besides the fields of its section of a configuration.

    Raises:
        ConfigError: for a value that an option cannot have.
    """

    reduction: Reduction = "mean"
    """``"mean"``, ``"sum"`` or ``"none"``, over the valid steps."""

    scalar_output_mode: ScalarOutputMode | None = None
    """With ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars."""

    use_prioritized_weights: Literal[True, False, "auto"] = "auto"
    r"""Whether losses are weighted by ``priority_weight`` (:math:`\sum wl/\sum w`); ``"auto"``: if
    it is present."""

    burn_in: NonNegativeInt = 0
    """Number of first steps of each row that only update the memories of recurrent networks. They
    have no gradient and no loss."""

    diagnostics: bool = False
    """Add statistics of the critics to the output."""

    observation_normalizer: ObservationNormalizer | None = None
    """Normalizes the observations of networks and policy; ``update_normalizers()`` updates it."""

    critic_normalizer: ObservationNormalizer | None = None
    """A normalizer for critics that read another entry than the policy."""

    reward_normalizer: RewardNormalizer | None = None
    """Normalizes the rewards in the targets, before ``reward_scale``; ``update_normalizers()``
    updates it, too."""

    def __post_init__(self) -> None:
        hints = get_type_hints(LossOptions, include_extras=True)
        check_values(hints, {name: getattr(self, name) for name in hints})


@dataclass(frozen=True, eq=False, kw_only=True)
class SACOptions(LossOptions):
    r"""The options that all soft actor-critic losses have, besides the fields of their sections.

    The sections are those of :mod:`rlkit_sac.config`, such as
    :class:`~rlkit_sac.config.PlainContinuousLossConfig`.
    """

    encoder_network: TensorDictModuleBase | None = None
    """An encoder of the states that actor and critics share. They read its output, such as
    ``features``, in place of the observation. Only ``loss_qvalue`` trains it, and it has no
    target network, as in DrQ-v2 (Yarats et al. 2021, arXiv:2107.09645)."""

    prior_network: nn.Module | Sequence[nn.Module | None] | None = None
    r"""A prior :math:`\pi^0` such as :class:`~rlkit_sac.modules.UniformPrior`, or any module with
    ``in_keys`` and ``get_dist(tensordict)``: :math:`\log\pi - \log\pi^0` replaces
    :math:`\log\pi` everywhere, and a discrete policy without an actor is :math:`\pi_k \propto
    \pi^0_k \exp(\min_i Q_{i,k}/\alpha)`. The loss keeps a copy, which is not trained. A hybrid
    loss takes a (discrete, continuous) pair, too."""

    action_spec: TensorSpec | None = None
    """Spec of one action, or the composite spec of the environment. Default: the actor's spec.
    Without a spec, the critics' output determines the number of discrete actions."""

    deactivate_vmap: bool = False
    """Call the critics one after another."""


# Advice on the arguments of TorchRL's losses that these losses do not have.
_ADVICE = {
    **dict.fromkeys(("delay_qvalue", "delay_value"), "target networks are always there"),
    "delay_actor": "the policy has no target network",
    "separate_losses": "leave it out; no loss trains the networks of another",
    "skip_done_states": "leave it out; the value of a terminal state never reaches a target",
    "priority_key": "set_keys(priority=...) names it",
    **dict.fromkeys(("num_actions", "action_space"), "pass action_spec"),
    "target_entropy_weight": "target_entropy takes 'scaled_log_k', or the number itself",
}

# Names of options in other packages, which the search for similar names would not find.
_SYNONYMS = {"alpha": "alpha_init", "ent_coef": "alpha_init", "sub_sample_len": "target_subset"}


def read_options(
    loss: type[Any], arguments: Mapping[str, Any], *, mask: bool = False
) -> tuple[Any, Any]:
    """Return the options of a loss and its section, both checked as in a configuration.

    Args:
        loss: a class that :func:`add_options` decorates.
        arguments: the keyword arguments of the loss. Pairs may be tuples, numbers may be tensors,
            and ``target_entropy`` may be a function of the action spec.
        mask: whether the loss has a parameter mask; sets ``parameter_mask`` in the section.

    Raises:
        ConfigError: with a line for each problem.
    """
    options = loss.section(**({"parameter_mask": True} if mask else {}))
    names = options.arguments()
    section_options = {name: value for name, value in arguments.items() if name in names}
    data = dict(section_options)
    if "target_entropy" in section_options:
        data["target_entropy"] = _replace_functions_by_auto(section_options["target_entropy"])
    hints = {name: option.hint for name, option in options_of(options).items()}
    vars(options).update(check_values(hints, data))
    check_config(options)
    if "target_entropy" in section_options:
        options.target_entropy = section_options["target_entropy"]
    others = {name: value for name, value in arguments.items() if name not in section_options}
    if unknown := [name for name in others if name not in signature(loss.options_class).parameters]:
        lines = [f"{name}: {_ADVICE[name]}" for name in unknown if name in _ADVICE]
        synonym = _SYNONYMS.get(unknown[0], unknown[0])
        match = "".join(get_close_matches(synonym, signature(loss).parameters, n=1))
        advice = "; ".join(lines) or (f"did you mean {match}?" if match else "see its signature")
        raise ConfigError(f"{loss.__name__} has no option {', '.join(unknown)}: {advice}")
    return loss.options_class(**others), options


def _replace_functions_by_auto(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_replace_functions_by_auto(item) for item in value]
    return "auto" if callable(value) else value


def add_options(
    section: type[BaseLossConfig], others: type[LossOptions]
) -> Callable[[Class], Class]:
    """Return a class decorator that shows the options in the signature of a loss.

    Args:
        section: the section of a configuration whose fields are options of the loss.
        others: the class with the other options.

    >>> from rlkit_sac.objectives import DiscreteSACLoss
    >>> signature(DiscreteSACLoss).parameters["gamma"].default
    0.99
    """

    def add(loss: Class) -> Class:
        networks = [*signature(loss.__init__).parameters.values()][:-1]
        options = signature(section).parameters
        numbers = [options[name] for name in section().arguments()]
        names = {parameter.name for parameter in networks}
        shown = [*numbers, *signature(others).parameters.values()]
        shown = [
            parameter.replace(kind=parameter.KEYWORD_ONLY)
            for parameter in shown
            if parameter.name not in names
        ]
        loss.__init__.__signature__ = Signature([*networks, *shown])
        loss.section, loss.options_class = section, others
        return loss

    return add
