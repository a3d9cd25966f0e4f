"""What the losses of the soft actor-critic family share with any pipeline of TorchRL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tensordict import NestedKey, TensorDict
from tensordict.nn import TensorDictModule, TensorDictParams
from tensordict.utils import unravel_key
from torch import nn
from torchrl.objectives import ValueEstimators

from rlkit_sac.errors import ConfigError
from rlkit_sac.objectives.contract import LossContract
from rlkit_sac.objectives.sac.priors import Priors, is_previous_step_key
from rlkit_sac.objectives.sac.soft_value_estimator import SoftValueEstimator

_LAMBDAS = {ValueEstimators.TD0: 0.0, ValueEstimators.TD1: 1.0, ValueEstimators.TDLambda: 0.95}


class SoftLossContract(LossContract):
    """Parameters, keys and value estimator; no equation of any algorithm."""

    @dataclass
    class _AcceptedKeys(LossContract._AcceptedKeys):
        value: NestedKey = "state_value"
        log_prob: NestedKey = "action_log_prob"
        priority: NestedKey = "td_error"

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    default_value_estimator = ValueEstimators.TD0
    #: Whether the critics have target networks.
    target_critics: ClassVar[bool] = True
    #: The accepted keys under which the batch holds the parts of an action.
    action_roles: ClassVar[tuple[str, ...]] = ("action",)

    actor_network: TensorDictModule | None
    actor_network_params: TensorDictParams
    target_actor_network_params: TensorDictParams
    qvalue_network: TensorDictModule
    qvalue_network_params: TensorDictParams
    target_qvalue_network_params: TensorDictParams
    _value_estimator: SoftValueEstimator | None
    num_qvalue_nets: int
    priors: Priors

    def _stack_critics(self, critics: list[nn.Module]) -> None:
        for critic in critics:
            if not hasattr(critic, "in_keys"):
                raise ConfigError(
                    f"qvalue_network is a {type(critic).__name__} without in_keys: wrap it in a "
                    "TensorDictModule that reads the observation and the action"
                )
        self.num_qvalue_nets = len(critics)
        alone = len(critics) == 1
        # TorchRL makes a list of one a view of the network's own parameters, which no optimizer of
        # this loss would see; given the network itself it makes parameters, but redraws them.
        self.convert_to_functional(
            critics[0] if alone else critics,
            "qvalue_network",
            len(critics),
            create_target_params=self.target_critics,
        )
        if alone:
            initial = TensorDict.from_module(critics[0]).data.unsqueeze(0)
            self.qvalue_network_params.data.copy_(initial)
            if self.target_critics:
                self._modules["target_qvalue_network_params"].data.copy_(initial)
            for name, parameter in critics[0].named_parameters():
                key = tuple(name.split("."))
                self.qvalue_network_params.get(key).requires_grad_(parameter.requires_grad)

    # ------------------------------------------------------------------ keys

    def _data_keys(self) -> list[NestedKey]:
        """Entries the losses themselves read, beside the networks'."""
        keys = self.tensor_keys
        ends = (keys.reward, keys.done, keys.terminated)
        return [*self._action_keys(), *(unravel_key(("next", key)) for key in ends)]

    def _action_keys(self) -> list[NestedKey]:
        return [unravel_key(getattr(self.tensor_keys, role)) for role in self.action_roles]

    def _network_keys(self) -> list[NestedKey]:
        """Entries the networks read at a state."""
        read = list(self.qvalue_network.in_keys)
        if self.actor_network is not None:
            read = [*self.actor_network.in_keys, *read]
        return self._without_actions(read)

    def _state_keys(self) -> list[NestedKey]:
        """Entries the networks and the priors read at a state."""
        return self._without_actions([*self._network_keys(), *self.priors.in_keys])

    def _next_state_keys(self) -> list[NestedKey]:
        """Those of them that the next state of a batch holds itself."""
        networks = self._network_keys()
        keys = self._state_keys()
        return [key for key in keys if key in networks or not is_previous_step_key(key)]

    def _without_actions(self, keys: list[NestedKey]) -> list[NestedKey]:
        own = self._action_keys()
        return [key for key in dict.fromkeys(map(unravel_key, keys)) if key not in own]

    def _set_in_keys(self) -> list[NestedKey]:
        states = self._state_keys()
        following = [unravel_key(("next", key)) for key in self._next_state_keys()]
        self._in_keys = list(dict.fromkeys([*self._data_keys(), *states, *following]))
        return self._in_keys

    # ------------------------------------------------------------------ value estimator

    def make_value_estimator(
        self, value_type: ValueEstimators | str | None = None, **hyperparams: Any
    ) -> SoftLossContract:
        """Choose the targets of the critics.

        Args:
            value_type: ``TD0`` (default), ``TD1`` or ``TDLambda``. The last two read ``[*, T]``
                sequences, time in the last batch dimension; n-step targets are ``TD1`` on slices
                of n steps.
            **hyperparams: ``gamma`` (kept from before by default) and, for ``TDLambda``, ``lmbda``
                (0.95).

        Returns:
            The loss itself.

        Raises:
            NotImplementedError: for an estimator that is not defined for soft values.
            ConfigError: for an unknown hyperparameter or one outside [0, 1].
        """
        if value_type is None:
            value_type = self.default_value_estimator
        name = value_type.replace("_", "").lower() if isinstance(value_type, str) else None
        kind = next((e for e in _LAMBDAS if value_type is e or name == e.name.lower()), None)
        if kind is None:
            raise NotImplementedError(
                f"{type(self).__name__} has no value estimator {value_type!r}: soft values need "
                "the entropy at every step of a return. Available: TD0, TD1, TDLambda"
            )
        current = self._value_estimator
        gamma = hyperparams.pop("gamma", current.gamma if current is not None else 0.99)
        lmbda = _LAMBDAS[kind]
        if kind is ValueEstimators.TDLambda:
            lmbda = hyperparams.pop("lmbda", lmbda)
        if hyperparams:
            raise ConfigError(
                f"unknown hyperparameters of {kind.name}: {', '.join(hyperparams)}; "
                f"it takes gamma{' and lmbda' if kind is ValueEstimators.TDLambda else ''}"
            )
        self.value_type = kind
        self._value_estimator = SoftValueEstimator(gamma, lmbda)
        return self
