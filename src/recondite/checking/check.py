"""The check: what a training's step does, one finding each, against what is claimed of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from recondite import _validate
from recondite.accounting.auditing import epsilon_lower_bound
from recondite.checking import sampling, scheduled
from recondite.checking.claim import GAME_DELTA, PrivacyClaim, allowed
from recondite.checking.displacement import (
    displacement,
    equal_spread,
    repeats,
    would_notice,
)
from recondite.checking.findings import CheckResult, Finding, Verdict
from recondite.checking.pairs import among, groups, singles, small, unusual
from recondite.checking.probe import Effect, MeasuredNoise, Probe, global_randomness, reseed
from recondite.checking.trainer import Trainer
from recondite.mechanisms import Mechanism

__all__ = ["CHECKS", "check"]

Array = npt.NDArray[np.float64]
CHECKS = ("fresh-noise", "what-leaves", "batch-size", "noise", "game", "schedule", "sampling")
# Tests whose statistics could contradict a right training by chance: one correlation, one ratio of
# spreads, two displacements, one game, and those of the sampling.
_TESTS = 5 + sampling.TESTS
# What the accountant and calibration may round, in noise: a claim made with a tighter one stands.
_SLACK = 1.01
_PILOT = 24
_BATCHES, _PASSES = 400, 200
_LARGEST_GROUP, _FEWEST_OTHERS = 32, 8
_ROUNDING = 1e-12  # of differences of sums of equal numbers
_POOR = 0.5  # of the noise needed, or of a direction: a check that sees no more cannot tell


@dataclass
class _Check:
    """What the parts of one check share."""

    claim: PrivacyClaim
    runs: int
    miss: float
    confidence: float  # of all tests together
    rng: np.random.Generator
    skip: frozenset[str]
    findings: list[Finding] = field(default_factory=list)

    def pilot(self, share: int, most: int) -> int:
        """Steps on each batch of those that are tried out."""
        return max(8, min(self.runs // share, most))

    def wanted(self, name: str) -> bool:
        return name not in self.skip

    def add(self, name: str, verdict: Verdict, evidence: str, **numbers: float) -> None:
        self.findings.append(Finding(name, verdict, evidence, **numbers))


def check(
    make_trainer: Callable[[], Trainer],
    claim: PrivacyClaim,
    *,
    runs: int = 1000,
    confidence: float = 0.999,
    skip: Collection[str] = (),
    seed: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> CheckResult:
    """Measures what a training does, and compares it with what is claimed of it.

    Guarantee: a training that does what is claimed (noise of the kind told, normal for Gaussian
    noise; batches drawn as told) is said to violate the claim with probability at most
    1 - ``confidence``. "Consistent" proves nothing: it says that these records, in so many steps,
    showed nothing else. What one step does is measured, and of a trainer with a schedule what five
    of them do, which stand for those between; that the run makes as many steps as told, and
    carries nothing from one to the next beside the weights, is taken for granted.

    Args:
      make_trainer: Makes a trainer as the training would, with fresh noise. Called twice.
      claim: What is claimed.
      runs: Steps a side of each measurement. A quarter of them doubles the least error that shows.
      confidence: With which "violates" holds, over all tests together.
      skip: Names of :data:`CHECKS` to leave out.
      seed: Of the check and of the global generators while it runs (they are given back as they
        were): repeats a check of a training that draws its noise from these.
      progress: Called with the share that is done.
    """
    _validate.at_least("runs", runs, 50)
    _validate.probability("confidence", confidence)
    for name in skip:
        _validate.choice("skip", name, CHECKS)
    expected = 6 * runs + 1000  # steps; only a progress bar reads it
    told = progress or (lambda done: None)

    def tick(steps: int) -> None:
        told(min(0.99, steps / expected))

    with global_randomness(seed) as rng:
        miss = (1 - confidence) / _TESTS
        own = _Check(claim, runs, miss, confidence, rng, frozenset(skip))
        probes = []
        for _ in range(2):
            reseed(int(rng.integers(2**63)))
            trainer = make_trainer()
            if not isinstance(trainer, Trainer):
                kind = type(trainer).__name__
                raise ValueError(
                    f"make_trainer must return a recondite.checking.Trainer, not {kind}"
                )
            probes.append(Probe(trainer, tick))
        reseed(int(rng.integers(2**63)))
        _steps(own, *probes)
        if own.wanted("sampling"):
            _sampling(own, probes[0].trainer, probes[1].trainer)
    for name in skip:
        own.add(name, "skipped", "not checked, as asked")
    own.findings.sort(key=lambda finding: CHECKS.index(finding.check))
    told(1.0)
    steps = sum(probe.steps for probe in probes)
    return CheckResult(str(claim), tuple(own.findings), confidence, steps)


def _steps(own: _Check, probe: Probe, other: Probe) -> None:
    """Everything that is read off single steps."""
    if not any(own.wanted(name) for name in CHECKS[:-1]):
        return
    records = probe.trainer.records
    batch = tuple(records[i] for i in range(min(4, len(records))))
    rows = [one.rows(batch, _PILOT) for one in (probe, other)]
    noise = probe.noise(rows[0])
    if noise.dim == 0:
        line = "steps on one batch give the same update: there is no noise, or always the same"
        own.add("fresh-noise", "violates", line)
        return
    if own.wanted("fresh-noise"):
        _fresh(own, noise, *rows)
    needed = own.claim.needed(noise.dim)
    replaced = own.claim.replaced
    # A direction only turns: a record in place of another turns it furthest.
    apart = replaced or needed.scale_free
    size = max(1, min(round(own.claim.rate * len(records)), _LARGEST_GROUP))
    tried = unusual(records, probe.trainer.canaries)
    found, exact = probe.effects(
        groups(records, tried, size, replaced=apart), own.pilot(50, 16), own.rng
    )
    if own.wanted("what-leaves"):
        _leaves(own, found, noise)
    weight = small(records)
    least = next((n for n in (1, 2, 4) if probe.works((weight,) * n)), 8)
    if own.wanted("batch-size") and not replaced:
        _batch_size(own, probe, noise, (least, max(2 * least, size)))
    limits = {d: allowed(needed, d, own.rng) for d in (1, 2, found[0].pair.distance)}

    def excess(effect: Effect) -> float:
        return effect.length(noise) / limits[effect.pair.distance]

    found.sort(key=excess, reverse=True)
    varying = probe.trainer.step_at is not None
    together = None
    if own.wanted("schedule" if varying else "noise"):
        together = _Scored(own, probe, noise, found[0], exact), limits[found[0].pair.distance]
    if together is not None and not varying:
        _noise(own, *together)
    kept = {id(e.pair.first[-1]): e.pair.first[-1] for e in found[:6]}
    kept |= {id(e.pair.second[-1]): e.pair.second[-1] for e in found[:6] if apart}
    best = [*kept.values()][:4]
    empty = not apart and probe.works(())
    alone = singles(best, (weight,) * least, replaced=apart, empty=empty)
    ordinary = tuple(records[i] for i in range(min(max(size, _FEWEST_OTHERS), len(records))))
    alone += among(best, ordinary, replaced=apart)
    found, exact = probe.effects(alone, own.pilot(16, 64), own.rng)
    one = max(found, key=excess)
    if together is not None and varying:
        alone_too = _Scored(own, probe, noise, one, exact), limits[one.pair.distance]
        _schedule(own, probe, [together, alone_too], needed)
    elif not varying and (own.wanted("noise") or own.wanted("game")):
        _single(own, _Scored(own, probe, noise, one, exact), limits[one.pair.distance], needed)


def _fresh(own: _Check, noise: MeasuredNoise, first: Array, second: Array) -> None:
    """The same noise in two trainings follows from a seed."""
    on = noise.noisy
    same, correlation = repeats(
        first[:, on] / noise.scale[on], second[:, on] / noise.scale[on], own.miss
    )
    if same:
        line = (
            f"two trainings drew the same noise (correlation {correlation:.2f}): it follows from a "
            "seed"
        )
        own.add("fresh-noise", "violates", line, measured=correlation)
    else:
        line = "two trainings drew noise of their own"
        own.add("fresh-noise", "consistent", line, measured=correlation)


def _leaves(own: _Check, found: list[Effect], noise: MeasuredNoise) -> None:
    """What has no noise must not depend on a record."""
    shown: dict[str, float] = {}
    for effect in found:
        for name, place in noise.parts:
            still = ~noise.noisy[place]
            if still.any():
                moved = float(np.abs(effect.first[place][still]).max())
                shown[name] = max(shown.get(name, 0.0), moved)
    leaking = [name for name, moved in shown.items() if moved > _ROUNDING]
    if leaking:
        line = f"{', '.join(leaking)} leaves without noise and changes with a record"
        own.add("what-leaves", "violates", line, measured=max(shown.values()), allowed=0.0)
        return
    line = "everything that leaves has noise"
    if shown:
        line = f"{', '.join(shown)} has no noise and never changes; the rest has noise"
    own.add("what-leaves", "consistent", line)


def _batch_size(own: _Check, probe: Probe, noise: MeasuredNoise, sizes: tuple[int, int]) -> None:
    """Noise that is divided by the number of records tells that number."""
    record = probe.trainer.records[0]
    direction = noise.weights(own.rng.choice([-1.0, 1.0], probe.size))
    count = max(50, own.runs // 4)
    few, many = (probe.scores((record,) * size, direction, count) for size in sizes)
    equal, ratio = equal_spread(few, many, own.miss)
    named = f"{sizes[0]} and {sizes[1]} records"
    if equal:
        line = f"noise is the same for batches of {named}"
        own.add("batch-size", "consistent", line, measured=ratio, allowed=1.0)
        return
    line = (
        f"the batch size leaves: noise differs by a factor of {ratio:.3g} between batches of "
        f"{named}; divide by the expected batch size"
    )
    own.add("batch-size", "violates", line, measured=ratio, allowed=1.0)


class _Scored:
    """Fresh releases of a pair, scored by what its records were seen to move."""

    def __init__(
        self, own: _Check, probe: Probe, noise: MeasuredNoise, effect: Effect, exact: bool
    ) -> None:
        self.pair, self.unit, self.dim = effect.pair, probe.trainer.unit, noise.dim
        if not exact:
            effect = self._again(probe, max(8, own.runs // 4))
        clean, with_noise = effect.products(noise)
        # How near the best direction this one is: an estimate.
        self.quality = (max(0.0, clean) / with_noise) ** 0.5 if with_noise > 0 else 0.0
        self.direction = noise.weights(0.5 * (effect.first + effect.second) / noise.unit)
        self.first = probe.scores(self.pair.first, self.direction, own.runs)
        self.second = probe.scores(self.pair.second, self.direction, own.runs)
        self.moved = displacement(self.first, self.second, own.miss)

    def _again(self, probe: Probe, count: int) -> Effect:
        one, two = (
            probe.mean(self.pair.first, count) - probe.mean(self.pair.second, count)
            for _ in range(2)
        )
        return Effect(self.pair, one, two)

    def compared(self, limit: float, confidence: float) -> str:
        """One line: the noise that is there over the noise that is needed."""
        moved = self.moved
        share = limit / moved.estimate if moved.estimate > 0 else np.inf
        most = limit / moved.low if moved.low > 0 else np.inf
        line = (
            f"noise is {share:.2f} of what the claim needs (at most {most:.2f}, at "
            f"{100 * confidence:g}%)"
        )
        if self.unit is None:
            return line
        far = self.pair.distance * self.unit * float(np.linalg.norm(self.direction))
        return f"a record moves the sum by {moved.difference / far:.2g} C; {line}"


def _noise(own: _Check, scored: _Scored, limit: float) -> None:
    """Several copies of one record, for precision: their mean displacement is one record's."""
    moved, line = scored.moved, scored.compared(limit, own.confidence)
    notice = would_notice(limit, own.runs, own.miss)
    numbers = {"measured": moved.estimate, "allowed": limit}
    if moved.low > _SLACK * limit:
        own.add("noise", "violates", line, **numbers)
    elif scored.quality < _POOR or moved.low <= 0:
        why = (
            f"{own.runs} steps do not find what a record moves among {scored.dim} parameters: give "
            "more runs, a smaller model or other records"
        )
        own.add("noise", "cannot tell", why)
    elif notice < _POOR:
        why = f"only noise below {notice:.2f} of what the claim needs would show: give more runs"
        own.add("noise", "cannot tell", why)
    else:
        own.add("noise", "consistent", f"{line}; less than {notice:.2f} would show", **numbers)


def _single(own: _Check, scored: _Scored, limit: float, needed: Mechanism) -> None:
    """One record in a small batch: what division by its size shows, and the game."""
    pair, moved = scored.pair, scored.moved
    if own.wanted("noise") and moved.low > _SLACK * limit:
        line = f"{pair.what}: {scored.compared(limit, own.confidence)}"
        own.add("noise", "violates", line, measured=moved.estimate, allowed=limit)
    if not own.wanted("game"):
        return
    weaker = needed.strength * _SLACK ** (1 if needed.weaker == "larger" else -1)
    claimed = own.claim.one_step(needed.with_strength(weaker), replaced=pair.replaced)
    seed = int(own.rng.integers(2**31))
    shown = epsilon_lower_bound(
        scored.first, scored.second, GAME_DELTA, 1 - own.miss, seed=seed
    ).epsilon
    line = (
        f"{pair.what}: shown ε ≥ {shown:.2f} for one step where {claimed:.2f} is claimed, at δ = "
        f"{GAME_DELTA}"
    )
    verdict: Verdict = "violates" if shown > claimed else "consistent"
    own.add("game", verdict, line, measured=shown, allowed=claimed)


def _schedule(
    own: _Check, probe: Probe, scored: list[tuple[_Scored, float]], needed: Mechanism
) -> None:
    """Steps that differ are one test, in place of noise and game, which are about one step."""
    pairs = [scheduled.Measured(one.pair, one.direction, limit) for one, limit in scored]
    steps = own.claim.schedule.steps
    found = scheduled.stages(probe, pairs, steps, max(50, own.runs // 2), own.miss)
    poor = all(one.quality < _POOR for one, _ in scored) or max(s.low for s in found) <= 0
    verdict, line = scheduled.answer(own.claim, needed, found, _SLACK, poor)
    worst = max(found, key=lambda stage: stage.low)
    own.add("schedule", verdict, line, measured=worst.estimate, allowed=1.0)


def _sampling(own: _Check, first: Trainer, second: Trainer) -> None:
    """Whether batches are drawn as told."""
    if own.claim.rate == 1.0 and first.batches is None:
        own.add("sampling", "consistent", "every record is in every batch, as told")
        return
    if first.batches is None or second.batches is None:
        why = "the trainer has no batches: tell how they are drawn, or skip sampling"
        own.add("sampling", "cannot tell", why)
        return
    passes = sampling.observe(first.batches, _BATCHES, _PASSES, lambda: None)
    found = sampling.contradictions(own.claim.schedule, passes, len(first.records), own.miss)
    again = sampling.observe(second.batches, 1, 1, lambda: None)
    if own.claim.rate < 1.0 and len(passes[0]) > 1 and again[0] == passes[0]:
        found.append(
            "two trainings drew the same batches: their order is fixed, or follows from a seed"
        )
    for line in found:
        own.add("sampling", "violates", line)
    if not found:
        count = sum(map(len, passes))
        line = f"{count} batches were drawn as {own.claim.schedule.sampling} sampling draws them"
        own.add("sampling", "consistent", line)
