"""Transitions of several steps, against their sums over hand-made episodes."""

import warnings

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector
from torchrl.collectors.utils import split_trajectories
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.envs.transforms import MultiStepTransform

from rlkit_sac.data import NStepTransform, PrioritizedSampler, SliceSampler, make_replay_buffer
from rlkit_sac.data.replay.n_steps import TRAJECTORY
from rlkit_sac.errors import BatchError, ConfigError
from tests.objectives.losses import own_loss
from tests.objectives.networks import make_data

N, GAMMA = 3, 0.7
#: Episodes of two environments: their numbers, lengths, and how they end.
EPISODES = [
    [(0, 5, "terminated"), (2, 1, "terminated"), (4, 4, "truncated"), (5, 2, None)],
    [(1, 2, "truncated"), (3, 6, "terminated"), (6, 4, None)],
]


def frames_of(episodes: list[tuple[int, int, str | None]]) -> TensorDict:
    """Frames ``[T]`` of one environment, whose observations occur once."""
    number = torch.cat([torch.full([length], number) for number, length, _ in episodes])
    step = torch.cat([torch.arange(length) for _, length, _ in episodes])
    ends = {(number, length - 1): end for number, length, end in episodes}
    found = [ends.get(pair) for pair in zip(number.tolist(), step.tolist(), strict=True)]
    terminated = torch.tensor([[end == "terminated"] for end in found])
    observation = (100 * number + step).double().unsqueeze(-1)
    following = {
        "observation": observation + 1,
        "reward": torch.randn(len(step), 2, dtype=torch.float64),
        "terminated": terminated,
        "done": terminated | torch.tensor([[end == "truncated"] for end in found]),
    }
    entries = {"observation": observation, "next": following, "collector": {"traj_ids": number}}
    return TensorDict(entries, batch_size=[len(step)])


def frames_of_both() -> TensorDict:
    torch.manual_seed(0)
    return torch.stack([frames_of(episodes) for episodes in EPISODES])


def enumerated(frames: TensorDictBase) -> torch.Tensor:
    """What the rows of frames ``[M]`` must be: one line for each, as of :func:`lines`."""
    found = []
    for t, first in enumerate(frames):
        own = [each for each in frames[t:] if each[TRAJECTORY] == first[TRAJECTORY]][:N]
        ends = [k for k, each in enumerate(own) if each["next", "done"]]
        own = own[: ends[0] + 1] if ends else own
        if ends or len(own) == N:
            total = sum(GAMMA**k * each["next", "reward"] for k, each in enumerate(own))
            last = [own[-1]["next", key] for key in ("observation", "terminated", "done")]
            found.append(torch.cat([first["observation"], total, *last, torch.tensor([len(own)])]))
    return torch.stack(sorted(found, key=lambda line: line[0].item()))


def lines(rows: TensorDictBase) -> torch.Tensor:
    """Rows in the order of their observations."""
    keys = ["reward", "observation", "terminated", "done"]
    entries = [rows["observation"], *(rows["next", key] for key in keys)]
    found = torch.cat([*entries, rows["steps_to_next_obs"].unsqueeze(-1)], -1)
    return found[found[:, 0].argsort()]


def sorted_rows(rows: TensorDictBase) -> torch.Tensor:
    """Observations, rewards and next observations, in the order of the first ones."""
    entries = (rows["observation"], rows["next", "reward"], rows["next", "observation"])
    return torch.stack(sorted(torch.cat(entries, -1), key=lambda line: line.tolist()))


def batches(frames: TensorDict, steps: int, *, apart: bool) -> list[TensorDict]:
    """Batches of all environments, or of one after another as of asynchronous workers."""
    joint = list(frames.split(steps, 1))
    return [each for batch in joint for each in batch] if apart else joint


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_rows_are_the_sums_over_the_windows(steps: int, apart: bool, restarts: bool) -> None:
    frames = frames_of_both()
    transform, rows = NStepTransform(N, GAMMA), []
    for batch in batches(frames, steps, apart=apart):
        before = batch.clone()
        if (found := transform.inv(batch)) is not None:
            rows.append(found)
        assert (batch == before).all()
        if restarts:
            state, transform = transform.state_dict(), NStepTransform(N, GAMMA)
            transform.load_state_dict(state)
    wanted = enumerated(frames.reshape(-1))
    assert wanted[:, -1].unique().tolist() == [1, 2, 3]
    torch.testing.assert_close(lines(torch.cat(rows)), wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("options", [{"storage": "memmap"}, {"sampler": PrioritizedSampler(50)}])
def test_the_buffers_of_runs_hold_them_once_they_are_whole(options: dict) -> None:
    frames = frames_of_both()
    replay = make_replay_buffer(
        frames[0, 0], capacity=50, batch_size=4, n_steps=N, gamma=GAMMA, **options
    )
    for count in range(2, 13, 2):
        replay.extend(frames[:, count - 2 : count].reshape(-1))
        whole = enumerated(frames[:, :count].reshape(-1))
        assert len(replay) == len(whole)
    torch.testing.assert_close(lines(replay[:]), whole, rtol=1e-12, atol=0)
    sample = replay.sample()
    assert TRAJECTORY not in sample.keys(True)
    assert torch.isin(sample["observation"], whole[:, 0]).all()


def test_what_does_not_follow_is_forgotten() -> None:
    transform, frames = NStepTransform(N, GAMMA), frames_of([(0, 5, None)])
    assert transform.inv(frames[:2]) is None
    transform.mark_gap()
    assert transform.inv(frames[2:])["observation"].flatten().tolist() == [2]


@pytest.mark.parametrize("keeps_is_init", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("n", [2, 3])
def test_no_row_joins_the_episodes_of_two_collectors(
    n: int, steps: int, keeps_is_init: bool
) -> None:
    """Each numbers its episodes from 0, the second one after a restart from a state."""
    keys = ["observation", "next", TRAJECTORY, *(["is_init"] if keeps_is_init else [])]
    parts: list[list[TensorDictBase]] = [[], []]
    for seed, part in enumerate(parts):
        env = TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), InitTracker())
        env.set_seed(seed)
        for batch in Collector(env, frames_per_batch=2 * steps, total_frames=16):
            part.append(batch.select(*keys).exclude(("next", "is_init")).clone())
    transform, rows = NStepTransform(n, GAMMA), []
    for number, batch in enumerate(parts[0] + parts[1]):
        if number == len(parts[0]):
            state, transform = transform.state_dict(), NStepTransform(n, GAMMA)
            transform.load_state_dict(state)
        rows.append(transform.inv(batch))
    found = torch.cat([each for each in rows if each is not None])
    alone = [frames for part in parts for frames in torch.cat(part, 1)]
    wanted = torch.cat([NStepTransform(n, GAMMA).inv(each) for each in alone])
    assert len(wanted) == 4 * (8 - n + 1)
    assert torch.equal(sorted_rows(found), sorted_rows(wanted))


def test_padded_and_preempted_frames_make_no_rows() -> None:
    whole = frames_of([(0, 5, "terminated"), (1, 3, "truncated")])
    wanted = lines(NStepTransform(N, GAMMA).inv(whole))
    padded = split_trajectories(whole)
    assert padded.shape == (2, 5)
    mask = padded["collector", "mask"]
    for each in (mask, mask.unsqueeze(-1), mask.byte()):
        batch = padded.clone().set(("collector", "mask"), each)
        assert torch.equal(lines(NStepTransform(N, GAMMA).inv(batch)), wanted)
    computed = whole.clone()  # values are rounded, and a sensor may fail
    computed["value"] = torch.tensor([0.3, torch.nan, 0.1] * 3)[:8, None]
    computed["next", "value"] = computed["value"].roll(-1, 0) * (1 + 1e-6)
    assert torch.equal(lines(NStepTransform(N, GAMMA).inv(computed)), wanted)
    preempted = torch.cat([whole, whole[:4]])
    preempted[TRAJECTORY][-4:] = -1
    assert torch.equal(lines(NStepTransform(N, GAMMA).inv(preempted)), wanted)
    with pytest.raises(BatchError, match=r"no entry \('collector', 'traj_ids'\): use batch.select"):
        NStepTransform(N, GAMMA).inv(whole.select("observation", "next"))


def test_torchrl_s_transform_bootstraps_from_terminal_states_where_this_does_not() -> None:
    frames = frames_of([(0, 5, "terminated"), (1, 5, None)])
    found = []
    for transform in (NStepTransform(N, GAMMA), MultiStepTransform(N, GAMMA)):
        replay = ReplayBuffer(storage=LazyTensorStorage(20), transform=transform)
        replay.extend(frames)
        found.append(replay[:5]["next"].select("observation", "reward", "terminated"))
    own, other = found
    assert own["terminated"].flatten().tolist() == [False, False, True, True, True]
    assert other["terminated"].flatten().tolist() == [False, False, False, False, True]
    same = own.exclude("terminated"), other.exclude("terminated")
    torch.testing.assert_close(*same, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [3, 5])
def test_losses_warn_of_ends_that_are_not_done(n: int) -> None:
    torch.manual_seed(0)
    frames = make_data("continuous", 40)
    frames["next", "terminated"] = frames["next", "done"] = (torch.arange(40) % 8 == 7)[:, None]
    for options, warned in (({}, True), ({"done_keys": []}, False)):
        replay = ReplayBuffer(storage=LazyTensorStorage(40), batch_size=64)
        replay.append_transform(MultiStepTransform(n, GAMMA, **options))
        replay.extend(frames.clone())
        loss = own_loss("continuous").double()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            loss(replay.sample().select(*loss.in_keys, "steps_to_next_obs"))
        assert (
            any("give MultiStepTransform done_keys=[]" in str(each.message) for each in found)
            == warned
        )


def test_other_buffers_refuse_them() -> None:
    example = frames_of_both()[0, 0]
    sampler = SliceSampler(2, capacity=9, num_envs=1)
    with pytest.raises(ConfigError, match="n_steps above 1 and prior_data are for single"):
        make_replay_buffer(example, capacity=9, batch_size=2, n_steps=3, sampler=sampler)
    with pytest.raises(ConfigError, match="n_steps must be at least 1, got 0"):
        NStepTransform(0, GAMMA)


def test_prior_data_are_of_one_step_or_as_they_are() -> None:
    frames = frames_of([(0, 5, "truncated")])
    sizes = {"capacity": 20, "batch_size": 2}
    one = make_replay_buffer(frames[0], **sizes, n_steps=N, gamma=GAMMA, prior_data=frames)
    assert one[:]["steps_to_next_obs"].tolist() == [1] * 5
    assert torch.equal(one[:]["next", "reward"], frames["next", "reward"])
    rows = NStepTransform(N, GAMMA).inv(frames)
    several = make_replay_buffer(frames[0], **sizes, n_steps=N, gamma=GAMMA, prior_data=rows)
    assert torch.equal(lines(several[:]), lines(rows))
    with pytest.raises(ConfigError, match="prior data are of 3 steps: set n_steps above 1"):
        make_replay_buffer(frames[0].exclude("collector"), **sizes, prior_data=rows)
