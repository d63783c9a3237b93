"""What every notion must keep to: ``check_notion`` in your own tests."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from recondite.accounting.schedules import Poisson, Shuffled
from recondite.channels import NaturalChannel, Spectrum
from recondite.mechanisms import (
    Directional,
    Gaussian,
    MetricPrivacy,
    Neighbouring,
    NoNoise,
    UndefinedNotionError,
    VonMisesFisher,
)
from recondite.notions import (
    Figure,
    MechanismRun,
    Notion,
    Pair,
    Release,
    account_for,
    built_in,
    targets,
)
from recondite.notions.base import Scope, Unsampled
from recondite.notions.calibration import Criterion, calibrate
from recondite.notions.noisy_records import NoisyRecords

__all__ = ["check_notion"]

_RELATIVE = 1e-3  # a bound may be this far above its true value, and two of them so far apart
_STRENGTHS = (0.5, 1.0, 2.0, 4.0)


def check_notion(notion: Notion) -> None:
    """Raises AssertionError, in one line, where a notion does not keep to its contract.

    Checked, on mechanisms of ours and a channel: its words; that more noise never promises less
    and more releases never promise more; that without noise nothing is promised; that values are
    strict JSON and read back from it; that what a release cannot supply is "not defined" with a
    reason in one line; that noise can be calibrated to it where it says so. Not checked, because
    no test can: that the bound holds.
    """
    _words(notion)
    for name, ordered in _weaker_and_weaker().items():
        _ordered(notion, ordered, f"less noise ({name})")
    for name, ordered in _longer_and_longer().items():
        _ordered(notion, ordered, f"more releases ({name})")
    _no_noise(notion)
    _json(notion)
    _undefined(notion)
    if notion.target is not None:
        _target(notion)


def _require(notion: Notion, holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"notion {notion.key!r} {what}")


def _words(notion: Notion) -> None:
    key = re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?", notion.key)
    _require(notion, key is not None, "needs a key of lower-case letters, digits and _")
    _require(notion, bool(notion.label.strip()), "needs a label")
    _require(notion, notion.direction in ("upper", "lower"), "needs direction 'upper' or 'lower'")
    promise = notion.promise.strip()
    one = promise.endswith(".") and ". " not in promise and "\n" not in promise
    _require(notion, one and len(promise) <= 160, "needs a promise of one sentence, 160 letters")
    for figure in notion.figures:
        texts = (figure.key, figure.label, figure.short, figure.about)
        _require(notion, all(texts), f"needs words for its figure {figure.key!r}")
    for other in built_in().values():
        if type(other) is type(notion):
            continue
        shared = {f.key for f in other.figures} & {f.key for f in notion.figures}
        _require(notion, not shared, f"takes the figure {''.join(sorted(shared)[:1])!r} of ours")
        _require(notion, other.key != notion.key, "takes the key of one of ours")


def _weaker_and_weaker() -> dict[str, list[Release]]:
    poisson, shuffled = Poisson(0.02, 50), Shuffled(3, 10, 100)
    return {
        "gaussian": [
            _run(Gaussian(s, dim=30, max_batch_size=40), poisson) for s in reversed(_STRENGTHS)
        ],
        "vmf": [_run(VonMisesFisher(10 * k, dim=100), poisson) for k in _STRENGTHS],
        "directional": [_run(Directional(k, dim=50), shuffled) for k in _STRENGTHS],
        "channel": [_copies(nats, 1) for nats in _STRENGTHS],
    }


def _longer_and_longer() -> dict[str, list[Release]]:
    noise = Gaussian(2.0, dim=30, max_batch_size=40)
    return {
        "gaussian": [_run(noise, Poisson(0.02, steps)) for steps in (20, 60, 180)],
        "directional": [_run(Directional(0.5, dim=50), Shuffled(n, 10, 100)) for n in (1, 2, 4)],
        "channel": [_copies(1.0, uses) for uses in (1, 3, 9)],
    }


def _run(mechanism: Any, schedule: Any) -> MechanismRun:
    return MechanismRun(mechanism, schedule, delta=1e-5, prior_success=0.1)


def _copies(nats: float, uses: int) -> NoisyRecords:
    spectrum = Spectrum.from_covariance(np.diag([0.2, 0.1, 0.05]))
    channel = NaturalChannel.from_spectrum(spectrum, nats)
    told = channel.information(uses, noise="per_step")
    return NoisyRecords(channel, 1.0, uses, told, 1e-5)


def _bounds(notion: Notion, release: Release) -> list[tuple[Figure, float]]:
    plain = account_for(release, [notion]).to_dict()
    row = notion.row(plain) or {"": notion.of(plain)}
    known = notion.figures or (Figure("", notion.label, notion.label, notion.promise),)
    stated = [figure for figure in known if figure.undefended is not None]
    return [(one, float(row[one.key])) for one in stated if row[one.key] is not None]


def _ordered(notion: Notion, releases: Sequence[Release], what: str) -> None:
    sign = 1.0 if notion.direction == "upper" else -1.0
    before: dict[str, float] = {}
    for release in releases:
        for figure, value in _bounds(notion, release):
            last = sign * before.get(figure.key, -sign * math.inf)
            slack = _RELATIVE * abs(last) if math.isfinite(last) else 0.0
            holds = sign * value >= last - slack - 1e-12
            _require(notion, holds, f"promises more with {what}: {last * sign:g}, then {value:g}")
            before[figure.key] = value


def _no_noise(notion: Notion) -> None:
    for release in (_run(NoNoise(dim=10), Poisson(0.5, 40)), _run(NoNoise(), Shuffled(1, 5, 10))):
        for figure, value in _bounds(notion, release):
            nothing = not notion.promises(figure, value)
            _require(notion, nothing, f"promises {figure.key} {value:g} where nothing protects")


def _json(notion: Notion) -> None:
    for releases in _weaker_and_weaker().values():
        account = account_for(releases[0], [notion])
        plain = account.to_dict()
        text = json.dumps(plain, allow_nan=False)
        _require(notion, json.loads(text) == plain, "has a value that JSON does not keep")
        value = notion.of(plain)
        reasoned = bool(plain["reasons"].get(notion.key))
        _require(notion, value is not None or reasoned, "has neither a value nor a reason")
        numbers = [v for v in notion.row(plain).values() if v is not None]
        numeric = all(v == "inf" or isinstance(v, int | float) for v in numbers)
        _require(notion, numeric, "has a figure that is no number")
        lines = notion.lines(account)
        _require(notion, all(len(line) == 4 for line in lines), "needs lines of four texts")


def _undefined(notion: Notion) -> None:
    try:
        notion.compute(_Nothing())
    except UndefinedNotionError as reason:
        text = str(reason)
        _require(notion, bool(text.strip()) and "\n" not in text, "needs a reason in one line")
    else:
        _require(notion, False, "has a value for a release that supplies nothing")
    account = account_for(_Nothing(), [notion])
    _require(notion, notion.key in account.reasons, "has no reason where it is not defined")
    bounds = _bounds(notion, _Nothing())
    _require(notion, not bounds, "has a number where it is not defined")


def _target(notion: Notion) -> None:
    assert notion.target is not None
    _refuses(notion, lambda: notion.check_target(0.0, 0.1), "takes 0 for a target")
    release = _weaker_and_weaker()["gaussian"][-2]
    value = notion.measure(release, "run")
    _require(notion, math.isfinite(value), "cannot be measured for Gaussian noise")
    if targets().get(notion.target) is None:
        return  # calibration finds what is installed
    options: dict[str, Any] = {"delta": 1e-5, "scope": "run"}
    goal = Criterion(notion.target, release.schedule, **options).target(value)
    start = Gaussian(1.0, dim=30, max_batch_size=40)
    found = calibrate(start, goal, notion.target, release.schedule, relative=0.01, **options)
    _require(notion, notion.met(found.achieved, goal), "misses the target it was calibrated to")


def _refuses(notion: Notion, call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except ValueError:
        return
    _require(notion, False, what)


class _Nothing(Release):
    """A release that supplies nothing."""

    mechanism = schedule = None
    delta, prior_success, group_size, subject = 1e-5, 0.1, 1, "nothing"
    neighbouring = Neighbouring.REPLACE
    releases = 0

    @property
    def pair(self) -> Pair:
        raise UndefinedNotionError("nothing is known of this release")

    def log_bayes_capacity(self, scope: Scope) -> float:
        raise UndefinedNotionError("nothing is known of this release")

    def mutual_information(self, scope: Scope) -> float:
        raise UndefinedNotionError("nothing is known of this release")

    def metric_privacy(self) -> MetricPrivacy:
        raise UndefinedNotionError("nothing is known of this release")

    def unsampled(self) -> Unsampled:
        raise UndefinedNotionError("nothing is known of this release")

    def described(self) -> Mapping[str, object]:
        return {"mechanism": "nothing", "parameters": {}, "schedule": {}}

    def assumptions(self) -> tuple[str, ...]:
        return ()
