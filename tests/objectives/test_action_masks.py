"""A mask does what removing the outputs of the forbidden actions does, in values and gradients."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded, Composite
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import LossModule, ValueEstimators

from rlkit_sac import functional as F
from rlkit_sac.data.collect.uniform_policy import UniformAllowed
from rlkit_sac.errors import BatchError
from rlkit_sac.functional.discrete import LOWEST_LOG_PROB
from rlkit_sac.modules import (
    PolicyPrior,
    RandomBehavior,
    SameActionPrior,
    action_value_critic,
    tanh_gaussian_actor,
)
from rlkit_sac.modules.priors.frozen import FrozenPrior
from rlkit_sac.objectives import ACERLoss, DiscreteSACLoss, HybridSACLoss
from rlkit_sac.objectives.sac import factors

NUM_ACTIONS, ALLOWED, OBS, DIM = 5, 3, 4, 2


class Columns(nn.Module):
    """A network with the outputs of some actions alone, which a second input lists."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensor:
        *own, columns = inputs
        return self.network(torch.cat(own, -1)).gather(-1, columns)


class Whole(Columns):
    """The same network with all outputs."""

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.network(torch.cat(inputs[:-1], -1))


class Forbidding(Whole):
    """A network that writes minus infinity for the forbidden actions by itself."""

    forbidden = -torch.inf

    def forward(self, *inputs: Tensor) -> Tensor:
        out = super().forward(*inputs)
        forbidden = torch.ones_like(out, dtype=torch.bool).scatter(-1, inputs[-1], False)
        return out.masked_fill(forbidden, self.forbidden)


class Loud(Forbidding):
    """One whose outputs for forbidden actions are so large that they leave others no digits."""

    forbidden = 1e13


class Overflowing(Forbidding):
    """One that writes the least number there is, sums of which overflow."""

    forbidden = torch.finfo(torch.float64).min


def network(kind: type[Columns], inputs: list[Any], output: str) -> TensorDictModule:
    size = OBS + DIM * (len(inputs) - 1)
    layers = nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, NUM_ACTIONS)).double()
    return TensorDictModule(kind(layers), [*inputs, "columns"], [output])


def actor(kind: type[Columns]) -> ProbabilisticActor:
    return ProbabilisticActor(
        network(kind, ["observation"], "logits"),
        in_keys=["logits"],
        distribution_class=Categorical,
    )


def discrete(kind: type[Columns], with_actor: bool = False, **options: Any) -> LossModule:
    critics = [network(kind, ["observation"], "action_value") for _ in range(2)]
    return DiscreteSACLoss(critics, actor(kind) if with_actor else None, **options)


def hybrid(kind: type[Columns], mask: bool = False, **options: Any) -> LossModule:
    key = ("action", "continuous")
    own = tanh_gaussian_actor(OBS, [-1.0] * DIM, [1.0] * DIM, num_cells=[8], action_key=key)
    critics = [network(kind, ["observation", key], "action_value") for _ in range(2)]
    if mask:
        rows = torch.tensor([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0]])
        options["parameter_mask"] = rows[FIXED] if kind is Columns else rows
    return HybridSACLoss(own.double(), critics, **options)


def acer(kind: type[Columns], **options: Any) -> LossModule:
    return ACERLoss(actor(kind), network(kind, ["observation"], "action_value"), **options)


FIXED = torch.tensor([0, 2, 4])


def batches(loss: LossModule, shape: tuple[int, ...], *, fixed: bool) -> list[TensorDict]:
    """The same steps with a mask over all actions, and over the allowed ones alone."""
    both = []
    for _ in range(2):
        order = torch.rand(*shape, NUM_ACTIONS).argsort(-1)[..., :ALLOWED]
        columns = FIXED.expand(*shape, -1) if fixed else order
        mask = torch.zeros(*shape, NUM_ACTIONS, dtype=torch.bool).scatter(-1, columns, True)
        observation = torch.randn(*shape, OBS).double()
        both.append({"observation": observation, "columns": columns, "action_mask": mask})
    place = torch.randint(ALLOWED, shape)
    index = both[0]["columns"].gather(-1, place.unsqueeze(-1)).squeeze(-1)
    over = torch.zeros(*shape, 1, dtype=torch.bool)
    logits = torch.randn(*shape, NUM_ACTIONS).double()
    masked = F.normalized_log_prob(logits, both[0]["action_mask"])
    found = []
    for action, behavior in (
        (index, masked),
        (place, masked.gather(-1, both[0]["columns"])),
    ):
        data = TensorDict(both[0], batch_size=shape)
        data["next"] = TensorDict(both[1], batch_size=shape)
        data["next"].update({"reward": torch.randn(*shape, 1).double(), "done": over})
        data["next", "terminated"] = torch.rand(*shape, 1) < 0.2
        data["action"] = action
        if isinstance(loss, HybridSACLoss):
            parts = {"discrete": action, "continuous": torch.rand(*shape, DIM).double()}
            data["action"] = TensorDict(parts, batch_size=shape)
        data["behavior", "logits"] = behavior
        found.append(data)
    for key in (("next", "reward"), ("next", "terminated"), ("action", "continuous")):
        if key in found[0].keys(True):
            found[1][key] = found[0][key]
    return found


def own_prior(kind: type[Columns]) -> PolicyPrior:
    return PolicyPrior(actor(kind))


CASES: dict[str, tuple[Callable[..., LossModule], dict[str, Any]]] = {
    "discrete": (discrete, {}),
    "log k": (discrete, {"target_entropy": "scaled_log_k", "policy_loss_steps": "all"}),
    "sampled": (discrete, {"discrete_entropy": "sampled", "target_entropy": 0.4}),
    "spec": (discrete, {"spec": True}),
    "prior": (discrete, {"prior": True}),
    "lambda": (discrete, {"lmbda": 0.7}),
    "actor": (discrete, {"with_actor": True, "normalize_entropy_reward": True}),
    "actor, prior": (discrete, {"with_actor": True, "prior": True, "discrete_entropy": "sampled"}),
    "hybrid": (hybrid, {"target_entropy": ("scaled_log_k", -1.0)}),
    "hybrid, prior": (hybrid, {"prior": True, "discrete_entropy": "sampled"}),
    "parameters": (hybrid, {"mask": True}),
    "mean": (discrete, {"with_actor": True, "policy_reduction": "mean"}),
    "hybrid, mean": (hybrid, {"policy_reduction": "mean"}),
    "ACER": (acer, {}),
    "ACER, log-probabilities": (acer, {"trust_region_space": "log_probs", "use_q_opc": True}),
    "ACER, probabilities": (
        acer,
        {"trust_region_space": "probs", "trust_region_delta": 0.01, "truncation_threshold": 0.5},
    ),
}


def made(make: Callable[..., LossModule], kind: type[Columns], options: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    options = dict(options)
    lmbda = options.pop("lmbda", None)
    if options.pop("prior", False):
        prior = own_prior(kind)
        options["prior_network"] = (prior, None) if make is hybrid else prior
        if make is hybrid:
            options["target_entropy"] = ("auto", -1.0)
    if options.pop("spec", False):  # its number of actions is not that of each state
        options["action_spec"] = CategoricalSpec(ALLOWED if kind is Columns else NUM_ACTIONS)
    loss = make(kind, **options)
    if lmbda is not None:
        loss.make_value_estimator(ValueEstimators.TDLambda, lmbda=lmbda)
    return loss


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        *((case, Whole) for case in CASES),
        *product(("discrete", "actor, prior", "hybrid, prior", "ACER"), (Forbidding, Loud)),
        *product(("mean", "hybrid, mean"), (Forbidding, Overflowing)),
    ],
)
def test_a_mask_removes_the_outputs_of_forbidden_actions(case, kind, monkeypatch) -> None:
    make, options = CASES[case]
    monkeypatch.setattr(factors, "sample_categorical", lambda log_probs: log_probs.argmax(-1))
    losses = [made(make, each, options) for each in (kind, Columns)]
    losses[0].set_keys(action_mask="action_mask")
    data = batches(losses[0], (6, 3), fixed="mask" in options)
    outs, gradients = [], []
    for loss, batch in zip(losses, data, strict=True):
        name = "actor_network" if make is acer else "qvalue_network"
        targets = getattr(loss, f"target_{name}_params")
        targets.data.apply_(lambda each: each.mul_(1.1))
        torch.manual_seed(1)
        out = loss(batch)
        sum(value for name, value in out.items() if name.startswith("loss")).backward()
        outs.append(out)
        named = loss.named_parameters()
        gradients.append({key: each.grad for key, each in named if each.grad is not None})
    torch.testing.assert_close(*map(dict, outs), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)
    if make is not acer:
        torch.testing.assert_close(data[0]["td_error"], data[1]["td_error"], rtol=1e-10, atol=1e-10)


NUMBERS = st.lists(st.floats(-1e30, 1e30), min_size=NUM_ACTIONS, max_size=NUM_ACTIONS)
MASKS = st.lists(st.booleans(), min_size=NUM_ACTIONS, max_size=NUM_ACTIONS)


@given(NUMBERS, NUMBERS, MASKS, st.sampled_from([1e-3, 0.5, 1e6]))
def test_forbidden_actions_have_no_share_and_no_gradient(value, prior, mask, alpha) -> None:
    allowed = torch.tensor(mask)
    seen = allowed if allowed.any() else ~allowed  # a padded row allows everything
    leaves = [
        torch.tensor(each, dtype=torch.float64, requires_grad=True)
        for each in (value, prior, [alpha])
    ]
    log_prior = F.normalized_log_prob(leaves[1], allowed)
    for log_probs in (
        log_prior,
        F.boltzmann_log_prob(leaves[0], leaves[2], allowed=allowed),
        F.boltzmann_log_prob(leaves[0], leaves[2], log_prior, allowed),
    ):
        assert (log_probs[~seen] == LOWEST_LOG_PROB).all()
        assert log_probs.exp().sum().item() == pytest.approx(1)
        assert seen[F.sample_categorical(log_probs)]
        gradients = torch.autograd.grad(
            F.categorical_entropy(log_probs) + log_probs.sum(),
            leaves,
            allow_unused=True,
            retain_graph=True,
        )
        for gradient in gradients:
            assert gradient is None or gradient.isfinite().all()
        for gradient in gradients[:2]:
            assert gradient is None or not gradient[~seen].any()


def test_the_targets_of_each_state_are_those_of_its_number_of_actions() -> None:
    count = torch.arange(1, 7)
    for target in (F.discrete_target_entropy, F.scaled_log_target_entropy):
        wanted = torch.tensor([target(n) for n in range(1, 7)])
        torch.testing.assert_close(target(count), wanted)


@cache
def policies() -> dict[str, Any]:
    torch.manual_seed(0)
    spec = CategoricalSpec(NUM_ACTIONS)
    key = "action_mask"
    losses = {
        "boltzmann": discrete(Whole, alpha_init=1e-3, fixed_alpha=True),
        "prior": discrete(Whole, prior_network=SameActionPrior(spec, 1.0)),
        "actor": discrete(Whole, with_actor=True),
        "hybrid": hybrid(Whole),
        "ACER": acer(Whole),
    }
    for loss in losses.values():
        loss.set_keys(action_mask=key)
        for parameter in loss.parameters():
            parameter.data.mul_(20 if parameter.ndim > 1 else 1)
    space = Composite(action=Composite(discrete=spec, continuous=Bounded(-1.0, 1.0, (DIM,))))
    found = {name: loss.policy() for name, loss in losses.items()}
    found |= {f"greedy {name}": loss.policy(epsilon=0.5) for name, loss in losses.items()}
    found["random"] = RandomBehavior(spec, mask_key=key)
    found["uniform"] = UniformAllowed(Composite(action=spec).expand(DRAWS), key)
    found["uniform hybrid"] = UniformAllowed(space.expand(DRAWS), key)
    return found


DRAWS = 20_000


@pytest.mark.parametrize("name", policies())
def test_no_policy_draws_a_forbidden_action(name: str) -> None:
    policy = policies()[name]
    mask = torch.rand(DRAWS, NUM_ACTIONS) < 0.4
    mask[torch.arange(DRAWS), torch.randint(NUM_ACTIONS, (DRAWS,))] = True
    states = {"observation": torch.randn(DRAWS, OBS).double(), "columns": FIXED.expand(DRAWS, -1)}
    states |= {"action_mask": mask, "is_init": torch.zeros(DRAWS, 1, dtype=torch.bool)}
    data = TensorDict(states, batch_size=[DRAWS])
    data["prev_action"] = torch.randint(NUM_ACTIONS, (DRAWS,))
    modes = (ExplorationType.RANDOM, ExplorationType.DETERMINISTIC)
    for mode in modes[: 1 if "uniform" in name or name == "random" else 2]:
        with torch.no_grad(), set_exploration_type(mode):
            out = policy(data.copy())
        action = out["action"] if isinstance(out["action"], Tensor) else out["action", "discrete"]
        assert mask.gather(-1, action.unsqueeze(-1)).all()
        assert len(action.unique()) == NUM_ACTIONS


def test_padded_steps_with_no_mask_do_not_count() -> None:
    for make in (discrete, hybrid, acer):
        loss = made(make, Whole, {})
        loss.set_keys(action_mask="action_mask")
        data, _ = batches(loss, (4, 3), fixed=False)
        data["collector", "mask"] = valid = torch.ones(4, 3, dtype=torch.bool)
        valid[:, -1] = False
        torch.manual_seed(1)
        out = loss(data)
        sum(value for name, value in out.items() if name.startswith("loss")).backward()
        assert all(each.grad is None or each.grad.isfinite().all() for each in loss.parameters())
        assert all(value.isfinite() for value in out.values())


def test_a_batch_without_the_mask_is_refused() -> None:
    loss = made(discrete, Whole, {})
    loss.set_keys(action_mask="action_mask")
    data, _ = batches(loss, (4,), fixed=False)
    with pytest.raises(BatchError, match=r"'action_mask'.*make_env does for a task that gives"):
        loss(data.exclude("action_mask"))
    loss.set_keys(action_mask=None)
    assert "action_mask" not in loss.in_keys
    loss(data.exclude("action_mask"))


def test_atoms_of_forbidden_actions_may_be_minus_infinity() -> None:
    outs = []
    for kind in (Whole, Forbidding):
        torch.manual_seed(0)
        critics = []
        for _ in range(2):
            own = action_value_critic(OBS, NUM_ACTIONS, num_cells=[8], atoms=11).double()
            logits = own.module[0]
            fill = TensorDictModule(
                lambda x, columns, kind=kind: (
                    x
                    if kind is Whole
                    else x.masked_fill(
                        torch.ones(*x.shape[:-1], dtype=torch.bool).scatter(-1, columns, False)[
                            ..., None
                        ],
                        -torch.inf,
                    )
                ),
                ["value_logits", "columns"],
                ["value_logits"],
            )
            critics.append(TensorDictSequential(logits, fill, *own.module[1:]))
        loss = DiscreteSACLoss(critics, action_spec=CategoricalSpec(NUM_ACTIONS))
        loss.set_keys(action_mask="action_mask")
        torch.manual_seed(1)
        data, _ = batches(loss, (6,), fixed=False)
        out = loss(data)
        out["loss_qvalue"].backward()
        outs.append([dict(out), [each.grad for each in loss.parameters()]])
    torch.testing.assert_close(*outs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [discrete, hybrid, acer])
@pytest.mark.parametrize("count", [1, NUM_ACTIONS + 1])
def test_a_mask_of_another_shape_is_refused(make, count) -> None:
    loss = made(make, Whole, {})
    loss.set_keys(action_mask="action_mask")
    data, _ = batches(loss, (4, 3), fixed=False)
    wrong = torch.ones(4, 3, count, dtype=torch.bool)
    wanted = rf"has the shape \[.*{count}\], wanted \[.*{NUM_ACTIONS}\]"
    for place in ("action_mask", ("next", "action_mask")):
        with pytest.raises(BatchError, match=wanted):
            loss(data.clone().set(place, wrong))
    with pytest.raises(BatchError, match=wanted):
        loss.policy()(data.clone().set("action_mask", wrong))
    added = torch.where(data["action_mask"], 0.0, -torch.inf)
    with pytest.raises(BatchError, match=r"is torch\.float32, wanted torch\.bool"):
        loss(data.clone().set("action_mask", added))
    with pytest.raises(BatchError, match=r"there is no 'action_mask': pass"):
        loss.policy()(data.exclude("action_mask"))
    with pytest.raises(BatchError, match=r"\('next', 'action_mask'\).*let the environment write"):
        loss(data.exclude(("next", "action_mask")))


def test_a_number_as_target_entropy_holds_in_every_state() -> None:
    loss = made(discrete, Whole, {"target_entropy": 0.25})
    loss.set_keys(action_mask="action_mask")
    data, _ = batches(loss, (4,), fixed=False)
    out = loss(data)
    wanted = loss.log_alpha * (out["entropy"] - 0.25)
    torch.testing.assert_close(out["loss_alpha"], wanted.detach(), check_dtype=False)


def test_what_a_prior_never_takes_stays_so_where_it_is_renormalized() -> None:
    """An action of probability zero, beside a forbidden one that has some."""

    class Fixed(nn.Module):
        in_keys = ()

        def get_dist(self, states: TensorDict) -> Categorical:
            probs = torch.tensor([0.5, 0.5, 0.0]).expand(*states.batch_size, 3)
            return Categorical(logits=probs.log(), validate_args=False)

    prior, states = FrozenPrior(Fixed()), TensorDict(batch_size=[2])
    allowed = torch.tensor([[False, True, True], [False, False, True]])
    found = prior.log_prob_of_each_action(states, 3, "action", allowed).exp()
    assert found.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
