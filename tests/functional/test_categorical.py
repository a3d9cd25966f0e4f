import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Categorical, kl_divergence

from rlkit_sac.functional import (
    categorical_entropy,
    categorical_gradient,
    categorical_kl,
    categorical_parameters,
    normalized_log_prob,
)

SPACES = ["logits", "log_probs", "probs"]
EXTREME = [
    [1e10, -1e10, 0.0],
    [0.0, -torch.inf, -torch.inf],
    [-1e10, -1e10, -1e10],
    [-torch.inf, 3e4, 0.0],
]


def logits(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(*shape, generator=generator, dtype=torch.float64)


@given(seed=st.integers(0, 1000))
def test_divergence_and_entropy_are_those_of_torch(seed: int) -> None:
    first, second = logits(seed, 2, 4, 5)
    log_p, log_q = normalized_log_prob(first), normalized_log_prob(second)
    p, q = Categorical(logits=first), Categorical(logits=second)
    torch.testing.assert_close(categorical_kl(log_p, log_q), kl_divergence(p, q))
    torch.testing.assert_close(categorical_entropy(log_p), p.entropy())


@pytest.mark.parametrize("space", SPACES)
@given(seed=st.integers(0, 1000))
def test_gradients_are_those_of_autograd(space: str, seed: int) -> None:
    """Of any weighted log-probabilities, and of minus a divergence."""
    raw, average, weight = logits(seed, 3, 4, 5)
    log_prob, average = raw.log_softmax(-1), average.log_softmax(-1)
    phi = {"logits": raw, "log_probs": log_prob, "probs": log_prob.exp()}[space]
    phi = phi.clone().requires_grad_()
    as_log_prob = {"logits": lambda x: x.log_softmax(-1), "log_probs": lambda x: x}
    of_phi = as_log_prob.get(space, torch.log)(phi)
    kl = (average.exp() * (average - of_phi)).sum()
    for function, by_log_prob in (((weight * of_phi).sum(), weight), (-kl, average.exp())):
        (wanted,) = torch.autograd.grad(function, phi, retain_graph=True)
        found = categorical_gradient(by_log_prob, log_prob.exp(), space)
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("values", EXTREME)
def test_extreme_logits(space: str, dtype: torch.dtype, values: list[float]) -> None:
    raw = torch.tensor(values, dtype=dtype, requires_grad=True)
    log_prob = raw.log_softmax(-1)
    finite = normalized_log_prob(raw)
    other = normalized_log_prob(raw.detach().flip(0))
    assert categorical_kl(other, finite).isfinite()
    parameters = categorical_parameters(log_prob, space)
    assert parameters.isfinite().all()
    for by_log_prob in (other.exp(), torch.tensor([1.0, -2.0, 3.0], dtype=dtype)):
        gradient = categorical_gradient(by_log_prob, finite.detach().exp(), space)
        assert gradient.isfinite().all()
        loss = (gradient * (parameters - parameters.detach())).sum() + categorical_entropy(finite)
        (found,) = torch.autograd.grad(loss, raw, retain_graph=True)
        assert loss.isfinite()
        assert found.isfinite().all()
