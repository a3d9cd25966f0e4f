"""Actors: networks with a distribution over actions."""

from collections.abc import Sequence
from typing import Literal

import torch
from tensordict import NestedKey, unravel_key
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded, UnboundedContinuous
from torchrl.data import Categorical as CategoricalSpec
from torchrl.modules import IndependentNormal, ProbabilisticActor

from rlkit_sac.errors import ConfigError
from rlkit_sac.modules.box import check_box
from rlkit_sac.modules.distributions import TanhGaussian
from rlkit_sac.modules.perceptron import perceptron

LogStdMode = Literal["clipped_exp", "tanh"]


class GaussianHead(nn.Module):
    r"""Splits a network's output into the mean and the standard deviation of a Gaussian.

    ``"clipped_exp"`` clamps :math:`\log\sigma` to ``[log_std_min, log_std_max]``; ``"tanh"``
    rescales :math:`\tanh` of the output to that interval, which keeps a gradient everywhere.

    Args:
        log_std_mode: ``"clipped_exp"`` or ``"tanh"``.
        log_std_min: smallest :math:`\log\sigma`.
        log_std_max: largest :math:`\log\sigma`.
        tanh_loc: keep the mean in [-1, 1] by a tanh of its own.

    Raises:
        ConfigError: for an unknown mode or an empty interval.

    >>> loc, scale = GaussianHead()(torch.tensor([0.5, 7.0]))
    >>> loc, scale.log()
    (tensor([0.5000]), tensor([2.]))
    """

    def __init__(
        self,
        log_std_mode: LogStdMode = "clipped_exp",
        log_std_min: float = -20.0,
        log_std_max: float = 2.0,
        *,
        tanh_loc: bool = False,
    ) -> None:
        super().__init__()
        if log_std_mode not in ("clipped_exp", "tanh"):
            raise ConfigError(f"log_std_mode {log_std_mode!r} is not 'clipped_exp' or 'tanh'")
        if not log_std_min < log_std_max:
            raise ConfigError(
                f"log_std_min ({log_std_min}) must be smaller than log_std_max ({log_std_max})"
            )
        self.log_std_mode = log_std_mode
        self.log_std_min, self.log_std_max = log_std_min, log_std_max
        self.tanh_loc = tanh_loc

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``[*, 2 D]`` to the mean and the standard deviation, ``[*, D]`` each."""
        loc, log_std = features.chunk(2, -1)
        if self.log_std_mode == "tanh":
            middle = 0.5 * (self.log_std_max + self.log_std_min)
            log_std = middle + 0.5 * (self.log_std_max - self.log_std_min) * log_std.tanh()
        else:
            log_std = log_std.clamp(self.log_std_min, self.log_std_max)
        return loc.tanh() if self.tanh_loc else loc, log_std.exp()


def tanh_gaussian_actor(
    observation_dim: int,
    action_low: Sequence[float],
    action_high: Sequence[float],
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    log_std_mode: LogStdMode = "clipped_exp",
    log_std_min: float = -20.0,
    log_std_max: float = 2.0,
    tanh_loc: bool = False,
    output_init: float | None = None,
    action_key: NestedKey = "action",
) -> ProbabilisticActor:
    """A multilayer perceptron with a :class:`TanhGaussian` over a box.

    Reads ``observation`` ``[*, observation_dim]``; writes ``loc``, ``scale`` and ``action``
    ``[*, D]``. Outside a collector it takes the squashed mean.

    Args:
        observation_dim: length of the observation.
        action_low: lower bounds, one for each action dimension, in the units of the environment's
            ``action`` entry (-1 where actions are rescaled).
        action_high: upper bounds.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        log_std_mode: see :class:`GaussianHead`.
        log_std_min: smallest log standard deviation.
        log_std_max: largest log standard deviation.
        tanh_loc: see :class:`GaussianHead`.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        action_key: where to write the action; ``("action", "continuous")`` in a hybrid policy.

    Raises:
        ConfigError: for bounds that are not finite or not ordered, or an unknown option.

    >>> from tensordict import TensorDict
    >>> actor = tanh_gaussian_actor(3, [-2.0], [2.0])
    >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5, 1])
    """
    exact_low = torch.tensor(action_low, dtype=torch.float64)
    exact_high = torch.tensor(action_high, dtype=torch.float64)
    dtype = torch.get_default_dtype()
    low, high = exact_low.to(dtype), exact_high.to(dtype)
    check_box(low, high)
    head = GaussianHead(log_std_mode, log_std_min, log_std_max, tanh_loc=tanh_loc)
    outputs = 2 * len(action_low)
    network = perceptron(observation_dim, outputs, num_cells, activation, output_init=output_init)
    unit_box = bool((low == -1).all() and (high == 1).all())
    return ProbabilisticActor(
        TensorDictModule(nn.Sequential(network, head), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=[unravel_key(action_key)],
        spec=Bounded(low, high, shape=low.shape, dtype=low.dtype),
        distribution_class=TanhGaussian,
        # Exact bounds, which the distribution rounds to whatever dtype the network is cast to.
        distribution_kwargs={} if unit_box else {"low": exact_low, "high": exact_high},
    )


def gaussian_actor(
    observation_dim: int,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    log_std_mode: LogStdMode = "clipped_exp",
    log_std_min: float = -20.0,
    log_std_max: float = 2.0,
    tanh_loc: bool = False,
    output_init: float | None = None,
) -> ProbabilisticActor:
    """A multilayer perceptron with an unsquashed diagonal Gaussian.

    Reads ``observation`` ``[*, observation_dim]``; writes ``loc``, ``scale`` and ``action``
    ``[*, action_dim]``. An action may lie outside of the bounds of the environment, which clips it.
    Outside a collector it takes the mean.

    Args:
        observation_dim: length of the observation.
        action_dim: length D of the action.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.
        log_std_mode: see :class:`GaussianHead`.
        log_std_min: smallest log standard deviation.
        log_std_max: largest log standard deviation.
        tanh_loc: see :class:`GaussianHead`.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.

    Raises:
        ConfigError: for an unknown option.

    >>> from tensordict import TensorDict
    >>> actor = gaussian_actor(3, 1)
    >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5, 1])
    """
    head = GaussianHead(log_std_mode, log_std_min, log_std_max, tanh_loc=tanh_loc)
    network = perceptron(
        observation_dim, 2 * action_dim, num_cells, activation, output_init=output_init
    )
    return gaussian_policy(nn.Sequential(network, head), action_dim)


def gaussian_policy(
    network: nn.Module, action_dim: int, in_key: str = "observation"
) -> ProbabilisticActor:
    """A diagonal Gaussian whose parameters are a network's outputs.

    Args:
        network: returns mean and standard deviation, ``[*, action_dim]`` each.
        action_dim: length D of the action.
        in_key: what the network reads.

    >>> gaussian_policy(GaussianHead(), 1).out_keys
    ['loc', 'scale', 'action']
    """
    return ProbabilisticActor(
        TensorDictModule(network, [in_key], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        spec=UnboundedContinuous(action_dim),
        distribution_class=IndependentNormal,
        distribution_kwargs={"validate_args": False},  # it would read the values at every call
    )


def categorical_actor(
    observation_dim: int,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
) -> ProbabilisticActor:
    """A multilayer perceptron with a categorical distribution.

    Reads ``observation`` ``[*, observation_dim]``; writes ``logits`` ``[*, num_actions]`` and
    ``action``, an index int64 ``[*]``. Outside a collector it takes the most likely action.

    Args:
        observation_dim: length of the observation.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.activations.ACTIVATIONS`.

    Raises:
        ConfigError: for an unknown activation.

    >>> from tensordict import TensorDict
    >>> actor = categorical_actor(3, 2)
    >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5])
    """
    network = perceptron(observation_dim, num_actions, num_cells, activation)
    return categorical_policy(network, num_actions)


def categorical_policy(
    network: nn.Module, num_actions: int, in_key: str = "observation"
) -> ProbabilisticActor:
    """A categorical distribution whose logits are a network's outputs.

    Args:
        network: returns logits ``[*, num_actions]``.
        num_actions: number K of discrete actions.
        in_key: what the network reads.

    >>> categorical_policy(nn.Linear(8, 2), 2, "hidden").out_keys
    ['logits', 'action']
    """
    return ProbabilisticActor(
        TensorDictModule(network, [in_key], ["logits"]),
        in_keys=["logits"],
        out_keys=["action"],
        spec=CategoricalSpec(num_actions),
        distribution_class=Categorical,
    )
