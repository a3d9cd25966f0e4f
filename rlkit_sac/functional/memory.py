r"""Gated recurrent units and long short-term memories, for one network or several at once.

A state is a tuple of tensors: :math:`(h)` of a GRU, :math:`(h, c)` of an LSTM. Where shapes below
begin with ``[R?, …]``, tensors of R networks have a first dimension R, those of one network none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import linear

State: TypeAlias = tuple[Tensor, ...]


class LayerWeights(NamedTuple):
    """Weights of a layer with G gates and H units, named as those of ``torch.nn.GRU``.

    Attributes:
        weight_ih: ``[R?, G H, I]`` of its I inputs.
        weight_hh: ``[R?, G H, H]`` of its own output.
        bias_ih: ``[R?, G H]``, or ``None``.
        bias_hh: ``[R?, G H]``, or ``None``.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None


def recurrent_step(inputs: Tensor, state: State, layers: Sequence[LayerWeights]) -> State:
    r"""The next state of stacked layers, the output of each the input of the one after it.

    A GRU, if the state is :math:`(h)`, with :math:`x` the inputs,

    .. math::
        r, z &= \sigma(W_{ir,iz} x + b_{ir,iz} + W_{hr,hz} h + b_{hr,hz}) \\
        n &= \tanh(W_{in} x + b_{in} + r (W_{hn} h + b_{hn})) \\
        h' &= (1 - z) n + z h

    or an LSTM, if it is :math:`(h, c)`,

    .. math::
        i, f, o &= \sigma(W_{ii,if,io} x + b_{ii,if,io} + W_{hi,hf,ho} h + b_{hi,hf,ho}) \\
        g &= \tanh(W_{ig} x + b_{ig} + W_{hg} h + b_{hg}) \\
        c' &= f c + i g, \qquad h' = o \tanh c'

    Args:
        inputs: ``[R?, N, I]``.
        state: of L layers, each tensor ``[R?, N, L, H]``.
        layers: their weights.

    Returns:
        As ``state``; the output is ``h[..., -1, :]``.

    Source: Cho et al. 2014 (arXiv:1406.1078), with the reset gate applied after the product as in
    ``torch.nn.GRU``; Hochreiter and Schmidhuber 1997 with forget gates.

    >>> weights = LayerWeights(torch.zeros(3, 2), torch.zeros(3, 1), None, None)
    >>> recurrent_step(torch.zeros(5, 2), (torch.ones(5, 1, 1),), [weights])[0].flatten()
    tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000])
    """
    following = []
    for layer, weights in enumerate(layers):
        now = tuple(part[..., layer, :] for part in state)
        gates = _affine(inputs, weights.weight_ih, weights.bias_ih)
        new = _cell(gates, now, weights)
        following.append(new)
        inputs = new[0]
    return tuple(_stack(parts) for parts in zip(*following, strict=True))


def recurrent_rows(
    inputs: Tensor, start: State, reset: Tensor, layers: Sequence[LayerWeights]
) -> State:
    r"""The states after each step of rows, :math:`h_t = f(h_{t-1}, x_t)`.

    Args:
        inputs: ``[R?, N, T, I]``.
        start: the state before the first step, each tensor ``[R?, N, L, H]``.
        reset: bool ``[N, T]``, the steps before which the state becomes zero. It is replaced, not
            multiplied: NaN before a reset does not remain.
        layers: weights of the L layers.

    Returns:
        Each tensor ``[R?, N, T, L, H]``.

    >>> weights = LayerWeights(torch.zeros(3, 2), torch.zeros(3, 1), None, None)
    >>> reset = torch.tensor([[False, False, True]])
    >>> recurrent_rows(torch.zeros(1, 3, 2), (torch.ones(1, 1, 1),), reset, [weights])[0].flatten()
    tensor([0.5000, 0.2500, 0.0000])
    """
    resets = reset.unsqueeze(-1).unbind(-2)
    of_layers = []
    for layer, weights in enumerate(layers):
        state = tuple(part[..., layer, :] for part in start)
        flat = _affine(inputs.flatten(-3, -2), weights.weight_ih, weights.bias_ih)
        states = []
        for gates, begins in zip(
            flat.unflatten(-2, inputs.shape[-3:-1]).unbind(-2), resets, strict=True
        ):
            state = tuple(part.masked_fill(begins, 0.0) for part in state)
            state = _cell(gates, state, weights)
            states.append(state)
        of_layers.append([torch.stack(parts, -2) for parts in zip(*states, strict=True)])
        inputs = of_layers[-1][0]
    return tuple(_stack(parts) for parts in zip(*of_layers, strict=True))


def _stack(layers: Sequence[Tensor]) -> Tensor:
    return layers[0].unsqueeze(-2) if len(layers) == 1 else torch.stack(list(layers), -2)


def _cell(gates: Tensor, state: State, weights: LayerWeights) -> State:
    """One step of one layer, of the gates that its inputs give."""
    of_state = _affine(state[0], weights.weight_hh, weights.bias_hh)
    if len(state) == 1:
        (h,) = state
        sizes = (2 * h.shape[-1], h.shape[-1])
        (rz, n), (rz_of_state, n_of_state) = gates.split(sizes, -1), of_state.split(sizes, -1)
        r, z = (rz + rz_of_state).sigmoid().chunk(2, -1)
        n = torch.tanh(n + r * n_of_state)
        return (n + z * (h - n),)
    i, f, g, o = (gates + of_state).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``[R?, N, I]`` times weights ``[R?, O, I]`` plus a bias ``[R?, O]``."""
    if weight.ndim == 2:
        return linear(x, weight, bias)
    if bias is None:
        return torch.bmm(x, weight.mT)
    return torch.baddbmm(bias.unsqueeze(-2), x, weight.mT)
