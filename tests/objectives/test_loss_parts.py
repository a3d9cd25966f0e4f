"""The parts of a loss as methods, each callable alone; what the public losses share."""

import inspect
import re
from typing import Generic
from unittest import mock

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives import LossModule, ValueEstimators

from rlkit_sac import objectives
from rlkit_sac.errors import ConfigError
from rlkit_sac.modules import TanhGaussian, state_action_critic, tanh_gaussian_actor
from rlkit_sac.objectives import (
    ACERLoss,
    ContinuousSACLoss,
    DiscreteSACLoss,
    HybridSACLoss,
    ValueSACLoss,
)
from tests.objectives import comparison
from tests.objectives.losses import KINDS, make_batch, own_loss
from tests.objectives.networks import DISCRETE_KINDS, NoisyTanhGaussian, make_data, make_loss
from tests.objectives.prior_references import make_prior

PARTS = {kind: ["qvalue", "actor", "alpha"] for kind in KINDS}
PARTS["boltzmann"].remove("actor")
PARTS["value"].append("value")

#: The parameters that each part trains.
TRAINED = {
    "qvalue": {"qvalue_network_params"},
    "actor": {"actor_network_params"},
    "value": {"value_network_params"},
}


@pytest.fixture
def fixed_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw at the same state is the same, however many there are and in whatever order."""

    def rsample_and_log_probs(self, sample_shape=()):
        noise = (50 * self.loc.detach()).sin()
        with mock.patch.object(torch, "randn", return_value=noise):
            return TanhGaussian.rsample_and_log_probs(self, sample_shape)

    def exponential_(self):
        return self.copy_(torch.linspace(0.1, 2.0, self.numel()).reshape(self.shape))

    monkeypatch.setattr(NoisyTanhGaussian, "rsample_and_log_probs", rsample_and_log_probs)
    monkeypatch.setattr(Tensor, "exponential_", exponential_)


def problem(
    kind: str,
    *,
    batch: tuple[int, ...] = (7,),
    rewards: int = 1,
    lmbda: float = 0.0,
    mask: bool = False,
    weights: bool = False,
    prior: bool = False,
    **options,
) -> tuple[LossModule, TensorDict]:
    """A loss in float64 with ``options``, and a batch for it."""
    torch.manual_seed(0)
    if prior:
        options["prior_network"] = make_prior("same action", kind).module
    if options.get("reduction") == "none":
        options["scalar_output_mode"] = "exclude"
    loss = make_loss(kind, rewards=rewards, **options)
    data = make_data(kind, *batch, rewards=rewards)
    if lmbda:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    return loss, comparison.make_batch(data, mask=mask, weights=weights, prior=prior).data


def gradients(loss: LossModule, total: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter that gets one."""
    names, parameters = zip(*loss.named_parameters(), strict=True)
    found = torch.autograd.grad(total.sum(), parameters, retain_graph=True, allow_unused=True)
    pairs = zip(names, found, strict=True)
    return {name: grad for name, grad in pairs if grad is not None and grad.any()}


OPTIONS = {
    "defaults": {},
    "sum": {"reduction": "sum", "weights": True},
    "mask and importance weights": {"mask": True, "weights": True},
    "each step": {"reduction": "none"},
    "each step, mask and importance weights": {"reduction": "none", "mask": True, "weights": True},
    "policy losses on s'": {"policy_loss_steps": "next", "mask": True},
    "policy losses on s and s'": {"policy_loss_steps": "all", "weights": True},
    "prior": {"prior": True, "policy_loss_steps": "all"},
    "half the error": {"qvalue_coef": 0.5, "alpha_init": 0.3},
    "sequences": {
        "batch": (3, 5),
        "lmbda": 0.7,
        "mask": True,
        "rewards": 2,
        "reward_weights": [1.0, -0.3],
        "policy_loss_steps": "all",
    },
}

CASES = [(kind, options) for kind in KINDS for options in OPTIONS.values()]
CASES += [(kind, {"discrete_entropy": "sampled"}) for kind in DISCRETE_KINDS]
CASES += [(kind, {"dqda_clipping": 0.02}) for kind in ("continuous", "hybrid", "value")]
IDS = [f"{kind}-{name}" for kind in KINDS for name in OPTIONS]
IDS += [f"{kind}-sampled" for kind in DISCRETE_KINDS]
IDS += [f"{kind}-clipped" for kind in ("continuous", "hybrid", "value")]


@pytest.mark.usefixtures("fixed_draws")
@pytest.mark.parametrize(("kind", "options"), CASES, ids=IDS)
def test_a_part_alone_is_its_entry_of_forward(kind, options) -> None:
    loss, data = problem(kind, **options)
    out = loss(data.clone())
    assert {f"loss_{part}" for part in PARTS[kind]} == comparison.losses_of(out).keys()
    for part in PARTS[kind]:
        alone, metadata = getattr(loss, f"{part}_loss")(data.clone())
        wanted = out[f"loss_{part}"]
        assert alone.shape == (data.batch_size if options.get("reduction") == "none" else ())
        torch.testing.assert_close(alone, wanted, rtol=1e-12, atol=1e-12)
        found = gradients(loss, alone)
        comparison.assert_same(found, gradients(loss, wanted), rtol=1e-12, atol=1e-12)
        own = {name for name, _ in loss.named_parameters() if name.startswith("log_alpha")}
        assert {name.split(".")[0] for name in found} == TRAINED.get(part, own)
        assert isinstance(metadata, dict)
        assert not any(value.requires_grad for value in metadata.values())


@pytest.mark.usefixtures("fixed_draws")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", [False, True])
def test_the_batch_gains_the_priority_of_the_critics_and_nothing_else(kind, mask) -> None:
    loss, data = problem(kind, mask=mask)
    wanted = data.clone()
    loss(wanted)
    for part in ["", *PARTS[kind]]:
        after = data.clone()
        _, metadata = getattr(loss, f"{part}_loss")(after) if part else (loss(after), {})
        written = {"td_error"} if part in ("", "qvalue") else set()
        assert set(after.keys(True, True)) == set(data.keys(True, True)) | written
        for key, value in data.items(True, True):
            torch.testing.assert_close(after[key], value, rtol=0, atol=0, equal_nan=True)
        if part == "qvalue":
            for found in (after["td_error"], metadata["td_error"]):
                assert found.shape == data.batch_size
                torch.testing.assert_close(found, wanted["td_error"], rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ half precision


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_in_single_precision_under_autocast(kind) -> None:
    """Close to those without, by the size of what is averaged; draws differ, so many are needed."""
    torch.manual_seed(0)
    loss, data = own_loss(kind, alpha_init=0.3), make_batch(kind, 20_000)
    each = own_loss(kind, alpha_init=0.3, reduction="none", scalar_output_mode="exclude")
    each.load_state_dict(loss.state_dict())
    steps, wanted = each(data.clone()), loss(data.clone())
    with torch.autocast("cpu", torch.bfloat16):
        found = loss(data)
    sum(comparison.losses_of(found).values()).backward()
    assert comparison.losses_of(found).keys() == comparison.losses_of(wanted).keys()
    for name, value in comparison.losses_of(found).items():
        assert value.dtype == torch.float32
        assert value.isfinite()
        assert abs(value - wanted[name]) < 0.05 * steps[name].abs().mean(), name
    assert data["td_error"].isfinite().all()
    assert all(p.grad.isfinite().all() for p in loss.parameters())


# ------------------------------------------------------------------ what the losses share

LOSSES = [ContinuousSACLoss, ValueSACLoss, DiscreteSACLoss, HybridSACLoss, ACERLoss]


def keywords(loss: type[LossModule]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(loss.__init__).parameters
    return {name: each for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize("loss", LOSSES)
def test_every_argument_is_shown_and_documented(loss) -> None:
    parameters = inspect.signature(loss).parameters
    own, section = set(inspect.signature(loss.options_class).parameters), loss.section
    assert set(keywords(loss)) == own | section().arguments().keys()
    section_alone = keywords(loss).keys() - {"parameter_mask"}  # a loss has its own, of numbers
    networks = [name for name in parameters if name not in section_alone]
    text = inspect.cleandoc(loss.__doc__ or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    (\w+): \S", text, flags=re.MULTILINE) == networks
    kinds = (*loss.options_class.__mro__[:-1], *section.__mro__[:-1])
    sources = "".join(inspect.getsource(kind) for kind in kinds)
    for name in keywords(loss):
        field = rf'^    {name}: .*\n(?:     .*\n|    \).*\n)*    r?""".'
        assert re.search(field, sources, flags=re.MULTILINE), name


PUBLIC = [
    each
    for each in vars(objectives).values()
    if inspect.isclass(each) and issubclass(each, LossModule)
]


@pytest.mark.parametrize("loss", PUBLIC)
def test_a_loss_is_at_most_four_classes_away_from_torchrls(loss) -> None:
    """The contract, the networks, the update; the value network adds to the continuous form."""
    chain = loss.__mro__[: loss.__mro__.index(LossModule)]
    between = [each for each in chain[1:] if each not in (Generic, ContinuousSACLoss)]
    assert len(between) <= 3, between


def test_an_option_that_a_loss_does_not_have_is_named():
    parts = tanh_gaussian_actor(3, [-1.0], [1.0]), state_action_critic(3, 1)
    for options, words in (
        ({"delay_actor": False}, "no option delay_actor: delay_actor: the policy has no target"),
        ({"gama": 0.9}, r"no option gama: did you mean gamma\?"),
        ({"alpha": 0.1}, r"no option alpha: did you mean alpha_init\?"),
    ):
        with pytest.raises(ConfigError, match=f"ContinuousSACLoss has {words}"):
            ContinuousSACLoss(*parts, **options)
