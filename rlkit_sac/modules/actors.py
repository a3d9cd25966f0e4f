"""Actors: networks that write a distribution over actions. Some share a trunk with a critic."""

from collections.abc import Sequence

import torch
from tensordict import NestedKey, unravel_key
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.data import Bounded, UnboundedContinuous
from torchrl.data import Categorical as CategoricalSpec
from torchrl.modules import ActorValueOperator, IndependentNormal, ProbabilisticActor

from rlkit_sac.errors import check_bounds
from rlkit_sac.modules.blueprints import record_arguments
from rlkit_sac.modules.distributions import TanhGaussian
from rlkit_sac.modules.dueling import Sampler, StochasticDuelingNetwork, draw_samples
from rlkit_sac.modules.encoders import EncoderOptions
from rlkit_sac.modules.layers import (
    GaussianHead,
    JoinedInputs,
    LogStdMode,
    MemoryOptions,
    StateInputs,
    perceptron,
    state_inputs,
)


@record_arguments
def tanh_gaussian_actor(
    observation_dim: int | EncoderOptions,
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
    memory: MemoryOptions | None = None,
) -> ProbabilisticActor:
    """Build a multilayer perceptron with a :class:`TanhGaussian` over a box.

    It reads ``observation`` ``[*, observation_dim]`` and writes ``loc``, ``scale`` and ``action``
    ``[*, D]``. Outside a collector it takes the squashed mean.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        action_low: lower bounds, one for each action dimension, in the units of the environment's
            ``action`` entry (-1 where actions are rescaled).
        action_high: upper bounds.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        log_std_mode: see :class:`GaussianHead`.
        log_std_min: smallest log standard deviation.
        log_std_max: largest log standard deviation.
        tanh_loc: see :class:`GaussianHead`.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        action_key: the key of the action; ``("action", "continuous")`` in a hybrid policy.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    Raises:
        ConfigError: for bounds that are not finite or not ordered, or an unknown option.

    >>> from tensordict import TensorDict
    >>> actor = tanh_gaussian_actor(3, [-2.0], [2.0])
    >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5, 1])
    """
    exact_low = torch.tensor(action_low, dtype=torch.float64, device="cpu")
    exact_high = torch.tensor(action_high, dtype=torch.float64, device="cpu")
    dtype = torch.get_default_dtype()
    low, high = exact_low.to(dtype), exact_high.to(dtype)
    check_bounds(low, high)
    head = GaussianHead(log_std_mode, log_std_min, log_std_max, tanh_loc=tanh_loc)
    state, outputs = state_inputs(observation_dim, memory, "actor"), 2 * len(action_low)
    network = perceptron(state.size, outputs, num_cells, activation, output_init=output_init)
    unit_box = bool((low == -1).all() and (high == 1).all())
    return ProbabilisticActor(
        state.precede(TensorDictModule(_chain(state, network, head), state.keys, ["loc", "scale"])),
        in_keys=["loc", "scale"],
        out_keys=[unravel_key(action_key)],
        spec=Bounded(low, high, shape=low.shape, dtype=low.dtype, device="cpu"),
        distribution_class=TanhGaussian,
        # Exact bounds, which the distribution rounds to whatever dtype the network is cast to.
        distribution_kwargs={} if unit_box else {"low": exact_low, "high": exact_high},
    )


@record_arguments
def gaussian_actor(
    observation_dim: int | EncoderOptions,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    log_std_mode: LogStdMode = "clipped_exp",
    log_std_min: float = -20.0,
    log_std_max: float = 2.0,
    tanh_loc: bool = False,
    output_init: float | None = None,
    memory: MemoryOptions | None = None,
) -> ProbabilisticActor:
    """Build a multilayer perceptron with an unsquashed diagonal Gaussian.

    It reads ``observation`` ``[*, observation_dim]`` and writes ``loc``, ``scale`` and ``action``
    ``[*, action_dim]``. An action may lie outside the bounds of the environment, which clips it.
    Outside a collector the actor takes the mean.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        action_dim: length D of the action.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        log_std_mode: see :class:`GaussianHead`.
        log_std_min: smallest log standard deviation.
        log_std_max: largest log standard deviation.
        tanh_loc: see :class:`GaussianHead`.
        output_init: weights and biases of the last layer are drawn uniformly from
            ``[-output_init, output_init]``; ``None`` (default) for PyTorch's initialization.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    Raises:
        ConfigError: for an unknown option.

    >>> from tensordict import TensorDict
    >>> actor = gaussian_actor(3, 1)
    >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5, 1])
    """
    head = GaussianHead(log_std_mode, log_std_min, log_std_max, tanh_loc=tanh_loc)
    state = state_inputs(observation_dim, memory, "actor")
    network = perceptron(state.size, 2 * action_dim, num_cells, activation, output_init=output_init)
    return gaussian_policy(_chain(state, network, head), action_dim, state)


def gaussian_policy(network: nn.Module, action_dim: int, state: StateInputs) -> ProbabilisticActor:
    """Build an actor with a diagonal Gaussian whose parameters are a network's outputs.

    Args:
        network: a network that returns mean and standard deviation, ``[*, action_dim]`` each.
        action_dim: length D of the action.
        state: the inputs of the network.

    >>> gaussian_policy(GaussianHead(), 1, StateInputs(2, ["observation"], [])).out_keys
    ['loc', 'scale', 'action']
    """
    return ProbabilisticActor(
        state.precede(TensorDictModule(network, state.keys, ["loc", "scale"])),
        in_keys=["loc", "scale"],
        out_keys=["action"],
        spec=UnboundedContinuous(action_dim, device="cpu"),
        distribution_class=IndependentNormal,
        distribution_kwargs={"validate_args": False},  # validation reads values in every call
    )


@record_arguments
def categorical_actor(
    observation_dim: int | EncoderOptions,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    action_key: NestedKey = "action",
    memory: MemoryOptions | None = None,
) -> ProbabilisticActor:
    """Build a multilayer perceptron with a categorical distribution.

    It reads ``observation`` ``[*, observation_dim]`` and writes ``logits`` ``[*, num_actions]`` and
    ``action``, an index int64 ``[*]``. Outside a collector it takes the most likely action.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        num_actions: number K of discrete actions.
        num_cells: widths of the hidden layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        action_key: the key of the action; ``("action", "discrete")`` in a hybrid policy.
        memory: options of a memory of earlier steps, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    >>> from tensordict import TensorDict
    >>> actor = categorical_actor(3, 2)
    >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
    torch.Size([5])
    """
    state = state_inputs(observation_dim, memory, "actor")
    network = perceptron(state.size, num_actions, num_cells, activation)
    return categorical_policy(network, num_actions, state, action_key)


def categorical_policy(
    network: nn.Module,
    num_actions: int,
    state: StateInputs,
    action_key: NestedKey = "action",
) -> ProbabilisticActor:
    """Build an actor with a categorical distribution whose logits are a network's outputs.

    Args:
        network: a network that returns logits ``[*, num_actions]``.
        num_actions: number K of discrete actions.
        state: the inputs of the network.
        action_key: the entry that the action is written to.

    >>> categorical_policy(nn.Linear(8, 2), 2, StateInputs(8, ["hidden"], [])).out_keys
    ['logits', 'action']
    """
    return ProbabilisticActor(
        state.precede(TensorDictModule(network, state.keys, ["logits"])),
        in_keys=["logits"],
        out_keys=[unravel_key(action_key)],
        spec=CategoricalSpec(num_actions, device="cpu"),
        distribution_class=Categorical,
    )


@record_arguments
def categorical_actor_critic(
    observation_dim: int | EncoderOptions,
    num_actions: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    memory: MemoryOptions | None = None,
) -> ActorValueOperator:
    """Build a trunk with two linear heads: a categorical policy and the value of each action.

    It reads ``observation`` ``[*, observation_dim]`` and writes ``hidden``, ``logits`` and
    ``action_value`` ``[*, num_actions]``, and ``action``, an index int64 ``[*]``.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        num_actions: number K of discrete actions.
        num_cells: widths of the trunk's layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        memory: options of a memory in the trunk, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    >>> from tensordict import TensorDict
    >>> both = categorical_actor_critic(3, 2)
    >>> both(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action_value"].shape
    torch.Size([5, 2])
    """
    trunk = _make_trunk(observation_dim, num_cells, activation, memory)
    width = num_cells[-1]
    hidden = StateInputs(width, ["hidden"], [])
    policy = categorical_policy(nn.Linear(width, num_actions), num_actions, hidden)
    critic = TensorDictModule(nn.Linear(width, num_actions), ["hidden"], ["action_value"])
    return ActorValueOperator(trunk, policy, critic)


@record_arguments
def gaussian_actor_critic(
    observation_dim: int | EncoderOptions,
    action_dim: int,
    *,
    num_cells: Sequence[int] = (256, 256),
    activation: str = "relu",
    log_std_mode: LogStdMode = "clipped_exp",
    log_std_min: float = -20.0,
    log_std_max: float = 2.0,
    num_samples: int = 5,
    sampler: Sampler = draw_samples,
    memory: MemoryOptions | None = None,
) -> ActorValueOperator:
    """Build a trunk with two heads: a Gaussian policy and a stochastic dueling network.

    Policy and V are linear in the trunk's output; A has one hidden layer of the same width.

    It reads ``observation`` ``[*, observation_dim]`` and writes ``hidden``, ``loc``, ``scale`` and
    ``action`` ``[*, action_dim]``, ``state_value`` and ``state_action_value`` ``[*, 1]``.

    Args:
        observation_dim: length of the observation, or
            :class:`~rlkit_sac.modules.EncoderOptions` of images.
        action_dim: length D of the action.
        num_cells: widths of the trunk's layers.
        activation: one of :data:`rlkit_sac.modules.layers.ACTIVATIONS`.
        log_std_mode: see :class:`~rlkit_sac.modules.GaussianHead`.
        log_std_min: smallest log standard deviation.
        log_std_max: largest log standard deviation.
        num_samples: see :class:`~rlkit_sac.modules.StochasticDuelingNetwork`.
        sampler: see :class:`~rlkit_sac.modules.StochasticDuelingNetwork`.
        memory: options of a memory in the trunk, see
            :class:`~rlkit_sac.modules.MemoryOptions`. Default none.

    Raises:
        ConfigError: for an unknown option.

    >>> from tensordict import TensorDict
    >>> both = gaussian_actor_critic(3, 1)
    >>> both(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["state_value"].shape
    torch.Size([5, 1])
    """
    trunk = _make_trunk(observation_dim, num_cells, activation, memory)
    width = num_cells[-1]
    head = GaussianHead(log_std_mode, log_std_min, log_std_max)
    layers = nn.Sequential(nn.Linear(width, 2 * action_dim), head)
    policy = gaussian_policy(layers, action_dim, StateInputs(width, ["hidden"], []))
    advantage = perceptron(width + action_dim, 1, [width], activation)
    critic = StochasticDuelingNetwork(
        TensorDictModule(nn.Linear(width, 1), ["hidden"], ["state_value"]),
        TensorDictModule(advantage, ["hidden", "action"], ["advantage"]),
        num_samples,
        sampler=sampler,
    )
    return ActorValueOperator(trunk, policy, critic)


@record_arguments
def policy_operator(actor_critic: ActorValueOperator) -> ProbabilisticTensorDictSequential:
    """Return the actor of an actor and a critic that share a trunk.

    Args:
        actor_critic: the actor and the critic; the result shares their weights.

    >>> policy_operator(categorical_actor_critic(3, 2)).out_keys
    ['hidden', 'logits', 'action']
    """
    return actor_critic.get_policy_operator()


def _chain(state: StateInputs, *layers: nn.Module) -> nn.Sequential:
    return JoinedInputs(*layers) if len(state.keys) > 1 else nn.Sequential(*layers)


def _make_trunk(
    observation_dim: int | EncoderOptions,
    num_cells: Sequence[int],
    activation: str,
    memory: MemoryOptions | None,
) -> TensorDictModule | TensorDictSequential:
    *hidden, width = num_cells
    state = state_inputs(observation_dim, memory, "actor")
    network = perceptron(state.size, width, hidden, activation, activate_last_layer=True)
    return state.precede(TensorDictModule(network, state.keys, ["hidden"]))
