"""Gaussian noise that is correlated in time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


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
