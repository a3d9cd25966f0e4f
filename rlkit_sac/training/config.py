"""Configuration dataclasses that recipes compose; the text under a field is its ``--help``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from rlkit_sac.capture import Products
from rlkit_sac.data import CollectorKind
from rlkit_sac.training.bounds import (
    Bound,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

AlphaParametrization = Literal["log", "exp", "direct"]
T = TypeVar("T")


@dataclass
class EnvConfig:
    """The task and how many copies of it run side by side.

    >>> EnvConfig(id="HalfCheetah-v5").num_envs
    1
    """

    id: str = "Pendulum-v1"
    """Gymnasium id of the task."""

    num_envs: PositiveInt = 1
    """Environments stepped together."""

    parallel: bool = False
    """Run each environment in its own process."""

    rescale_actions: bool = True
    """Present bounded continuous actions to the policy as [-1, 1]."""

    max_episode_steps: PositiveInt | None = None
    """Time limit in frames; null keeps the task's own."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of gymnasium.make, for example {goal_velocity: 0.1}."""


@dataclass
class CollectorConfig:
    """How frames are gathered, and when learning begins.

    >>> CollectorConfig(total_frames=500).init_random_frames
    1000
    >>> CollectorConfig().batch_frames(num_envs=4)
    4
    """

    total_frames: PositiveInt = 10_000
    """Environment steps of the whole run, all environments together; the last batch is whole."""

    frames_per_batch: PositiveInt | None = None
    """Frames collected between two rounds of updates; null for one of each environment."""

    init_random_frames: NonNegativeInt = 1_000
    """First frames, whose actions are drawn uniformly; rounded up to whole batches."""

    learning_starts: NonNegativeInt = 1_000
    """Frames collected before the first update."""

    kind: CollectorKind = "auto"
    """light steps environments in a plain loop, torchrl uses TorchRL's collector, auto chooses."""

    def batch_frames(self, num_envs: int) -> int:
        """Frames of one batch: ``frames_per_batch``, or one of each environment.

        Args:
            num_envs: environments that step together.
        """
        return num_envs if self.frames_per_batch is None else self.frames_per_batch


@dataclass
class ReplayConfig:
    """Size and place of the replay buffer.

    >>> ReplayConfig(capacity=100).errors()
    [('capacity', 'must be at least batch_size (256), got 100')]
    """

    capacity: PositiveInt = 1_000_000
    """Transitions kept; the oldest are overwritten."""

    batch_size: PositiveInt = 256
    """Transitions sampled for one update."""

    storage: Literal["tensor", "memmap"] = "tensor"
    """Where transitions lie: in memory, or in memory-mapped files on disk."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.capacity >= self.batch_size:
            return []
        text = f"must be at least batch_size ({self.batch_size}), got {self.capacity}"
        return [("capacity", text)]


@dataclass
class NetworkConfig:
    """Shape of each network.

    >>> NetworkConfig(num_cells=[64, 64]).activation
    'relu'
    """

    num_cells: list[PositiveInt] = field(default_factory=lambda: [256, 256])
    """Widths of the hidden layers."""

    activation: Literal["relu", "tanh", "elu", "silu", "gelu"] = "relu"
    """Function between layers."""


@dataclass
class GaussianNetworkConfig(NetworkConfig):
    """Shape of the critics and of an actor with a Gaussian head.

    >>> GaussianNetworkConfig(log_std_min=3.0).errors()
    [('log_std_min', 'must be below log_std_max (2.0), got 3.0')]
    """

    log_std_mode: Literal["clipped_exp", "tanh"] = "clipped_exp"
    """How log_std is kept in its range: clamped, or rescaled through tanh."""

    log_std_min: float = -20.0
    """Smallest log standard deviation of the actor."""

    log_std_max: float = 2.0
    """Largest log standard deviation of the actor."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.log_std_min < self.log_std_max:
            return []
        text = f"must be below log_std_max ({self.log_std_max}), got {self.log_std_min}"
        return [("log_std_min", text)]


@dataclass
class LossConfig:
    """Options that the soft actor-critic losses of all action spaces share.

    >>> LossConfig(gamma=0.9).num_qvalue_nets
    2
    """

    gamma: Annotated[float, Bound(ge=0, le=1)] = 0.99
    """Discount per frame."""

    num_qvalue_nets: PositiveInt = 2
    """Critics in the ensemble; targets use their minimum."""

    loss_function: Literal["l1", "l2", "smooth_l1"] = "l2"
    """Distance between a critic's value and its target."""

    qvalue_coef: NonNegativeFloat = 1.0
    """Factor on the critic loss."""

    reward_scale: PositiveFloat = 1.0
    """Factor on rewards in training; reported returns are unscaled."""

    reward_weights: list[float] | None = None
    """Weights of a vector reward, one for each dimension; null for ones."""

    reward_weights_at: dict[int, list[float]] = field(default_factory=dict)
    """Other weights from some frames on, for example {50000: [1.0, 0.5]}."""

    min_prob: Annotated[float, Bound(gt=0, le=1)] = 0.1
    """p of the auto target entropy: of a continuous action's range a uniform policy covers the
    share p; of discrete actions a policy leaves the probability p to all but one."""

    use_entropy_reward: bool = True
    """Add the entropy bonus to the value of the next state."""

    normalize_entropy_reward: bool = False
    """Subtract a running mean of the log-probability from the entropy bonus."""

    policy_loss_steps: Literal["first", "all"] = "first"
    """States of the actor and temperature losses: s alone, or s' as well."""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the loss, which knows no frames."""
        arguments = asdict(self)
        del arguments["reward_weights_at"]
        return arguments


@dataclass
class TemperatureConfig:
    """One temperature alpha.

    >>> TemperatureConfig(min_alpha=0.5, max_alpha=0.1).errors()
    [('min_alpha', 'must not exceed max_alpha (0.1), got 0.5')]
    """

    alpha_init: PositiveFloat = 1.0
    """First value of the temperature alpha, moved inside its limits."""

    min_alpha: PositiveFloat | None = None
    """Lower limit of alpha; null for none."""

    max_alpha: PositiveFloat | None = None
    """Upper limit of alpha; null for none."""

    fixed_alpha: bool = False
    """Keep alpha at alpha_init instead of learning it."""

    alpha_parametrization: AlphaParametrization = "log"
    """Factor of the temperature loss: log alpha, exp(log alpha), or a directly learned alpha."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        return _crossed(self.min_alpha, self.max_alpha)


@dataclass
class ContinuousLossConfig(TemperatureConfig, LossConfig):
    """Options of the soft actor-critic loss for continuous actions.

    >>> ContinuousLossConfig().target_entropy
    'auto'
    """

    target_entropy: float | Literal["auto", "neg_dim"] = "auto"
    """Entropy the temperature aims at, in nats; auto uses min_prob, neg_dim is -dim(action)."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""


@dataclass
class DiscreteLossConfig(TemperatureConfig, LossConfig):
    """Options of the soft actor-critic loss for discrete actions.

    >>> DiscreteLossConfig().discrete_entropy
    'expected'
    """

    target_entropy: float | Literal["auto", "scaled_log_k"] = "auto"
    """Entropy the temperature aims at, in nats; auto uses min_prob, scaled_log_k is 0.98 log K of K
    actions."""

    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """Take the exact entropy, or that of one sampled action."""


@dataclass
class HybridLossConfig(LossConfig):
    """Options of the soft actor-critic loss for actions that are discrete and continuous at once.

    >>> HybridLossConfig(alpha_init=[0.1, 0.5, 1.0]).errors()
    [('alpha_init', 'must be one value or a [discrete, continuous] pair, got [0.1, 0.5, 1.0]')]
    """

    alpha_init: PositiveFloat | list[PositiveFloat] = 1.0
    """First value of the temperatures alpha, moved inside their limits: one value for both or a
    [discrete, continuous] pair, as in the next four options and target_entropy."""

    min_alpha: PositiveFloat | list[PositiveFloat | None] | None = None
    """Lower limit of alpha; null for none."""

    max_alpha: PositiveFloat | list[PositiveFloat | None] | None = None
    """Upper limit of alpha; null for none."""

    fixed_alpha: bool | list[bool] = False
    """Keep alpha at alpha_init instead of learning it."""

    alpha_parametrization: AlphaParametrization | list[AlphaParametrization] = "log"
    """Factor of the temperature loss: log alpha, exp(log alpha), or a directly learned alpha."""

    target_entropy: (
        float
        | Literal["auto", "scaled_log_k", "neg_dim"]
        | list[float | Literal["auto", "scaled_log_k", "neg_dim"]]
    ) = "auto"
    """Entropies the temperatures aim at, in nats: auto uses min_prob; scaled_log_k is 0.98 log K,
    of the K discrete actions alone; neg_dim is minus the dimensions, of the continuous part
    alone."""

    parameter_mask: bool = False
    """Count a continuous dimension's entropy only as far as the discrete action uses it, where each
    discrete action of the task has parameters of its own."""

    discrete_entropy: Literal["expected", "sampled"] = "expected"
    """Take the exact discrete entropy, or that of one sampled action."""

    dqda_clipping: NonNegativeFloat | None = None
    """Element-wise limit of dQ/da in the actor loss; null or 0 for none."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        pairs = {name: getattr(self, name) for name in _PER_FACTOR}
        found = [
            (name, f"must be one value or a [discrete, continuous] pair, got {value}")
            for name, value in pairs.items()
            if isinstance(value, list) and len(value) != 2
        ]
        if found:
            return found
        (low, lower), (high, upper) = _pair(self.min_alpha), _pair(self.max_alpha)
        found = _crossed(low, high) or _crossed(lower, upper)
        discrete, continuous = _pair(self.target_entropy)
        if discrete == "neg_dim" or continuous == "scaled_log_k":
            text = "scaled_log_k is for the discrete part and neg_dim for the continuous one: write"
            found.append(("target_entropy", f"{text} a pair like [scaled_log_k, neg_dim]"))
        return found


@dataclass
class UpdateConfig:
    """The gradient step: what is optimized, in which order, how fast.

    >>> UpdateConfig(order=["joint", "actor", "target"]).errors()
    [('order', "'joint' already holds every loss: remove 'actor'")]
    """

    trained: ClassVar[tuple[str, ...]] = ("actor", "qvalue")
    """Networks that an order must train for the policy to learn."""

    lr_actor: PositiveFloat = 3e-4
    """Learning rate of the actor."""

    lr_qvalue: PositiveFloat = 1e-3
    """Learning rate of the critics."""

    lr_alpha: PositiveFloat = 1e-3
    """Learning rate of the temperature."""

    utd_ratio: PositiveFloat = 1.0
    """Updates per frame."""

    order: list[Literal["joint", "actor", "qvalue", "alpha", "target"]] = field(
        default_factory=lambda: ["joint", "target"]
    )
    """Steps of one update, in order; joint takes all losses at once, target moves the targets."""

    periods: dict[str, PositiveInt] = field(default_factory=dict)
    """Updates between two runs of a step, for example {actor: 2}; 1 where not named."""

    recompute: bool = False
    """Compute the losses anew for each step of order instead of once for all."""

    max_grad_norm: PositiveFloat | None = None
    """Largest gradient norm of each optimizer group; null for no limit."""

    target_update_tau: Annotated[float, Bound(gt=0, le=1)] = 0.005
    """Polyak rate tau of the target critics."""

    adam_eps: PositiveFloat = 1e-8
    """Term added to Adam's denominator."""

    products: Products = "auto"
    """CPU matrix products: exact as PyTorch has them, auto as exact but fast, or bfloat16."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        losses = [step for step in self.order if step != "target"]
        found = []
        missing = [] if "joint" in losses else [x for x in self.trained if x not in losses]
        missing += [] if "target" in self.order else ["target"]
        if missing:
            names = " and ".join(f"'{name}'" for name in missing)
            found.append(("order", f"must also name {names} for the policy to learn"))
        if len(set(self.order)) != len(self.order):
            found.append(("order", f"must name each step once, got {self.order}"))
        elif "joint" in losses and len(losses) > 1:
            others = ", ".join(f"'{step}'" for step in losses if step != "joint")
            found.append(("order", f"'joint' already holds every loss: remove {others}"))
        found += [
            ("periods", f"must name steps of order {self.order}, got '{step}'")
            for step in self.periods
            if step not in self.order
        ]
        return found


@dataclass
class DiscreteUpdateConfig(UpdateConfig):
    """The gradient step where the critics may be the policy, without an actor.

    >>> DiscreteUpdateConfig(order=["qvalue", "alpha", "target"]).errors()
    []
    """

    trained: ClassVar[tuple[str, ...]] = ("qvalue",)


@dataclass
class EvaluationConfig:
    """When and how the policy is evaluated during training.

    >>> EvaluationConfig().episodes
    10
    """

    interval: PositiveInt = 2_500
    """Frames between two evaluations."""

    episodes: PositiveInt = 10
    """Episodes of one evaluation."""

    deterministic: bool = True
    """Act with the mode of the policy instead of a sample."""

    epsilon: Annotated[float, Bound(ge=0, le=1)] = 0.0
    """Probability with which each action of a deterministic evaluation is a sample after all."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if self.deterministic or not self.epsilon:
            return []
        text = f"must be 0 unless deterministic is true, got {self.epsilon}"
        return [("epsilon", text)]


@dataclass
class LoggingConfig:
    """Where a run is written and what it shows.

    >>> LoggingConfig().dir
    'runs'
    """

    dir: str = "runs"
    """Folder under which each run gets its own directory."""

    interval: PositiveInt = 500
    """Frames between two rows of metrics.csv."""

    progress: bool = True
    """Show a progress bar."""

    tensorboard: bool = False
    """Also write the numbers of the CSV files for TensorBoard."""

    wandb: bool = False
    """Also send the numbers of the CSV files to Weights & Biases."""

    wandb_project: str = "rlkit_sac"
    """Project of Weights & Biases that the run belongs to."""


@dataclass
class CheckpointConfig:
    """How often the whole state of a run is saved, and how much of it stays.

    >>> CheckpointConfig().keep
    2
    """

    interval: PositiveInt = 5_000
    """Frames between two checkpoints."""

    keep: PositiveInt = 2
    """Newest checkpoints kept, besides that of the best evaluation."""


@dataclass
class WarmStartConfig:
    """Modules that begin with the values another run ended with.

    >>> WarmStartConfig(run="runs/sac/Ant-v5/first", modules=["actor"]).errors()
    []
    """

    run: str | None = None
    """Run directory whose newest checkpoint gives first values to some modules; null for none."""

    modules: list[Literal["actor", "qvalue", "alpha"]] = field(
        default_factory=lambda: ["actor", "qvalue", "alpha"]
    )
    """Which modules: actor, qvalue (critics and their targets), alpha."""

    def errors(self) -> list[tuple[str, str]]:
        """List the conditions between fields that do not hold."""
        if len(set(self.modules)) != len(self.modules):
            return [("modules", f"must name each module once, got {self.modules}")]
        if self.run is not None and not self.modules:
            return [("modules", "must name at least one module to take from run")]
        return []


#: Options of a hybrid loss that may be pairs.
_PER_FACTOR = (
    *("alpha_init", "min_alpha", "max_alpha", "fixed_alpha", "alpha_parametrization"),
    "target_entropy",
)


def _pair(option: T | list[T]) -> tuple[T, T]:
    """The (discrete, continuous) values of an option."""
    if isinstance(option, list):
        discrete, continuous = option
        return discrete, continuous
    return option, option


def _crossed(low: float | None, high: float | None) -> list[tuple[str, str]]:
    if low is None or high is None or low <= high:
        return []
    return [("min_alpha", f"must not exceed max_alpha ({high}), got {low}")]
