"""The previous action as an entry of the observation."""

from __future__ import annotations

from tensordict import TensorDictBase
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import Transform


class PreviousAction(Transform):
    """Writes ``prev_action``, the action of the step before; zeros at the start of an episode.

    Zeros are index 0 for a discrete action: tell the two apart by ``is_init``.

    Keys: reads ``action``; writes ``prev_action`` of the same shape `[*, D]` or `[*]` and dtype,
    or of the same entries where the action is nested.

    >>> from torchrl.envs import GymEnv, TransformedEnv
    >>> env = TransformedEnv(GymEnv("Pendulum-v1"), PreviousAction())
    >>> rollout = env.rollout(3)
    >>> rollout["prev_action"][0]
    tensor([0.])
    >>> bool((rollout["prev_action"][1:] == rollout["action"][:-1]).all())
    True
    """

    def __init__(self) -> None:
        super().__init__(in_keys=["action"], out_keys=["prev_action"])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.set("prev_action", tensordict.get("action").clone())

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        # Where only some environments are reset, TorchRL keeps the values of the others.
        return tensordict_reset.set("prev_action", self.parent.full_action_spec["action"].zero())

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Adds ``prev_action``, unbounded where continuous: zeros may lie outside the bounds."""
        observation_spec["prev_action"] = _unbounded(self.parent.full_action_spec["action"])
        return observation_spec


def _unbounded(spec: TensorSpec) -> TensorSpec:
    if isinstance(spec, Composite):
        parts = {name: _unbounded(part) for name, part in spec.items()}
        return Composite(parts, shape=spec.shape, device=spec.device)
    if isinstance(spec, Categorical):
        return spec.clone()
    return Unbounded(shape=spec.shape, device=spec.device, dtype=spec.dtype)
