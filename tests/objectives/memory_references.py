"""Losses with memories, and the same losses without any on what PyTorch's cells remember.

The reference walks through each episode by itself, with ``GRUCell`` and ``LSTMCell``, and gives
what they remember to a loss without memory, whose networks are the heads alone.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad
from torchrl.objectives import LossModule

from tests.objectives.losses import loss_class, networks_of
from tests.objectives.networks import (
    ACTION_DIM,
    DISCRETE_KINDS,
    NUM_ACTIONS,
    make_data,
    move_targets,
)
from tests.objectives.prior_references import BOX, HYBRID, INDEX

UNITS, CELLS = 4, {"num_cells": [6], "activation": "tanh"}
ROWS, STEPS = 6, 7

SPECS = {
    **dict.fromkeys(("continuous", "value"), BOX),
    **dict.fromkeys(("boltzmann", "categorical"), INDEX),
    "hybrid": HYBRID,
}

#: The owner of the state that the memory of each network keeps.
OWNERS = {"actor_network": "actor", "qvalue_network": "critic", "value_network": "value"}
TRAINED_BY = {
    "actor_network": "loss_actor",
    "qvalue_network": "loss_qvalue",
    "value_network": "loss_value",
}


def memory_of(kind: str, cells: str, layers: int) -> dict:
    """The option ``memory`` of the builders for a kind of loss."""
    has_vector, has_index = kind not in ("boltzmann", "categorical"), kind in DISCRETE_KINDS
    return {
        "kind": cells,
        "size": UNITS,
        "layers": layers,
        "action_dim": ACTION_DIM * has_vector,
        "num_actions": NUM_ACTIONS * has_index,
    }


def make_networks(
    kind: str, memory: dict, rewards: int = 1, critics: int = 2, **critic
) -> dict[str, nn.Module | list[nn.Module]]:
    """Networks of the package for a kind of loss, by the names of its arguments."""
    options = {**CELLS, "memory": memory, "reward_dim": rewards, "critic": critic}
    several = [networks_of(kind, **options) for _ in range(critics)]
    networks = {name: network.double() for name, network in several[0].items()}
    return networks | {"qvalue_network": [each["qvalue_network"].double() for each in several]}


def recurrent_loss(kind: str, cells: str, layers: int = 1, **options) -> LossModule:
    networks = make_networks(kind, memory_of(kind, cells, layers))
    return loss_class(kind)(**networks, action_spec=SPECS[kind], alpha_init=0.3, **options)


def make_rows(
    kind: str, memory: dict, *, rewards: int = 1, critics: int = 2, stored: tuple[str, ...] = ()
) -> TensorDict:
    """Rows ``[6, 7]`` in float64 with every way in which an episode begins or ends in one.

    Args:
        kind: of the loss.
        memory: the option of its networks.
        stored: owners whose states the rows hold; critics have one each.
    """
    data = make_data(kind, ROWS, STEPS, rewards=rewards)
    done, is_init = torch.zeros(2, ROWS, STEPS, 1, dtype=torch.bool)
    terminated, valid = done.clone(), torch.ones(ROWS, STEPS, dtype=torch.bool)
    begins = is_init.clone()
    is_init[0, 0] = True  # a sampler's: the row begins in the middle of an episode
    for row, last in ((1, 2), (2, 4), (3, 4), (5, 5)):
        done[row, last] = terminated[row, last] = True
    done[2, 1] = True  # a time limit
    for row, first in ((1, 3), (2, 2), (2, 5), (3, 0)):
        begins[row, first] = is_init[row, first] = True
    valid[3, 5:] = False  # padding behind
    valid[4, :2] = False  # in front
    valid[5, 3] = False  # a hole; after its end in step 5 nothing says that an episode begins
    before = data["action"].clone()
    before[:, 1:] = data["action"][:, :-1]
    before = before if isinstance(before, TensorDict) else TensorDict(whole=before)
    before = before.apply(lambda each: each.masked_fill(_as(begins, each), 0), batch_size=[])
    data["prev_action"] = before if kind == "hybrid" else before["whole"]
    data["is_init"], data["begins"] = is_init, begins
    data["next", "done"], data["next", "terminated"] = done, terminated
    data["collector", "mask"] = valid
    parts = [""] if memory["kind"] == "gru" else ["_h", "_c"]
    for owner in stored:
        count = (critics,) if owner == "critic" else ()
        for part in parts:
            state = torch.randn(ROWS, STEPS, *count, memory["layers"], UNITS).double()
            state[3, 0] = 0.0  # the true beginning of an episode
            data[f"{owner}_state{part}"] = state
    return data


def with_nan(data: TensorDict) -> TensorDict:
    """What a loss is given: NaN in the invalid steps, and in states that no row begins with."""
    valid = data["collector", "mask"]

    def spoil(entry: Tensor) -> Tensor:
        if not entry.is_floating_point():
            return entry
        return torch.where(_as(valid, entry), entry, torch.nan)

    given = data.exclude("begins").apply(spoil)
    for key in [key for key in data.keys() if "_state" in key]:  # noqa: SIM118
        given[key][:, 1:] = torch.nan
        given["next", key] = torch.full_like(data[key], torch.nan)
    given["next", "is_init"] = ~data["is_init"]
    return given


class Head(nn.Module):
    """A head that reads one of the N networks' features ``[*, N, F]``, and what else it read.

    With a mask ``[K, D]`` each of its K values is of a pass with the parameters of its action.
    """

    def __init__(self, net: nn.Module, which: int, count: int, mask: list | None = None) -> None:
        super().__init__()
        self.net, self.mask = net, mask
        self.register_buffer("which", one_hot(torch.tensor(which), count).double())

    def forward(self, features: Tensor, *others: Tensor) -> Tensor | tuple[Tensor, ...]:
        features = (features * self.which[:, None]).sum(-2)
        if self.mask is None:
            return self.net(torch.cat([features, *others], -1))
        (action,), dim = others, features.ndim - 1
        passes = [torch.cat([features, action * torch.tensor(row)], -1) for row in self.mask]
        values = [self.net(each).select(dim, k) for k, each in enumerate(passes)]
        return torch.stack(values, dim)


@dataclass
class Reference:
    """A loss with memories beside one without.

    Attributes:
        loss: with memories.
        plain: the same heads, without.
        memory: the option of its networks.
        cells: of each network and member, live, made by the last call.
    """

    loss: LossModule
    plain: LossModule
    memory: dict
    cells: dict[str, list[list[nn.Module]]] = field(default_factory=dict)

    def rows_for_plain(self, data: TensorDict) -> TensorDict:
        """The rows after the burn-in, with the features of every network in place of states."""
        rows = data.clone()
        for name in self.names:
            live, target = getattr(self.loss, f"{name}_params"), None
            if f"target_{name}_params" in dict(self.loss.named_modules()):
                target = getattr(self.loss, f"target_{name}_params")
            here, after = self._features(name, live, data, keep=True)
            if target is not None:
                with torch.no_grad():
                    of_target = self._features(name, target, data, keep=False)
                here, after = here + of_target[0], after + of_target[1]
            rows[f"{name}_features"] = torch.stack(here, 2)
            rows["next", f"{name}_features"] = torch.stack(after, 2)
        return rows[:, self.loss.burn_in :]

    @property
    def names(self) -> list[str]:
        return [name for name in OWNERS if getattr(self.loss, name, None) is not None]

    def _features(
        self, name: str, params: TensorDictBase, data: TensorDict, *, keep: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Each member's ``[B, T, F]`` at the states and at the next ones."""
        stacked = self.memory["kind"]
        weights = _find(params, stacked)
        members = params.batch_size[0] if params.batch_size else None
        x, next_x = self._inputs(data)
        here, after, all_cells = [], [], []
        for member in range(members or 1):
            cells = make_cells(
                self.memory,
                lambda key, member=member: (
                    weights.get(key) if members is None else weights.get(key)[member]
                ),
            )
            start = stored_start(data, OWNERS[name], self.memory, member, members)
            h, next_h = remember(cells, x, next_x, start, data, self.loss.burn_in)
            here.append(torch.cat([h, x], -1))
            after.append(torch.cat([next_h, next_x], -1))
            all_cells.append(cells)
        if keep:
            self.cells[name] = all_cells
        return here, after

    def _inputs(self, data: TensorDict) -> tuple[Tensor, Tensor]:
        """The inputs of the memories at the states and at the next ones, ``[B, T, I]``."""
        outs = []
        for states, action, begins in (
            (data, data["prev_action"], data["begins"]),
            (data["next"], data["action"], torch.zeros_like(data["begins"])),
        ):
            observation = states["observation"]
            if self.loss.observation_normalizer is not None:
                found = self.loss.observation_normalizer.statistics
                observation = (observation - found.mean) / (found.variance + 1e-8).sqrt()
            is_whole = isinstance(action, Tensor)
            parts = [action] if is_whole else [action["continuous"], action["discrete"]]
            vectors = [
                part if part.is_floating_point() else one_hot(part, NUM_ACTIONS).double()
                for part in parts
            ]
            before = torch.where(begins, 0.0, torch.cat(vectors, -1))
            outs.append(torch.cat([observation, before], -1))
        return outs[0], outs[1]

    def leaves(self) -> dict[str, tuple[Tensor, list[Tensor]]]:
        """Each parameter of the networks, and the reference's leaves for it, one each member."""
        out = {}
        for name in self.names:
            params, plain = (getattr(each, f"{name}_params") for each in (self.loss, self.plain))
            weights = _find(params, self.memory["kind"])
            for key, value in weights.items():
                base, layer = key.rsplit("_l", 1)
                of_members = [getattr(c[int(layer)], base) for c in self.cells[name]]
                out[f"{name}.{key}"] = value, of_members
            heads = dict(plain.items(True, True))
            for key, value in _head(params).items(True, True):
                path = (key,) if isinstance(key, str) else key
                found = next(h for k, h in heads.items() if k[-len(path) - 1 :] == ("net", *path))
                out[f"{name}.head.{'.'.join(path)}"] = value, [found]
        return out


def make_pair(
    kind: str,
    cells: str = "gru",
    layers: int = 1,
    *,
    rewards: int = 1,
    critics: int = 2,
    layer_norm: bool = False,
    **options,
) -> Reference:
    """A loss with memories whose targets differ from what they follow, and its reference."""
    memory, extra = memory_of(kind, cells, layers), {"layer_norm": True} if layer_norm else {}
    networks = make_networks(kind, memory, rewards, critics, **extra)
    targets = ["value_network"] if kind == "value" else ["qvalue_network"]
    plain_networks: dict[str, nn.Module | list[nn.Module]] = {}
    masks = {"qvalue_network": options.get("parameter_mask")} if options.get("mask_critics") else {}
    for name, network in networks.items():
        members = network if isinstance(network, list) else [network]
        count = len(members) * (2 if name in targets else 1)
        mask = masks.get(name)
        heads = [_plain(name, each, place, count, mask) for place, each in enumerate(members)]
        plain_networks[name] = heads if isinstance(network, list) else heads[0]
    burn_in, options["action_spec"] = options.pop("burn_in", 0), SPECS[kind]
    options.setdefault("alpha_init", 0.3)
    loss = loss_class(kind)(**networks, **options, burn_in=burn_in)
    plain_options = deepcopy(options)
    plain_options.pop("observation_normalizer", None)
    plain_options.pop("mask_critics", None)  # its heads make the passes by themselves
    plain = loss_class(kind)(**plain_networks, **plain_options)
    for name in targets:
        params, of_plain = (getattr(each, f"target_{name}_params") for each in (loss, plain))
        move_targets(params)
        heads = dict(of_plain.items(True, True))
        for key, value in _head(params).items(True, True):
            path = (key,) if isinstance(key, str) else key
            found = next(h for k, h in heads.items() if k[-len(path) - 1 :] == ("net", *path))
            found.data.copy_(value)
        which = next(h for k, h in heads.items() if k[-1] == "which")
        which.data.copy_(which.data.roll(which.shape[-1] // 2, -1))
    return Reference(loss, plain, memory)


def make_cells(memory: dict, weights: Callable[[str], Tensor]) -> list[nn.Module]:
    """PyTorch's cells of the layers with the given weights."""
    cells = []
    for layer in range(memory["layers"]):
        inputs = weights(f"weight_ih_l{layer}").shape[1]
        cell = (nn.GRUCell if memory["kind"] == "gru" else nn.LSTMCell)(inputs, UNITS).double()
        for key, parameter in cell.named_parameters():
            parameter.data.copy_(weights(f"{key}_l{layer}"))
        cells.append(cell)
    return cells


def stored_start(
    data: TensorDict, owner: str, memory: dict, member: int, members: int | None
) -> list[Tensor]:
    """The parts of the state before the first step of each row, ``[B, L, H]``."""
    parts = [""] if memory["kind"] == "gru" else ["_h", "_c"]
    out = []
    for part in parts:
        found = data.get(f"{owner}_state{part}", None)
        if found is None:
            start = torch.zeros(ROWS, memory["layers"], UNITS).double()
        else:
            start = found[:, 0] if members is None or found.ndim == 4 else found[:, 0, member]
        out.append(start)
    return out


def episodes(data: TensorDict) -> Iterator[tuple[int, list[int], bool]]:
    """Each episode's row and valid steps in it, and whether it began before the row did."""
    rows, length = data.batch_size
    for row in range(rows):
        steps: list[int] = []
        for t in range(length):
            is_valid = bool(data["collector", "mask"][row, t])
            if steps and (data["begins"][row, t] or not is_valid):
                yield row, steps, steps[0] == 0
                steps = []
            if not is_valid:
                continue
            steps.append(t)
            if data["next", "done"][row, t]:
                yield row, steps, steps[0] == 0
                steps = []
        if steps:
            yield row, steps, steps[0] == 0


def remember(
    cells: Sequence[Callable[..., Any]],
    x: Tensor,
    next_x: Tensor,
    start: list[Tensor],
    data: TensorDict,
    burn_in: int,
) -> tuple[Tensor, Tensor]:
    """The outputs ``[B, T, H]`` of cells after each step, and one step on at the next state."""

    def step(inputs: Tensor, states: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
        after = []
        for cell, state in zip(cells, states, strict=True):
            out = cell(inputs, state if len(state) > 1 else state[0])
            after.append(out if isinstance(out, tuple) else (out,))
            inputs = after[-1][0]
        return after

    rows, length = data.batch_size
    h = [[torch.zeros(UNITS).double()] * length for _ in range(rows)]
    next_h = [[torch.zeros(UNITS).double()] * length for _ in range(rows)]
    for row, steps, began_before in episodes(data):
        states = [
            tuple(part[row : row + 1, layer] * began_before for part in start)
            for layer in range(len(cells))
        ]
        for t in steps:
            if t == burn_in:
                states = [tuple(part.detach() for part in state) for state in states]
            states = step(x[row : row + 1, t], states)
            h[row][t] = states[-1][0][0]
            next_h[row][t] = step(next_x[row : row + 1, t], states)[-1][0][0]
    return torch.stack([torch.stack(r) for r in h]), torch.stack([torch.stack(r) for r in next_h])


def assert_same_as_reference(pair: Reference, data: TensorDict, *, seed: int = 1) -> None:
    """Losses, scalars, the priority, and the gradient of each parameter of each loss."""
    loss, plain = pair.loss, pair.plain
    given, rows = with_nan(data), pair.rows_for_plain(data)
    untouched = given.clone()
    outs = []
    for module, batch in ((loss, given), (plain, rows)):
        torch.manual_seed(seed)
        outs.append(module(batch))
    found, wanted = outs
    assert set(found.keys()) == set(wanted.keys())
    assert set(given.keys(True)) == {*untouched.keys(True), "td_error"}
    near = {"rtol": 1e-10, "atol": 1e-10}
    for name, value in wanted.items():
        if value.ndim:
            value = pad(value, (loss.burn_in, 0))
        torch.testing.assert_close(found[name], value, **near, msg=lambda m, n=name: f"{n}: {m}")
    torch.testing.assert_close(given["td_error"], pad(rows["td_error"], (loss.burn_in, 0)), **near)
    leaves = pair.leaves()
    mine = [value for value, _ in leaves.values()]
    theirs = [each for _, parts in leaves.values() for each in parts]
    for name in [key for key in wanted.keys() if key.startswith("loss")]:  # noqa: SIM118
        slope = torch.randn_like(found[name])
        after = slope[:, loss.burn_in :] if slope.ndim else slope
        totals = (found[name] * slope).sum(), (wanted[name] * after).sum()
        options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        gradients = torch.autograd.grad(totals[0], mine, **options)
        expected = iter(torch.autograd.grad(totals[1], theirs, **options))
        for (place, (_, parts)), gradient in zip(leaves.items(), gradients, strict=True):
            of_parts = [next(expected) for _ in parts]
            if TRAINED_BY[place.split(".")[0]] != name:
                assert not gradient.any(), f"{name} moves {place}"
                continue
            of_member = gradient if len(parts) > 1 else [gradient.reshape(of_parts[0].shape)]
            for each, value in zip(of_member, of_parts, strict=True):
                torch.testing.assert_close(each, value, **near, msg=lambda m, p=place: f"{p}: {m}")
            assert gradient.any(), f"{name} does not move {place}"


def _plain(
    name: str, network: TensorDictModuleBase, which: int, count: int, mask: list | None = None
) -> nn.Module:
    """The head of a network alone, which reads the network's features."""
    inner = network.module[0] if name == "actor_network" else network
    head = inner.module[-1]
    others = [key for key in head.in_keys if key not in ("memory", "memory_input")]
    net = TensorDictModule(
        Head(deepcopy(head.module), which, count, mask),
        [f"{name}_features", *others],
        head.out_keys,
    )
    if name != "actor_network":
        return net
    return ProbabilisticTensorDictSequential(net, deepcopy(network.module[-1]))


def _find(params: TensorDictBase, kind: str) -> TensorDictBase:
    """The weights of the cells among those of a network."""
    for key in params.keys(True):
        if isinstance(key, tuple) and key[-1] == kind:
            return params.get(key)
    raise KeyError(kind)


def _head(params: TensorDictBase) -> TensorDictBase:
    """The parameters of the head among those of a network."""
    for key in params.keys(True):
        if isinstance(key, tuple) and key[-2:] == ("2", "module"):
            return params.get(key)
    raise KeyError("head")


def _as(flags: Tensor, entry: Tensor) -> Tensor:
    """Flags ``[B, T]`` or ``[B, T, 1]`` with the number of dimensions of an entry."""
    flags = flags.reshape(ROWS, STEPS)
    return flags.reshape(*flags.shape, *(1,) * (entry.ndim - 2))
