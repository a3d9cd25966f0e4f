"""The recipe of KL-regularized SAC as a user runs it, with every kind of prior."""

import json

import pandas as pd
import pytest

from tests.recipes.loading import RECIPES
from tests.recipes.running import PRIOR, SAC, each_case

OWN_PRIOR = """
import torch


class Middle(torch.nn.Module):
    in_keys = ("observation",)

    def get_dist(self, tensordict):
        middle = torch.zeros_like(tensordict["observation"][..., :1])
        return torch.distributions.Independent(torch.distributions.Normal(middle, 0.2), 1)


def make(env):
    return Middle()


def wide(env):
    from rlkit_sac.modules import UniformPrior
    from torchrl.data import Bounded
    return UniformPrior(Bounded(-1.0, 1.0, (2,)))


def raises(env):
    return {}["x"]


def nothing(env):
    return None


class Broken(torch.nn.Module):
    in_keys = ["observation"]

    def get_dist(self, tensordict):
        return tensordict.nowhere


def broken(env):
    return Broken()
"""


@pytest.fixture
def own_prior(workplace, monkeypatch):
    (workplace / "own_prior.py").write_text(OWN_PRIOR)
    (workplace / "own_syntax.py").write_text("def make(env: return")
    monkeypatch.syspath_prepend(str(workplace))
    monkeypatch.syspath_prepend(str(RECIPES))
    return workplace


def test_a_run_reports_the_divergence(workplace):
    options = ("--prior.kind", "same_action", "--loss.target_kld_per_dim", "1.5")
    left = PRIOR.assert_leaves(workplace, "Pendulum-v1", ["kl", "entropy", "alpha"], *options)
    assert left["target_kld"] == 1.5


@pytest.mark.slow  # the next test has a quick one, with another prior
def test_half_the_frames_and_then_the_rest_equal_all_at_once(workplace, capsys):
    PRIOR.assert_resumes_exactly(capsys, 33, "--prior.kind=same_action")


def test_the_policy_of_a_run_is_a_prior_for_the_next(workplace, capsys):
    """It stays what it was, so that one may go on where the other began anew."""
    first = SAC.train("--seed", "1")
    prior = ["--prior.kind", "policy", "--prior.run", str(first), "--prior.which", "best"]
    published = ("--config", "published")
    longer = ("--collector.total_frames", "220", "--update.lr_actor", "0.003")
    run = PRIOR.train(
        *prior, *longer, *published, "--loss.fixed_alpha", "true", "--loss.alpha_init", "100"
    )
    metrics = pd.read_csv(run / "metrics.csv").dropna()
    assert metrics["kl"].iloc[-1] < 0.5 * metrics["kl"].iloc[0]
    assert json.loads((run / "run.json").read_text())["target_kld"] is None
    PRIOR.assert_resumes_exactly(capsys, 33, *prior[:4])


def test_a_prior_that_reads_the_previous_action_needs_transitions_of_one_step(workplace, capsys):
    options = "--prior.kind same_action --replay.n_steps 3"
    text = "--replay.n_steps: must be 1 with a prior that reads prev_action"
    PRIOR.assert_refused(capsys, workplace, options, text)


VARIANTS = {
    "uniform": "--prior.kind uniform --replay.n_steps 3",
    "previous action": "--prior.kind same_action --prior.same_action_prob 0.5"
    " --prior.same_action_noise 0.3",
    "of a user": "--prior.kind factory --prior.factory own_prior:make",
    "controller": "--prior.kind factory --prior.factory priors.pendulum_controller:prior",
    "own units, every loss option": "--prior.kind same_action --env.rescale_actions false"
    " --loss.num_qvalue_nets 3"
    " --loss.dqda_clipping 1 --loss.normalize_entropy_reward true --loss.policy_loss_steps all"
    " --loss.alpha_parametrization direct --loss.min_alpha 0.01 --loss.max_alpha 2"
    " --loss.loss_function smooth_l1 --loss.reward_scale 0.1",
}


@each_case(VARIANTS)
def test_variants_train(own_prior, case):
    PRIOR.assert_trains(case)


BAD = {
    "--prior.kind policy": "prior.run: must name a run directory where kind is 'policy'",
    "--prior.kind policy --prior.run nowhere": "--prior.run: no policy to load",
    "--env.id CartPole-v1": "acts in continuous spaces",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items(), ids=BAD.keys())
def test_bad_input_stops_in_one_line_with_nothing_created(workplace, capsys, arguments, message):
    PRIOR.assert_refused(capsys, workplace, arguments, message)
