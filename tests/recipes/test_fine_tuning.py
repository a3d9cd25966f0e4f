"""A policy that works, cloned or of a run, is the prior and the start of the next run."""

import re
from pathlib import Path

import pytest
import torch
from torchrl.envs import ExplorationType, set_exploration_type

from rlkit_sac.envs import describe_task, make_env
from rlkit_sac.runs import load_policy, save_policy
from tests.recipes.loading import load_recipe
from tests.recipes.running import DISCRETE, HYBRID, PRIOR, SAC, Recipe, each_case

ORDER = "--update.order [qvalue,target,actor,alpha]"
#: Recipe, task, options, and the targets that follow a schedule.
CASES = {
    "continuous": (PRIOR, "Pendulum-v1", "", ["per_dim"]),
    "hybrid": (HYBRID, "Platform-v0", "", ["discrete", "per_dim"]),
    "discrete": (DISCRETE, "CartPole-v1", f"--actor true {ORDER}", ["discrete"]),
}
START = "--prior.kind policy --prior.warm_start true --network.log_std_min -2"


def clone_random_policy(folder: Path, task: str, **options: object) -> Path:
    """A policy cloned from random actions, on observations far from a mean of 0."""
    torch.manual_seed(0)
    clone, env = load_recipe("clone"), make_env(task)
    data = env.rollout(60, break_when_any_done=False)
    config = clone.CloneConfig(num_cells=[8, 8], updates=20, **options)
    save_policy(folder, clone.clone(data, env, config), task=describe_task(env))
    return folder


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clones")
    for task in ("Pendulum-v1", "Platform-v0", "CartPole-v1"):
        clone_random_policy(folder / task, task, normalize_observations=True)
    clone_random_policy(folder / "raw", "Pendulum-v1")
    return folder


def start(recipe: Recipe, prior: Path, options: str) -> list[str]:
    """Options of a run that begins at a prior."""
    text = START if recipe is not DISCRETE else START.replace(" --network.log_std_min -2", "")
    words = f"{text} {options} --prior.run {prior} --normalization.observations true".split()
    return [*recipe.short, *words]


def assert_starts_at_its_prior(
    recipe: Recipe, task: str, arguments: list[str], prior: Path
) -> None:
    env = make_env(task)
    config = recipe.config("--env.id", task, *arguments)
    loss = load_recipe(recipe.name).build(config, env).loss_module
    batch = env.rollout(50, break_when_any_done=False)
    loss.update_normalizers(batch)  # the policy would move with the statistics
    key = ("action", "continuous") if recipe is HYBRID else "action"
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        wanted, found = (
            policy(batch.clone())[key] for policy in (load_policy(prior), loss.policy())
        )
    assert torch.equal(found, wanted)
    loss.double()
    out = loss(batch.apply(lambda x: x.double() if x.is_floating_point() else x))
    assert out["kl_continuous" if recipe is HYBRID else "kl"].abs() < 1e-6
    assert loss.num_actions is None or torch.isfinite(out["loss_alpha"])


@each_case(CASES)
def test_the_first_policy_is_the_cloned_one_whatever_is_observed(clones: Path, case: tuple) -> None:
    recipe, task, options, _ = case
    arguments = start(recipe, clones / task, options)
    assert_starts_at_its_prior(recipe, task, arguments, clones / task)


def test_the_first_policy_is_that_of_a_run(workplace: Path) -> None:
    run = SAC.train("--evaluation.interval", "120")
    arguments = [
        word for word in start(PRIOR, run, "") if word not in ("--network.log_std_min", "-2")
    ]
    assert_starts_at_its_prior(PRIOR, "Pendulum-v1", arguments, run)


@each_case(CASES)
def test_half_the_frames_and_then_the_rest_equal_all_at_once(
    clones: Path, workplace: Path, capsys: pytest.CaptureFixture[str], case: tuple
) -> None:
    """The actor starts after the first half, in which it must not change."""
    recipe, task, options, targets = case
    points = ", ".join(f"target_kld_{name}: {{20: 0.02, 60: 2}}" for name in targets)
    arguments = [
        *start(recipe, clones / task, options)[len(recipe.short) :],
        *("--update.actor_starts", "37", "--loss.schedules", f"{{{points}}}", "--env.id", task),
    ]
    recipe.assert_resumes_exactly(capsys, 33, *arguments)


def test_the_actor_waits_and_then_learns(clones: Path, workplace: Path) -> None:
    prior = clones / "Pendulum-v1"
    words = [*start(PRIOR, prior, ""), *PRIOR.early, "--update.actor_starts", "37"]
    states = [load_policy(prior).state_dict()]
    for frames in ("37", "60"):
        run = PRIOR.run(*words, "--evaluation.episodes", "1", "--collector.total_frames", frames)
        states.append(load_policy(run).state_dict())
    before, waiting, after = states
    assert all(torch.equal(before[name], waiting[name]) for name in before)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if "normalizer" not in name}


def test_sac_starts_at_a_cloned_actor_too(clones: Path, workplace: Path) -> None:
    words = (
        "--warm_start.modules [actor] --network.log_std_min -2 --normalization.observations true"
    )
    run = f"--warm_start.run {clones / 'Pendulum-v1'}"
    config = SAC.config(*SAC.short, *words.split(), *run.split())
    loss = load_recipe("sac").build(config, make_env("Pendulum-v1")).loss_module
    wanted = load_policy(clones / "Pendulum-v1").state_dict()
    found = loss.policy().state_dict()
    assert list(found) == list(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


BAD = {
    "unnormalized": (
        "raw --network.log_std_min -2",
        "actor of .*raw does not fit: observation_normalizer.* is missing there and .* "
        "normalization.observations",
    ),
    "other limits": ("Pendulum-v1", r"log_std_min of .* was -2\.0 and is -20\.0 here"),
    "two starts": (
        "Pendulum-v1 --warm_start.run nowhere",
        "warm_start.run: must be null where prior.warm_start is true",
    ),
    "another kind": ("none", "prior.warm_start: is for kind 'policy', but kind is 'uniform'"),
    "critics of a clone": (
        "Pendulum-v1 --prior.warm_start false --warm_start.run {}/Pendulum-v1 "
        "--network.log_std_min -2",
        "warm_start.modules: qvalue of .* does not fit: .* is missing there",
    ),
}


@each_case(BAD)
def test_what_cannot_be_begun_stops_in_one_line(
    clones: Path, workplace: Path, capsys: pytest.CaptureFixture[str], case: tuple
) -> None:
    words, message = case
    kind = "policy --prior.run {}/" if words != "none" else "uniform"
    text = f"--prior.kind {kind}{words.removeprefix('none')} --network.num_cells [8,8]"
    start = "" if "--prior.warm_start" in words else " --prior.warm_start true"
    code, error = PRIOR.stop(capsys, *f"{text}{start}".replace("{}", str(clones)).split())
    assert code == 2
    (line,) = error.strip().splitlines()
    assert re.search(message, line), line
    assert not list(workplace.iterdir())


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        (HYBRID, "{target_kld_discrete: {0: 0.1}}"),
        (DISCRETE, "{target_kld_discrete: {0: 0.1}}"),
    ],
)
def test_a_scheduled_divergence_needs_a_prior(
    workplace: Path, capsys: pytest.CaptureFixture[str], recipe: Recipe, options: str
) -> None:
    text = "target_kld_discrete needs a prior and a learned temperature"
    recipe.assert_refused(capsys, workplace, f"--loss.schedules {options}", text)
    fixed = f"--loss.fixed_alpha true --loss.schedules {options}"
    recipe.assert_refused(capsys, workplace, fixed, "only where fixed_alpha is false")


def test_a_prior_of_discrete_actions_has_no_scheduled_entropy(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--prior.kind uniform --loss.schedules {target_entropy: {0: 0.1}}"
    DISCRETE.assert_refused(capsys, workplace, options, "must name target_kld_discrete in place")
