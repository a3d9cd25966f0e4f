"""The networks, keys and checks of a loss over segments of trajectories, without its equations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import NestedKey, TensorDictBase
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModuleBase, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torchrl.modules import ActorValueOperator

from rlkit_sac import functional as F
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules import BehaviorPolicy, StochasticDuelingNetwork, acting_policy
from rlkit_sac.modules.actors import policy_operator
from rlkit_sac.modules.allowed_actions import build_dist, read_action_mask
from rlkit_sac.modules.behavior import ActionKind, action_kind, distribution_parameters
from rlkit_sac.objectives.acer.terms import CategoricalTerms, Gaussian, GaussianTerms
from rlkit_sac.objectives.arguments import LossOptions
from rlkit_sac.objectives.batch import (
    Transitions,
    check_action,
    check_index,
    check_reward,
    find_sequence_ends,
)
from rlkit_sac.objectives.checks import check_writes, find_discrete_spec
from rlkit_sac.objectives.contract import LossContract
from rlkit_sac.objectives.memory import MemoryPass


def upcast(x: Tensor) -> Tensor:
    """Return a tensor of 16-bit numbers, as autocast makes them, in float32; others unchanged.

    >>> upcast(torch.ones(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def policy_log_probs(policy: Distribution, allowed: Tensor | None) -> Tensor:
    """Return log-probabilities ``[*, A]``, normalized in full precision."""
    assert isinstance(policy, Categorical)
    logits = policy.logits
    if allowed is not None:
        logits = getattr(policy, "raw_logits", logits)
    full = upcast(logits)
    are_normalized = full is logits and allowed is None
    return logits if are_normalized else F.mask_logits(full, allowed).log_softmax(-1)


def policy_gaussian(policy: Distribution) -> Gaussian:
    """Return mean and standard deviation ``[*, D]``, in full precision."""
    return Gaussian(*map(upcast, distribution_parameters(policy)))


ACTOR, AVERAGE, CRITIC = "actor_network", "target_actor_network", "critic_network"
#: The networks of a :class:`~rlkit_sac.modules.StochasticDuelingNetwork`.
DUELING = (f"{CRITIC}.value_network", f"{CRITIC}.advantage_network")


@dataclass(frozen=True)
class Segments(Transitions):
    """A batch ``[*, T]`` that has been checked.

    Attributes:
        behavior: the keys of the behavior policy's parameters; empty on-policy.
        cut: the steps that the next step of their row does not continue, bool ``[*, T]``.
    """

    behavior: list[NestedKey]
    cut: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class ACEROptions(LossOptions):
    """The options of the loss of ACER, besides the fields of its section."""

    actor_critic: ActorValueOperator | None = None
    """An actor and a critic on one trunk, in place of both networks: TorchRL's
    ``ActorValueOperator``, such as :func:`~rlkit_sac.modules.categorical_actor_critic` builds."""

    on_policy: bool = False
    """Whether the present policy has taken the actions of segments, see :class:`ACERLoss`."""


class SegmentLoss(LossContract):
    """A loss with an actor, its average policy and a critic, over segments; without the equations.

    The subclass documents the arguments.
    """

    @dataclass
    class _AcceptedKeys(LossContract._AcceptedKeys):
        action_value: NestedKey = "action_value"
        action_mask: NestedKey | None = None
        behavior_logits: NestedKey = ("behavior", "logits")
        behavior_loc: NestedKey = ("behavior", "loc")
        behavior_scale: NestedKey = ("behavior", "scale")

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys

    actor_network: ProbabilisticTensorDictSequential
    actor_network_params: TensorDictParams
    target_actor_network_params: TensorDictParams
    critic_network: TensorDictModuleBase
    critic_network_params: TensorDictParams
    target_critic_network_params: TensorDictParams

    kind: ActionKind
    truncation_threshold: float | None
    #: The space of the policy's parameters.
    _space: Any

    def __init__(
        self,
        actor_network: ProbabilisticTensorDictSequential | None,
        critic_network: TensorDictModuleBase | None,
        options: ACEROptions,
    ) -> None:
        super().__init__(options)
        if options.actor_critic is not None:
            actor_network = policy_operator(options.actor_critic)
            critic_network = options.actor_critic.get_value_head()
        if actor_network is None or critic_network is None:
            raise ConfigError(
                f"{type(self).__name__} needs actor_network and critic_network, or actor_critic"
            )
        self.kind = action_kind(actor_network)
        action_key = unravel_key(actor_network.dist_sample_keys[0])
        if self.kind == "discrete":
            find_discrete_spec(getattr(actor_network, "spec", None), action_key)
        _check_critic(critic_network, self.kind, action_key)
        self._register_network(ACTOR, actor_network, create_target_params=True)
        self._register_network(CRITIC, critic_network)
        self._find_memories((ACTOR, *((CRITIC,) if self.kind == "discrete" else DUELING)))
        for name, network in self.recurrent.items():
            if name != ACTOR:
                network.check_inputs(self._written_keys(), name)
        self.set_keys(action=action_key)

    # ------------------------------------------------------------------ the networks

    def _average_policy(self, states: TensorDictBase) -> Distribution:
        """Return the average policy at some states, which are not changed."""
        actor, params = self.actor_network, self.target_actor_network_params
        with torch.no_grad(), params.to_module(actor, preserve_module_state=False):
            return self._run_actor(states.copy(), AVERAGE)[0]

    def _run_actor(
        self, states: TensorDictBase, memory_entry: str = ACTOR
    ) -> tuple[Distribution, TensorDictBase]:
        """Return the policy at some states, and the states with the outputs of the actor."""
        actor = self._head(ACTOR)
        out = actor.get_dist_params(self._head_inputs(ACTOR, states, memory_entry))
        masked = self.tensor_keys.action_mask is not None
        dist = build_dist(actor, out) if masked else actor.build_dist_from_params(out)
        return dist, out if out is states else states.update(out)

    @property
    def _dueling(self) -> StochasticDuelingNetwork:
        """The critic over continuous actions. With memories, the critic made of their heads."""
        critic = self.critic_network
        assert isinstance(critic, StochasticDuelingNetwork)
        if not any(name in self.recurrent for name in DUELING):
            return critic
        value, advantage = map(self._head, DUELING)
        return StochasticDuelingNetwork(
            value,
            advantage,
            critic.num_samples,
            sampler=critic.sampler,
            action_key=critic.action_key,
            value_key=critic.value_key,
            advantage_key=critic.advantage_key,
        )

    def _action_values(self, states: TensorDictBase) -> Tensor:
        """Return the values ``[*, A]`` of a discrete critic, which writes them into the states."""
        out = self._head(CRITIC)(self._head_inputs(CRITIC, states))
        return upcast(out.get(self.tensor_keys.action_value))

    def policy(self, *, epsilon: float | None = None) -> TensorDictModuleBase:
        """Return the acting policy, a module that shares this loss's live parameters.

        It obeys TorchRL's exploration types and can be used in a collector or an evaluation. It
        writes the parameters of its distribution to the entries that the loss reads.

        Args:
            epsilon: the probability of a sample in the deterministic mode, see
                :class:`~rlkit_sac.modules.EpsilonGreedy`. Default: 0.
        """
        keys = tuple(self._behavior_keys())
        actor = self.get_stateful_net("actor_network")
        policy = BehaviorPolicy(actor, keys, self.tensor_keys.action_mask)
        return acting_policy([policy], self.observation_normalizer, epsilon=epsilon)

    # ------------------------------------------------------------------ reading the batch

    def _read(self, tensordict: TensorDictBase, on_policy: bool) -> Segments:
        """Check a batch and select the entries that the losses need."""
        keys, stored = self.tensor_keys, self._behavior_keys()
        behavior = [] if on_policy else stored
        if missing := [key for key in behavior if tensordict.get(key, None) is None]:
            raise BatchError(
                f"the batch has no entry {', '.join(map(repr, missing))}, the distribution that "
                "its actions were drawn from: collect with policy() of the loss, which stores it, "
                "or say on_policy=True of segments that the present policy has just collected"
            )
        required = [key for key in self.in_keys if key in behavior or key not in stored]
        valid = self._valid_steps(tensordict)
        if self._transition_keys is None:  # after set_keys
            if self.kind == "discrete":
                check_writes(CRITIC, self._head(CRITIC), keys.action_value, "action_value")
            self._transition_keys = self._find_transition_keys()
        transitions = self._transition_keys.read(tensordict, required, valid, sequential="ACER")
        reward, done, terminated = (
            tensordict.get(("next", key)) for key in (keys.reward, keys.done, keys.terminated)
        )
        check_reward(reward, None, tensordict)
        if reward.shape[-1] != 1:
            raise BatchError(f"reward has {reward.shape[-1]} dimensions, but ACER's is a scalar")
        cut = find_sequence_ends(done.bool() | terminated.bool(), transitions.valid).squeeze(-1)
        segments = Segments(**vars(transitions), behavior=behavior, cut=cut)
        if not self.recurrent and not self.burn_in:
            return segments
        segments = self._encode(tensordict, segments, cut.unsqueeze(-1), self._memory_passes())
        return replace(segments, cut=cut[..., self.burn_in :])

    def _memory_passes(self) -> Iterator[MemoryPass]:
        """Yield the passes of all memories."""
        for name, network in self.recurrent.items():
            outer, *inner = name.split(".")
            params = getattr(self, f"{outer}_params")
            live = self._members(network.network, params.get(tuple(inner)) if inner else params)
            at_next_states = name != DUELING[1]  # the value of a next state needs only V
            yield MemoryPass(network, name, live, at_next_states=at_next_states)
            if name == ACTOR:
                average = self._members(network.network, self.target_actor_network_params)
                yield MemoryPass(network, AVERAGE, average, at_next_states=False, grad=False)

    def _behavior_params(self, segments: Segments, parameter: Tensor) -> list[Tensor] | None:
        """Return the parameters of the behavior policy, without gradient; ``None`` on-policy.

        Args:
            segments: the segments with the parameters.
            parameter: a parameter of the policy, with the shape that they must have.
        """
        if not segments.behavior:
            return None
        parameters = [upcast(segments.batch.get(key).detach()) for key in segments.behavior]
        for key, entry in zip(segments.behavior, parameters, strict=True):
            if entry.shape != parameter.shape:
                raise BatchError(
                    f"{key!r} has the shape {list(entry.shape)}, but the policy's distribution has "
                    f"{list(parameter.shape)}"
                )
        if self.kind == "continuous" and segments.valid is not None:
            parameters[1] = parameters[1].masked_fill(~segments.valid.unsqueeze(-1), 1.0)
        return parameters

    # ------------------------------------------------------------------ the terms of each kind

    def _categorical_terms(
        self,
        segments: Segments,
        states: TensorDictBase,
        policy: Distribution,
        average: Distribution,
    ) -> CategoricalTerms:
        action = segments.batch.get(self.tensor_keys.action)
        allowed = self._action_mask(segments.states, policy)
        log_prob = policy_log_probs(policy, allowed)
        check_index(action, log_prob.shape[-1], states.batch_size, self.tensor_keys.action)
        behavior = self._behavior_params(segments, log_prob)
        values = self._action_values(states)
        if values.shape != log_prob.shape:
            raise BatchError(
                f"critic_network wrote values of the shape {list(values.shape)}, but the actor's "
                f"logits have {list(log_prob.shape)}: wanted one value for each action"
            )
        return CategoricalTerms(
            log_prob,
            policy_log_probs(average, allowed),
            None if behavior is None else behavior[0].log_softmax(-1),
            values,
            action.long(),
            self._space,
            allowed,
        )

    def _gaussian_terms(
        self,
        segments: Segments,
        states: TensorDictBase,
        policy: Distribution,
        average: Distribution,
    ) -> GaussianTerms:
        action = segments.batch.get(self.tensor_keys.action).detach()
        live = policy_gaussian(policy)
        check_action(action, live.loc, self.tensor_keys.action)
        behavior = self._behavior_params(segments, live.loc)
        critic, sample = self._dueling, None
        value_states, advantage_states = (self._head_inputs(name, states) for name in DUELING)
        value = upcast(critic.state_value(value_states))
        q = value + critic.relative_advantage(advantage_states, action, policy)
        if behavior is not None and self.truncation_threshold is not None:
            with torch.no_grad():
                sampled_action = critic.sampler(policy, 1)[0]
                advantage = critic.relative_advantage(advantage_states, sampled_action, policy)
                sample = sampled_action, (value + advantage).squeeze(-1)
        return GaussianTerms(
            live,
            policy_gaussian(average),
            None if behavior is None else Gaussian(*behavior),
            value.squeeze(-1),
            q.squeeze(-1),
            action,
            sample,
            self._space,
        )

    def _action_mask(self, states: TensorDictBase, policy: Distribution) -> Tensor | None:
        """Return the mask of allowed actions, bool ``[*, T, A]``; ``None`` without masks."""
        if self.tensor_keys.action_mask is None:
            return None
        (logits,) = distribution_parameters(policy)
        return read_action_mask(states, self.tensor_keys.action_mask, logits)

    # ------------------------------------------------------------------ keys

    def _behavior_keys(self) -> list[NestedKey]:
        keys = self.tensor_keys
        if self.kind == "discrete":
            return [unravel_key(keys.behavior_logits)]
        return [unravel_key(keys.behavior_loc), unravel_key(keys.behavior_scale)]

    def _critic_state_keys(self) -> list[NestedKey]:
        """Return the entries that the critic reads at a state. The actor may write some of them."""
        critic = self.critic_network
        if isinstance(critic, StochasticDuelingNetwork):
            return critic.observed_keys
        return [unravel_key(key) for key in critic.in_keys]

    def _written_keys(self) -> set[NestedKey]:
        """Return the entries that the actor writes."""
        return {unravel_key(key) for key in self.actor_network.out_keys}

    def _network_keys(self) -> list[NestedKey]:
        """Return the entries of a batch that networks read at a state, without memory states."""
        actor_keys = map(unravel_key, self.actor_network.in_keys)
        keys = [*actor_keys, *self._critic_state_keys(), *self._mask_keys]
        memory_keys = [key for network in self.recurrent.values() for key in network.state_keys]
        others = self._written_keys().union(memory_keys)
        return [key for key in dict.fromkeys(keys) if key not in others]

    @property
    def _action_roles(self) -> dict[NestedKey, str]:
        return {unravel_key(self.tensor_keys.action): "action"}

    def _batch_keys(self) -> list[NestedKey]:
        return [*super()._batch_keys(), *self._behavior_keys()]


def _check_critic(critic: TensorDictModuleBase, kind: str, action_key: NestedKey) -> None:
    """Refuse a critic that does not belong to the actor."""
    text = f"critic_network is a {type(critic).__name__}"
    if kind == "continuous":
        if not isinstance(critic, StochasticDuelingNetwork):
            raise ConfigError(
                f"{text}: continuous actions need a rlkit_sac.modules.StochasticDuelingNetwork"
            )
    elif action_key in map(unravel_key, critic.in_keys):
        raise ConfigError(
            f"critic_network reads the action {action_key!r}: with discrete actions it reads the "
            "state alone and writes one value for each action"
        )
