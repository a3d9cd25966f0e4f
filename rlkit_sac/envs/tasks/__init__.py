"""Hybrid-action tasks, and a task with images, registered in Gymnasium as ``rlkit_sac``."""

import gymnasium as gym

NAMESPACE = "rlkit_sac"

for name, place, limit in (
    ("Platform-v0", "platform:PlatformEnv", 200),
    ("Moving-v0", "field:MovingEnv", None),
    ("Sliding-v0", "field:SlidingEnv", None),
    ("HardMove-v0", "field:HardMoveEnv", 25),
    ("HardMove-v1", "hard_move:HardMoveV1Env", 30),
    ("Goal-v0", "goal:GoalEnv", None),
    ("Atari-v0", "atari:make_atari", None),
    ("PendulumImages-v0", "pendulum_images:PendulumImagesEnv", 200),
):
    gym.register(f"{NAMESPACE}/{name}", entry_point=f"{__name__}.{place}", max_episode_steps=limit)
