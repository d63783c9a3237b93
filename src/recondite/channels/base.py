"""What every channel in data space shares: a capacity, a noise, and what they do not promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from recondite import _validate as check
from recondite.channels import _solve
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum
from recondite.numerics.spectra import error_floor

__all__ = ["LIMITS", "Channel"]

FloatArray = NDArray[np.float64]

LIMITS = (
    "The capacity bounds what one noisy copy tells of the features of a record drawn from a "
    "population with the fitted covariance; it is an average over records, not a worst case.",
    "Labels are not covered: secret labels add at most ln(number of classes) nats a record.",
    "Noise drawn once costs the capacity once, for any number of uses, only if records are "
    "independent, every use sees the same noisy copy, and the raw record is never touched again "
    "(evaluation, early stopping and normalisation included). A second draw counts as a use.",
    "The capacity is per record: k near-copies of a record leak what k uses do, and a data set "
    "leaks up to its number of records times the capacity.",
    "The fitted channel (mean, covariance, eigenvectors) is as private as the data it was fitted "
    "on: fit it on public or held-out records, or declare the covariance public.",
    "Records that vary along directions in which the fitted ones do not carry more than the "
    "capacity.",
    "The error floors are estimates: they take the data for Gaussian, which overstates them, and "
    "speak of the average record.",
)
_COARSE = (
    "The smallest noise is below the resolution of floating point at the scale of the data: "
    "rounding hides it, and the capacity says little."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Channel:
    """Gaussian noise on records, of the size at which they leak a given number of nats.

    Guarantee: for a record X drawn from any law with the fitted covariance, and the noisy copy Y
    that :meth:`perturb` returns, I(X; Y) ≤ ``capacity_nats`` ≤ ``requested``; so does everything
    computed from Y alone (data processing). There is no neighbouring relation: this is an average
    over records. ``limits`` says what is not promised.

    Attributes:
      spectrum: The spectrum of the records' covariance.
      requested: The capacity asked for, in nats.
      capacity_nats: The capacity achieved: an upper bound for one noisy copy of one record, never
        above ``requested`` and within 1e-9 (relative) of it.
      noise: The noise that is added.
      ratios: Variance of the signal over that of the noise, direction by direction.
      counts: How many directions share each ratio.
    """

    name: ClassVar[str] = "channel"
    weighted: ClassVar[bool] = False  # whether a fit takes the weight of each feature

    spectrum: Spectrum
    requested: float
    capacity_nats: float
    noise: Noise
    ratios: FloatArray
    counts: FloatArray

    @property
    def dim(self) -> int:
        """The number of features of a record."""
        return self.spectrum.dim

    @property
    def capacity_per_dimension(self) -> float:
        """The capacity divided by the number of features, in nats."""
        return self.capacity_nats / self.dim

    @property
    def capacity_over_log_records(self) -> float | None:
        """The capacity over ln(number of records): from 1 on it could single a record out."""
        records = self.spectrum.records
        return None if records is None else self.capacity_nats / math.log(records)

    @property
    def noise_std_range(self) -> tuple[float, float]:
        """The smallest and the largest standard deviation of the noise over all directions."""
        return self.noise.std_range

    @property
    def limits(self) -> tuple[str, ...]:
        """What the channel does not promise."""
        largest = math.sqrt(float(self.spectrum.values.max()))
        coarse = self.noise_std_range[0] < float(np.finfo(np.float64).eps) * largest
        return (*LIMITS, _COARSE) if coarse else LIMITS

    def following(self, directions: int | Literal["auto"] | None = "auto") -> Channel:
        """Returns the channel of the same kind and capacity whose noise follows fewer directions.

        Channels whose noise follows no direction are returned as they are.

        Args:
          directions: How many leading eigenvectors: a number, None for all, or "auto" for as few
            as :meth:`FlooredChannel.from_spectrum` says.
        """
        del directions
        return self

    def perturb(self, records: Any, rng: Any = None) -> Any:
        """Returns records with one independent draw of the noise added to each.

        Args:
          records: A NumPy array or torch tensor (n, ...) whose records have ``dim`` features, or
            a single record. A channel fitted with a transform takes embeddings. Shape, floating
            dtype and device are kept.
          rng: A ``numpy.random.Generator`` or ``torch.Generator``. None takes fresh entropy from
            the operating system. A seed that an attacker can guess undoes the noise, and torch
            keeps only 32 bits of the seed of a generator on the CPU.
        """
        return self.noise.added_to(records, rng)

    def protect(
        self,
        data: Any,
        noise: str = "once",
        *,
        secret: Any = None,
        features: Any = None,
        identity: Callable[[int, Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        cache: bool | None = None,
        total_information: float | None = None,
        ledger: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Returns a loader or data set that serves noisy copies of its records, and counts them.

        Guarantee: ``information()["per_record"]`` of what is returned bounds what all that it
        served tells of the features of any one record, as :meth:`information` does; a training
        run that sees nothing else tells no more. Assumes what ``limits`` says: above all that
        the raw records are not used elsewhere, be it to evaluate or to normalise. Labels and
        other parts of a record are handed through as they are.

        With `once` noise (the default) a record has one noisy copy: the noise follows from
        ``secret``, the channel, the record's identity and its content, and is the same in every
        epoch, worker, resumed and restarted run with the same secret. Another secret, or a
        channel that differs at all, is a second draw, and counted where the ledger can see it.
        Whoever has the secret and a noisy copy has the record. With `per_step` noise every use
        draws fresh noise, and is counted before it happens. Both come from cryptographic
        generators, which does not help against attacks on the rounding of floating-point noise.

        Noise has to come before augmentation: protect the data set below it, whose records are
        the same at every reading, and give the augmentation as ``transform``.

        Args:
          data: A torch ``DataLoader`` over a map-style data set, or such a data set itself (any
            object with a length and records by number: arrays and tensors too). A loader comes
            back as one of its class with the same samplers, workers and collation. Of a data set
            with `per_step` noise, take no loader with workers: protect the loader.
          noise: "once" or "per_step".
          secret: For `once` noise: 32 random bytes, or the path of a file that holds them,
            created for its owner only if missing, so that a restarted run is the same. None
            takes fresh bytes from the operating system, which end with the process.
          features: Where the features are in a record: a key or position. None takes the first
            part of a tuple, or the record itself.
          identity: For `once` noise: a function of a record's index and of what ``data`` returns
            for it, to a number, text or bytes that identifies the record. None takes the index,
            which identifies it within one order of one data set only: in another split or order
            a record would be drawn again, and nothing could count it.
          transform: Applied to the noisy features of each record whenever it is served.
          cache: Whether to keep all features in memory, the noisy ones with `once` noise: read when
            first asked for, after which ``data`` is not touched again. None does so up to 1 GiB.
          total_information: The most nats that may be told of a record. A loader ends before a
            batch that would exceed it, with a one-line warning, and ``budget_spent`` is set; a
            data set raises :class:`BudgetSpentError`.
          ledger: A file to which uses are written before they happen, so that a run that is
            killed and started again with the same file misses none; otherwise
            ``state_dict()`` knows those before it was called.
          seed: For `per_step` noise in simulations: it is the same in every run with this seed,
            and protects nobody (``guarantee`` is False).

        Returns:
          A :class:`~recondite.channels.protected.Protected` loader or data set, with ``uses``,
          ``information()``, ``budget_spent``, ``state_dict()`` and ``load_state_dict()``.

        >>> import numpy as np
        >>> from recondite.channels import NaturalChannel
        >>> records = np.random.default_rng(0).standard_normal((50, 4))
        >>> noisy = NaturalChannel.fit(records, capacity=2.0).protect(records)
        >>> bool((noisy[7] == noisy[7]).all()), noisy.uses
        (True, 1)
        >>> round(noisy.information()["per_record"], 6)
        2.0
        """
        from recondite.channels.loader import protect  # it builds on this module

        return protect(
            self,
            data,
            noise,
            secret=secret,
            features=features,
            identity=identity,
            transform=transform,
            cache=cache,
            total_information=total_information,
            ledger=ledger,
            seed=seed,
        )

    def information(self, uses: int = 1, noise: str = "once") -> float:
        """Returns an upper bound in nats on what ``uses`` uses tell of one record, in total.

        Args:
          uses: How often the record is used, for instance the number of epochs.
          noise: "once": the record is noised once and every use sees that copy, so the total is
            the capacity. "per_step": every use draws fresh noise, and the total is the exact
            ½ Σ ln(1 + k·λ_i/σ_i), between the capacity and k times it.
        """
        count = check.at_least("uses", uses, 0)
        check.choice("noise", noise, ("once", "per_step"))
        if count == 0:
            return 0.0
        if noise == "once":
            return self.capacity_nats
        fresh = _solve.information(self.ratios, self.counts, float(count))
        return min(fresh, count * self.capacity_nats)

    def local_gaussian(self, diameter: float) -> float:
        """Returns the noise multiplier of the local Gaussian mechanism that the channel is.

        Guarantee: any two records at L2 distance at most ``diameter`` are as hard to tell apart
        from one noisy copy as N(0, 1) and N(1/multiplier, 1) are, or harder (replace-one, one
        record, one copy). Assumes that records are clipped to that diameter.

        Args:
          diameter: The largest L2 distance between two records.
        """
        return self.noise_std_range[0] / check.positive("diameter", diameter)

    @property
    def error_floor(self) -> dict[str, float]:
        """Two estimates of the mean squared reconstruction error per feature; no guarantees.

        ``theorem_1`` is the entropy-power bound with the Gaussian entropy in place of the data's;
        it is 0 for a singular covariance. ``linear_mmse`` is the error of the best linear
        estimator, which an attacker who knows the covariance and the mean attains.
        """
        values, counts = self.spectrum.values, self.spectrum.counts
        entropy = -math.inf
        if float(values.min()) > 0:
            logs = np.log(values) + math.log(2 * math.pi * math.e)
            entropy = 0.5 * float(np.sum(counts * logs))
        return {
            "theorem_1": error_floor(entropy, self.dim, self.capacity_nats),
            "linear_mmse": self._linear_mmse(),
        }

    def _linear_mmse(self) -> float:
        values = self.spectrum.eigenvalues
        along = np.full(values.size, self.noise.variance)
        if self.noise.along is not None:
            along[: self.noise.along.size] = self.noise.along
        inside = float(np.sum(values * (along / (values + along))))
        return (inside + _outside(self.spectrum, self.noise.variance)) / self.dim

    def summary(self) -> dict[str, Any]:
        """Returns what a report needs, ready for JSON."""
        low, high = self.noise_std_range
        return {
            "channel": self.name,
            "dim": self.dim,
            "records": self.spectrum.records,
            "requested_nats": self.requested,
            "capacity_nats": self.capacity_nats,
            "capacity_bounds": "mutual information of a record and one noisy copy, upper bound",
            "capacity_per_dimension": self.capacity_per_dimension,
            "capacity_over_log_records": self.capacity_over_log_records,
            "noise_std": {"min": low, "max": high},
            "noise_power": self.noise.power,
            "noise_directions": self.noise.directions,
            "error_floor": {**self.error_floor, "kind": "estimate"},
            "spectrum": {
                "method": self.spectrum.method,
                "rank": self.spectrum.rank,
                "largest": float(self.spectrum.values.max()),
                "trace": self.spectrum.trace,
                "discarded_dims": self.spectrum.discarded_dims,
                "discarded_trace": self.spectrum.discarded_trace,
            },
            "limits": list(self.limits),
        }


def _outside(spectrum: Spectrum, variance: float) -> float:
    """Returns the least linear error that the discarded directions can add."""
    # λσ/(λ+σ) is concave in λ, so its sum is least when the trace sits in as few directions as
    # the bound on each allows.
    return spectrum.discarded_trace * variance / (spectrum.discarded_bound + variance)
