"""Blueprints: a module's builder and arguments, kept on the module, so that a file can rebuild it.

Building a policy from a blueprint is in :mod:`~rlkit_sac.modules.rebuild`.
"""

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

from rlkit_sac.errors import ConfigError, prefix_errors

#: The name of a builder (a function or class of this package), and its arguments: JSON values or
#: other blueprints.
Blueprint: TypeAlias = dict[str, Any]
P = ParamSpec("P")
ModuleT = TypeVar("ModuleT", bound=nn.Module)
#: The functions with :func:`record_arguments`, by name.
BUILDERS: dict[str, Callable[..., nn.Module]] = {}


def record_arguments(builder: Callable[P, ModuleT]) -> Callable[P, ModuleT]:
    """Make a function set the attribute ``blueprint`` on the module that it returns.

    Copies and pickles keep the blueprint; state dicts do not have it. It does not follow later
    changes of the module, and it leaves out arguments that are functions. So a user of the
    blueprint must compare the module that it describes with the actual one.

    >>> @record_arguments
    ... def layer(size):
    ...     return nn.Linear(size, size)
    >>> layer(3).blueprint
    {'builder': 'layer', 'arguments': {'size': 3}}
    """
    parameters = signature(builder)

    @wraps(builder)
    def build(*args: P.args, **kwargs: P.kwargs) -> ModuleT:
        module = builder(*args, **kwargs)
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()  # a later version may have other defaults
        plain = {name: value for name, value in bound.arguments.items() if not isfunction(value)}
        vars(module)["blueprint"] = make_blueprint(builder.__name__, **plain)
        return module

    BUILDERS[builder.__name__] = build
    return build


@record_arguments
def custom_network(builder: str, default: str, arguments: dict[str, Any]) -> nn.Module:
    """Build a network with a user's function.

    Args:
        builder: the function, as ``module:function``. It is called with this package's builder and
            the keyword arguments for it.
        default: the name of this package's builder, such as ``tanh_gaussian_actor``.
        arguments: the keyword arguments.

    Raises:
        ConfigError: for a function that cannot be imported, fails, or returns no module.

    >>> custom_network("absent:build", "categorical_actor", {})
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: absent:build made no network of categorical_actor: ...
    """
    # A user's function may not work on the device "meta".
    with prefix_errors(f"{builder} made no network of {default}", Exception), torch.device("cpu"):
        network = resolve_name(builder)(BUILDERS[default], **arguments)
    if not isinstance(network, TensorDictModuleBase):
        raise ConfigError(f"{builder} returned {network!r}, wanted a TensorDictModule")
    return network


def blueprint_property(*names: str) -> property:
    """Return a property ``blueprint`` for a class that keeps its arguments as attributes.

    Args:
        names: the names of the arguments.

    >>> class Scale(nn.Module):
    ...     factor = 2.0
    ...     blueprint = blueprint_property("factor")
    >>> Scale().blueprint
    {'builder': 'Scale', 'arguments': {'factor': 2.0}}
    """

    def blueprint(module: nn.Module) -> Blueprint | None:
        """The builder and the arguments of this module, see :mod:`rlkit_sac.modules.blueprints`."""
        return make_blueprint(type(module).__name__, **{n: getattr(module, n) for n in names})

    return property(blueprint)


def make_blueprint(builder: str, /, **arguments: Any) -> Blueprint | None:
    """Return a blueprint. Modules among the arguments become blueprints themselves.

    Args:
        builder: the name of the function or class.
        **arguments: the arguments of the call; arrays become lists.

    Returns:
        The blueprint, or ``None`` if an argument is neither a JSON value nor a module that has
        one.

    >>> make_blueprint("scale", factor=2.0)
    {'builder': 'scale', 'arguments': {'factor': 2.0}}
    >>> make_blueprint("chain", parts=[nn.Linear(1, 1)]) is None
    True
    """
    try:
        text = json.dumps(arguments, allow_nan=False, default=_json_value)
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # also for meta tensors
        return None
    return {"builder": builder, "arguments": json.loads(text)}


def get_blueprint(module: nn.Module) -> Blueprint | None:
    """Return the blueprint of a module, or ``None``. A sequence has one if all its parts have."""
    blueprint: Blueprint | None = getattr(module, "blueprint", None)
    if blueprint is None and type(module) is TensorDictSequential:
        sequence: TensorDictSequential = module
        return make_blueprint("TensorDictSequential", modules=list(sequence.module))
    return blueprint


def _json_value(value: Any) -> Any:
    if not isinstance(value, nn.Module):
        return value.tolist()
    blueprint = get_blueprint(value)
    if blueprint is None:
        raise TypeError(f"{type(value).__name__} has no blueprint")
    return blueprint
