"""Box2D tasks that keep their physical world from episode to episode."""

from __future__ import annotations

from typing import Any


def renew_box2d_world(env: Any) -> None:
    """Gives a Box2D task a new world, so that its next episode depends on nothing before it.

    BipedalWalker empties its world at a reset but keeps it, and what is left of earlier episodes
    (the order of its contacts) shows in the last digits of the next one.

    Args:
        env: an environment without wrappers; anything but a Box2D task is left alone.

    >>> renew_box2d_world(object())
    """
    world: Any = getattr(env, "world", None)
    if type(world).__name__ != "b2World" or not hasattr(env, "_destroy"):
        return
    make_world: Any = type(world)
    env._destroy()
    if hasattr(env, "terrain"):
        env.terrain = []  # its bodies are gone: the reset must not take them out of the new world
    env.world = make_world(gravity=world.gravity)
