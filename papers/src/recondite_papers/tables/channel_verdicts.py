"""Tan et al. (2024): what became of the claims behind the figures that need trained networks."""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.printed import channel as tan
from recondite_papers.tables.cells import Row, Verdict, mean
from recondite_papers.tables.channel import DIED, improvements
from recondite_papers.tables.guesses import failing as failing_rows

__all__ = ["failing", "verdicts"]

Rows = Sequence[Row]


def verdicts(
    defence: Rows,
    embedded: Rows,
    timed: Rows,
    drawn: Rows,
    networks: Rows = (),
    inverted: Rows = (),
    blind: Rows = (),
) -> list[Verdict]:
    """Of each claim that there are rows for.

    Args:
      defence: Model inversion and membership of LeNet.
      embedded: The guideline on embeddings.
      timed: Table 2.
      drawn: Faces.
      networks: Figure 9's other networks.
      inverted: Figure 14's other networks.
      blind: What a guess that sees nothing scores.
    """
    return [
        *_networks(networks),
        *_inverted(inverted, blind),
        *_inversion(defence),
        *_membership(defence),
        *_embedding(embedded),
        *_times(timed),
        *_faces(drawn),
    ]


def _note(rows: Rows) -> str:
    """What a reader must know of runs that were not in full."""
    return next((f"; {row['run']}" for row in rows if row.get("run")), "")


def _by_data(rows: Rows) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row["data"], []).append(row)
    return out


def _arrows(values: Sequence[float]) -> str:
    return " → ".join(f"{value:.3f}" for value in values)


def _stands(rights: Sequence[bool], parts: Sequence[bool] = (), *, failed: str = "falls") -> str:
    """Whether a claim holds everywhere, somewhere, or nowhere."""
    if all(rights):
        return "stands"
    return "in part" if any(rights) or any(parts) else failed


def _networks(rows: Rows) -> list[Verdict]:
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["defence"] == "natural":
            lines.setdefault((row["model"], row["data"]), []).append(row)
    said, rights, parts = [], [], []
    for (model, data), found in lines.items():
        ordered = sorted(found, key=lambda row: row["value"])
        values = [100 * mean(row["accuracy"]) for row in ordered]
        if len(values) < 2:
            continue
        died = sum(mean(row["accuracy"]) <= DIED for row in ordered)
        rights.append(not died and values == sorted(values))
        parts.append(not died and values[-1] > values[0])
        shown = " → ".join(f"{value:.1f}" for value in values)
        notes = [f"{died} of {len(values)} died"] if died else []
        notes += list(dict.fromkeys(row["cut"] for row in ordered if row.get("cut")))
        note = f" ({'; '.join(notes)})" if notes else ""
        said.append(f"{model}, {data}: {shown} % by rising κ{note}")
    if not said:
        return []
    claim = "Accuracy rises with κ on the other networks too (Figure 9)."
    told = "; ".join(said) + "; Natural, one seed" + _note(rows)
    believe = "Likely; too few runs on large networks to be sure."
    return [Verdict(claim, _stands(rights, parts), told, believe)]


def _inverted(rows: Rows, blind: Rows) -> list[Verdict]:
    at = {(r["model"], r["defence"], r["value"]): r["mse_scaled"] for r in rows}
    kappas = sorted({r["value"] for r in rows if r["defence"] == "natural"})
    out, said, rights = [], [], []
    for model in dict.fromkeys(r["model"] for r in rows):
        pairs = [
            (at[model, kind, kappa], at[model, "natural", kappa])
            for kind in ("white", "personalized-paper")
            for kappa in kappas
            if (model, kind, kappa) in at and (model, "natural", kappa) in at
        ]
        if pairs:
            more = sum(other > natural for other, natural in pairs)
            rights += [other > natural for other, natural in pairs]
            cut = next((f" ({r['cut']})" for r in rows if r["model"] == model and r.get("cut")), "")
            said.append(f"{model}: larger MSE in {more} of {len(pairs)} pairs of equal κ{cut}")
    if said:
        claim = "White and Personalized defend better on the other networks too (Figure 14)."
        worse, total = failing_rows([row for row in rows if row["value"]], blind, "channel")
        stands, believe = _stands(rights), "At equal κ yes; at equal accuracy untested there."
        if worse:
            said.append(
                f"the attack does worse than the mean image, which sees nothing, in {worse} of "
                f"{total} noisy settings"
            )
        if worse > total / 2:
            stands, believe = "undecided", "Undecided: errors of an attack that mostly fails."
        out.append(Verdict(claim, stands, "; ".join(said) + _note(rows), believe))
    return out


def _inversion(rows: Rows) -> list[Verdict]:
    lines = _by_data([row for row in rows if row["defence"] == "natural"])
    if not lines:
        return []
    by_kappa, steady, nearer, by_steps, closer, beyond = [], [], [], [], [], []
    for data, found in lines.items():
        ordered = sorted(found, key=lambda row: row["value"])
        errors = [row["mse_inversion"] for row in ordered]
        steady.append(errors == sorted(errors, reverse=True))
        nearer.append(errors[-1] < errors[0])
        by_kappa.append(
            f"{data}: {_arrows(errors)} by rising κ, where the attack starts from an image at "
            f"{ordered[0]['mse_start']:.3f}"
        )
        steps = list(ordered[-1]["by_steps"].values())
        closer.append(steps[-1] < steps[0])
        beyond.append(steps[-1] < ordered[-1]["mse_start"])
        by_steps.append(
            f"{data}: {_arrows(steps)} by rising n at κ = {ordered[-1]['value']:g}, from "
            f"{ordered[-1]['mse_start']:.3f}"
        )
    note = _note(rows)
    return [
        Verdict(
            "Model inversion gets closer as κ rises (Figure 10).",
            _stands(steady, nearer, failed="not seen"),
            "; ".join(by_kappa) + note,
            "A trend of an attack that fails: it shows no protection.",
        ),
        Verdict(
            "Model inversion gets closer as n rises (Figure 13).",
            # An attack that ends farther off than it began shows a trend at most.
            _stands([a and b for a, b in zip(closer, beyond, strict=True)], closer),
            "; ".join(by_steps) + note,
            "A trend of an attack that fails: it shows no protection.",
        ),
    ]


_USEFUL = 0.10  # accuracy that may be lost for a setting to count


def _membership(rows: Rows) -> list[Verdict]:
    """Figures 15 and 16, among settings that stay within ten points of the undefended accuracy."""
    said, rights, trades, best = [], [], [], []
    right_members: list[bool] = []
    for data, every in _by_data(improvements(rows)).items():
        plain = next(r for r in rows if r["data"] == data and r["defence"] == "none")
        kept = [r for r in every if mean(r["accuracy"]) >= mean(plain["accuracy"]) - _USEFUL]
        private = [r for r in kept if r["defence"].startswith("dp-")]
        ours = [r for r in kept if not r["defence"].startswith("dp-")]
        if not private or not ours:
            continue
        parts = []
        for key, label, better in (("imp_mia", "IMP_MIA", True), ("imp_dra", "IMP_DRA", False)):
            a, b = (max(r[key] for r in group) for group in (private, ours))
            # A hundredth or two is what another seed changes.
            rights.append((a - b if better else b - a) > 0.02)
            if better:
                right_members.append(rights[-1])
            parts.append(f"best {label}: DP {a:.2f}, channels {b:.2f}")
        said.append(f"{data}: {', '.join(parts)} (undefended AUC {plain['auc']:.3f})")
        tops = {
            kind: max(r["gdc"] for r in kept if r["defence"] == kind)
            for kind in dict.fromkeys(r["defence"] for r in kept)
        }
        best.append(max(tops, key=lambda kind: tops[kind]) == "natural")
        trades.append(f"{data}: " + ", ".join(f"{kind} {gdc:.2f}" for kind, gdc in tops.items()))
    if not said:
        return []
    among = "among settings within 10 points of the undefended accuracy, "
    failed = failing(rows)
    weak = f"; {failed}, so IMP_DRA measures no protection" if failed else ""
    members = _stands(right_members, failed="falls")
    return [
        Verdict(
            "DP is better against membership, channels against reconstruction (Figure 16).",
            f"{members} for membership; undecided for reconstruction"
            if failed
            else _stands(rights),
            among + "; ".join(said) + weak + _note(rows),
            _BELIEVED[members] if failed else "See the numbers: both attacks work here.",
        ),
        Verdict(
            "Natural has the best trade-off of accuracy and defence (Figure 15).",
            "undecided" if failed else _stands(best),
            f"best GDC {among}" + "; ".join(trades) + weak + _note(rows),
            "Undecided: its attack fails even without a defence."
            if failed
            else "True among these settings.",
        ),
    ]


_BELIEVED = {
    "stands": "DP protects membership better; on reconstruction nothing was shown.",
    "in part": "DP protects membership better on some data; on reconstruction nothing was shown.",
    "falls": "DP protects membership no better; on reconstruction nothing was shown.",
}


def failing(rows: Rows) -> str:
    """Where model inversion ends farther from undefended records than the image it starts from."""
    bad = [
        f"{r['data']} ({r['mse_inversion']:.3f} from {r['mse_start']:.3f})"
        for r in rows
        if r["defence"] == "none" and r["mse_inversion"] > r["mse_start"]
    ]
    if not bad:
        return ""
    return f"without any defence model inversion moves away from the records on {' and '.join(bad)}"


def _embedding(rows: Rows) -> list[Verdict]:
    made = [r for r in rows if r["defence"] == "embedding" and r["value"]]
    if not made:
        return []
    exact = all(abs(r["capacity"] / r["value"] - 1) < 1e-3 for r in made)
    said = [f"the fitted channel tells κ nats {'exactly' if exact else 'nearly'}"]
    for data, found in _by_data(made).items():
        least = min(found, key=lambda row: row["value"])
        pixels = next(
            r for r in rows
            if (r["data"], r["defence"], r["value"]) == (data, "pixels", least["value"])
        )  # fmt: skip
        said.append(
            f"{data}, κ = {least['value']:g}: accuracy {100 * mean(least['accuracy']):.1f} % on "
            f"embeddings, {100 * mean(pixels['accuracy']):.1f} % on pixels"
        )
    stands = "stands" if exact else "falls"
    believe = "True; to a linear guesser embeddings hide pixels better."
    return [Verdict(tan.CLAIMS["embedding"], stands, "; ".join(said) + _note(rows), believe)]


def _times(rows: Rows) -> list[Verdict]:
    if not rows:
        return []
    ratios = [
        (r, r["seconds_dp"] / r["seconds_sgd"], r["seconds_data"] / r["seconds_sgd"]) for r in rows
    ]
    said = "; ".join(
        f"{r['model']}: DP-SGD ×{a:.1f}, noise on data ×{b:.2f}"
        + (f" ({r['run']})" if r.get("run") else "")
        for r, a, b in ratios
    )
    stands = _stands([a > b for _, a, b in ratios])
    believe = "True of the paper's tools; fast DP-SGD costs less."
    return [Verdict(tan.CLAIMS["cost"], stands, said, believe)]


def _faces(rows: Rows) -> list[Verdict]:
    eyes = [r for r in rows if r["defence"] == "personalized-paper"]
    if not eyes:
        return []
    least = min(r["mse_eyes"] / r["mse_rest"] for r in eyes)
    said = f"noise power around the eyes at least {least:.0f} times the rest's (LFW for CelebA)"
    claim = "The Personalized channel hides the eyes (Figures 5 and 17)."
    stands = "stands" if least > 10 else "falls"
    return [Verdict(claim, stands, said, "True: noise goes where the weights say.")]
