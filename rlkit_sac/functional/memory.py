r"""Gated recurrent units and long short-term memories, for one network or several at once.

The state of a memory is a tuple of tensors: :math:`(h)` for a GRU, :math:`(h, c)` for an LSTM.
Tensors of several networks have a first dimension R, which tensors of one network do not have. The
shapes below write this dimension as ``R?``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import linear

State: TypeAlias = tuple[Tensor, ...]


class LayerWeights(NamedTuple):
    """Weights of a layer with G gates, H units and I inputs, with the names of ``torch.nn.GRU``.

    Attributes:
        weight_ih: weights of the inputs, ``[R?, G H, I]``.
        weight_hh: weights of the layer's own output, ``[R?, G H, H]``.
        bias_ih: bias of the inputs, ``[R?, G H]``, or ``None``.
        bias_hh: bias of the layer's own output, ``[R?, G H]``, or ``None``.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None


def recurrent_step(inputs: Tensor, state: State, layers: Sequence[LayerWeights]) -> State:
    r"""Return the next state of stacked layers. Each layer reads the output of the layer before it.

    The layers are a GRU if the state is :math:`(h)`. With the inputs :math:`x`,

    .. math::
        r, z &= \sigma(W_{ir,iz} x + b_{ir,iz} + W_{hr,hz} h + b_{hr,hz}) \\
        n &= \tanh(W_{in} x + b_{in} + r (W_{hn} h + b_{hn})) \\
        h' &= (1 - z) n + z h

    They are an LSTM if the state is :math:`(h, c)`,

    .. math::
        i, f, o &= \sigma(W_{ii,if,io} x + b_{ii,if,io} + W_{hi,hf,ho} h + b_{hi,hf,ho}) \\
        g &= \tanh(W_{ig} x + b_{ig} + W_{hg} h + b_{hg}) \\
        c' &= f c + i g, \qquad h' = o \tanh c'

    Args:
        inputs: the inputs ``[R?, N, I]``.
        state: the state of L layers, each tensor ``[R?, N, L, H]``.
        layers: the weights of each layer.

    Returns:
        The next state, of the shapes of ``state``. The output is ``h[..., -1, :]``.

    Source: Cho et al. 2014 (arXiv:1406.1078), with the reset gate applied after the product as in
    ``torch.nn.GRU``; Hochreiter and Schmidhuber 1997 with forget gates.

    >>> weights = LayerWeights(torch.zeros(3, 2), torch.zeros(3, 1), None, None)
    >>> recurrent_step(torch.zeros(5, 2), (torch.ones(5, 1, 1),), [weights])[0].flatten()
    tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000])
    """
    next_states = []
    for layer, weights in enumerate(layers):
        layer_state = tuple(part[..., layer, :] for part in state)
        gates = _affine(inputs, weights.weight_ih, weights.bias_ih)
        next_state = _next_cell_state(gates, layer_state, weights)
        next_states.append(next_state)
        inputs = next_state[0]
    return tuple(_stack_layers(parts) for parts in zip(*next_states, strict=True))


def unroll_recurrent(
    inputs: Tensor, initial_state: State, reset: Tensor, layers: Sequence[LayerWeights]
) -> State:
    r"""Return the states after each step of rows, :math:`h_t = f(h_{t-1}, x_t)`.

    Args:
        inputs: the inputs ``[R?, N, T, I]``.
        initial_state: the state before the first step, each tensor ``[R?, N, L, H]``.
        reset: the steps before which the state becomes zero, bool ``[N, T]``. The state is
            replaced, not multiplied, so NaN does not survive a reset.
        layers: the weights of the L layers.

    Returns:
        The states, each tensor ``[R?, N, T, L, H]``.

    >>> weights = LayerWeights(torch.zeros(3, 2), torch.zeros(3, 1), None, None)
    >>> start, reset = torch.ones(1, 1, 1), torch.tensor([[False, False, True]])
    >>> unroll_recurrent(torch.zeros(1, 3, 2), (start,), reset, [weights])[0].flatten()
    tensor([0.5000, 0.2500, 0.0000])
    """
    resets = reset.unsqueeze(-1).unbind(-2)
    layer_states = []
    for layer, weights in enumerate(layers):
        state = tuple(part[..., layer, :] for part in initial_state)
        flat = _affine(inputs.flatten(-3, -2), weights.weight_ih, weights.bias_ih)
        states = []
        for gates, step_reset in zip(
            flat.unflatten(-2, inputs.shape[-3:-1]).unbind(-2), resets, strict=True
        ):
            state = tuple(part.masked_fill(step_reset, 0.0) for part in state)
            state = _next_cell_state(gates, state, weights)
            states.append(state)
        layer_states.append([torch.stack(parts, -2) for parts in zip(*states, strict=True)])
        inputs = layer_states[-1][0]
    return tuple(_stack_layers(parts) for parts in zip(*layer_states, strict=True))


def _stack_layers(layers: Sequence[Tensor]) -> Tensor:
    return layers[0].unsqueeze(-2) if len(layers) == 1 else torch.stack(list(layers), -2)


def _next_cell_state(gates: Tensor, state: State, weights: LayerWeights) -> State:
    """Return the next state of one layer; ``gates`` are the products with its inputs."""
    state_gates = _affine(state[0], weights.weight_hh, weights.bias_hh)
    if len(state) == 1:
        (h,) = state
        sizes = (2 * h.shape[-1], h.shape[-1])
        (rz, n), (state_rz, state_n) = gates.split(sizes, -1), state_gates.split(sizes, -1)
        r, z = (rz + state_rz).sigmoid().chunk(2, -1)
        n = torch.tanh(n + r * state_n)
        return (n + z * (h - n),)
    i, f, g, o = (gates + state_gates).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x`` ``[R?, N, I]`` times weights ``[R?, O, I]`` plus a bias ``[R?, O]``."""
    if weight.ndim == 2:
        return linear(x, weight, bias)
    if bias is None:
        return torch.bmm(x, weight.mT)
    return torch.baddbmm(bias.unsqueeze(-2), x, weight.mT)
