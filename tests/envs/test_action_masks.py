"""Masks of allowed actions, as tasks give them and as they become an entry of each frame."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from rlkit_sac.data import example_transition, make_collector
from rlkit_sac.envs import action_mask_key, make_env
from rlkit_sac.envs.actions import ActionConversion
from rlkit_sac.errors import EnvironmentFault
from rlkit_sac.modules import (
    BehaviorPolicy,
    RandomBehavior,
    action_value_critic,
    categorical_actor,
    hybrid_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.objectives import DiscreteSACLoss, HybridSACLoss
from tests.data.collect.kinds import KINDS, of_kind
from tests.data.collect.test_light_collector import assert_same

SPACES: dict[str, Space[Any]] = {
    "choices": MultiDiscrete([2, 3]),
    "hybrid": Tuple([Discrete(2), Box(-1, 1, (1,)), Discrete(3)]),
}


class Masked(gym.Env[Any, Any]):
    """Allows some combinations at random, and refuses all others; ends in its seventh step."""

    def __init__(
        self,
        space: str = "choices",
        where: str = "info",
        form: str = "joint",
        fault: str = "",
        sound_episodes: int = 0,
    ) -> None:
        self.action_space = SPACES[space]
        self.where, self.form, self.fault = where, form, fault
        self.sound_episodes = sound_episodes
        self.observation_space = Box(-1, 1, (3,))
        if where == "observation":
            self.observation_space = Dict(
                observation=self.observation_space, action_mask=MultiBinary(6)
            )

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.sound_episodes -= 1
        return self._found()

    def step(self, action: Any) -> Any:
        assert self.mask[action[0], action[-1]], "a forbidden action"
        self.steps += 1
        observation, info = self._found()
        return observation, 1.0, self.steps == 7, False, info

    def _found(self) -> Any:
        rows, columns = (self.np_random.random(n) < 0.4 for n in (2, 3))
        rows[self.np_random.integers(2)] = columns[self.np_random.integers(3)] = True
        fault = self.fault if self.steps == 4 and self.sound_episodes < 0 else ""
        if self.steps == 7 or fault == "nothing":
            rows[:] = False
        self.mask = rows[:, None] & columns
        given: Any = self.mask.flatten().astype(np.int8)
        if self.form == "tuple":
            given = (rows, columns) if isinstance(self.action_space, MultiDiscrete) else None
            given = given or (rows, None, columns)
        if fault == "shape":
            given = given[:-1]
        observation = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        if fault == "missing":
            return observation, {}
        if self.where == "observation":
            return {"observation": observation, "action_mask": given}, {}
        return observation, {"action_mask": given}


gym.register("Masked-v0", entry_point=Masked)


def masked(num_envs: int = 1, **kwargs: str) -> Any:
    return make_env("Masked-v0", kwargs=kwargs, num_envs=num_envs, seed=3)


def policy_of(space: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    if space == "choices":
        loss: Any = DiscreteSACLoss(action_value_critic(3, 6, num_cells=[8]))
    else:
        key = ("action", "continuous")
        actor = tanh_gaussian_actor(3, [-1.0], [1.0], num_cells=[8], action_key=key)
        loss = HybridSACLoss(actor, hybrid_critic(3, 1, 6, num_cells=[8]))
    loss.set_keys(action_mask="action_mask")
    return loss, loss.policy()


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize(("where", "form"), [("info", "tuple"), ("observation", "joint")])
@pytest.mark.parametrize("space", SPACES)
def test_both_collectors_collect_masks_and_obey_them(
    space: str, where: str, form: str, num_envs: int
) -> None:
    found = []
    for kind in KINDS:
        env = of_kind(masked(num_envs, space=space, where=where, form=form), kind)
        assert env.observation_spec["observation"].shape[-1] == 3
        loss, policy = policy_of(space)
        options = {"total_frames": 120, "frames_per_batch": 20, "init_random_frames": 40}
        torch.manual_seed(1)
        found.append(torch.cat(list(make_collector(env, policy, **options)), -1))
    assert_same(*found)
    data = found[0].reshape(-1)
    action = data["action"] if space == "choices" else data["action", "discrete"]
    assert data["action_mask"].gather(-1, action.unsqueeze(-1)).all()
    assert data["action_mask"].dtype == torch.bool
    # Where the task ended it allowed nothing, which counts as everything.
    ended = data["next", "terminated"].squeeze(-1)
    assert data["next", "action_mask"][ended].all()
    assert not data["next", "action_mask"][~ended].all()
    stored = example_transition(env, loss.in_keys)
    assert stored["action_mask"].shape == stored["next", "action_mask"].shape == (6,)
    loss(data)


def test_behavior_is_collected_with_finite_logits() -> None:
    env = masked()
    policy = BehaviorPolicy(categorical_actor(3, 6, num_cells=[8]), mask_key="action_mask")
    random = RandomBehavior(env.full_action_spec["action"], mask_key="action_mask")
    options = {"total_frames": 60, "frames_per_batch": 20, "init_random_frames": 20}
    data = torch.cat(list(make_collector(env, policy, random_policy=random, **options)), -1)
    probs = data["behavior", "logits"].exp()
    assert ((probs > 0) == data["action_mask"]).all()
    torch.testing.assert_close(probs.sum(-1), torch.ones(60))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("missing", "gave no action_mask"),
        ("shape", r"gave a wrong action_mask, .*\[5\], wanted \[6\]"),
        ("nothing", "gave an action_mask that allows nothing"),
    ],
)
def test_a_wrong_mask_ends_the_run(fault: str, words: str) -> None:
    for kind in KINDS:
        _, policy = policy_of("choices")
        env = of_kind(masked(fault=fault), kind)
        collector = make_collector(env, policy, total_frames=40, frames_per_batch=20)
        with pytest.raises(
            EnvironmentFault, match=f"{words},? in step 4 of its episode 0"
        ) as raised:
            list(collector)
        assert raised.value.__cause__ is None  # whose traceback a run would print


def test_masks_may_be_left_out() -> None:
    assert action_mask_key(masked()) == "action_mask"
    assert action_mask_key(make_env("Masked-v0", action_mask=False)) is None
    assert action_mask_key(make_env("CartPole-v1")) is None


def test_masks_of_each_choice_are_multiplied() -> None:
    space = Dict(a=Discrete(2), b=Tuple([Box(-1, 1, (1,)), MultiDiscrete([2, 1])]))
    convert = ActionConversion(space, rescale=True)
    own = {"a": np.array([0, 1]), "b": (None, (np.array([1, 0]), np.array([1])))}
    assert convert.allowed_choices(own).tolist() == [False, False, True, False]
    own["b"] = None
    assert convert.allowed_choices(own).tolist() == [False, False, True, True]
    many = (np.array([[1, 0], [1, 1]]), np.array([[0, 0, 1], [1, 1, 1]]))
    convert = ActionConversion(Tuple([Discrete(2), Discrete(3)]), rescale=True)
    assert convert.allowed_choices(many).astype(int).tolist() == [[0, 0, 1, 0, 0, 0], [1] * 6]
    with pytest.raises(ValueError, match="wanted"):
        convert.allowed_choices((np.ones(2), np.ones(2)))
