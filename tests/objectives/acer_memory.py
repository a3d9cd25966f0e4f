"""ACER losses whose networks have a memory, and the truth of it: loops over the steps of each row.

The cells are PyTorch's ``nn.GRUCell`` and ``nn.LSTMCell`` with the weights of the loss. What they
remember goes into the formulas of :mod:`tests.objectives.acer_references`.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictSequential
from torch import Tensor, nn
from torch.nn.functional import one_hot

from rlkit_sac.modules import GRUMemory, LSTMMemory, MemoryOptions
from rlkit_sac.modules.layers import PreviousStep
from rlkit_sac.modules.memory import get_cells
from rlkit_sac.objectives import ACERLoss
from tests.objectives import memory_references
from tests.objectives.acer_networks import (
    ACTION_DIM,
    NUM_ACTIONS,
    OBSERVATION_DIM,
    Noise,
    acer_networks,
    make_segments,
)

HIDDEN = 4


@dataclass
class RecurrentNetworks:
    """The networks of a loss as functions of the place of a step, with parameters of their own."""

    actor: Callable[[Tensor], Tensor]
    average: Callable[[Tensor], Tensor]
    critic: Callable[[Tensor], Tensor]
    advantage: Callable[[Tensor], Tensor] | None
    parameters: dict[str, dict[str, Tensor]]
    trained_by_critic: list[str]

    def actor_parameters(self) -> list[Tensor]:
        return list(self.parameters["actor_network"].values())

    def critic_parameters(self) -> list[Tensor]:
        trunk = self.parameters["actor_network"]
        of_trunk = [trunk[name] for name in self.trained_by_critic]
        return [*of_trunk, *self.parameters["critic_network"].values()]


def make_recurrent_acer(
    kind: str,
    memory: MemoryOptions,
    *,
    shared: bool,
    sampler: Noise | None = None,
    spread: float = 0.3,
    **options,
) -> ACERLoss:
    """A loss in float64 whose average policy differs from its policy."""
    networks = acer_networks(kind, shared=shared, sampler=sampler, memory=memory)
    loss = ACERLoss(**networks, **options)
    with torch.no_grad():
        for target in loss.target_actor_network_params.values(True, True):
            target.add_(spread * torch.randn_like(target))
    return loss


def previous_action(kind: str) -> dict[str, int]:
    """The option of a memory that reads the previous action."""
    return {"num_actions": NUM_ACTIONS} if kind == "discrete" else {"action_dim": ACTION_DIM}


def make_rows(kind: str, *batch: int, starts: float = 0.5, **options) -> TensorDict:
    """Segments of episodes, with what a memory reads; some rows begin an episode.

    Steps follow each other: where an episode goes on, the next observation is that of the next
    step, and the previous action is the action of the step before.
    """
    rows = make_segments(kind, *batch, padded=False, **options)
    done = rows["next", "done"]
    goes_on = ~done[:, :-1, 0]
    rows["next", "observation"][:, :-1][goes_on] = rows["observation"][:, 1:][goes_on]
    begins = torch.cat([torch.rand(len(rows), 1, 1) < starts, done[:, :-1]], 1)
    first = make_segments(kind, len(rows), 1, padded=False)["action"]
    previous = torch.cat([first, rows["action"][:, :-1]], 1)
    zero = begins.reshape(*begins.shape[:2], *(1,) * (previous.ndim - 2))
    rows["is_init"], rows["prev_action"] = begins, previous.masked_fill(zero, 0)
    return rows


def store_states(rows: TensorDict, loss: ACERLoss) -> None:
    """Put random states of all memories into rows, zero where an episode begins."""
    for network in loss.recurrent.values():
        layers = get_cells(network.memory).num_layers
        for key in network.state_keys:
            state = torch.randn(*rows.batch_size, layers, HIDDEN).double()
            rows[key] = state.masked_fill(rows["is_init"].unsqueeze(-1), 0.0)


def recurrent_networks(loss: ACERLoss, rows: TensorDict) -> tuple[RecurrentNetworks, TensorDict]:
    """Copies of a loss's networks, and rows whose observations are the places of their steps."""
    discrete = loss.kind == "discrete"
    actor, critic = (copied(loss, f"{name}_network") for name in ("actor", "critic"))
    average = copy.deepcopy(actor)
    own = dict(average.named_parameters())
    for name, target in loss.target_actor_network_params.flatten_keys(".").items():
        own[name].data.copy_(target)
    shared = not any(name.startswith("critic_network") for name in loss.recurrent)
    trunk = list(leaves(actor))[:-1] if shared else []

    def run(network: nn.Module, remembered: Remembered, *, critic: bool = False) -> Callable:
        layers = list(leaves(network))
        if critic and shared:
            layers = [*trunk, *layers]

        def evaluate(address: Tensor) -> Tensor:
            out = remembered[tuple(int(each) for each in address[:3])]
            *first, last = layers
            for layer in first:
                out = layer(out)
            return last(torch.cat([out, address[3:]]))

        return evaluate

    of_actor = remember(actor, rows, loss.burn_in)
    nets = {"actor": run(actor, of_actor), "advantage": None}
    nets["average"] = run(average, remember(average, rows, loss.burn_in))
    names = (
        {"critic": critic}
        if discrete
        else {"critic": critic.value_network, "advantage": critic.advantage_network}
    )
    for name, network in names.items():
        remembered = of_actor if shared else remember(network, rows, loss.burn_in)
        nets[name] = run(network, remembered, critic=True)
    parameters = {
        f"{name}_network": dict(each.named_parameters())
        for name, each in (("actor", actor), ("critic", critic))
    }
    head = {id(each) for each in list(leaves(actor))[-1].parameters()}
    of_trunk = [name for name, each in actor.named_parameters() if id(each) not in head]
    places = rows.clone()
    row, step = torch.meshgrid(*map(torch.arange, rows.batch_size), indexing="ij")
    for key, following in (("observation", 0), (("next", "observation"), 1)):
        places[key] = torch.stack([row, step, torch.full_like(row, following)], -1).double()
    return (
        RecurrentNetworks(**nets, parameters=parameters, trained_by_critic=of_trunk * shared),
        places[:, loss.burn_in :],
    )


Remembered = dict[tuple[int, int, int], Tensor]


def remember(network: nn.Module, rows: TensorDict, burn_in: int) -> Remembered:
    """What a memory gives the head, ``(h, x)``, by row, step and whether it is s'."""
    memory = next(each for each in network.modules() if isinstance(each, GRUMemory | LSTMMemory))
    join = next(each for each in network.modules() if isinstance(each, PreviousStep))
    keys, cells = memory.in_keys[1:-1], get_cells(memory)
    everywhere = torch.ones(rows.shape, dtype=torch.bool)
    valid = rows.get(("collector", "mask"), everywhere)
    data = TensorDict(begins=rows["is_init"], next=rows["next"], batch_size=rows.batch_size)
    data["collector", "mask"] = valid

    def inputs(observation: Tensor, action: Tensor, begins: Tensor) -> Tensor:
        if not action.is_floating_point():  # padding holds any index
            action = one_hot(torch.where(valid, action, 0), join.num_actions).double()
        before = [action.masked_fill(begins, 0.0)] if cells.input_size > OBSERVATION_DIM else []
        return torch.cat([observation, *before], -1)

    def cell(layer: int) -> Callable[[Tensor, Any], Any]:
        kind = nn.GRUCell if len(keys) == 1 else nn.LSTMCell
        plain = kind(cells.input_size, HIDDEN).double()
        names = [name for name, _ in plain.named_parameters()]
        weights = {name: getattr(cells, f"{name}_l{layer}") for name in names}
        return lambda x, state: torch.func.functional_call(plain, weights, (x, state))

    x = inputs(rows["observation"], rows["prev_action"], rows["is_init"])
    never = torch.zeros_like(rows["is_init"])
    next_x = inputs(rows["next", "observation"], rows["action"], never)
    zero = torch.zeros(len(rows), cells.num_layers, HIDDEN).double()
    start = [rows[key][:, 0] if key in rows else zero for key in keys]
    walk = map(cell, range(cells.num_layers))
    h, next_h = memory_references.remember(list(walk), x, next_x, start, data, burn_in)
    both = torch.cat([h, x], -1), torch.cat([next_h, next_x], -1).detach()
    places = product(*map(range, rows.shape), (0, 1))
    return {(row, t, following): both[following][row, t] for row, t, following in places}


def copied(loss: ACERLoss, name: str) -> nn.Module:
    return copy.deepcopy(loss.get_stateful_net(name))


def leaves(network: nn.Module) -> Iterator[nn.Module]:
    """The perceptrons of a network, in order."""
    if isinstance(network, TensorDictSequential):
        for part in network.module:
            yield from leaves(part)
    elif isinstance(getattr(network, "module", None), nn.Sequential | nn.Linear):
        yield network.module
