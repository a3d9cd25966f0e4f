"""The interface of TorchRL's loss modules, for every loss of the package."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictParams
from torch import Tensor, nn
from torch.nn.functional import pad
from torchrl.objectives import LossModule

from rlkit_sac.config.options import UnitFloat, check_values
from rlkit_sac.errors import BatchError, ConfigError
from rlkit_sac.modules.ensemble import Members
from rlkit_sac.modules.memory import Memory, policy_states
from rlkit_sac.modules.structure import refuse_batch_norm
from rlkit_sac.objectives.arguments import LossOptions
from rlkit_sac.objectives.batch import TransitionKeys, detach_entries
from rlkit_sac.objectives.checks import name_mismatched_entries
from rlkit_sac.objectives.memory import MemoryPass, MemoryRows, RecurrentNetwork, TransitionsT
from rlkit_sac.valid_steps import TRAJECTORY, read_step_entry, valid_steps


class LossContract(LossModule):
    """The keys, reduction and outputs of a loss module, without the equations of an algorithm."""

    @dataclass
    class _AcceptedKeys:
        action: NestedKey = "action"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"
        steps_to_next_obs: NestedKey = "steps_to_next_obs"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys

    #: The names of accepted keys that are read only under ``next``. A subclass may add its own.
    outcomes: ClassVar[tuple[str, ...]] = ("reward", "done", "terminated")
    #: Options that :meth:`set_scalar` can change.
    adjustable: ClassVar[dict[str, Any]] = {"gamma": UnitFloat, "reward_scale": float}

    #: Whether :meth:`update_normalizers` leaves the statistics of the policy's observations alone.
    keeps_observation_statistics: bool = False
    gamma: float | Tensor
    reward_scale: float | Tensor
    deactivate_vmap: bool = False
    #: An encoder that the networks share, or ``None``.
    encoder_network: Any
    encoder_network_params: TensorDictParams
    target_encoder_network_params: TensorDictParams
    #: The names of the networks whose parameters this loss holds.
    network_names: tuple[str, ...] = ()

    #: Entries the priors read at a state.
    _prior_keys: Sequence[NestedKey] = ()
    _in_keys: list[NestedKey] | None
    #: Set by the first call after ``set_keys``.
    _transition_keys: TransitionKeys | None
    _out_keys: list[str] | None

    def __init__(self, options: LossOptions) -> None:
        self._in_keys = self._transition_keys = self._out_keys = None
        super().__init__()
        self.reduction, self.scalar_output_mode = options.reduction, options.scalar_output_mode
        self.use_prioritized_weights = options.use_prioritized_weights
        self.burn_in, self.diagnostics = options.burn_in, options.diagnostics
        self.observation_normalizer = options.observation_normalizer
        self.critic_normalizer = options.critic_normalizer
        self.reward_normalizer = options.reward_normalizer
        if self.reduction == "none" and self.scalar_output_mode is None:
            warnings.warn(
                "reduction='none' gives losses of the batch's shape, beside which a TensorDict "
                "cannot hold scalars such as alpha: they are left out. Pass "
                "scalar_output_mode='exclude' to agree, or 'non_tensor' to keep them.",
                stacklevel=3,
            )
            self.scalar_output_mode = "exclude"
        self.recurrent: dict[str, RecurrentNetwork] = {}
        self.encoder_network = None

    # ------------------------------------------------------------------ keys

    @property
    @abstractmethod
    def _action_roles(self) -> dict[NestedKey, str]:
        """The name of the accepted key of each part of the action, by the part's entry."""

    def _network_keys(self) -> list[NestedKey]:
        """Return the entries that networks read at a state, without memories and encoder."""
        in_keys = (
            self.recurrent.get(name, getattr(self, name)).in_keys for name in self.network_names
        )
        # torch.compile fails where a generator makes what a loss keeps of its first batch.
        return [key for key in chain(*in_keys, self._mask_keys) if key not in self._encoded_keys]

    @property
    def _mask_keys(self) -> list[NestedKey]:
        """The entry of masks of allowed actions, if ``set_keys`` named one."""
        key = getattr(self.tensor_keys, "action_mask", None)
        return [] if key is None else [key]

    def _find_transition_keys(self) -> TransitionKeys:
        """Return the keys of the entries that the loss reads, from the accepted keys."""
        return TransitionKeys(
            self.tensor_keys,
            self._action_roles,
            self._network_keys(),
            self._prior_keys,
            outcomes=self.outcomes,
            recurrent=bool(self.recurrent),
        )

    def _batch_keys(self) -> list[NestedKey]:
        """Return every entry that the loss reads."""
        return self._find_transition_keys().in_keys()

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that the loss reads from the batch."""
        if self._in_keys is None:
            self._in_keys = self._batch_keys()
        return self._in_keys

    @in_keys.setter
    def in_keys(self, values: list[NestedKey]) -> None:
        self._in_keys = values

    @property
    def out_keys(self) -> list[str]:
        """The entries of the output."""
        if self._out_keys is None:
            keys = self._default_out_keys()
            if self.reduction == "none" and self.scalar_output_mode == "exclude":
                keys = [key for key in keys if key.startswith("loss_")]
            self._out_keys = keys
        return self._out_keys

    @out_keys.setter
    def out_keys(self, values: list[str]) -> None:
        self._out_keys = values

    @abstractmethod
    def _default_out_keys(self) -> list[str]:
        """Return every entry that the loss writes into its output."""

    def _forward_value_estimator_keys(self, **kwargs: Any) -> None:
        # The keys are computed again when they are read. The targets have no keys of their own.
        self._in_keys = self._transition_keys = None

    # ------------------------------------------------------------------ networks and numbers

    def _register_network(
        self, name: str, network: nn.Module, *, create_target_params: bool = False
    ) -> None:
        """Register the parameters of a network under its name."""
        refuse_batch_norm(network, name)
        self.convert_to_functional(network, name, create_target_params=create_target_params)
        self.network_names += (name,)

    def _register_ensemble(
        self, name: str, networks: list[nn.Module], *, create_target_params: bool
    ) -> None:
        """Register the stacked parameters of networks of one structure under a name."""
        alone = len(networks) == 1
        # For a list of one network TorchRL makes a view of its parameters, which no optimizer of
        # this loss would see. For the network itself it makes parameters, but initializes them.
        self.convert_to_functional(
            networks[0] if alone else networks,
            name,
            len(networks),
            create_target_params=create_target_params,
        )
        self.network_names += (name,)
        if not alone:
            return
        initial = TensorDict.from_module(networks[0]).data.unsqueeze(0)
        params: TensorDictParams = getattr(self, f"{name}_params")
        params.data.copy_(initial)
        if create_target_params:
            self._modules[f"target_{name}_params"].data.copy_(initial)
        for path, parameter in networks[0].named_parameters():
            params.get(tuple(path.split("."))).requires_grad_(parameter.requires_grad)

    def _find_memories(self, names: Iterable[str]) -> None:
        """Find the networks with a memory, and keep their parts."""
        for name in names:
            network = attrgetter(name)(self)
            if any(isinstance(module, Memory) for module in network.modules()):
                self.recurrent[name] = RecurrentNetwork.from_network(network, name)

    @property
    def _encoded_keys(self) -> list[NestedKey]:
        """The entries that the shared encoder writes."""
        return [] if self.encoder_network is None else self.encoder_network.out_keys

    def _share_encoder(self, encoder: TensorDictModuleBase | None) -> None:
        """Register an encoder whose outputs all networks read."""
        if encoder is None:
            return
        if same := set(encoder.in_keys) & set(encoder.out_keys):
            raise ConfigError(f"encoder_network reads and writes {same}: write another entry")
        for name in self.network_names:
            in_keys = getattr(self, name).in_keys
            if not set(in_keys) & set(encoder.out_keys):
                raise ConfigError(
                    f"{name} reads {in_keys}, but encoder_network writes {encoder.out_keys}: let "
                    "the networks read the encoder's output in place of the observation"
                )
        self._register_network("encoder_network", encoder)

    __call__ = name_mismatched_entries(LossModule.__call__)

    def _normalize_states(self, states: TensorDictBase) -> TensorDictBase:
        """Return states with normalized observations."""
        for normalizer in (self.observation_normalizer, self.critic_normalizer):
            if normalizer is not None and normalizer.key in states.keys():  # noqa: SIM118
                states = normalizer.normalize_states(states)
        return states

    def _reward_and_steps(self, batch: TensorDictBase) -> tuple[Tensor, Tensor | None]:
        """Return scaled rewards ``[*, M]``, and their numbers of frames ``[*, 1]`` or ``None``."""
        keys = self.tensor_keys
        reward, steps = batch.get(("next", keys.reward)), batch.get(keys.steps_to_next_obs, None)
        if steps is not None:
            if "gamma" in self._buffers:
                raise ConfigError("set_scalar cannot change gamma in rewards of several steps")
            steps = steps.reshape(*batch.batch_size, 1).to(reward.dtype)
        if self.reward_normalizer is not None:
            reward = self.reward_normalizer(reward, steps)
        return self.reward_scale * reward, steps

    def _encode(
        self,
        tensordict: TensorDictBase,
        transitions: TransitionsT,
        done: Tensor,
        memory_passes: Iterable[MemoryPass],
    ) -> TransitionsT:
        """Return the steps after the burn-in, with the outputs of the encoder and the memories."""
        if self.encoder_network is not None:
            states = self._encode_states(transitions.states)
            with torch.no_grad():
                next_states = self._encode_states(transitions.next_states)
            transitions = replace(transitions, states=states, next_states=next_states)
        if not self.recurrent:
            if self.burn_in:
                raise ConfigError(
                    f"burn_in is {self.burn_in}, but no network has a memory: leave it 0"
                )
            return transitions
        rows = MemoryRows.read(
            tensordict,
            transitions,
            normalize_states=self._normalize_states,
            done=done.bool(),
            networks=self.recurrent.values(),
            burn_in=self.burn_in,
        )
        return rows.encode(transitions, memory_passes)

    def _members(self, network: nn.Module, params: TensorDictBase) -> Members:
        """Return a network with its parameters, or with the parameters of several networks."""
        dtype = next(self.parameters()).dtype
        return Members(network, params, self.vmap_randomness, self.deactivate_vmap, dtype)

    def _encode_states(self, states: TensorDictBase) -> TensorDictBase:
        """Return the states with the outputs of the encoder."""
        params, keys = self.encoder_network_params, self._encoded_keys
        with params.to_module(self.encoder_network, preserve_module_state=False):
            encoded = self.encoder_network(self._normalize_states(states).copy())
        return states.copy().update(encoded.select(*keys))

    def _head(self, name: str) -> Any:
        """Return a network, or its head if it has a memory."""
        return self.recurrent[name].head if name in self.recurrent else attrgetter(name)(self)

    def _head_inputs(self, name: str, states: TensorDictBase, entry: str = "") -> TensorDictBase:
        """Return the inputs of :meth:`_head` at some states.

        Networks other than the critics do not train the encoder.

        Args:
            name: the name of the network.
            states: the states.
            entry: the name under which the states hold the outputs of the network's memory.
                Default: the name of the network.
        """
        if self.encoder_network is not None:
            states = detach_entries(states, self._encoded_keys)
        if name not in self.recurrent:
            return states
        return self.recurrent[name].head_inputs(states, entry or name)

    @property
    def state_keys(self) -> list[NestedKey]:
        """The entries of memory states that the acting policy writes; replay may store them."""
        return list(policy_states(self.policy()))

    @abstractmethod
    def policy(self) -> TensorDictModuleBase:
        """Return the acting policy."""

    def train(self, mode: bool = True) -> LossContract:
        """Set the training mode of the loss and its networks (dropout, running statistics)."""
        super().train(mode)
        for name in self.network_names:
            getattr(self, name).train(mode)
        return self

    @property
    def _reference(self) -> Tensor:
        """A parameter with the dtype and the device of this loss."""
        return next(self.parameters())

    def set_scalar(self, option: str, value: float) -> None:
        """Change a number during training; a compiled update uses it without recompilation.

        The reward normalizer follows ``gamma``.

        Args:
            option: ``gamma``, ``reward_scale``, or another option in :attr:`adjustable`.
            value: the new number.

        Raises:
            ConfigError: for an option that this loss does not have, or a value that it cannot have.
        """
        if option not in self.adjustable or not hasattr(self, option):
            raise ConfigError(f"{type(self).__name__} has no number {option!r} that may change")
        check_values({option: self.adjustable[option]}, {option: value})
        if option == "gamma" and self.reward_normalizer is not None:
            self.reward_normalizer.gamma = float(value)
        current = getattr(self, option)
        if isinstance(current, Tensor):
            current.fill_(value)
            return
        delattr(self, option)  # a tensor takes its place, whose current value a graph reads
        self.register_buffer(option, self._reference.detach().new_full((), value), persistent=False)

    def update_normalizers(self, batch: TensorDictBase) -> None:
        """Update the normalizers with new frames, ``[T]`` or ``[N, T]``, in order.

        Steps that ``("collector", "mask")`` excludes and steps of the trajectory -1 are left out.
        """
        keys, outcome = self.tensor_keys, batch.get("next")
        masks, trajectories = self._loss_mask_keys(), batch.get(TRAJECTORY, None)
        absent = trajectories is not None and trajectories.is_cpu and bool((trajectories < 0).any())
        masked = absent or any(batch.get(key, None) is not None for key in masks)
        valid = valid_steps(batch, masks) if masked else None
        states = batch if valid is None else batch[valid]
        of_policy = None if self.keeps_observation_statistics else self.observation_normalizer
        for normalizer in (of_policy, self.critic_normalizer):
            if normalizer is not None:
                normalizer.update(states.get(normalizer.key))
        if self.reward_normalizer is not None:
            self.reward_normalizer.update(outcome.get(keys.reward), outcome.get(keys.done), valid)

    def _set_gamma(self, gamma: float | None) -> None:
        """Set the discount of the targets, unless it is ``None``."""
        if gamma is not None:
            check_values({"gamma": UnitFloat}, {"gamma": gamma})
            self._buffers.pop("gamma", None)  # `set_scalar` may have made it a buffer
            self.gamma = float(gamma)

    def _default_value_estimator(self) -> None:
        """Do nothing: the losses compute their targets themselves."""

    # ------------------------------------------------------------------ reduction and output

    def _valid_steps(self, batch: TensorDictBase) -> Tensor | None:
        """Return the steps that are valid in every mask, bool ``[*batch]``, or ``None``."""
        masks = [key for key in self._loss_mask_keys() if batch.get(key, None) is not None]
        valid = valid_steps(batch, masks) if masks else None
        for key in masks:
            if batch.get(key).dtype not in (torch.bool, torch.uint8):
                raise BatchError(f"{key} is {batch.get(key).dtype}, wanted bool: mask.bool()")
        return valid

    def _importance_weights(self, batch: TensorDictBase) -> Tensor | None:
        key = self.tensor_keys.priority_weight
        if self.use_prioritized_weights is False or batch.get(key, None) is None:
            return None
        weights, valid = read_step_entry(batch, key), self._valid_steps(batch)
        assert weights is not None
        # TorchRL's reduction multiplies by the mask: a NaN weight of a padded step would survive.
        return weights if valid is None else torch.where(valid, weights, torch.zeros_like(weights))

    def _reduce(self, loss: Tensor, batch: TensorDictBase, weights: Tensor | None) -> Tensor:
        """Reduce as TorchRL over the valid steps; the mean is 0, not NaN, if weights sum to 0."""
        if self.reduction == "none":
            loss = self._reduce_loss(loss, batch, weights=weights)
            return self._pad_burn_in(loss) if self.burn_in else loss
        if weights is None or self.reduction != "mean":
            return self._reduce_loss(loss, batch, weights=weights)
        total = weights.sum()
        weighted = self._reduce_loss(loss, batch, reduction="sum", weights=weights)
        return weighted / total.masked_fill(total == 0, 1.0)

    def _reduce_single_loss(self, loss: Tensor, batch: TensorDictBase) -> Tensor:
        """Return the reduced value of a single loss, with the batch's importance weights."""
        return self._output({"loss": loss}, {}, batch).get("loss")

    def _pad_burn_in(self, values: Tensor) -> Tensor:
        """Put zeros for the burn-in before values ``[*, T']`` of the other steps."""
        return pad(values, (self.burn_in, 0))

    def _output(
        self, losses: dict[str, Tensor], scalars: dict[str, Tensor], batch: TensorDictBase
    ) -> TensorDictBase:
        """Reduce the losses and add the scalars."""
        trained = batch[..., self.burn_in :] if self.burn_in else batch
        weights = self._importance_weights(trained)
        out = TensorDict(
            {name: self._reduce(loss, trained, weights) for name, loss in losses.items()},
            batch_size=batch.batch_size if self.reduction == "none" else [],
        )
        if self.reduction != "none":
            out.update(scalars)
        elif self.scalar_output_mode == "non_tensor":
            for name, value in scalars.items():
                out.set_non_tensor(name, value)
        return out

    def _make_vmap(self) -> None:
        """Do nothing: functions are vectorized where they are called."""
