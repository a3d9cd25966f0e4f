"""Random numbers as inputs of a graph, so that they do not depend on how it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

_FRESH = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)


#: Draws one random input of a graph.
Draw: TypeAlias = Callable[[], Tensor]


def lift_random_inputs(graph: GraphModule) -> list[Draw]:
    """Turn the results of a graph's random operations into its last inputs.

    A compiler may draw random numbers in another way or order. Here they are drawn before the graph
    runs, by its own operations in their order, and equal those of the recorded function.

    Args:
        graph: changed in place.

    Returns:
        A function for each new input, which draws the numbers that the graph would draw, to be
        called in order. There are none, and the graph is unchanged, if some operation draws from a
        distribution that the graph computes (such as ``multinomial``).

    >>> from rlkit_sac.graph import record
    >>> graph = record(lambda: [torch.randn(2) + 1], []).graph
    >>> draws = lift_random_inputs(graph)
    >>> graph(torch.zeros(2)), len(draws)
    ((tensor([1., 1.]),), 1)
    """
    tag = torch.Tag.nondeterministic_seeded
    random = [node for node in graph.graph.nodes if tag in getattr(node.target, "tags", ())]
    draws = [_draw_function(node) for node in random]
    found = [draw for draw in draws if draw is not None]
    if len(found) < len(random):
        return []
    nodes = graph.graph
    for number, node in enumerate(random):
        first_operation = next(node for node in nodes.nodes if node.op != "placeholder")
        with nodes.inserting_before(first_operation):
            place = nodes.placeholder(f"random_{number}")
        place.meta = dict(node.meta)
        node.replace_all_uses_with(place)
        filled = node.args[0] if _is_in_place(node) else None
        nodes.erase_node(node)
        if isinstance(filled, Node):
            filled.replace_all_uses_with(place)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return found


def _is_in_place(node: Node) -> bool:
    return node.target._schema.name.endswith("_")  # type: ignore[union-attr]


def _draw_function(node: Node) -> Draw | None:
    """Return a function that draws as the node does; None if the draw depends on its inputs."""
    if not isinstance(node.meta.get("val"), Tensor):
        return None
    tensors = [value for value in (*node.args, *node.kwargs.values()) if isinstance(value, Node)]
    target: Callable[..., Tensor] = node.target  # type: ignore[assignment]
    if not tensors:
        return partial(target, *node.args, **node.kwargs)
    name = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
    shape_alone = name.endswith("_like") or (_is_in_place(node) and _is_fresh(node.args[0], node))
    if tensors != [node.args[0]] or not shape_alone:
        return None
    return partial(_draw_in_shape_of, target, tensors[0].meta["val"], node.args[1:], node.kwargs)


def _is_fresh(node: Any, user: Node) -> bool:
    """Return whether a tensor is allocated just to be filled by its first user."""
    return (
        isinstance(node, Node)
        and node.op == "call_function"
        and node.target._schema.name.removeprefix("aten::") in _FRESH  # type: ignore[union-attr]
        and next(iter(node.users)) is user
    )


def _draw_in_shape_of(
    target: Callable[..., Tensor], like: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Tensor:
    blank = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    return target(blank, *args, **kwargs)
