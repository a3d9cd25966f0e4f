"""Every loss module that TorchRL exports, with small networks, and batches for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import Tensor, nn
from torchrl import objectives
from torchrl.data import Bounded, Composite, OneHot, Unbounded
from torchrl.envs.model_based.dreamer import DreamerEnv
from torchrl.modules import (
    MLP,
    Actor,
    DiffusionActor,
    DistributionalQValueActor,
    MultiAgentMLP,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
    RSSMRolloutV3,
    SafeSequential,
    TanhNormal,
    ValueOperator,
    WorldModel,
    WorldModelWrapper,
)
from torchrl.modules.models import ACTModel
from torchrl.modules.models.model_based import RSSMPosteriorV3, RSSMPriorV3
from torchrl.modules.models.multiagent import QMixer
from torchrl.objectives import LossModule, SoftUpdate

from rlkit_sac.updates import LossStep, TargetStep, Update


@dataclass(frozen=True)
class Sizes:
    """The sizes of networks and batches.

    Args:
        batch_size: transitions.
        num_cells: widths of the hidden layers.
        observation_dim: length of the observation.
        action_dim: number of continuous dimensions.
        num_actions: number of discrete actions.
    """

    batch_size: int = 8
    num_cells: tuple[int, ...] = (8,)
    observation_dim: int = 3
    action_dim: int = 2
    num_actions: int = 4


class Case(NamedTuple):
    """A loss module and what it is given.

    Attributes:
        make_loss: networks and the loss.
        make_batch: a random batch for it.
        losses: that an update minimizes; empty for all that ``out_keys`` names ``loss_*``.
    """

    make_loss: Callable[[Sizes], LossModule]
    make_batch: Callable[[Sizes], TensorDict]
    losses: tuple[str, ...] = ()


def mlp(sizes: Sizes, inputs: int, outputs: int) -> MLP:
    """A perceptron."""
    cells = {"num_cells": list(sizes.num_cells), "activation_class": nn.ReLU}
    return MLP(in_features=inputs, out_features=outputs, **cells)


def box(sizes: Sizes) -> Bounded:
    """The space of continuous actions."""
    return Bounded(-torch.ones(sizes.action_dim), torch.ones(sizes.action_dim), (sizes.action_dim,))


def gaussian(sizes: Sizes, **options: object) -> ProbabilisticActor:
    """A squashed Gaussian policy."""
    net = mlp(sizes, sizes.observation_dim, 2 * sizes.action_dim)
    body = TensorDictModule(
        nn.Sequential(net, NormalParamExtractor()), ["observation"], ["loc", "scale"]
    )
    return ProbabilisticActor(
        body, ["loc", "scale"], spec=box(sizes), distribution_class=TanhNormal, **options
    )


def deterministic(sizes: Sizes) -> Actor:
    """A policy that gives the action."""
    net = nn.Sequential(mlp(sizes, sizes.observation_dim, sizes.action_dim), nn.Tanh())
    return Actor(net, in_keys=["observation"], spec=box(sizes))


def categorical(sizes: Sizes) -> ProbabilisticActor:
    """A policy of discrete actions."""
    net = mlp(sizes, sizes.observation_dim, sizes.num_actions)
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["logits"]),
        ["logits"],
        distribution_class=OneHotCategorical,
    )


def critic(sizes: Sizes, outputs: int = 1) -> ValueOperator:
    """Values of observation and continuous action."""
    net = mlp(sizes, sizes.observation_dim + sizes.action_dim, outputs)
    return ValueOperator(net, in_keys=["observation", "action"])


def value(sizes: Sizes) -> ValueOperator:
    """The value of an observation."""
    return ValueOperator(mlp(sizes, sizes.observation_dim, 1), in_keys=["observation"])


def action_values(sizes: Sizes, key: str) -> ValueOperator:
    """The values of all discrete actions."""
    net = mlp(sizes, sizes.observation_dim, sizes.num_actions)
    return ValueOperator(net, in_keys=["observation"], out_keys=[key])


def q_actor(sizes: Sizes) -> QValueActor:
    """The greedy policy of action values."""
    net = mlp(sizes, sizes.observation_dim, sizes.num_actions)
    return QValueActor(net, in_keys=["observation"], action_space="one-hot")


def transitions(sizes: Sizes, **entries: Tensor) -> TensorDict:
    """Random transitions with continuous actions; other entries replace or join them."""
    size, ends = sizes.batch_size, torch.rand(sizes.batch_size, 1) < 0.2
    following = TensorDict(
        observation=torch.randn(size, sizes.observation_dim),
        reward=torch.randn(size, 1),
        done=ends,
        terminated=ends.clone(),
        batch_size=[size],
    )
    own = {
        "observation": torch.randn(size, sizes.observation_dim),
        "action": 1.8 * torch.rand(size, sizes.action_dim) - 0.9,
        "next": following,
    }
    return TensorDict({**own, **entries}, batch_size=[size])


def one_hot_transitions(sizes: Sizes) -> TensorDict:
    """Random transitions with discrete actions."""
    index = torch.randint(sizes.num_actions, (sizes.batch_size,))
    return transitions(sizes, action=nn.functional.one_hot(index, sizes.num_actions))


def scored_transitions(sizes: Sizes) -> TensorDict:
    """Random transitions with what policy gradients read."""
    size = sizes.batch_size
    log_prob = 0.1 * torch.randn(size) - 1
    return transitions(
        sizes,
        loc=torch.randn(size, sizes.action_dim),
        scale=torch.rand(size, sizes.action_dim) + 0.5,
        action_log_prob=log_prob,
        sample_log_prob=log_prob.clone(),
        advantage=torch.randn(size, 1),
        value_target=torch.randn(size, 1),
        state_value=torch.randn(size, 1),
    )


def policy_gradient(loss: type[LossModule], **options: object) -> Case:
    """A case of a loss of policy and value."""
    return Case(lambda sizes: loss(gaussian(sizes), value(sizes), **options), scored_transitions)


def actor_critic(
    loss: type[LossModule], actor: Callable[[Sizes], nn.Module] = gaussian, **options: object
) -> Case:
    """A case of a loss of policy and critics."""
    return Case(lambda sizes: loss(actor(sizes), critic(sizes), **options), transitions)


# ---------------------------------------------------------------------- several agents

AGENTS = 3


def _team_loss(loss: type[LossModule]) -> Callable[[Sizes], LossModule]:
    def make(sizes: Sizes) -> LossModule:
        cells = {"num_cells": list(sizes.num_cells), "n_agents": AGENTS, "share_params": True}
        central = loss is objectives.MAPPOLoss
        net = MultiAgentMLP(sizes.observation_dim, 2 * sizes.action_dim, centralized=False, **cells)
        keys = [("agents", "loc"), ("agents", "scale")]
        actor = ProbabilisticActor(
            TensorDictModule(
                nn.Sequential(net, NormalParamExtractor()), [("agents", "observation")], keys
            ),
            keys,
            out_keys=[("agents", "action")],
            distribution_class=TanhNormal,
        )
        values = MultiAgentMLP(sizes.observation_dim, 1, centralized=central, **cells)
        module = loss(
            actor,
            TensorDictModule(values, [("agents", "observation")], [("agents", "state_value")]),
        )
        module.set_keys(
            value=("agents", "state_value"),
            action=("agents", "action"),
            sample_log_prob=("agents", "log_prob"),
            advantage=("agents", "advantage"),
            value_target=("agents", "value_target"),
        )
        return module

    return make


def _team_batch(sizes: Sizes) -> TensorDict:
    shape = [sizes.batch_size, AGENTS]
    agents = TensorDict(
        observation=torch.randn(*shape, sizes.observation_dim),
        action=1.8 * torch.rand(*shape, sizes.action_dim) - 0.9,
        log_prob=0.1 * torch.randn(*shape) - 1,
        advantage=torch.randn(*shape, 1),
        value_target=torch.randn(*shape, 1),
        state_value=torch.randn(*shape, 1),
        batch_size=shape,
    )
    return TensorDict(agents=agents, batch_size=shape[:1])


def _mixed_loss(sizes: Sizes) -> LossModule:
    names = ["action", "action_value", "chosen_action_value"]
    local = SafeSequential(
        TensorDictModule(
            mlp(sizes, sizes.observation_dim, sizes.num_actions),
            [("agents", "observation")],
            [("agents", "action_value")],
        ),
        QValueModule(
            action_value_key=("agents", "action_value"),
            out_keys=[("agents", name) for name in names],
            action_space="categorical",
        ),
    )
    mixer = QMixer(state_shape=(5,), mixing_embed_dim=8, n_agents=AGENTS, device="cpu")
    keys = [("agents", "chosen_action_value"), "state"]
    return objectives.QMixerLoss(
        local,
        TensorDictModule(mixer, keys, ["chosen_action_value"]),
        action_space="categorical",
    )


def _mixed_batch(sizes: Sizes) -> TensorDict:
    shape = [sizes.batch_size, AGENTS]

    def agents() -> TensorDict:
        return TensorDict(observation=torch.randn(*shape, sizes.observation_dim), batch_size=shape)

    batch = transitions(sizes, agents=agents(), state=torch.randn(sizes.batch_size, 5))
    batch["agents", "action"] = torch.randint(sizes.num_actions, shape)
    batch["next", "agents"], batch["next", "state"] = agents(), torch.randn(sizes.batch_size, 5)
    return batch


# ---------------------------------------------------------------------- imitation


def _chunk_loss(sizes: Sizes) -> LossModule:
    model = ACTModel(
        obs_dim=sizes.observation_dim,
        action_dim=sizes.action_dim,
        chunk_size=4,
        hidden_dim=16,
        nheads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        latent_dim=4,
    )
    keys = ["action_pred", "mu", "log_var"]
    return objectives.ACTLoss(TensorDictModule(model, ["observation", "action_chunk"], keys))


def _chunk_batch(sizes: Sizes) -> TensorDict:
    batch = transitions(sizes)
    batch["vla_action", "chunk"] = torch.randn(sizes.batch_size, 4, sizes.action_dim)
    return batch


def _discriminator_loss(sizes: Sizes, **options: object) -> LossModule:
    class Discriminator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(sizes, sizes.observation_dim + sizes.action_dim, 1)

        def forward(self, observation: Tensor, action: Tensor) -> Tensor:
            return self.net(torch.cat([observation, action], -1)).sigmoid()

    keys = ["observation", "action"]
    network = TensorDictModule(Discriminator(), keys, ["d_logits"])
    return objectives.GAILLoss(network, **options)


def _expert_batch(sizes: Sizes) -> TensorDict:
    other = transitions(sizes)
    return transitions(
        sizes, collector_observation=other["observation"], collector_action=other["action"]
    )


def _distributional_loss(sizes: Sizes) -> LossModule:
    atoms = 5
    net = MLP(
        in_features=sizes.observation_dim,
        out_features=(atoms, sizes.num_actions),
        num_cells=list(sizes.num_cells),
    )
    body = TensorDictSequential(
        TensorDictModule(net, ["observation"], ["action_value"]),
        TensorDictModule(lambda x: x.log_softmax(-2), ["action_value"], ["action_value"]),
    )
    actor = DistributionalQValueActor(
        body, support=torch.linspace(-2.0, 2.0, atoms), spec=OneHot(sizes.num_actions)
    )
    return objectives.DistributionalDQNLoss(actor, gamma=0.9)


# ---------------------------------------------------------------------- world models

STATE, BELIEF = 4, 8


class _Dreamer:
    """The world model, the imagination, the actor and the value of DreamerV3's examples."""

    def __init__(self, sizes: Sizes) -> None:
        action_dim, observation_dim, inputs = (
            sizes.action_dim,
            sizes.observation_dim,
            STATE + BELIEF,
        )
        latent = {"hidden_dim": 8, "rnn_hidden_dim": BELIEF, "num_categoricals": 2}
        prior = RSSMPriorV3(
            action_shape=(action_dim,), action_dim=action_dim, num_classes=2, **latent
        )
        posterior = RSSMPosteriorV3(
            hidden_dim=8, rnn_hidden_dim=BELIEF, num_categoricals=2, num_classes=2, obs_embed_dim=8
        )
        reward, features = mlp(sizes, inputs, 1), [("next", "state"), ("next", "belief")]
        states = ["state", "belief"]
        self.world_model = TensorDictSequential(
            TensorDictModule(
                nn.Linear(observation_dim, 8), [("next", "observation")], [("next", "encoded")]
            ),
            RSSMRolloutV3(
                TensorDictModule(
                    prior,
                    [*states, "action"],
                    [("next", "prior_logits"), *features],
                ),
                TensorDictModule(
                    posterior,
                    [("next", "belief"), ("next", "encoded")],
                    [("next", "posterior_logits"), ("next", "state")],
                ),
                reset_key="is_init",
            ),
            TensorDictModule(
                mlp(sizes, inputs, observation_dim), features, [("next", "reco_pixels")]
            ),
            TensorDictModule(reward, features, [("next", "reward")]),
        )
        imagination = WorldModelWrapper(
            TensorDictModule(prior, [*states, "action"], ["_", *states]),
            TensorDictModule(reward, states, ["reward"]),
        )
        self.env = DreamerEnv(imagination, prior_shape=(STATE,), belief_shape=(BELIEF,))
        self.env.observation_spec = Composite(state=Unbounded(STATE), belief=Unbounded(BELIEF))
        self.env.state_spec = self.env.observation_spec.clone()
        self.env.action_spec = box(sizes)
        self.env.reward_spec = Unbounded((1,))
        self.actor = ProbabilisticTensorDictSequential(
            TensorDictModule(mlp(sizes, inputs, 2 * action_dim), states, ["params"]),
            TensorDictModule(NormalParamExtractor(), ["params"], ["loc", "scale"]),
            ProbabilisticTensorDictModule(
                ["loc", "scale"], ["action"], distribution_class=TanhNormal, return_log_prob=True
            ),
        )
        self.value = TensorDictModule(mlp(sizes, inputs, 1), states, ["state_value"])

    def model_loss(self) -> LossModule:
        """The loss of the world model."""
        loss = objectives.DreamerV3ModelLoss(
            self.world_model, reward_two_hot=False, detach_output=False
        )
        loss.set_keys(pixels="observation")
        return loss

    def actor_loss(self, kind: type[LossModule]) -> LossModule:
        """The loss of the actor."""
        loss = kind(self.actor, self.value, self.env, imagination_horizon=3)
        loss.make_value_estimator()
        return loss


def _dreamer_v3_loss(sizes: Sizes) -> LossModule:
    parts = _Dreamer(sizes)
    actor_loss = parts.actor_loss(objectives.DreamerV3ActorLoss)
    value_loss = objectives.DreamerV3ValueLoss(parts.value, actor_loss=actor_loss)
    return objectives.DreamerV3Loss(parts.model_loss(), actor_loss, value_loss)


def _dreamer_model_loss(sizes: Sizes) -> LossModule:
    names = ["prior_mean", "prior_std", "posterior_mean", "posterior_std"]
    heads = [
        TensorDictModule(
            nn.Sequential(mlp(sizes, sizes.observation_dim, STATE), nn.Softplus()),
            ["observation"],
            [("next", name)],
        )
        for name in names
    ]
    decoder = TensorDictModule(
        nn.Sequential(mlp(sizes, STATE, 12), nn.Unflatten(-1, (3, 2, 2))),
        [("next", "posterior_mean")],
        [("next", "reco_pixels")],
    )
    reward = TensorDictModule(
        mlp(sizes, STATE, 1), [("next", "posterior_mean")], [("next", "reward")]
    )
    return objectives.DreamerModelLoss(
        WorldModelWrapper(TensorDictSequential(*heads, decoder), reward)
    )


def _sequences(sizes: Sizes) -> TensorDict:
    shape = [sizes.batch_size, 3]
    following = TensorDict(
        observation=torch.randn(*shape, sizes.observation_dim),
        pixels=torch.rand(*shape, 3, 2, 2),
        reward=torch.randn(*shape, 1),
        done=torch.zeros(*shape, 1, dtype=torch.bool),
        terminated=torch.zeros(*shape, 1, dtype=torch.bool),
        batch_size=shape,
    )
    return TensorDict(
        observation=torch.randn(*shape, sizes.observation_dim),
        state=torch.zeros(*shape, STATE),
        belief=torch.zeros(*shape, BELIEF),
        action=torch.rand(*shape, sizes.action_dim),
        is_init=torch.zeros(*shape, 1, dtype=torch.bool),
        lambda_target=torch.randn(*shape, 1),
        next=following,
        batch_size=shape,
    )


def _states(sizes: Sizes) -> TensorDict:
    return _sequences(sizes)[:, 0]


def _world_model_loss(sizes: Sizes) -> LossModule:
    encoder = TensorDictModule(mlp(sizes, sizes.observation_dim, STATE), ["observation"], ["state"])

    class Dynamics(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(sizes, STATE + sizes.action_dim, STATE)

        def forward(self, state: Tensor, action: Tensor) -> Tensor:
            return self.net(torch.cat([state, action], -1))

    dynamics = TensorDictModule(Dynamics(), ["state", "action"], [("next", "state")])
    reward = TensorDictModule(mlp(sizes, STATE, 1), [("next", "state")], [("next", "reward")])
    return objectives.WorldModelLoss(WorldModel(encoder, dynamics, reward))


def _cost(sizes: Sizes) -> LossModule:
    class Cost(objectives.ExponentialQuadraticCost):
        """The cost has no parameters: this one stands for a policy that moves the mean."""

        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(sizes.observation_dim))

        def forward(self, tensordict: TensorDict) -> TensorDict:
            moved = tensordict.copy()
            moved["observation", "mean"] = moved["observation", "mean"] + self.shift
            return super().forward(moved)

    return Cost()


def _gaussian_states(sizes: Sizes) -> TensorDict:
    shape = sizes.batch_size, sizes.observation_dim
    states = TensorDict(
        mean=torch.randn(*shape), var=0.1 * torch.eye(shape[1]).expand(shape[0], -1, -1).clone()
    )
    return TensorDict(observation=states, batch_size=shape[:1])


CASES: dict[str, Case] = {
    "A2CLoss": policy_gradient(objectives.A2CLoss),
    "A2CLoss, clip_value": policy_gradient(objectives.A2CLoss, clip_value=0.2),
    "ACTLoss": Case(_chunk_loss, _chunk_batch, ("loss_act",)),
    "BCLoss": Case(lambda sizes: objectives.BCLoss(deterministic(sizes)), transitions),
    "CQLLoss": actor_critic(objectives.CQLLoss),
    "ClipPPOLoss": policy_gradient(objectives.ClipPPOLoss),
    "ClipPPOLoss, clip_value": policy_gradient(objectives.ClipPPOLoss, clip_value=0.2),
    "CrossQLoss": actor_critic(objectives.CrossQLoss),
    "DDPGLoss": actor_critic(objectives.DDPGLoss, deterministic),
    "DQNLoss": Case(
        lambda sizes: objectives.DQNLoss(q_actor(sizes), action_space="one-hot"),
        one_hot_transitions,
    ),
    "DTLoss": Case(lambda sizes: objectives.DTLoss(deterministic(sizes)), transitions),
    "DiffusionBCLoss": Case(
        lambda sizes: objectives.DiffusionBCLoss(
            DiffusionActor(action_dim=sizes.action_dim, obs_dim=sizes.observation_dim, num_steps=10)
        ),
        transitions,
    ),
    "DiscreteCQLLoss": Case(
        lambda sizes: objectives.DiscreteCQLLoss(q_actor(sizes), action_space="one-hot"),
        one_hot_transitions,
    ),
    "DiscreteIQLLoss": Case(
        lambda sizes: objectives.DiscreteIQLLoss(
            categorical(sizes),
            action_values(sizes, "state_action_value"),
            value(sizes),
            action_space="one-hot",
        ),
        one_hot_transitions,
    ),
    "DiscreteSACLoss": Case(
        lambda sizes: objectives.DiscreteSACLoss(
            categorical(sizes),
            action_values(sizes, "action_value"),
            action_space="one-hot",
            num_actions=sizes.num_actions,
        ),
        one_hot_transitions,
    ),
    "DistributionalDQNLoss": Case(_distributional_loss, one_hot_transitions, ("loss",)),
    "DreamerActorLoss": Case(
        lambda sizes: _Dreamer(sizes).actor_loss(objectives.DreamerActorLoss),
        _states,
        ("loss_actor",),
    ),
    "DreamerModelLoss": Case(_dreamer_model_loss, _sequences, ("loss_model_kl",)),
    "DreamerV3ActorLoss": Case(
        lambda sizes: _Dreamer(sizes).actor_loss(objectives.DreamerV3ActorLoss),
        _states,
        ("loss_actor",),
    ),
    "DreamerV3Loss": Case(
        _dreamer_v3_loss, _sequences, ("loss_model_kl", "loss_actor", "loss_value")
    ),
    "DreamerV3ModelLoss": Case(
        lambda sizes: _Dreamer(sizes).model_loss(), _sequences, ("loss_model_kl",)
    ),
    "DreamerV3ValueLoss": Case(
        lambda sizes: objectives.DreamerV3ValueLoss(_Dreamer(sizes).value),
        _sequences,
        ("loss_value",),
    ),
    "DreamerValueLoss": Case(
        lambda sizes: objectives.DreamerValueLoss(_Dreamer(sizes).value),
        _sequences,
        ("loss_value",),
    ),
    "ExponentialQuadraticCost": Case(_cost, _gaussian_states, ("loss_cost",)),
    "GAILLoss": Case(_discriminator_loss, _expert_batch),
    "GAILLoss, use_grad_penalty": Case(
        lambda sizes: _discriminator_loss(sizes, use_grad_penalty=True), _expert_batch
    ),
    "IPPOLoss": Case(_team_loss(objectives.IPPOLoss), _team_batch),
    "IQLLoss": Case(
        lambda sizes: objectives.IQLLoss(gaussian(sizes), critic(sizes), value(sizes)), transitions
    ),
    "KLPENPPOLoss": policy_gradient(objectives.KLPENPPOLoss),
    "MAPPOLoss": Case(_team_loss(objectives.MAPPOLoss), _team_batch),
    "OnlineDTLoss": Case(lambda sizes: objectives.OnlineDTLoss(gaussian(sizes)), transitions),
    "PPOLoss": policy_gradient(objectives.PPOLoss),
    "PPOLoss, clip_value": policy_gradient(objectives.PPOLoss, clip_value=0.2),
    "QMixerLoss": Case(_mixed_loss, _mixed_batch),
    "REDQLoss": actor_critic(objectives.REDQLoss, num_qvalue_nets=4),
    "RNDLoss": Case(
        lambda sizes: objectives.RNDLoss(
            mlp(sizes, sizes.observation_dim, 4), mlp(sizes, sizes.observation_dim, 4)
        ),
        transitions,
    ),
    "ReinforceLoss": policy_gradient(objectives.ReinforceLoss),
    "ReinforceLoss, clip_value": policy_gradient(objectives.ReinforceLoss, clip_value=0.2),
    "SACLoss": actor_critic(objectives.SACLoss),
    "TD3BCLoss": actor_critic(objectives.TD3BCLoss, deterministic, bounds=(-1.0, 1.0)),
    "TD3Loss": actor_critic(objectives.TD3Loss, deterministic, bounds=(-1.0, 1.0)),
    "TQCLoss": Case(
        lambda sizes: objectives.TQCLoss(gaussian(sizes), critic(sizes, 8), num_qvalue_nets=2),
        transitions,
    ),
    "WorldModelLoss": Case(_world_model_loss, transitions, ("loss_reward",)),
}


def make_update(name: str, sizes: Sizes, compile_from: int | None = None, **adam: float) -> Update:
    """An update of a loss by one Adam optimizer, and by ``SoftUpdate`` if it has targets."""
    case = CASES[name]
    loss = case.make_loss(sizes)
    names = case.losses or tuple(key for key in loss.out_keys if key.startswith("loss"))
    parameters = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    targets = any(key.startswith("target_") and "_params" in key for key, _ in loss.named_buffers())
    return Update(
        loss,
        {"all": torch.optim.Adam(parameters, **{"lr": 3e-4, **adam})},
        [LossStep(names, ("all",)), *([TargetStep()] if targets else [])],
        target_updater=SoftUpdate(loss, tau=0.005) if targets else None,
        compile_from=compile_from,
    )
