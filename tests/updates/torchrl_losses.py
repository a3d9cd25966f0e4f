"""Every loss module that TorchRL exports, with small networks, and batches for it."""

from __future__ import annotations

from collections.abc import Callable

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
from torchrl.data import Composite, OneHot, Unbounded
from torchrl.envs.model_based.dreamer import DreamerEnv
from torchrl.modules import (
    MLP,
    DiffusionActor,
    DistributionalQValueActor,
    MultiAgentMLP,
    ProbabilisticActor,
    QValueModule,
    RSSMRolloutV3,
    SafeSequential,
    TanhNormal,
    WorldModel,
    WorldModelWrapper,
)
from torchrl.modules.models import ACTModel
from torchrl.modules.models.model_based import RSSMPosteriorV3, RSSMPriorV3
from torchrl.modules.models.multiagent import QMixer
from torchrl.objectives import LossModule

from tests.recipes.loading import load_recipe

benchmark = load_recipe("benchmarks/torchrl_losses")
Case, Sizes = benchmark.Case, benchmark.Sizes
mlp = benchmark.mlp
box = benchmark.box
gaussian = benchmark.gaussian
deterministic = benchmark.deterministic
categorical = benchmark.categorical
value = benchmark.value
action_values = benchmark.action_values
q_actor = benchmark.q_actor
transitions = benchmark.transitions
one_hot_transitions = benchmark.one_hot_transitions
policy_gradient = benchmark.policy_gradient
actor_critic = benchmark.actor_critic
make_update = benchmark.make_update
SMALL = Sizes(batch_size=8, num_cells=(8,), observation_dim=3, action_dim=2, num_actions=4)

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
    **benchmark.CASES,
    "A2CLoss, clip_value": policy_gradient(objectives.A2CLoss, clip_value=0.2),
    "ACTLoss": Case(_chunk_loss, _chunk_batch, ("loss_act",)),
    "BCLoss": Case(lambda sizes: objectives.BCLoss(deterministic(sizes)), transitions),
    "ClipPPOLoss, clip_value": policy_gradient(objectives.ClipPPOLoss, clip_value=0.2),
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
    "KLPENPPOLoss": policy_gradient(objectives.KLPENPPOLoss),
    "MAPPOLoss": Case(_team_loss(objectives.MAPPOLoss), _team_batch),
    "OnlineDTLoss": Case(lambda sizes: objectives.OnlineDTLoss(gaussian(sizes)), transitions),
    "PPOLoss": policy_gradient(objectives.PPOLoss),
    "PPOLoss, clip_value": policy_gradient(objectives.PPOLoss, clip_value=0.2),
    "QMixerLoss": Case(_mixed_loss, _mixed_batch),
    "RNDLoss": Case(
        lambda sizes: objectives.RNDLoss(
            mlp(sizes, sizes.observation_dim, 4), mlp(sizes, sizes.observation_dim, 4)
        ),
        transitions,
    ),
    "ReinforceLoss": policy_gradient(objectives.ReinforceLoss),
    "ReinforceLoss, clip_value": policy_gradient(objectives.ReinforceLoss, clip_value=0.2),
    "TD3BCLoss": actor_critic(objectives.TD3BCLoss, deterministic, bounds=(-1.0, 1.0)),
    "WorldModelLoss": Case(_world_model_loss, transitions, ("loss_reward",)),
}
