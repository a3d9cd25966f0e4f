"""Noise for exploration that is correlated within an episode, as an entry of environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded
from torchrl.envs import Transform

from rlkit_sac.envs.seeding import episode_seed
from rlkit_sac.errors import ConfigError

#: The entry that holds the noise of the next action.
NOISE = "exploration_noise"
#: Steps of a sequence where an episode has no time limit.
NO_LIMIT = 1_000


def colored_noise(
    shape: Sequence[int],
    beta: float,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | None = None,
) -> Tensor:
    r"""Draw Gaussian sequences whose power falls with the frequency, with variance 1 at each step.

    .. math:: S(f) \propto \max(f, 1/L)^{-\beta}

    over the L steps of the last dimension: :math:`\beta = 0` is white noise, 1 pink, 2 red.

    Args:
        shape: the shape ``[*, L]`` of the noise.
        beta: the exponent.
        generator: the random generator, of the device. Default: torch's global one.
        device: the device of the noise. Default: the CPU.

    Source: Timmer and Koenig 1995; as exploration noise Eberhard et al. 2023 (ICLR, "Pink Noise Is
    All You Need").

    >>> noise = colored_noise([3, 1000], 1.0, generator=torch.Generator().manual_seed(0))
    >>> noise.shape, bool((noise[:, 1:] * noise[:, :-1]).mean() > 0.5)
    (torch.Size([3, 1000]), True)
    """
    length = shape[-1]
    frequencies = torch.fft.rfftfreq(length, device=device).clamp_min(1 / length)
    amplitudes = frequencies.pow(-beta / 2)
    waves = torch.full_like(amplitudes, 2.0)  # a frequency and its negative
    waves[0] = 1
    if length % 2 == 0:
        waves[-1] = 1
    draws = torch.randn(2, *shape[:-1], len(waves), generator=generator, device=device)
    real, imaginary = draws * amplitudes / waves.sqrt()
    spectrum = torch.complex(real, torch.where(waves == 1, 0.0, imaginary))
    deviation = (waves * amplitudes.square()).sum().sqrt() / length
    return torch.fft.irfft(spectrum, n=length) / deviation


class EpisodeNoise:
    """The noise of each step of an episode, which follows from the seed of its reset.

    Args:
        size: numbers D of the noise.
        beta: exponent of :func:`colored_noise`.
        length: time limit of the episodes; a longer one goes on with a new sequence.

    Raises:
        ConfigError: for a size of 0.

    >>> noise = EpisodeNoise(2, 1.0, 100)
    >>> bool((noise(7, 3) == EpisodeNoise(2, 1.0, 100)(7, 3)).all())
    True
    """

    def __init__(self, size: int, beta: float, length: int | None) -> None:
        if not size:
            raise ConfigError("collector.noise_color is for continuous actions: leave it out")
        self._shape, self._beta = (size, length or NO_LIMIT), beta
        self._drawn: tuple[int, int] | None = None

    def __call__(self, seed: int, step: int) -> NDArray[np.float32]:
        """Return the noise ``[D]`` of a step of the episode with this seed."""
        part, place = divmod(step, self._shape[1])
        if self._drawn != (seed, part):
            generator = torch.Generator().manual_seed(episode_seed(seed, 0, part))
            self._noise = colored_noise(self._shape, self._beta, generator=generator).numpy()
            self._drawn = seed, part
        return self._noise[:, place]


class ExplorationNoise(Transform):
    """Writes the noise of an environment of TorchRL, drawn on its device when an episode begins.

    Args:
        size: numbers D of the noise.
        beta: exponent of :func:`colored_noise`.
        length: time limit of the episodes; a longer one repeats its sequence.

    Keys: reads ``step_count`` ``[*, 1]`` of a `StepCounter`; writes ``exploration_noise``
    ``[*, D]``.
    """

    def __init__(self, size: int, beta: float, length: int | None) -> None:
        super().__init__(out_keys=[NOISE])
        self._shape, self._beta = (size, length or NO_LIMIT), beta
        self._noise: Tensor | None = None

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        env = self.parent
        noise = colored_noise((*env.batch_size, *self._shape), self._beta, device=env.device)
        if self._noise is not None and "_reset" in tensordict:
            begins = tensordict["_reset"].reshape(*env.batch_size, 1, 1)
            noise = torch.where(begins, noise, self._noise)
        self._noise = noise
        return self._call(tensordict_reset)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        assert self._noise is not None
        step = next_tensordict["step_count"].unsqueeze(-1) % self._shape[1]
        noise = self._noise.gather(-1, step.expand(*self._noise.shape[:-1], 1))
        return next_tensordict.set(NOISE, noise.squeeze(-1))

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Adds the noise."""
        shape = (*observation_spec.shape, self._shape[0])
        observation_spec[NOISE] = Unbounded(shape, observation_spec.device)
        return observation_spec
