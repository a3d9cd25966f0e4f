"""A batched task of TorchRL: a cart on a track is to reach the middle, with any kind of action."""

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from torchrl.envs import EnvBase

ACTIONS: dict[str, TensorSpec] = {
    "box": Bounded(-2.0, 2.0, (1,)),
    "wide box": Unbounded((1,)),
    "choice": Categorical(3),
    "one-hot": OneHot(3),
    "choices": MultiCategorical([3, 2]),
    "one-hots": MultiOneHot([3, 2]),
    "flags": Binary(2),
    "both": Composite(side=Categorical(3), force=Bounded(0.0, 4.0, (1,))),
}


class Track(EnvBase):
    """Keeps what it received as ``received``.

    The wind, other in each episode, adds ``storm`` times itself to each reward.
    """

    def __init__(
        self,
        action: str = "box",
        num: int = 4,
        masked: bool = False,
        broken: str = "",
        storm: float = 0.0,
    ) -> None:
        super().__init__(batch_size=[num], device="cpu")
        where: dict[str, Any] = {"at": Unbounded((num, 2), dtype=torch.float64)}
        where |= {"lit": Categorical(2, (num,)), "wind": Unbounded((num, 1))}
        if masked:
            where["action_mask"] = Binary(3, (num, 3), dtype=torch.int8)
        self.observation_spec = Composite(where, shape=[num])
        one = ACTIONS[action]
        self.full_action_spec = Composite({"action": one.expand(num, *one.shape)}, shape=[num])
        self.reward_spec = Unbounded((num, 1), dtype=torch.float64)
        self.full_done_spec = Composite(
            {name: Categorical(2, (num, 1), dtype=torch.bool) for name in ("done", "terminated")},
            shape=[num],
        )
        self.masked, self.broken, self.storm, self.received = masked, broken, storm, []
        self.state = torch.zeros(num, 3, dtype=torch.float64)

    def _set_seed(self, seed: int | None) -> None:
        self.generator = torch.Generator().manual_seed(0 if seed is None else seed)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        first = torch.rand(self.state.shape, generator=self.generator, dtype=torch.float64) - 0.5
        first[:, 1] *= 0.2
        begins = torch.ones(len(first), dtype=torch.bool)
        if tensordict is not None and "_reset" in tensordict:
            begins = tensordict["_reset"].reshape(-1)
        self.state = torch.where(begins[:, None], first, self.state)
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.broken == "step":
            raise OSError("the simulator is gone")
        action = tensordict["action"]
        self.received.append(action.clone())
        push = _number(action)
        at, speed, wind = self.state.unbind(-1)
        speed = 0.8 * speed + 0.1 * push + 0.05 * wind
        self.state = torch.stack([at + speed, speed, wind], -1)
        if self.broken == "nan":
            self.state[2] = torch.nan
        after = self._seen()
        after["reward"] = self.storm * self.state[:, 2:] - self.state[:, :1] ** 2
        after["terminated"] = after["done"] = (self.state[:, :1].abs() > 1).clone()
        return after

    def _seen(self) -> TensorDict:
        flags = torch.zeros(len(self.state), 1, dtype=torch.bool)
        found = {"at": self.state[:, :2], "wind": self.state[:, 2:].float()}
        found |= {"lit": (self.state[:, 0] > 0).long(), "done": flags, "terminated": flags.clone()}
        if self.masked:
            found["action_mask"] = torch.ones(len(self.state), 3, dtype=torch.int8)
            found["action_mask"][:, 1] = 0
        return TensorDict(found, batch_size=self.batch_size)


def _number(action: Any) -> Tensor:
    """A push from -1 to 1, of any kind of action."""
    if isinstance(action, TensorDictBase):
        return (action["side"] - 1.0) * action["force"][:, 0] / 4
    values = action.double()
    if values.ndim == 1:
        return values - 1
    return (
        values[:, 0] / 2
        if values.shape[-1] == 1
        else values @ torch.from_numpy(np.linspace(-1, 1, values.shape[-1]))
    )
