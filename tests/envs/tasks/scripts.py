"""Policies written by hand that solve the tasks.

`python -m tests.envs.tasks.scripts` plays 1,000 episodes of each, and of uniform actions.
"""

import math
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

import rlkit_sac.envs  # noqa: F401, registers the tasks

_RUN, _HOP, _LEAP = range(3)

# Up to this x, do that.
_PLATFORM_RULES = (
    (30.0, _RUN, 30.0),
    (110.0, _HOP, 0.0),
    (230.0, _RUN, 3.8),
    (300.0, _LEAP, 430.0),
    (500.0, _RUN, 30.0),
    (600.0, _HOP, 0.0),
    (710.0, _RUN, 30.0),
    (1035.0, _HOP, 720.0),
)


def platform_policy(observation: Any) -> Any:
    """Jumps over each enemy, runs up to the edge of the platform, and jumps over the gap."""
    x = float(observation[0]) * 1055 - 20
    choice, parameter = next(rule for limit, *rule in _PLATFORM_RULES if x < limit)
    return choice, tuple(np.array([parameter], np.float32) for _ in range(3))


def driving_policy(observation: Any) -> Any:
    """Turns to the target at rest, accelerates, and brakes in time."""
    x, y, speed, cosine, sine, target_x, target_y, distance, inside, _ = map(float, observation)
    error = math.atan2(target_y - y, target_x - x) - math.atan2(sine, cosine)
    error = (error + math.pi) % (2 * math.pi) - math.pi
    braking_distance = 0.025 * speed * (speed + 0.1)
    if speed == 0 and abs(error) > 1e-3 and not inside:
        choice, parameter = 1, error / (math.pi / 2)
    elif distance > 0.025 * (speed + 0.5) * (speed + 0.6):
        choice, parameter = 0, 1.0
    elif distance > braking_distance + 0.08:
        choice, parameter = 0, 0.0
    else:
        choice, parameter = 2, 0.0
    return choice, np.array([parameter, parameter], np.float32)


def actuator_policy(observation: Any, num_actuators: int = 4) -> Any:
    """Pushes towards the target with all actuators."""
    x, y, target_x, target_y = map(float, observation[:4])
    angles = 2 * np.pi * np.arange(num_actuators) / num_actuators
    wanted = np.cos(angles) * (target_x - x) + np.sin(angles) * (target_y - y)
    amounts = np.clip(wanted / 0.1 * 2 / num_actuators, -1, 1)
    return 2**num_actuators - 1, amounts.astype(np.float32)


@cache
def pushes(num_actuators: int) -> Any:
    """Displacement in one step from rest, by each combination of actuators at full magnitude."""
    angles = 2 * np.pi * np.arange(num_actuators) / num_actuators
    actuators = np.stack([np.cos(angles), np.sin(angles)], axis=1).round(3)
    is_on = [[int(digit) for digit in f"{k:0{num_actuators}b}"] for k in range(2**num_actuators)]
    sums = np.array(is_on) @ actuators
    return 0.02 * sums / np.linalg.norm(sums, axis=1).max()


def greedy_policy(observation: Any, num_actuators: int = 4) -> Any:
    """Comes as near to the target as one step can, by the first of equal combinations."""
    vx, vy, dx, dy = map(float, observation)
    wanted, push = np.array([dx - 0.075 * vx, dy - 0.075 * vy]), pushes(num_actuators)
    squares = (push**2).sum(axis=1)
    has_effect = squares > 1e-12
    amounts = np.where(has_effect, push @ wanted / np.where(has_effect, squares, 1.0), 0.0)
    amounts = amounts.clip(-1.0, 1.0)
    errors = ((wanted - amounts[:, None] * push) ** 2).sum(axis=1).round(9)
    choice = int(errors.argmin())
    amount = np.array([amounts[choice]], np.float32)  # of all: the others are not read
    return choice, (amount,) * len(amounts)


def goal_policy(observation: Any) -> Any:
    """Dribbles up to the middle and shoots past the goalie where it will not be in time."""
    low = np.array([0, -15, -1, -1, -np.pi, 0, -15, -1, -1, -np.pi, 0, -15])
    high = np.array([20, 15, 1, 1, np.pi, 20, 15, 1, 1, np.pi, 20, 15])
    state = (low + (high - low) * (np.float64(observation[:12]) + 1) / 2).tolist()
    x, y, goalie_x, goalie_y, ball_x, ball_y = (state[i] for i in (0, 1, 5, 6, 10, 11))
    dx, dy = goalie_x - ball_x, goalie_y - ball_y
    shots = []
    for corner in (-6.0, 6.0):
        aim = y + (corner - ball_y) * (20.4 - x) / (20 - ball_x)
        aim = min(max(aim, -7.01), 7.01)
        length = math.hypot(20.4 - x, aim - y)
        along = (dx * (20.4 - x) + dy * (aim - y)) / length
        margin = math.hypot(dx, dy)
        if along > 0:
            time = -math.log(max(1 - along / length, 0.01)) / 0.0619
            across = abs(dx * (aim - y) - dy * (20.4 - x)) / length
            margin = across - max(0, 0.2 * time - 0.25)
        shots.append((margin, aim))
    margin, aim = max(shots)
    choice = 1 if margin > 2.3 or ball_x > 14 else 0
    kick = max(0.0, (ball_x + ball_y) / 2 + 1.2)
    parameters = ([kick, 0.0], [aim], [aim])
    return choice, tuple(np.array(parameter, np.float32) for parameter in parameters)


def play(env: gym.Env[Any, Any], policy: Any = None, episodes: int = 1000) -> str:
    """Mean and standard deviation of the return, and the share of episodes at the goal."""
    returns, ends = np.zeros(episodes), np.zeros(episodes)
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        over = False
        while not over:
            action = policy(observation) if policy else env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            ends[episode] = reward
            returns[episode] += reward
            over = terminated or truncated
    reached = returns > 0.9999 if "Platform" in str(env) else ends > 0.5
    return f"{returns.mean():6.3f} ± {returns.std():.3f}  {reached.mean():5.1%}"


SCRIPTS = {
    "Platform-v0": platform_policy,
    "Moving-v0": driving_policy,
    "Sliding-v0": driving_policy,
    "HardMove-v0": actuator_policy,
    "HardMove-v1": greedy_policy,
    "Goal-v0": goal_policy,
}

if __name__ == "__main__":
    gym.logger.min_level = gym.logger.ERROR  # v0 of a task is out of date
    for name, script in SCRIPTS.items():
        env = gym.make(f"rlkit_sac/{name}")
        env.action_space.seed(0)
        print(f"{name:12} uniform {play(env)}")
        print(f"{'':12} script  {play(env, script)}")
