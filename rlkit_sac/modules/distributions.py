"""The squashed Gaussian of continuous policies."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor
from torch.distributions import Distribution

from rlkit_sac.errors import BatchError, ConfigError

# At most one tensor: the noise of the next sample, which takes it instead of drawing one.
_given_noise: list[Tensor] = []

SampleShape = torch.Size | list[int] | tuple[int, ...]


class TanhGaussian(Distribution):
    r"""A diagonal Gaussian squashed into a box by tanh, with exact densities of its samples.

    .. math:: a = m + h \tanh(u),\qquad u = \mu + \sigma\varepsilon,\qquad
        m = (\text{high}+\text{low})/2,\quad h = (\text{high}-\text{low})/2

    .. math:: \log\pi(a) = \sum_d \log\mathcal N(u_d) - \log h_d
        - 2\,(\log 2 - |u_d| - \log(1 + e^{-2|u_d|}))

    The density of a sample is computed from its value before tanh, not by inverting tanh. Where
    tanh rounds to one, the inverse is wrong by hundreds of nats in float32. The density is in the
    units of the action. Source: Haarnoja et al. 2018 (arXiv:1812.05905), appendix C.

    Args:
        loc: the mean of the Gaussian before tanh, ``[*, D]``.
        scale: the standard deviation of the Gaussian, ``[*, D]``, positive.
        low: the lower bounds of the action, a number or ``[D]``.
        high: the upper bounds.

    Raises:
        ConfigError: for a mean, a standard deviation and bounds of different sizes.

    >>> _ = torch.manual_seed(0)
    >>> dist = TanhGaussian(torch.full((1, 1), 20.0), torch.ones(1, 1))
    >>> action, log_prob = dist.rsample_and_log_prob()
    >>> action, bool(log_prob.isfinite())
    (tensor([[1.]]), True)
    """

    arg_constraints = {}  # noqa: RUF012  (torch's own declaration)
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        low: Tensor | float = -1.0,
        high: Tensor | float = 1.0,
    ) -> None:
        self.loc, self.scale = loc, scale
        self._sample: tuple[Tensor, Tensor] | None = None  # the last action and its preimage
        unit_box = isinstance(low, float | int) and isinstance(high, float | int)
        self._box = None
        if not (unit_box and (low, high) == (-1, 1)):
            move = _bound_on_device.__wrapped__ if loc.is_cpu else _bound_on_device
            self._box = move(low, loc.dtype, loc.device), move(high, loc.dtype, loc.device)
        sizes = [bound.shape[-1] for bound in self._box or () if bound.ndim]
        if {scale.shape[-1], *sizes} != {loc.shape[-1]}:
            dimensions = f", for an action of {max(sizes)} dimensions" if sizes else ""
            raise ConfigError(
                f"the actor's network writes means of the size {loc.shape[-1]} and standard "
                f"deviations of the size {scale.shape[-1]}{dimensions}: wanted one of each for "
                "every dimension"
            )
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    def rsample_and_log_prob(self, sample_shape: SampleShape = ()) -> tuple[Tensor, Tensor]:
        """Return one reparameterized sample ``[*, D]`` and the log-density ``[*]`` of it."""
        action, log_probs = self.rsample_and_log_probs(sample_shape)
        return action, log_probs.sum(-1)

    def rsample_and_log_probs(self, sample_shape: SampleShape = ()) -> tuple[Tensor, Tensor]:
        """Return a reparameterized sample and the log-density of each dimension, ``[*, D]``."""
        shape = (*sample_shape, *self.loc.shape)
        if _given_noise:
            noise = _given_noise.pop().to(self.loc.dtype).reshape(shape)
        else:
            noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        preimage = self.loc + self.scale * noise
        self._sample = self._squash(preimage), preimage
        return self._sample[0], self._log_densities(noise, preimage)

    def rsample(self, sample_shape: SampleShape = ()) -> Tensor:
        """Return a sample through which gradients reach ``loc`` and ``scale``."""
        return self.rsample_and_log_prob(sample_shape)[0]

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density ``[*]`` of any action in the closed box, finite at the bounds.

        The density of the last sample is exact, if ``value`` is that tensor and not a copy. Any
        other action has lost its value before tanh where tanh saturates. On a bound, or outside by
        rounding, the action counts as the nearest one inside that tanh can represent.
        """
        return self.log_probs(value).sum(-1)

    def log_probs(self, value: Tensor) -> Tensor:
        """Return the log-density of each dimension of an action, see :meth:`log_prob`."""
        unit = value
        if self._box is not None:
            low, high = self._box
            unit = (2 * value - high - low) / (high - low)
        inside = 1 - torch.finfo(unit.dtype).eps / 2
        preimage = unit.clamp(-inside, inside).atanh()
        if self._sample is not None and value is self._sample[0]:  # unless it was changed in place
            exact = self._sample[1]
            preimage = torch.where(value == self._squash(exact), exact, preimage)
        return self._log_densities((preimage - self.loc) / self.scale, preimage)

    @property
    def deterministic_sample(self) -> Tensor:
        """The squashed mean of the Gaussian, the greedy action of SAC."""
        return self._squash(self.loc)

    @property
    def mode(self) -> Tensor:
        """The squashed mean of the Gaussian; not the mode of the density, which may be a bound."""
        return self.deterministic_sample

    def _squash(self, preimage: Tensor) -> Tensor:
        unit = preimage.tanh()
        if self._box is None:
            return unit
        low, high = self._box
        action = 0.5 * (high + low) + 0.5 * (high - low) * unit
        return action.clamp(low, high)  # rounding must not leave the box

    def _log_densities(self, noise: Tensor, preimage: Tensor) -> Tensor:
        """Return the log-density of each dimension, ``[*, D]``, from the value before tanh."""
        normal = -0.5 * noise.square() - self.scale.log() - 0.5 * math.log(2 * math.pi)
        size = preimage.abs()  # torch's softplus rounds small values to 0, this form does not
        slope = 2 * (math.log(2) - size - (-2 * size).exp().log1p())
        if self._box is not None:
            low, high = self._box
            slope = slope + (0.5 * (high - low)).log()
        return normal - slope


@contextmanager
def sampling_noise(noise: Tensor) -> Iterator[None]:
    """Let the first sample of a :class:`TanhGaussian` in the block use this noise ``[*, D]``.

    Raises:
        ConfigError: if there was no sample.
    """
    _given_noise.append(noise)
    try:
        yield
        if _given_noise:
            raise ConfigError("the policy draws no TanhGaussian, whose noise could be correlated")
    finally:
        _given_noise.clear()


def check_log_prob(
    log_prob: Tensor, batch_size: torch.Size, dist: Distribution, owner: str
) -> None:
    """Refuse log-probabilities that are not one number for each state.

    Args:
        log_prob: the log-probabilities of actions.
        batch_size: the batch size of the states.
        dist: the distribution that gave them.
        owner: the owner of the distribution, for the error.

    Raises:
        BatchError: naming both shapes.
    """
    if log_prob.shape != batch_size:
        raise BatchError(
            f"{owner}'s {type(dist).__name__} gives log-probabilities of the shape "
            f"{list(log_prob.shape)} for a batch {list(batch_size)}: they must be "
            "summed over the action's dimensions (event dimension 1, Independent)"
        )


@lru_cache(maxsize=64)
def _bound_on_device(bound: Tensor | float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a bound on a device, and keep it there: every new copy would wait for the device."""
    return torch.as_tensor(bound).to(device, dtype)
