"""ACER losses whose networks have a memory, and the truth of it: loops over the steps of each row.

The cells are PyTorch's ``nn.GRUCell`` and ``nn.LSTMCell`` with the weights of the loss. What they
remember goes into the formulas of :mod:`tests.objectives.acer_references`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictSequential
from torch import Tensor, nn
from torch.nn.functional import one_hot

from rlkit_sac.modules import (
    GRUMemory,
    LSTMMemory,
    MemoryOptions,
    StochasticDuelingNetwork,
    action_value_critic,
    categorical_actor,
    categorical_actor_critic,
    gaussian_actor,
    gaussian_actor_critic,
    state_action_critic,
    state_critic,
)
from rlkit_sac.modules.memory import cells_of
from rlkit_sac.modules.recurrent import PreviousStep
from rlkit_sac.objectives import ACERLoss
from tests.objectives.acer_networks import (
    ACTION_DIM,
    NUM_ACTIONS,
    NUM_SAMPLES,
    OBSERVATION_DIM,
    SIZES,
    Noise,
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
    sampling = {} if sampler is None else {"sampler": sampler}
    sizes, wide = {**SIZES, "memory": memory}, (OBSERVATION_DIM, ACTION_DIM)
    if kind == "discrete":
        both = (OBSERVATION_DIM, NUM_ACTIONS)
        networks = {
            "actor_network": categorical_actor(*both, **sizes),
            "critic_network": action_value_critic(*both, **sizes),
        }
        trunk = categorical_actor_critic(*both, **sizes)
    else:
        critic = StochasticDuelingNetwork(
            state_critic(OBSERVATION_DIM, **sizes),
            state_action_critic(*wide, **sizes),
            NUM_SAMPLES,
            **sampling,
        )
        networks = {"actor_network": gaussian_actor(*wide, **sizes), "critic_network": critic}
        trunk = gaussian_actor_critic(*wide, **sizes, num_samples=NUM_SAMPLES, **sampling)
    if shared:
        networks = {"actor_critic": trunk}
    loss = ACERLoss(**{key: each.double() for key, each in networks.items()}, **options)
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
        layers = cells_of(network.memory).num_layers
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
    keys = memory.in_keys[1:-1]
    cells = cells_of(memory)

    def x(observation: Tensor, action: Tensor | None) -> Tensor:
        parts = [observation]
        if join.num_actions:
            index = torch.tensor(0) if action is None else action
            parts.append(one_hot(index, join.num_actions) * float(action is not None))
        elif cells.input_size > OBSERVATION_DIM:
            parts.append(torch.zeros(ACTION_DIM) if action is None else action)
        return torch.cat([part.double() for part in parts])

    def step(inputs: Tensor, state: list[list[Tensor]]) -> list[list[Tensor]]:
        after = []
        for layer, now in enumerate(state):
            kind = nn.GRUCell if len(now) == 1 else nn.LSTMCell
            cell = kind(len(inputs), HIDDEN).double()
            weights = {
                name: getattr(cells, f"{name}_l{layer}") for name, _ in cell.named_parameters()
            }
            argument = now[0] if len(now) == 1 else tuple(now)
            out = torch.func.functional_call(cell, weights, (inputs, argument))
            after.append([out] if len(now) == 1 else list(out))
            inputs = after[-1][0]
        return after

    zero = [[torch.zeros(HIDDEN).double() for _ in keys] for _ in range(cells.num_layers)]
    mask = rows.get(("collector", "mask"), torch.ones(rows.shape, dtype=torch.bool))
    found: Remembered = {}
    for row in range(len(rows)):
        state = zero
        if keys[0] in rows:
            state = [[rows[key][row, 0, layer] for key in keys] for layer in range(len(zero))]
        for t in range(rows.shape[1]):
            if not mask[row, t]:
                break
            here = rows[row, t]
            if t and rows["next", "done"][row, t - 1]:
                state = zero
            begins = bool(here["is_init"])
            inputs = x(here["observation"], None if begins else here["prev_action"])
            with torch.set_grad_enabled(t >= burn_in):
                state = step(inputs, state)
            found[row, t, 0] = torch.cat([state[-1][0], inputs])
            with torch.no_grad():
                inputs = x(here["next", "observation"], here["action"])
                found[row, t, 1] = torch.cat([step(inputs, state)[-1][0], inputs])
    return found


def copied(loss: ACERLoss, name: str) -> nn.Module:
    return copy.deepcopy(loss.get_stateful_net(name))


def leaves(network: nn.Module) -> Iterator[nn.Module]:
    """The perceptrons of a network, in order."""
    if isinstance(network, TensorDictSequential):
        for part in network.module:
            yield from leaves(part)
    elif isinstance(getattr(network, "module", None), nn.Sequential | nn.Linear):
        yield network.module
