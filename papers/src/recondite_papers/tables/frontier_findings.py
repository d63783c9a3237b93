"""What the frontier's rows say, in sentences: every number in them is computed here."""

# ruff: noqa: E501  (sentences are easier to check in long lines)
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from recondite_papers.frontier.defences import CHANNELS, NAMES
from recondite_papers.tables.cells import Verdict
from recondite_papers.tables.frontier import (
    LEVELS,
    MODELS,
    REFERENCE,
    Curve,
    Held,
    held,
    versus,
)

__all__ = ["best", "findings", "in_short", "losses", "mark", "nobody", "short", "winners"]

Curves = Sequence[Curve]
_TITLES = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
_PAIRS = ("secret", "known", "gain")  # what was measured
_PROVEN = ("epsilon", "proven")
_UNTUNED = "gaussian-low-pass"  # its rates lay at the edge of those tried: no verdict on it


def short(curve: Curve) -> str:
    """Where a curve belongs."""
    return f"{_TITLES[curve.data]}, {MODELS[curve.model]}"


def _places(curves: Curves) -> list[tuple[str, str]]:
    return list(dict.fromkeys((c.data, c.model) for c in curves))


def _of(curves: Curves, data: str, model: str, defence: str) -> Curve | None:
    wanted = data, model, defence
    return next((c for c in curves if (c.data, c.model, c.defence) == wanted), None)


def winners(curves: Curves, data: str, model: str, measure: str) -> list[tuple[Held, bool]]:
    """Accuracies at a level, best first, and whether each is told apart from the best.

    Apart: the 95% interval of the paired difference to the best leaves out 0. What was run with
    one seed only takes no part.
    """
    level = LEVELS[measure][0]
    here = [c for c in curves if (c.data, c.model) == (data, model)]
    found = [(c, held(c, measure, level)) for c in here]
    sound = [(c, h) for c, h in found if h is not None and len(h.each) > 1]
    there = sorted(sound, key=lambda pair: -pair[1].value)
    out = []
    for curve, one in there:
        gap = versus(curve, there[0][0], measure, level)
        out.append((one, gap is not None and gap.sure < 0))
    return out


def best(curves: Curves, measure: str) -> str:
    """The most accurate defence at a level of risk, for every data set and model."""
    said = []
    for data, model in _places(curves):
        found = winners(curves, data, model, measure)
        if len(found) < 2:
            continue
        first = found[0][0]
        level = [NAMES[one.defence] for one, apart in found[1:] if not apart]
        text = f"{_TITLES[data]}, {MODELS[model]}: {NAMES[first.defence]} {first.text()}%"
        if level:
            text += f", not told apart from {len(level)} of {len(found) - 1} others"
        said.append(text)
    return "; ".join(said)


def losses(curves: Curves, defence: str, measure: str) -> list[Held]:
    """Points against flat Gaussian noise at equal risk, wherever both span the level.

    Comparisons of a single seed are left out.
    """
    out = []
    for data, model in _places(curves):
        one, two = _of(curves, data, model, defence), _of(curves, data, model, REFERENCE)
        if one is not None and two is not None and defence != REFERENCE:
            found = versus(one, two, measure, LEVELS[measure][0])
            if found is not None and len(found.each) > 1:
                out.append(found)
    return out


def _span(values: Iterable[float], digits: int = 1, sign: str = "+") -> str:
    found = sorted(values)
    low, high = f"{found[0]:{sign}.{digits}f}", f"{found[-1]:{sign}.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _against(curves: Curves, defence: str, measures: Sequence[str]) -> str:
    """Points against flat Gaussian noise and how many comparisons were sure."""
    found = [one for measure in measures for one in losses(curves, defence, measure)]
    if not found:
        return "nowhere in range"
    down, up = (sum(one.sure == side for one in found) for side in (-1, 1))
    return (
        f"{_span(one.value for one in found)} points in {len(found)} comparisons "
        f"({down} surely below, {up} surely above)"
    )


def in_short(curves: Curves) -> str:
    """The page's first paragraph."""
    proven, seen = losses(curves, "vmf", "epsilon"), losses(curves, "vmf", "known")
    nets = losses(curves, "directional", "known")
    return (
        f"At ε = 8 noise on the averaged direction (VMF) costs {_span((-h.value for h in proven), sign='')} "
        "points of accuracy against flat Gaussian noise; at equal measured risk (picked out of ten in half of "
        f"the games) the difference is {_span(h.value for h in seen)}. The choice of the clipping rule hardly matters at "
        f"either. Noise on each record costs {_span((-h.value for h in nets), sign='')} points at that measured "
        "risk and proves next to nothing; noise on the records themselves buys no protection "
        "that leaves a useful model."
    )


def findings(curves: Curves) -> list[Verdict]:
    """The questions of the study, what the rows answer, and what to believe."""
    answered = "answered"
    out = [
        Verdict(
            "Which defence is most accurate at equal ε?",
            answered,
            f"At ε = 8 (δ a tenth of one over the records): {best(curves, 'epsilon')}",
            "Gaussian noise; clipping rule and sampling hardly matter.",
        ),
        Verdict(
            "Which is most accurate at equal measured risk?",
            answered,
            "Picked out of ten in half of the games, participation known: "
            f"{best(curves, 'known')}. Gain of 0.05 in reconstruction: {best(curves, 'gain')}",
            "Gaussian and VMF noise are level; the bounds are not.",
        ),
        Verdict(
            "What does VMF noise cost?",
            answered,
            f"At equal ε and bound: flat on the average {_against(curves, 'vmf', _PROVEN)}, partitioned "
            f"{_against(curves, 'partitioned', _PROVEN)}. At equal measured risk: "
            f"{_against(curves, 'vmf', _PAIRS)}, partitioned {_against(curves, 'partitioned', _PAIRS)}",
            "Its proof is for a batch that one record turns round.",
        ),
        Verdict(
            "What should nobody use?",
            answered,
            nobody(curves),
            "Channels, per-record noise; VMF where ε must be proven.",
        ),
        Verdict("What does noise on each record cost?", answered, _directional(curves),
                "No useful proof, and less accurate at measured risk."),
        Verdict("What do channels on records cost?", answered, _channels(curves),
                "Nobody should use them against identification."),
        Verdict("Do other clipping rules help?", answered, _rules(curves),
                "Hardly: differences are small and change their sign."),
        Verdict("Do the strong recipes help at this budget?", answered, _recipes(curves),
                "Views hurt on Fashion-MNIST, allocation is level, this filter hurts."),
        Verdict("How near is 81.4% on CIFAR-10 at ε = 8?", answered, mark(curves),
                "This budget ends far below large training."),
    ]  # fmt: skip
    return out


def nobody(curves: Curves) -> str:
    """Defences that surely lose to flat Gaussian noise in most comparisons and surely win none."""

    def beaten(measures: Sequence[str]) -> list[str]:
        out = []
        for defence in dict.fromkeys(c.defence for c in curves if c.defence != _UNTUNED):
            found = [one for measure in measures for one in losses(curves, defence, measure)]
            lost = sum(one.sure < 0 for one in found)
            if found and lost >= 0.75 * len(found) and not any(one.sure > 0 for one in found):
                out.append(f"{NAMES[defence]} ({lost} of {len(found)})")
        return out

    fresh = [c for c in curves if c.defence == "natural-per-step"]
    least = min((c.points[0].mean("known") or 0.0 for c in fresh), default=None)
    text = (
        "Surely less accurate than flat Gaussian noise in three quarters of the comparisons or more, surely "
        f"more in none: at equal proven risk {', '.join(beaten(_PROVEN)) or 'none'}; at equal measured risk "
        f"{', '.join(beaten(_PAIRS)) or 'none'}"
    )
    lost = [one for m in (*_PROVEN, *_PAIRS) for one in losses(curves, _UNTUNED, m)]
    if lost:
        text += (
            f". {NAMES[_UNTUNED]} is left out: it lost in {sum(one.sure < 0 for one in lost)} of {len(lost)}, "
            "but the learning rates that served it best lay at the edge of those tried"
        )
    if least is not None:
        text += f". Fresh channel noise is picked out of ten in {least:.2f} of the games at its strongest"
    return text


def _directional(curves: Curves) -> str:
    said = []
    for data, model in _places(curves):
        curve = _of(curves, data, model, "directional")
        if curve is None:
            continue
        lone, loud = curve.points[0], curve.points[1]
        epsilon, weak = lone.mean("epsilon"), loud.mean("epsilon")
        if epsilon is not None and weak is not None:
            said.append(
                f"{short(curve)}: κ = {lone.value:g} has ε = {epsilon:.2f} and {lone.mean('accuracy'):.1f}%, "
                f"the next, κ = {loud.value:g}, ε = {weak:,.0f} and {loud.mean('accuracy'):.1f}%"
            )
    return (
        f"{'; '.join(said)}. At equal measured risk against flat Gaussian noise: "
        f"{_against(curves, 'directional', _PAIRS)}"
    )


def _channels(curves: Curves) -> str:
    said = []
    for data, model in _places(curves):
        for defence in CHANNELS:
            curve = _of(curves, data, model, defence)
            if curve is None:
                continue
            first = curve.points[0]
            useful = next(
                (p for p in curve.points if (p.mean("accuracy") or 0.0) > _half(curves, curve)),
                None,
            )
            text = (
                f"{short(curve)}, {'once' if defence.endswith('once') else 'fresh'}: at {first.value:g} nat "
                f"{first.mean('accuracy'):.1f}%, picked out of ten {first.mean('known'):.2f}"
            )
            if useful is not None:
                text += (
                    f"; from {useful.value:g} nats on within 5 points of no defence, picked "
                    f"{useful.mean('known'):.2f}, gain {useful.mean('gain'):.2f}"
                )
            said.append(text)
    return "; ".join(said)


def _half(curves: Curves, curve: Curve) -> float:
    plain = _of(curves, curve.data, curve.model, "none")
    return math.inf if plain is None else (plain.points[0].mean("accuracy") or 0.0) - 5.0


def _rules(curves: Curves) -> str:
    said = []
    for defence in ("gaussian-per-layer", "gaussian-automatic", "gaussian-psac"):
        found = _against(curves, defence, (*_PROVEN, *_PAIRS))
        said.append(f"{NAMES[defence].partition(', ')[2]} {found}")
    return f"Against flat clipping, at equal proven or measured risk: {'; '.join(said)}"


def _recipes(curves: Curves) -> str:
    said = []
    for defence in ("gaussian-allocation", "gaussian-views", "gaussian-low-pass"):
        found = _against(curves, defence, (*_PROVEN, *_PAIRS))
        said.append(f"{NAMES[defence].partition(', ')[2]} {found}")
    return (
        f"Against flat clipping, at equal proven or measured risk: {'; '.join(said)}. The filter stands "
        "before momentum, which is a low-pass filter of its own: both together oscillate, and only "
        "learning rates at the lower edge of those tried are stable; in place of momentum it was not run"
    )


def mark(curves: Curves) -> str:
    """How far the budget gets towards De et al. (2022)."""
    said = []
    for data, model in _places(curves):
        if data != "cifar10":
            continue
        found = winners(curves, data, model, "epsilon")
        if found:
            one = found[0][0]
            said.append(f"{MODELS[model]} {one.text()}% ({NAMES[one.defence]})")
    if not said:
        return "not run"
    return (
        "De et al. (2022) reach 81.4% with a WideResNet and large compute; "
        f"300 steps of 2,000 records reach, at ε = 8, {' and '.join(said)}"
    )
