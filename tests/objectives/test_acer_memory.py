"""ACER with networks that have a memory, against loops over the steps of each row."""

from __future__ import annotations

import pytest
import torch

from tests.objectives.acer_memory import (
    HIDDEN,
    make_recurrent_acer,
    make_rows,
    previous_action,
    recurrent_networks,
    store_states,
)
from tests.objectives.acer_networks import Noise, pad
from tests.objectives.acer_references import AcerOptions, reference

KINDS = ["discrete", "continuous"]
GRU, LSTM = ({"kind": kind, "size": HIDDEN, "layers": n} for kind, n in (("gru", 1), ("lstm", 2)))
EXACT = {"rtol": 1e-9, "atol": 1e-11}


def assert_equal(
    kind: str,
    memory: dict,
    options: AcerOptions,
    *,
    shared: bool,
    stored: bool,
    padded: bool,
    burn_in: int,
) -> None:
    rows, steps, noise = 4, 7, Noise()
    memory = memory | previous_action(kind)
    loss = make_recurrent_acer(
        kind, memory, shared=shared, sampler=noise, burn_in=burn_in, **options.of_loss()
    )
    data = make_rows(kind, rows, steps)
    if stored:
        store_states(data, loss)
    if padded:
        data["collector", "mask"] = pad(data)
    nets, places = recurrent_networks(loss, data)
    drawn = noise.fill(rows, steps - burn_in)
    wanted = reference(kind, nets, places, drawn, options)
    out = loss(data)
    for name, value in {
        "loss_actor": wanted.policy,
        "loss_critic": wanted.critic,
        "loss_entropy": wanted.entropy_loss,
        "entropy": wanted.entropy,
        "kl": wanted.kl,
        "value": wanted.value,
    }.items():
        torch.testing.assert_close(out[name], value, **EXACT, msg=lambda m, n=name: f"{n}: {m}")
    actor, critic = (
        dict(loss.get_stateful_net(f"{each}_network").named_parameters())
        for each in ("actor", "critic")
    )
    of_critic = [*(actor[name] for name in nets.trained_by_critic), *critic.values()]
    for name, group, gradients in (
        ("loss_actor", list(actor.values()), wanted.actor_gradient),
        ("loss_entropy", list(actor.values()), wanted.entropy_gradient),
        ("loss_critic", of_critic, wanted.critic_gradient),
    ):
        found = torch.autograd.grad(out[name], group, retain_graph=True)
        for own, theirs in zip(found, gradients, strict=True):
            torch.testing.assert_close(own, theirs, **EXACT, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("memory", "stored", "padded", "burn_in", "use_q_opc", "on_policy"),
    [
        (GRU, False, False, 0, False, False),
        (GRU, True, True, 2, True, False),
        (LSTM, True, True, 0, False, True),
        (LSTM, False, True, 3, False, False),
    ],
)
def test_losses_and_gradients_are_those_of_the_formulas(
    kind: str,
    shared: bool,
    memory: dict,
    stored: bool,
    padded: bool,
    burn_in: int,
    use_q_opc: bool,
    on_policy: bool,
) -> None:
    torch.manual_seed(5)
    space = "logits" if kind == "discrete" else "loc_var"
    options = AcerOptions(space, 1.0, on_policy, use_q_opc, delta=0.01)
    if on_policy:
        options.c = 10.0
    assert_equal(
        kind, memory, options, shared=shared, stored=stored, padded=padded, burn_in=burn_in
    )
