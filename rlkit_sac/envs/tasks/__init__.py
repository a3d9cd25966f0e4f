"""Hybrid-action tasks, and a task with images, registered in Gymnasium as ``rlkit_sac``."""

import gymnasium as gym

NAMESPACE = "rlkit_sac"

gym.register(
    f"{NAMESPACE}/Platform-v0",
    entry_point="rlkit_sac.envs.tasks.platform:PlatformEnv",
    max_episode_steps=200,
)
gym.register(f"{NAMESPACE}/Moving-v0", entry_point="rlkit_sac.envs.tasks.field:MovingEnv")
gym.register(f"{NAMESPACE}/Sliding-v0", entry_point="rlkit_sac.envs.tasks.field:SlidingEnv")
gym.register(
    f"{NAMESPACE}/HardMove-v0",
    entry_point="rlkit_sac.envs.tasks.field:HardMoveEnv",
    max_episode_steps=25,
)
gym.register(
    f"{NAMESPACE}/HardMove-v1",
    entry_point="rlkit_sac.envs.tasks.hard_move:HardMoveV1Env",
    max_episode_steps=30,
)
gym.register(f"{NAMESPACE}/Goal-v0", entry_point="rlkit_sac.envs.tasks.goal:GoalEnv")
gym.register(f"{NAMESPACE}/Atari-v0", entry_point="rlkit_sac.envs.tasks.atari:make_atari")
gym.register(
    f"{NAMESPACE}/PendulumImages-v0",
    entry_point="rlkit_sac.envs.tasks.pendulum_images:PendulumImagesEnv",
    max_episode_steps=200,
)
