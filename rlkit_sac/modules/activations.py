"""The activations a configuration can name."""

from torch import nn

from rlkit_sac.errors import ConfigError

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}


def activation_class(name: str) -> type[nn.Module]:
    """The module class of an activation.

    Raises:
        ConfigError: for a name not in :data:`ACTIVATIONS`.

    >>> activation_class("relu")
    <class 'torch.nn.modules.activation.ReLU'>
    """
    if name not in ACTIVATIONS:
        raise ConfigError(f"activation {name!r} is not one of {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]
