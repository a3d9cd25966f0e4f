"""Small policies with memory, of TorchRL's and PyTorch's parts."""

from typing import Literal

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.modules import ProbabilisticActor

from rlkit_sac.modules import TanhGaussian
from rlkit_sac.modules.memory import GRUMemory, LSTMMemory

Cells = Literal["gru", "lstm"]
SIZE = 8
STATES = {"gru": ["actor_state"], "lstm": ["actor_state_h", "actor_state_c"]}
MEMORIES = {"gru": GRUMemory, "lstm": LSTMMemory}


def concatenate(observation: Tensor, previous: Tensor) -> Tensor:
    if not previous.is_floating_point():
        previous = (previous.unsqueeze(-1) == torch.arange(2)).float()
    return torch.cat([observation, previous], -1)


def network(
    cells: Cells, inputs: int, head: nn.Module, out_keys: list[str]
) -> TensorDictSequential:
    states = STATES[cells]
    memory = MEMORIES[cells](
        input_size=inputs,
        hidden_size=SIZE,
        in_keys=["memory_input", *states],
        out_keys=["memory", *(("next", key) for key in states)],
    )
    return TensorDictSequential(
        TensorDictModule(concatenate, ["observation", "prev_action"], ["memory_input"]),
        memory,
        TensorDictModule(head, ["memory"], out_keys),
    )


def recurrent_gaussian(cells: Cells) -> ProbabilisticActor:
    """For Pendulum-v1."""
    head = nn.Sequential(nn.Linear(SIZE, 2), NormalParamExtractor())
    return ProbabilisticActor(
        network(cells, 4, head, ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhGaussian,
    )


def recurrent_categorical(cells: Cells) -> ProbabilisticActor:
    """For CartPole-v1."""
    return ProbabilisticActor(
        network(cells, 6, nn.Linear(SIZE, 2), ["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
    )
