import pytest
import torch
from torch import nn

from rlkit_sac.graph import Fingerprint


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.25))
        self.register_buffer("weights", None)
        self.plain = torch.zeros(2)
        self.name, self.count = "a", 1000
        self.squash = torch.relu
        self.sizes, self.held = [1, 2], [nn.Dropout(0.5)]


CHANGES = {
    "number": (lambda m: setattr(m, "count", 1001), "Module.count"),
    "text": (lambda m: setattr(m, "name", "b"), "Module.name"),
    "of a submodule": (lambda m: setattr(m.layer[1], "p", 0.5), "Dropout.p"),
    "mode": (lambda m: m.eval(), "Module.training"),
    "buffer": (lambda m: setattr(m, "weights", torch.ones(2)), "Module.weights"),
    "tensor": (lambda m: setattr(m, "plain", torch.zeros(2)), "Module.plain"),
    "parameter": (
        lambda m: setattr(m.layer[0], "bias", nn.Parameter(torch.zeros(2))),
        "Linear.bias",
    ),
    "layer": (lambda m: m.layer.__setitem__(0, nn.Linear(2, 2)), "Sequential.0"),
    "function": (lambda m: setattr(m, "squash", torch.tanh), "Module.squash"),
    "list": (lambda m: m.sizes.append(3), "Module.sizes"),
    "held": (lambda m: setattr(m.held[0], "p", 0.9), "Dropout.p"),
    "hook": (lambda m: m.layer.register_forward_hook(print), "Sequential._forward_hooks"),
    "frozen": (lambda m: m.layer[0].weight.requires_grad_(False), "Linear.weight"),
    "removed": (lambda m: delattr(m, "name"), "Module.name"),
}


@pytest.mark.parametrize(("change", "name"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_named(change, name: str) -> None:
    module = Module()
    fingerprint = Fingerprint(module)
    change(module)
    assert fingerprint.first_changed_attribute() == name


def test_other_values_in_the_same_tensors_are_no_change() -> None:
    module = Module()
    fingerprint = Fingerprint(module)
    with torch.no_grad():
        module.layer[0].weight.fill_(3.0)
        module.plain.add_(1)
    module.count = int("1000")  # another object, equal
    assert fingerprint.first_changed_attribute() is None
