"""Gaussian noise with a structured covariance: exact draws, and never a d×d matrix to draw them."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.channels._records import is_torch
from recondite.channels.spectrum import Spectrum

__all__ = ["Factored", "Noise"]

FloatArray = NDArray[np.float64]

_CHUNK = 1 << 23  # entries drawn at a time: 64 MiB of float64
_ROUNDED_SHARE = 2e-4  # how much larger noise is whose factor is rounded to single precision


@dataclass(frozen=True, eq=False)
class Factored:
    """Noise as spread·z + w·factor, with z and w independent standard normal rows.

    Attributes:
      spread: The standard deviation of what is alike in every direction.
      factor: (directions, dim), in the precision to draw in.
    """

    spread: float
    factor: NDArray[Any]

    def rows(self, fill: Callable[[NDArray[Any], float], None], count: int) -> NDArray[Any]:
        """Returns ``count`` independent draws.

        Args:
          fill: Fills a flat array with normal numbers of a standard deviation.
          count: How many.
        """
        directions, dim = self.factor.shape
        weights = np.empty((count, directions), dtype=self.factor.dtype)
        fill(weights.reshape(-1), 1.0)
        drawn = weights @ self.factor
        if self.spread:
            alike = np.empty((count, dim), dtype=self.factor.dtype)
            fill(alike.reshape(-1), self.spread)
            drawn += alike
        return np.asarray(drawn)


@dataclass(frozen=True, eq=False)
class Noise:
    """Zero-mean Gaussian noise with covariance S (V diag(along) Vᵀ + variance·(I − VVᵀ)) S.

    V are the leading eigenvectors of ``spectrum``, as many as ``along`` has entries, and
    S = diag(scale); without ``along`` the middle factor is variance·I.

    Attributes:
      dim: The number of features.
      variance: The variance in every direction outside V (in every direction at all without
        ``along``).
      along: The variance along each eigenvector in V.
      spectrum: Where the eigenvectors come from; they are computed at the first draw.
      scale: A factor on each feature's standard deviation.
    """

    dim: int
    variance: float
    along: FloatArray | None = None
    spectrum: Spectrum | None = None
    scale: FloatArray | None = None

    @property
    def std_range(self) -> tuple[float, float]:
        """The smallest and the largest standard deviation over all unit directions."""
        variances = np.array([self.variance])
        if self.along is not None:
            full = self.along.size == self.dim
            variances = self.along if full else np.append(self.along, self.variance)
        low, high = math.sqrt(float(variances.min())), math.sqrt(float(variances.max()))
        if self.scale is None:
            return low, high
        return low * float(self.scale.min()), high * float(self.scale.max())

    @property
    def directions(self) -> int:
        """How many eigenvectors the noise follows."""
        return 0 if self.along is None else int(self.along.size)

    @property
    def follows_all(self) -> bool:
        """Whether it follows every eigenvector that the spectrum retained."""
        return self.spectrum is not None and self.directions == self.spectrum.rank

    @property
    def power(self) -> float:
        """The expected squared norm of a draw: the trace of the covariance."""
        if self.scale is not None:
            return self.variance * float(np.sum(self.scale**2))
        if self.along is None:
            return self.variance * self.dim
        return float(self.along.sum()) + self.variance * (self.dim - self.along.size)

    def covariance(self) -> FloatArray:
        """Returns the d×d covariance, for at most 8192 features."""
        if self.dim > 8192:
            raise ValueError(f"the noise covariance of {self.dim} features is too large to hold")
        if self.along is None:
            diagonal = np.full(self.dim, self.variance)
            return np.diag(diagonal if self.scale is None else diagonal * self.scale**2)
        vectors = self.vectors
        extra = (vectors * (self.along - self.variance)) @ vectors.T
        return np.asarray(extra + self.variance * np.eye(self.dim))

    @property
    def vectors(self) -> FloatArray:
        """The (dim, len(along)) orthonormal eigenvectors that the noise follows."""
        assert self.spectrum is not None
        assert self.along is not None
        return self.spectrum.eigenvectors[:, : self.along.size]

    def _gains(self) -> FloatArray:
        assert self.along is not None
        return np.asarray(np.sqrt(self.along) - math.sqrt(self.variance))

    def _shaped(self, normal: Any, vectors: Any, gains: Any) -> Any:
        """Returns standard normal rows, arrays or tensors, with the covariance of the noise."""
        isotropic = normal * math.sqrt(self.variance)
        if vectors is None:
            return isotropic
        # With V orthonormal, V diag(√a − √v) Vᵀz + √v·z has exactly the stated covariance, and
        # it works for any number of columns of V.
        return isotropic + ((normal @ vectors) * gains) @ vectors.T

    def factored(self, single: bool) -> Factored | None:
        """Returns the noise as one product of normal numbers, for draws that nothing must repeat.

        Guarantee: what :meth:`Factored.rows` stands for has a covariance that is at least the
        noise's in every direction, a factor's rounding to single precision included (that of
        double precision is not), so that it tells no more. It takes one product with
        ``len(along)`` rows where :meth:`shape` takes two.

        Args:
          single: Whether the records have no more than single precision. The factor is then
            rounded to it, where that can hide less than a share of 2e-4 of any variance, and the
            noise is that much larger.

        Returns:
          None where the noise follows no direction, or has less noise along one than outside.
        """
        if self.along is None:
            return None
        full = self.along.size == self.dim
        rest = 0.0 if full else self.variance
        least = float(self.along.min())
        if least < rest:
            return None
        factor = np.ascontiguousarray((self.vectors * np.sqrt(self.along - rest)).T)
        exact = Factored(math.sqrt(rest), factor)
        if not single:
            return exact
        grown = math.sqrt(1 + _ROUNDED_SHARE)
        larger = grown * factor
        rounded = larger.astype(np.float32)
        # With F the factor, E its rounding and s the least standard deviation outside F or, if F
        # is all, along it: s²‖x‖² + ‖(F+E)ᵀx‖² ≥ (1 − ‖E‖/s)(s²‖x‖² + ‖Fᵀx‖²), for
        # 2‖Fᵀx‖·s‖x‖ ≤ the sum; and ‖(F+E)ᵀx‖² ≥ (1 − 2‖E‖/s)‖Fᵀx‖².
        error = float(np.linalg.norm(rounded - larger))
        hidden = 2 * error / (grown * math.sqrt(least if full else rest))
        return Factored(grown * exact.spread, rounded) if hidden < 0.9 * _ROUNDED_SHARE else exact

    @property
    def spread(self) -> float | None:
        """The standard deviation of every feature, where features are independent and alike."""
        alike = self.along is None and self.scale is None
        return math.sqrt(self.variance) if alike else None

    def shape(self, normal: NDArray[Any]) -> NDArray[Any]:
        """Returns the draws that standard normal rows (n, dim) stand for.

        Without eigenvectors ``normal`` itself is overwritten, and its precision kept.
        """
        if self.along is not None:
            return np.asarray(self._shaped(normal, self.vectors, self._gains()))
        normal *= math.sqrt(self.variance)
        if self.scale is not None:
            normal *= self.scale.astype(normal.dtype)
        return normal

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Returns rows (n, dim) in coordinates in which the noise is standard normal."""
        scaled = rows if self.scale is None else rows / self.scale
        out = scaled / math.sqrt(self.variance)
        if self.along is not None:
            vectors = self.vectors
            gains = 1.0 / np.sqrt(self.along) - 1.0 / math.sqrt(self.variance)
            out = out + ((scaled @ vectors) * gains) @ vectors.T
        return np.asarray(out)

    def working_type(self, single: bool) -> type[np.floating[Any]]:
        """Returns the precision to draw in for records of single precision, or of double."""
        # Eigenvectors are in double precision, and so is what goes through them.
        return np.float32 if single and self.along is None else np.float64

    def fingerprint(self) -> bytes:
        """Returns a hash of the map from normal numbers to noise, different for any other map.

        Two noises made of the same normal numbers by different maps would give these away.
        """
        exact = hashlib.blake2b(repr((self.dim, self.variance)).encode(), digest_size=32)
        arrays = [self.along, self.scale] + ([] if self.along is None else [self.vectors])
        for array in arrays:
            exact.update(b"none" if array is None else repr(array.shape).encode())
            if array is not None:
                exact.update(np.ascontiguousarray(array, dtype="<f8").data)
        return exact.digest()

    def added_to(self, records: Any, rng: Any = None) -> Any:
        """Returns ``records`` plus one independent draw for each of them.

        Args:
          records: An array or tensor (n, ...) of n records, or one record.
          rng: A NumPy or a torch generator. None draws a fresh seed from the operating system.
        """
        if is_torch(records):
            return self._added_to_tensor(records, rng)
        array = np.asarray(records)
        if array.dtype.kind not in "iufb":
            raise ValueError(f"records must hold real numbers, got {array.dtype}")
        if not np.isfinite(array).all():
            raise ValueError("records must be finite, got NaN or infinity")
        dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        out = np.array(array, dtype=dtype, order="C")
        rows = out.reshape(self._count(array.shape), self.dim)
        source = np.random.default_rng() if rng is None else _checked(rng)
        for part in self._parts(len(rows)):
            rows[part] += self.shape(_standard_normal((part.stop - part.start, self.dim), source))
        return out

    def _added_to_tensor(self, records: Any, rng: Any) -> Any:
        import torch  # only where tensors came in

        if records.is_complex():
            raise ValueError(f"records must hold real numbers, got {records.dtype}")
        if not bool(torch.isfinite(records).all()):
            raise ValueError("records must be finite, got NaN or infinity")
        device = records.device
        # Apple's MPS has no float64; everywhere else a draw is made in it and rounded once.
        working = torch.float32 if device.type == "mps" else torch.float64
        result = records.dtype if records.is_floating_point() else torch.get_default_dtype()
        count = self._count(tuple(records.shape))
        noise = torch.empty((count, self.dim), dtype=result, device=device)
        source = _fresh_generator(device) if rng is None else _checked(rng)

        def moved(array: FloatArray) -> Any:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device=device, dtype=working)

        scale = None if self.scale is None else moved(self.scale)
        vectors = gains = None
        if self.along is not None:
            vectors, gains = moved(self.vectors), moved(self._gains())
        for part in self._parts(count):
            shape = (part.stop - part.start, self.dim)
            if is_torch(source):
                normal = torch.randn(shape, generator=source, dtype=working, device=device)
            else:
                normal = moved(_standard_normal(shape, source))
            drawn = self._shaped(normal, vectors, gains)
            noise[part] = (drawn if scale is None else drawn * scale).to(result)
        return records + noise.reshape(records.shape)

    def _parts(self, count: int) -> list[slice]:
        step = max(1, _CHUNK // self.dim)
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]

    def _count(self, shape: tuple[int, ...]) -> int:
        """Returns how many records an array of this shape holds."""
        if shape and math.prod(shape[1:]) == self.dim:
            return shape[0]
        if math.prod(shape) == self.dim:
            return 1
        raise ValueError(f"records must have {self.dim} features each, got shape {shape}")


def _checked(rng: Any) -> Any:
    if isinstance(rng, np.random.Generator) or (is_torch(rng) and hasattr(rng, "initial_seed")):
        return rng
    raise ValueError(
        f"rng must be a numpy.random.Generator or a torch.Generator, got {type(rng).__name__}"
    )


def _standard_normal(shape: tuple[int, int], rng: Any) -> FloatArray:
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape)
    import torch  # the caller holds a torch generator

    drawn = torch.randn(shape, generator=rng, dtype=torch.float64, device=rng.device)
    return np.asarray(drawn.cpu().numpy())


def _fresh_generator(device: Any) -> Any:
    """Returns a generator seeded by the operating system, never torch's global one."""
    if device.type == "cpu":
        # torch seeds its CPU generator with 32 bits, few enough to try them all; NumPy's has 128.
        return np.random.default_rng()
    import torch  # only where tensors came in

    generator = torch.Generator(device=device)
    generator.manual_seed(secrets.randbits(63))
    return generator
