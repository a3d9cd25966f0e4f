"""The keyword arguments of the losses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from rlkit_sac.config.loss import ReturnConfig
from rlkit_sac.config.options import NonNegativeInt, check_config, check_value, plain_value
from rlkit_sac.objectives.contract import Reduction, ScalarOutputMode

Class = TypeVar("Class", bound=type[Any])


@dataclass(frozen=True, eq=False, kw_only=True)
class LossOptions:
    r"""What every loss takes beside the fields of its section of a configuration.

    Raises:
        ConfigError: for a ``burn_in`` below 0.
    """

    reduction: Reduction = "mean"
    """``"mean"``, ``"sum"`` or ``"none"``, over the valid steps."""

    scalar_output_mode: ScalarOutputMode | None = None
    """With ``reduction="none"``, ``"exclude"`` or ``"non_tensor"`` scalars."""

    use_prioritized_weights: Literal[True, False, "auto"] = "auto"
    r"""Whether losses are weighted by ``priority_weight`` (:math:`\sum wl/\sum w`); ``"auto"``: if
    it is present."""

    burn_in: int = 0
    """Of networks with a memory, number of first steps of each row that the memories see, without
    gradient and without loss."""

    diagnostics: bool = False
    """Add statistics of the critics to the output."""

    def __post_init__(self) -> None:
        check_value("burn_in", self.burn_in, NonNegativeInt)


def read_options(
    loss: type[Any], given: Mapping[str, Any], *, mask: bool = False
) -> tuple[Any, Any]:
    """The keyword arguments of a loss, those of its section checked as in a configuration.

    Args:
        loss: the class, of :func:`takes`.
        given: its keyword arguments; pairs may be tuples, numbers tensors, and ``target_entropy``
            a function of the action spec.
        mask: whether there is a mask of parameters, which the section has as ``parameter_mask``.

    Raises:
        ConfigError: with a line for each problem.
    """
    section = loss.section
    own = {name: value for name, value in given.items() if name in section().arguments()}
    plain = {name: plain_value(_without_functions(value)) for name, value in own.items()}
    options = section(**plain, **({"parameter_mask": True} if mask else {}))
    check_config(options)
    if "target_entropy" in own:
        options.target_entropy = own["target_entropy"]
    others = {name: value for name, value in given.items() if name not in own}
    return loss.options_class(**others), options


def _without_functions(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_without_functions(each) for each in value]
    return "auto" if callable(value) else value


def takes(section: type[ReturnConfig], others: type[LossOptions]) -> Callable[[Class], Class]:
    """Let the signature of a loss show the options that its ``**options`` are.

    Args:
        section: of a configuration, whose fields the loss takes.
        others: the options that are no fields of it.

    >>> from rlkit_sac.objectives import DiscreteSACLoss
    >>> inspect.signature(DiscreteSACLoss).parameters["gamma"].default
    0.99
    """

    def add(loss: Class) -> Class:
        own = [*inspect.signature(loss.__init__).parameters.values()][:-1]
        options = inspect.signature(section).parameters
        numbers = [options[name] for name in section().arguments()]
        names = {each.name for each in own}
        shown = [*numbers, *inspect.signature(others).parameters.values()]
        shown = [each.replace(kind=each.KEYWORD_ONLY) for each in shown if each.name not in names]
        loss.__init__.__signature__ = inspect.Signature([*own, *shown])
        loss.section, loss.options_class = section, others
        return loss

    return add
