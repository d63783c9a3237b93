"""A scattering transform of small images: public features that no record was used to fit.

Two scales (J = 2), eight angles, orders 0 to 2: averages of the moduli of wavelet coefficients of
moduli of wavelet coefficients. Nothing is learnt, so features cost no privacy; each record is
normalised by itself, in groups of channels (Tramèr and Boneh, 2021).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Scattering", "normalised"]

_ANGLES = 8
_PAD = 8  # pixels reflected on each side: twice the width of the average
_STRIDE = 4  # 2^J


class Scattering:
    """Maps (n, c, h, w) to (n, c·81, h/4, w/4), for square images whose side is divisible by 4.

    The same for every record and free of the data: post-processing of each record alone.
    """

    def __init__(self, side: int, device: str | torch.device = "cpu") -> None:
        if side % _STRIDE or side <= _PAD:
            raise ValueError(f"side must be a multiple of {_STRIDE} above {_PAD}, got {side}")
        self.side, self.wide = side, side + 2 * _PAD
        spectra = [
            torch.stack([_morlet(self.wide, scale, angle) for angle in range(_ANGLES)])
            for scale in (0, 1)
        ]
        self.fine, self.coarse = (part.to(device) for part in spectra)
        self.average = _averages(self.wide, side // _STRIDE).to(device)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """The features of some images."""
        count, channels = images.shape[:2]
        padded = functional.pad(images.float(), (_PAD,) * 4, mode="reflect")
        spectrum = torch.fft.fft2(padded).unsqueeze(2)  # (n, c, 1, s, s)
        fine = torch.fft.ifft2(spectrum * self.fine).abs()
        coarse = torch.fft.ifft2(spectrum * self.coarse).abs()
        again = torch.fft.fft2(fine).unsqueeze(3)  # (n, c, angles, 1, s, s)
        second = torch.fft.ifft2(again * self.coarse).abs().flatten(2, 3)
        maps = torch.cat([padded.unsqueeze(2), fine, coarse, second], 2)
        small = self.average @ maps @ self.average.T
        return small.reshape(count, channels * small.shape[2], *small.shape[3:])

    def in_parts(self, images: Tensor, part: int = 512) -> Tensor:
        """Normalised features of many images, flat, in half precision."""
        first = normalised(self(images[:1])).flatten(1)
        out = torch.empty((len(images), first.shape[1]), dtype=torch.float16, device=first.device)
        for start in range(0, len(images), part):
            some = images[start : start + part]
            out[start : start + part] = normalised(self(some)).flatten(1).half()
        return out


def normalised(features: Tensor, groups: int = 27) -> Tensor:
    """Mean 0 and variance 1 in each group of channels of each record, then a norm of about 10."""
    made = functional.group_norm(features, groups)
    return made * (10.0 / math.sqrt(made[0].numel()))


def _grid(side: int) -> tuple[Tensor, Tensor]:
    """Coordinates around 0, which is the first place, as the discrete Fourier transform counts."""
    axis = torch.arange(side, dtype=torch.float64)
    axis = torch.where(axis > side / 2, axis - side, axis)
    down, right = torch.meshgrid(axis, axis, indexing="ij")
    return down, right


def _morlet(side: int, scale: int, angle: int) -> Tensor:
    """The spectrum of a Morlet wavelet: a wave under a Gaussian, with mean zero."""
    width, wave, slant = 0.8 * 2.0**scale, 0.75 * math.pi / 2.0**scale, 4.0 / _ANGLES
    theta = math.pi * angle / _ANGLES
    down, right = _grid(side)
    along = right * math.cos(theta) + down * math.sin(theta)
    across = down * math.cos(theta) - right * math.sin(theta)
    bell = torch.exp(-0.5 * (along**2 + (slant * across) ** 2) / width**2)
    phase = torch.polar(torch.ones_like(along), wave * along)
    # A constant image must give nothing: the wave's mean under the bell is taken off.
    carrier = phase - (bell * phase).sum() / bell.sum()
    area = 2.0 * math.pi * width**2 / slant
    spectrum: Tensor = torch.fft.fft2(bell * carrier / area).to(torch.complex64)
    return spectrum


def _averages(wide: int, places: int) -> Tensor:
    """(places, wide): Gaussian averages around the middle of every fourth pixel's cell."""
    width = 0.8 * 2.0**2
    centres = _PAD + _STRIDE * torch.arange(places, dtype=torch.float64) + 0.5 * (_STRIDE - 1)
    apart = torch.arange(wide, dtype=torch.float64)[None] - centres[:, None]
    weights = torch.exp(-0.5 * (apart / width) ** 2)
    return (weights / weights.sum(1, keepdim=True)).float()
