"""How a module was built, noted on the module, so that a file can say how to build it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from inspect import isfunction, signature
from pkgutil import resolve_name
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import nn

from rlkit_sac.errors import ConfigError, summary

#: The name of a function or class of this package and its arguments, JSON values and other notes.
Note: TypeAlias = dict[str, Any]
P = ParamSpec("P")
ModuleT = TypeVar("ModuleT", bound=nn.Module)
#: The functions that note their arguments, by name.
BUILDERS: dict[str, Callable[..., nn.Module]] = {}


def note_arguments(builder: Callable[P, ModuleT]) -> Callable[P, ModuleT]:
    """Let a function note its name and arguments on the module that it returns.

    The note is a plain attribute ``note``, which copies and pickles keep and state dicts do not
    have. It does not follow later changes of the module, and leaves out arguments that are
    functions: whoever uses it compares what it describes with the module.

    >>> @note_arguments
    ... def layer(size):
    ...     return nn.Linear(size, size)
    >>> layer(3).note
    {'builder': 'layer', 'arguments': {'size': 3}}
    """
    parameters = signature(builder)

    @wraps(builder)
    def build(*args: P.args, **kwargs: P.kwargs) -> ModuleT:
        module = builder(*args, **kwargs)
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()  # which may be others in a later version
        plain = {name: value for name, value in bound.arguments.items() if not isfunction(value)}
        vars(module)["note"] = make_note(builder.__name__, **plain)
        return module

    BUILDERS[builder.__name__] = build
    return build


@note_arguments
def custom_network(builder: str, default: str, arguments: dict[str, Any]) -> nn.Module:
    """The network that a function of one's own makes.

    Args:
        builder: ``module:function``, called with the function of the package that makes such a
            network, and the keyword arguments of that.
        default: name of that function, such as ``tanh_gaussian_actor``.
        arguments: of the network.

    Raises:
        ConfigError: the function cannot be imported, or returned no module.

    >>> custom_network("absent:build", "categorical_actor", {})
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: absent:build made no network of categorical_actor: ...
    """
    try:
        with torch.device("cpu"):  # also where the shapes of a policy are built without memory
            network = resolve_name(builder)(BUILDERS[default], **arguments)
    except Exception as error:
        raise ConfigError(f"{builder} made no network of {default}: {summary(error)}") from error
    if not isinstance(network, TensorDictModuleBase):
        raise ConfigError(f"{builder} returned {network!r}, wanted a TensorDictModule")
    return network


def note_property(*names: str) -> property:
    """The property ``note`` of a class whose arguments are attributes of the same names.

    >>> class Scale(nn.Module):
    ...     factor = 2.0
    ...     note = note_property("factor")
    >>> Scale().note
    {'builder': 'Scale', 'arguments': {'factor': 2.0}}
    """

    def note(module: nn.Module) -> Note | None:
        """How to build it, see :mod:`rlkit_sac.modules.notes`."""
        return make_note(type(module).__name__, **{name: getattr(module, name) for name in names})

    return property(note)


def make_note(builder: str, /, **arguments: Any) -> Note | None:
    """A note, in which each module among the arguments stands for its own.

    Args:
        builder: name of the function or class.
        **arguments: what it was called with; arrays become lists.

    Returns:
        ``None`` if an argument is neither a JSON value nor a module with a note.

    >>> make_note("scale", factor=2.0)
    {'builder': 'scale', 'arguments': {'factor': 2.0}}
    >>> make_note("chain", parts=[nn.Linear(1, 1)]) is None
    True
    """
    try:
        text = json.dumps(arguments, allow_nan=False, default=_json_value)
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # of meta tensors, too
        return None
    return {"builder": builder, "arguments": json.loads(text)}


def get_note(module: nn.Module) -> Note | None:
    """The note of a module, ``None`` without one; of a sequence without, its parts together."""
    note: Note | None = getattr(module, "note", None)
    if note is None and type(module) is TensorDictSequential:
        sequence: TensorDictSequential = module
        return make_note("TensorDictSequential", modules=list(sequence.module))
    return note


def _json_value(value: Any) -> Any:
    if not isinstance(value, nn.Module):
        return value.tolist()
    note = get_note(value)
    if note is None:
        raise TypeError(f"{type(value).__name__} has no note")
    return note
