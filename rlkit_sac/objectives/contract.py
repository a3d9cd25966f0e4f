"""What TorchRL asks of a loss module, for every loss of the soft actor-critic family."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from tensordict import NestedKey, TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictParams
from tensordict.utils import unravel_key
from torch import Tensor, nn
from torchrl.objectives import LossModule, ValueEstimators

from rlkit_sac.errors import ConfigError
from rlkit_sac.objectives.priors import Priors, tells_of_before
from rlkit_sac.objectives.soft_value_estimator import SoftValueEstimator
from rlkit_sac.objectives.validity import valid_steps

Reduction = Literal["mean", "sum", "none"]
ScalarOutputMode = Literal["exclude", "non_tensor"]

_LAMBDAS = {ValueEstimators.TD0: 0.0, ValueEstimators.TD1: 1.0, ValueEstimators.TDLambda: 0.95}


class SoftLossContract(LossModule):
    """Parameters, keys, value estimator and outputs; no equation of any algorithm."""

    @dataclass
    class _AcceptedKeys:
        action: NestedKey = "action"
        value: NestedKey = "state_value"
        log_prob: NestedKey = "action_log_prob"
        priority: NestedKey = "td_error"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        priority_weight: NestedKey = "priority_weight"

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
    _in_keys: list[NestedKey] | None
    _out_keys: list[str] | None
    _value_estimator: SoftValueEstimator | None
    num_qvalue_nets: int
    priors: Priors

    def __init__(
        self,
        reduction: Reduction,
        scalar_output_mode: ScalarOutputMode | None,
        use_prioritized_weights: bool | Literal["auto"],
    ) -> None:
        self._in_keys = None
        self._out_keys = None
        super().__init__()
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("use_prioritized_weights", use_prioritized_weights, (True, False, "auto"))
        check_choice("scalar_output_mode", scalar_output_mode, (None, "exclude", "non_tensor"))
        if reduction == "none" and scalar_output_mode is None:
            warnings.warn(
                "reduction='none' gives losses of the batch's shape, beside which a TensorDict "
                "cannot hold scalars such as alpha: they are left out. Pass "
                "scalar_output_mode='exclude' to agree, or 'non_tensor' to keep them.",
                stacklevel=3,
            )
            scalar_output_mode = "exclude"
        self.reduction = reduction
        self.scalar_output_mode = scalar_output_mode
        self.use_prioritized_weights = use_prioritized_weights

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
        return [key for key in keys if key in networks or not tells_of_before(key)]

    def _without_actions(self, keys: list[NestedKey]) -> list[NestedKey]:
        own = self._action_keys()
        return [key for key in dict.fromkeys(map(unravel_key, keys)) if key not in own]

    def _set_in_keys(self) -> list[NestedKey]:
        states = self._state_keys()
        following = [unravel_key(("next", key)) for key in self._next_state_keys()]
        self._in_keys = list(dict.fromkeys([*self._data_keys(), *states, *following]))
        return self._in_keys

    @property
    def in_keys(self) -> list[NestedKey]:
        """Entries read from the batch."""
        return self._set_in_keys() if self._in_keys is None else self._in_keys

    @in_keys.setter
    def in_keys(self, values: list[NestedKey]) -> None:
        self._in_keys = values

    @property
    def out_keys(self) -> list[str]:
        """Entries of the output."""
        if self._out_keys is None:
            self._out_keys = self._default_out_keys()
        return self._out_keys

    @out_keys.setter
    def out_keys(self, values: list[str]) -> None:
        self._out_keys = values

    @abstractmethod
    def _default_out_keys(self) -> list[str]:
        """Every entry the loss writes into its output."""

    def _forward_value_estimator_keys(self, **kwargs: Any) -> None:
        self._in_keys = None  # to be told anew; the estimator reads no keys of its own

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

    # ------------------------------------------------------------------ reduction and output

    def _importance_weights(self, batch: TensorDictBase) -> Tensor | None:
        if self.use_prioritized_weights is False:
            return None
        weights = batch.get(self.tensor_keys.priority_weight, None)
        if weights is None:
            return None
        weights = weights.reshape(batch.batch_size)
        valid = valid_steps(batch, self._loss_mask_keys())
        # TorchRL's reduction multiplies: a NaN weight of a padded step would survive a zero mask.
        return weights if valid is None else torch.where(valid, weights, torch.zeros_like(weights))

    def _reduce(self, loss: Tensor, batch: TensorDictBase, weights: Tensor | None) -> Tensor:
        """TorchRL's reduction over the valid steps; zero, not 0 / 0, where no weight counts."""
        if weights is None or self.reduction != "mean":
            return self._reduce_loss(loss, batch, weights=weights)
        total = weights.sum()
        weighted = self._reduce_loss(loss, batch, reduction="sum", weights=weights)
        return weighted / total.masked_fill(total == 0, 1.0)

    def _output(
        self, losses: dict[str, Tensor], scalars: dict[str, Tensor], batch: TensorDictBase
    ) -> TensorDictBase:
        """Reduce the losses of each step and put the scalars beside them."""
        weights = self._importance_weights(batch)
        out = TensorDict(
            {name: self._reduce(loss, batch, weights) for name, loss in losses.items()},
            batch_size=batch.batch_size if self.reduction == "none" else [],
        )
        if self.reduction != "none":
            out.update(scalars)
        elif self.scalar_output_mode == "non_tensor":
            for name, value in scalars.items():
                out.set_non_tensor(name, value)
        return out

    def _make_vmap(self) -> None:
        """Nothing to cache: vmapped calls are made where they are used."""


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse an option that is not one of a few.

    Raises:
        ConfigError: naming the option, what came and the choices.

    >>> check_choice("reduction", "avg", ("mean", "sum"))
    Traceback (most recent call last):
    rlkit_sac.errors.ConfigError: reduction must be one of 'mean', 'sum', not 'avg'
    """
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
