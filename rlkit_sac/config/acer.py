"""The options of actor-critic with experience replay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from rlkit_sac.config.collection import BaseCollectorConfig, BaseReplayConfig
from rlkit_sac.config.loss import BaseLossConfig
from rlkit_sac.config.network import GaussianHeadConfig
from rlkit_sac.config.options import (
    ModestInt,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Widths,
)
from rlkit_sac.config.run import WarmStartConfig
from rlkit_sac.config.update import BaseUpdateConfig


@dataclass
class ACERCollectorConfig(BaseCollectorConfig):
    """Options of the collection of segments.

    >>> ACERCollectorConfig(t_max=20).batch_frames(num_envs=8)
    160
    """

    init_random_frames: NonNegativeInt = 0
    """Number of first frames with random actions: indices are drawn uniformly, vectors from a
    Gaussian around the middle of their bounds. It is rounded up to whole batches, which give no
    on-policy updates."""

    t_max: PositiveInt = 20
    """Frames from each environment between two rounds of updates; the longest replayed segment."""

    def batch_frames(self, num_envs: int) -> int:
        """Return the number of frames in a batch: ``t_max`` from each environment.

        Args:
            num_envs: the number of environments stepped together.
        """
        return self.t_max * num_envs


@dataclass
class ACERReplayConfig(BaseReplayConfig):
    """Size and place of the replay buffer.

    >>> ACERReplayConfig().batch_size
    8
    """

    capacity: PositiveInt = 10_000

    batch_size: PositiveInt = 8
    """Number of segments sampled for each update."""


@dataclass
class ACERNetworkConfig(GaussianHeadConfig):
    """The networks of actor and critic.

    >>> ACERNetworkConfig().activation
    'tanh'
    """

    num_cells: Widths = field(default_factory=lambda: [64, 64])

    activation: Literal["relu", "tanh", "elu", "silu", "gelu"] = "tanh"

    shared_trunk: bool = False
    """Make actor and critic heads of one network, instead of two networks."""

    num_samples: ModestInt = 5
    """Number of sampled actions over which the stochastic dueling network averages the advantage,
    for continuous actions."""

    critic_layer_norm: bool = False
    """Layer normalization of the critic's hidden layers, before the activation."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if self.shared_trunk and self.critic_layer_norm:
            yield "critic_layer_norm", "must be false where shared_trunk is true, got true"


@dataclass
class ACERLossConfig(BaseLossConfig):
    """Options of the loss of actor-critic with experience replay.

    >>> ACERLossConfig().truncation_threshold
    10.0
    """

    beta: NonNegativeFloat = 0.01
    """Coefficient of the entropy."""

    policy_coef: NonNegativeFloat = 1.0
    """Factor on the policy loss and the entropy."""

    critic_coef: NonNegativeFloat = 0.5
    """Factor on the critic loss."""

    truncation_threshold: NonNegativeFloat | None = 10.0
    """Value c at which importance weights are truncated, with a correction of the bias; null for
    neither."""

    use_trust_region: bool = True
    """Project each step's policy gradient to a trust region around the average policy."""

    trust_region_delta: NonNegativeFloat = 1.0
    """Bound delta of the trust region."""

    trust_region_space: Literal["logits", "log_probs", "probs", "loc_var", "loc_scale"] | None = (
        None
    )
    """Parameters whose gradient is projected. For discrete actions: logits (as in ChainerRL),
    log_probs (PFRL) or probs (OpenAI Baselines). For continuous ones: loc_var (ChainerRL) or
    loc_scale (PFRL). null for logits and loc_var."""

    use_q_opc: bool = False
    """Compute the policy's advantage from the return without truncated traces."""

    normalize_loss_by_steps: bool = True
    """Average the losses over the steps instead of summing them."""


@dataclass
class ACERUpdateConfig(BaseUpdateConfig):
    """Options of the updates: learning rate, number and data.

    >>> list(ACERUpdateConfig(n_times_replay=1.5, poisson=False).errors())
    [('n_times_replay', 'must be a whole number unless poisson is true, got 1.5')]
    """

    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """Optimizer of all networks together."""

    lr: PositiveFloat = 7e-4
    """Learning rate."""

    rmsprop_alpha: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Decay of RMSprop's mean of squared gradients."""

    rmsprop_eps: PositiveFloat = 1e-5
    """Term added to RMSprop's denominator."""

    max_grad_norm: PositiveFloat | None = 10.0
    """Maximum norm of the gradient of all networks together; null for no limit."""

    target_update_tau: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Polyak rate tau of the average policy, after every update; 1 - tau is its decay."""

    schedules: dict[str, dict[int, float]] = field(default_factory=dict)
    """Options that change with the frames, linearly between the values given:
    {lr: {0: 0.0007, 100000: 0}}."""

    disable_online_update: bool = False
    """Learn from replay only, without on-policy updates on collected segments."""

    n_times_replay: NonNegativeFloat = 4.0
    """Number of updates from replay after each batch of frames, on average if poisson is true."""

    poisson: bool = True
    """Draw the number of updates from replay from a Poisson distribution."""

    replay_start_size: NonNegativeInt = 1_000
    """Number of transitions stored before the first update from replay."""

    def errors(self) -> Iterable[tuple[str, str]]:
        """Yield the conditions between fields that do not hold."""
        yield from super().errors()
        if not self.poisson and not float(self.n_times_replay).is_integer():
            text = f"must be a whole number unless poisson is true, got {self.n_times_replay}"
            yield "n_times_replay", text
        if self.disable_online_update and not self.n_times_replay:
            text = "must be above 0 where disable_online_update is true, or nothing is learned"
            yield "n_times_replay", text


@dataclass
class ACERWarmStartConfig(WarmStartConfig):
    """Modules initialized with the parameters of another run.

    >>> ACERWarmStartConfig().modules
    ['actor', 'critic']
    """

    modules: list[Literal["actor", "critic"]] = field(  # type: ignore[assignment]
        default_factory=lambda: ["actor", "critic"]
    )
    """Modules to initialize: actor (and its average), critic."""
