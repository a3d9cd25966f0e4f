"""Losses that equal others, where both define the same; extreme numbers."""

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import OneHot
from torchrl.modules import (
    MLP,
    OneHotCategorical,
    ProbabilisticActor,
)
from torchrl.objectives import DiscreteSACLoss as TorchRLDiscreteSACLoss
from torchrl.objectives import LossModule, SACLoss

from rlkit_sac.modules import action_value_critic
from rlkit_sac.objectives import ContinuousSACLoss, DiscreteSACLoss
from tests.objectives.comparison import losses_of
from tests.objectives.losses import foreign_actor, foreign_critic, make_batch, own_loss


def assert_same_losses(*pairs: tuple[LossModule, TensorDict]) -> list[TensorDict]:
    """Both with the same draws; their losses, and the gradients of the same networks."""
    outs, gradients = [], []
    for loss, data in pairs:
        loss.make_value_estimator(gamma=0.9)
        loss.zero_grad()
        torch.manual_seed(1)
        outs.append(loss(data))
        sum(losses_of(outs[-1]).values()).backward()
        gradients.append([p.grad.clone() for p in loss.parameters()])
    torch.testing.assert_close(*map(losses_of, outs), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    return outs


@pytest.mark.parametrize("bound", [1.0, 2.5])
@pytest.mark.parametrize("loss_function", ["l2", "smooth_l1"])
def test_the_continuous_loss_is_torchrls_where_both_define_the_same(bound, loss_function):
    torch.manual_seed(0)
    actor, critics = foreign_actor(-bound, bound), [foreign_critic(), foreign_critic()]
    options = {"loss_function": loss_function, "alpha_init": 0.3}
    theirs = SACLoss(actor, critics, **options)
    ours = ContinuousSACLoss(actor, critics, target_entropy="neg_dim", **options)
    data = make_batch("continuous", 12)
    outs = assert_same_losses((theirs, data.clone()), (ours, data))
    assert set(outs[0].keys()) == set(outs[1].keys())


def test_the_discrete_loss_is_torchrls_where_both_define_the_same():
    """With an actor; theirs writes one-hot actions and the entropy of a batch."""
    torch.manual_seed(0)
    net = MLP(in_features=4, out_features=3, num_cells=[16])
    critics = [action_value_critic(4, 3, num_cells=[16]) for _ in range(2)]

    def actor(distribution, spec) -> ProbabilisticActor:
        return ProbabilisticActor(
            TensorDictModule(net, ["observation"], ["logits"]),
            in_keys=["logits"],
            spec=spec,
            distribution_class=distribution,
        )

    options = {"alpha_init": 0.3, "target_entropy": 0.6}
    theirs = TorchRLDiscreteSACLoss(
        actor(OneHotCategorical, OneHot(3)),
        critics,
        action_space="one-hot",
        num_actions=3,
        loss_function="l2",
        **options,
    )
    ours = DiscreteSACLoss(critics, actor(torch.distributions.Categorical, None), **options)
    data = make_batch("categorical", 12)
    one_hot = data.clone().set("action", nn.functional.one_hot(data["action"], 3))
    assert_same_losses((theirs, one_hot), (ours, data))


# ------------------------------------------------------------------ extreme numbers


@pytest.mark.parametrize("kind", ["boltzmann", "hybrid"])
@pytest.mark.parametrize("alpha", [1e-30, 1e-6, 1e6, 1e12])
def test_extreme_temperatures_give_finite_losses_and_gradients(kind, alpha):
    torch.manual_seed(0)
    loss = own_loss(kind, alpha_init=(alpha, 0.1) if kind == "hybrid" else alpha)
    data = make_batch(kind, 16)
    out = loss(data)
    sum(losses_of(out).values()).backward()
    assert all(value.isfinite() for value in out.values())
    assert all(p.grad.isfinite().all() for p in loss.parameters())
    with torch.no_grad():
        getattr(loss, "log_alpha_discrete" if kind == "hybrid" else "log_alpha").fill_(-1e4)
    assert all(value.isfinite() for value in loss(data).values())  # a temperature of zero


def test_actions_an_actor_excludes_cost_nothing():
    torch.manual_seed(0)
    loss = own_loss("categorical", target_entropy=0.3)
    with torch.no_grad():
        [*loss.actor_network_params.parameters()][-1][0] = -torch.inf
    out = loss(make_batch("categorical", 8))
    sum(losses_of(out).values()).backward()
    assert all(value.isfinite() for value in out.values())
    gradients = [p.grad for p in loss.actor_network_params.parameters()]
    assert all(g.isfinite().all() for g in gradients)
