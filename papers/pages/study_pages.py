"""The pages of the four studies: verdicts first, then tables and figures. See make_studies.py."""

# ruff: noqa: D103, E501
from __future__ import annotations

import math
from typing import Any

from make_studies import (
    accounting,
    assumptions,
    channel,
    channel_more,
    channel_verdicts,
    claims,
    commands,
    compare,
    compare_verdicts,
    compared,
    dirdp,
    dirdp_more,
    dirdp_v1,
    figures,
    find,
    folded,
    mean,
    others,
    pyplot,
    reasons,
    rows,
    save,
    sources,
    table,
    timing,
    within,
    write,
)

NOT_RUN = "not run"
_CHOSEN_MLP = "mlp2/tanh/50-15/half/as-is/dlg"


def _compare_figures(accuracy: list[Any], attacks: list[Any]) -> list[str]:
    plt = pyplot()
    out = []
    titles = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
    if accuracy:
        figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
        for axis, (data, title) in zip(axes, titles.items(), strict=True):
            for kind, symbol in (("gaussian", "σ"), ("vmf", "κ")):
                chosen = [
                    r for r in accuracy if r["block"] == f"main/{data}" and r["defence"] == kind
                ]
                pairs = {float(p[1 if kind == "vmf" else 2]): float(p[0]) for p in compare.TABLE_4}
                points = sorted(
                    (pairs[r["value"]], 100 * mean(r["accuracy"]))
                    for r in chosen
                    if r["value"] in pairs
                )
                axis.plot(*zip(*points, strict=True), "o-", ms=3, label=f"{kind} ({symbol}), ours")
                printed = sorted(
                    (pairs[v], 100 * a)
                    for (d, k, v, b), a in compare.TABLE_5.items()
                    if d == data and k == kind and b == 128
                )
                axis.plot(*zip(*printed, strict=True), "x", ms=5, color="0.3")
            axis.set(title=title, xlabel="ε as printed", xscale="log")
        axes[0].set_ylabel("test accuracy, %")
        axes[1].legend(fontsize=7)
        out.append(save(figure, "compare-figure-2"))
        plt.close(figure)
    if accuracy and attacks:
        figure, axes = plt.subplots(1, 2, figsize=(8, 3))
        for axis, (data, title) in zip(axes, titles.items(), strict=True):
            points = compare_verdicts.trade_off(accuracy, attacks, data)
            for kind in ("gaussian", "vmf"):
                line = sorted((p["accuracy"], p["mse"]) for p in points if p["defence"] == kind)
                if line:
                    axis.plot(*zip(*line, strict=True), "o-", ms=3, label=kind)
            axis.set(title=title, xlabel="test accuracy, %", ylabel="MSE of the attack")
        axes[0].legend(fontsize=7)
        out.append(save(figure, "compare-trade-off"))
        plt.close(figure)
    return out


def compare_page() -> None:
    accuracy, attacks = rows("compare-accuracy"), rows("compare-iga")
    dlg, signal = rows("compare-dlg"), rows("compare-signal")
    cells = compared.table_5(accuracy)
    lines = [
        (v.claim, v.stands, v.evidence)
        for v in compare_verdicts.verdicts(accuracy, attacks, signal)
    ]
    lines.append(
        (
            "The pairs of Table IV are equal in ε.",
            "falls",
            "κ is composed over 3 epochs, σ over 1,407 steps: at κ = 75 and σ = 1.23 the run costs "
            "0.79 and 0.26. Equal tight ε is κ = √p/2σ, here 47.6",
        )
    )
    lines.append(
        (
            "The pairs can be compared by Bayes' capacity as computed (R = 1).",
            "falls",
            "the average that leaks has radius-to-noise ratio L/σ: 9,863 nats at σ = 1.23, not 95. "
            "At truly equal capacity κ is 17,537, two hundred times the paper's 75",
        )
    )
    parts = [
        "# Biswas et al. (2025), checked",
        "Sayan Biswas, Mark Dras, Pedro Faustini, Natasha Fernandes, Annabelle McIver, Catuscia "
        "Palamidessi, Parastoo Sadeghi: *Comparing privacy notions for protection against "
        "reconstruction attacks in machine learning*. One network of 13,700 weights, two data sets, "
        "von Mises-Fisher (VMF) against Gaussian noise.",
        "**In short.** The pairs of κ and σ are not of equal ε: VMF is safer in the paper because it is noisier. At equal accuracy both leave an attacker the same error up to 75 %; above, VMF hides the first, longest gradients better. "
        "The printed ε count epochs where steps are taken.",
        "## Which claims stand",
        claims(lines),
        f"Accuracies within 3 points of the printed ones, of 130: {within(cells)}; {within(_where(cells, 'batch 128', 'no defence'))} at the paper's own batch of 128, "
        f"{within(_where(cells, 'batch 16', 'batch 32', 'batch 64'))} at 16 to 64. Gaussian cells {within(_where(cells, 'σ'))} (at batch 128 all within {_worst(cells):.1f}), "
        f"VMF cells {within(_where(cells, 'κ'))}. {_off(cells)} First weights were chosen on these very cells among the readings listed below, so the share is a fit and no prediction; with torch's own and the decay that fits each batch size best {_torchs(accuracy)} of the 128 defended cells are within 3 points.",
        _attainable(accuracy),
        "The paper does not say how first weights are drawn. With Glorot's (Xavier's) law and the printed decay of 0.1 (AdamW) one setting serves all of Table V, "
        f"where torch's own law would need decay at small batches and none at 128: {_settings(accuracy)}. (It was picked after the fact; Kaiming's and orthogonal weights fit as well where they were tried.) The attacks' errors under VMF noise come out with it too (Table VI: to {_vmf_gap(attacks):.2f} at worst; with torch's own law to 0.48). "
        "So the fall of VMF's accuracy at small batches is the decay, which acts at up to eight times as many steps there; without it small batches help VMF "
        "(κ = 75 at batch 16 on MNIST: "
        + _undecayed(accuracy)
        + "), whose noise does not depend on the batch.",
        "**The finding.** The printed pairs compare little Gaussian noise with much VMF noise: at truly equal ε VMF gets even more, since its sensitivity is always a "
        "half turn and a larger batch does not dilute it. So *Gaussian is more useful* survives, and *VMF is safer* is first of all the amount of noise. "
        "At equal accuracy the two leave an attacker the same error up to 75 % (where the attack sees nothing under either); above, VMF leaves more, and there is a reason that has nothing to do with directions. "
        + _signal_text(signal)
        + " What helps is noise in proportion to the gradient's length. VMF has it by construction, at the price of its half turn; Gaussian noise that followed the length would need an analysis of its own, since the length is data too.",
        *_compare_figures(accuracy, attacks),
        "Circles are ours, crosses the paper's. The second figure has every κ from 48 to 40,000 and "
        "every σ from 0.117 to 40: at equal accuracy, is one defence safer?",
        assumptions(compare.ASSUMPTIONS),
        "## Tables",
        folded("Table I: ε of κ", table(accounting.table_1())),
        folded("Table IV: pairs of κ and σ", table(accounting.table_4())),
        folded("Pairs of truly equal ε and capacity", table(accounting.equal_notions())),
        folded("Figure 5: log Bayes' capacities", table(accounting.capacity_figure())),
        folded("Table V and Figure 2: accuracy", table(cells)),
        folded("Table II: reconstruction, selected noises", table(compared.table_2(attacks))),
        folded("Table III: DLG", table(compared.table_3(dlg))),
        folded("Table VI: reconstruction by batch size", table(compared.table_6(attacks))),
        folded("What the paper leaves open, tested", _why(accuracy)),
        folded("Signal over noise along a training", table(reasons.signal(signal))),
        "## Why Table VI's Gaussian errors differ: tested",
        _noise_size(rows("compare-noise-size"), attacks),
        folded("All that was tried", table(reasons.noise_size(rows("compare-noise-size")))),
        folded("Figures", figures("compare")),
        "## What was not run in full",
        commands("compare"),
        "## Again",
        "`recondite reproduce compare/table-5 --device cuda` and so on; `recondite reproduce --list` "
        "has them all. Rows:\n\n"
        + sources(
            "compare-accuracy", "compare-iga", "compare-dlg", "compare-signal", "compare-noise-size"
        ),
    ]
    write("compare", parts)


def _where(cells: list[Any], *parts: str) -> list[Any]:
    return [
        c
        for c in cells
        if any(
            f"{part}," in f"{c.name}," or (part in ("κ", "σ") and part in c.name) for part in parts
        )
    ]


def _off(cells: list[Any]) -> str:
    """How the cells that are off compare with the spread over seeds."""
    off = [c for c in cells if c.difference is not None and abs(c.difference) > 3.0]
    near = sum(abs(c.difference) <= 2 * (c.spread or 0.0) for c in off)
    return (
        f"Of the {len(off)} others {near} are within two standard deviations over our ten seeds (the paper prints one value); "
        "the column *why* has what was tested for each."
    )


def _attainable(accuracy: list[Any]) -> str:
    """What a perfect reproduction could be expected to reach: the paper prints single runs."""
    counts = {kind: compared.attainable(accuracy, kind) for kind in ("gaussian", "vmf")}
    if not counts["vmf"][1]:
        return ""
    said = " and ".join(
        f"{counts[kind][0]:.0f} of {counts[kind][1]} {name} cells"
        for kind, name in (("gaussian", "Gaussian"), ("vmf", "VMF"))
    )
    return f"More cannot be expected: the paper prints single runs, and one run of our own is within 3 points of the mean of our nine others in {said} on average."


def _signal_text(signal: list[Any]) -> str:
    """Two defences of equal accuracy on MNIST: signal over noise first and last."""
    by = {(r["defence"], r["value"], r["steps"]): r for r in signal if r["data"] == "mnist"}
    last = max((r["steps"] for r in signal), default=0)
    try:
        pair = [(by[k, v, 0], by[k, v, last]) for k, v in (("gaussian", 0.42), ("vmf", 2000.0))]
    except KeyError:
        return ""
    (first, end), (other, other_end) = pair
    return (
        f"On MNIST σ = 0.42 and κ = 2,000 both reach {100 * end['accuracy']:.1f} and {100 * other_end['accuracy']:.1f} %, and end with signal over noise of "
        f"{end['signal_to_noise']:.2f} and {other_end['signal_to_noise']:.2f}. But the average gradient is {first['length']:.3f} long at the first step and "
        f"{end['length']:.3f} at the last: Gaussian noise, which has one size throughout, leaves {first['signal_to_noise']:.2f} at the first step, VMF noise, which goes with the "
        f"gradient, {other['signal_to_noise']:.2f}, and the first step is the one attacked."
    )


def _torchs(accuracy: list[Any]) -> int:
    """Defended cells within 3 points with torch's first weights: decay at 16 to 64, none at 128."""
    near = 0
    for (data, defence, value, size), known in compare.TABLE_5.items():
        block = f"open-{size}/{data}/{'torch-undecayed' if size == 128 else 'torch'}"
        ours = _by(accuracy, "accuracy", block=block, defence=defence, value=value)
        near += ours is not None and abs(ours - 100 * known) <= 3.0
    return near


_SETTINGS = {
    "Xavier, decay 0.1": ("main/{data}", "batch-{size}/{data}"),
    "Xavier, no decay": ("open-{size}/{data}/undecayed",) * 2,
    "torch's, decay 0.1": ("open-{size}/{data}/torch",) * 2,
    "torch's, no decay": ("open-{size}/{data}/torch-undecayed",) * 2,
}


def _settings(accuracy: list[Any]) -> str:
    """Mean gap to Table V by first weights and decay, over all batch sizes."""
    said = []
    for label, (whole, part) in _SETTINGS.items():
        means = []
        for kind in ("gaussian", "vmf"):
            gaps = []
            for (data, defence, value, size), known in compare.TABLE_5.items():
                if defence == kind:
                    name = (whole if size == 128 else part).format(size=size, data=data)
                    ours = _by(accuracy, "accuracy", block=name, defence=defence, value=value)
                    gaps += [] if ours is None else [abs(ours - 100 * known)]
            means.append(mean(gaps) if gaps else math.nan)
        said.append(
            f"{label}: {means[0]:.1f} (Gaussian) and {means[1]:.1f} points (VMF) off on average"
        )
    return "; ".join(said)


def _undecayed(accuracy: list[Any]) -> str:
    found = _by(accuracy, "accuracy", block="open-16/mnist/undecayed", defence="vmf", value=75.0)
    return NOT_RUN if found is None else f"{found:.1f} %, printed 18.2"


def _vmf_gap(attacks: list[Any]) -> float:
    """Largest gap to Table VI's errors under VMF noise."""
    gaps = [
        abs(c.difference)
        for c in compared.table_6(attacks)
        if c.unit == "MSE" and "κ" in c.name and c.difference is not None
    ]
    return max(gaps, default=math.nan)


def _noise_size(found: list[Any], attacks: list[Any]) -> str:
    if not found:
        return "Not run yet.\n"
    gaps: dict[Any, list[float]] = {}
    for row in found:
        known = compare.TABLE_6.get(("mnist", "gaussian", row["value"], row["batch"]))
        if known is None or row["victim"] == "trained":
            continue
        key = "by layer" if "layer" in row["defence"] else row["divisor"]
        gaps.setdefault((row["batch"], key), []).append(row["mse_scaled_placed"] - known[1])
    lines = ["| batch | noise | largest gap to Table VI, three σ |", "| --: | :-- | --: |"]
    for (batch, key), values in gaps.items():
        label = "as it should be, layers clipped" if key == "by layer" else (
            "as it should be" if key == 1 else f"divided by {key:g}")  # fmt: skip
        lines.append(f"| {batch} | {label} | {max(values, key=abs):+.2f} |")
    fits = min({key for _, key in gaps if key != "by layer"}, key=lambda key: _largest(gaps, key))
    said = (
        "Our Gaussian reconstructions on MNIST are worse than the printed ones (at σ = 0.204 and batch 128: MSE "
        f"{_by(attacks, 'mse_scaled_placed', block='iga-128/mnist', defence='gaussian', value=0.204) or math.nan:.2f}, printed 2.89), "
        "though VMF's agree. Three reasons were tested:\n\n"
        "- *Clipping by layer*: no; the gap stays.\n"
        "- *A trained victim*: no; the errors then hardly depend on σ (2.6 to 2.8 at every σ, where 2.66 to 3.85 are printed).\n"
        f"- *Less noise than σ·C/L on the average*: **yes**. With the noise divided by {fits:g} all twelve cells of four batch sizes come within "
        f"{_largest(gaps, fits):.2f} of the printed values. The divisor is the same at every batch size, so it is not a second averaging (Fashion-MNIST was not tried, and its gaps grow with the batch); what it is "
        'stays open (the ".0174" of Tables II and III may be a trace of it). So the attacked gradients of Table VI probably had far less Gaussian noise '
        "than those that were trained with, while VMF had all of its noise: one more reason why VMF looks safer there.\n\n"
    )
    return said + "\n".join(lines) + "\n"


def _largest(gaps: dict[Any, list[float]], key: Any) -> float:
    return max(abs(v) for (_, found), values in gaps.items() if found == key for v in values)


def _worst(cells: list[Any]) -> float:
    gaps = [
        abs(c.difference) for c in cells if c.difference is not None and "batch 128, σ" in c.name
    ]
    return max(gaps, default=0.0)


def _why(accuracy: list[Any]) -> str:
    """Every reading that was tried, by batch size: how far from Table V it is on average."""
    gaps: dict[tuple[str, int, str, str], list[float]] = {}
    for r in accuracy:
        known = compare.TABLE_5.get((r["data"], r["defence"], r["value"], r["batch"]))
        if known is not None:
            reading = r["block"].rpartition("/")[2] if r["block"].startswith("open-") else "chosen"
            if reading not in _READ:
                continue
            key = reading, r["batch"], r["data"], r["defence"]
            gaps.setdefault(key, []).append(100 * (mean(r["accuracy"]) - known))
    if not gaps:
        return "Not run yet.\n"
    lines = ["| reading | data | batch | Gaussian, mean gap | VMF, mean gap |", "| :-- | :-- | --: | --: | --: |"]  # fmt: skip
    for reading, batch, data in dict.fromkeys(key[:3] for key in sorted(gaps, key=_order)):
        means = [gaps.get((reading, batch, data, kind)) for kind in ("gaussian", "vmf")]
        shown = " | ".join("–" if m is None else f"{mean(m):+.1f}" for m in means)
        lines.append(f"| {_READ.get(reading, reading)} | {data} | {batch} | {shown} |")
    return "\n".join(lines) + "\n"


def _order(key: tuple[str, int, str, str]) -> tuple[int, str, str, int]:
    return (list(_READ).index(key[0]), key[2], key[3], -key[1])


_READ = {
    "chosen": "**chosen**: Xavier, decay 0.1, Poisson batches, flat clipping, published pixels",
    "undecayed": "no decay",
    "coupled": "decay added to the gradient",
    "torch": "torch's first weights",
    "torch-undecayed": "torch's first weights, no decay",
    "kaiming": "Kaiming's first weights",
    "orthogonal": "orthogonal first weights",
    "shuffled": "shuffled batches",
    "unclipped": "VMF without clipping",
    "unit": "pixels in [0, 1]",
    "half": "pixels (x - .5)/.5",
    "own": "pixels by the data's own mean and deviation",
    "per-layer": "clipped by layer",
    "per-layer-unsound": "clipped by layer, noise for one layer (unsound)",
}


def _by(found: list[Any], key: str, **wanted: Any) -> float | None:
    row = find(found, **wanted)
    if row is None:
        return None
    return 100 * mean(row[key]) if isinstance(row[key], list) else float(row[key])


def _channel_claims(accuracy: list[Any], inversion: list[Any], guide: list[Any]) -> list[Any]:
    text = channel.CLAIMS
    out = []
    trend = []
    for data in ("fashion-mnist", "cifar10"):
        values = [
            _by(accuracy, "accuracy", data=data, defence="natural", value=k, noise="per_step")
            for k in (50.0, 100.0, 200.0, 300.0)
        ]
        if None not in values:
            trend.append((data, values))
    if trend:
        up = all(values[0] < values[-1] for _, values in trend)
        said = "; ".join(f"{d} {v[0]:.1f} → {v[-1]:.1f} % from κ = 50 to 300" for d, v in trend)
        errors = [
            r["mse_scaled"] for r in inversion
            if r["defence"] == "natural" and r["value"] in (50.0, 300.0) and r["total_variation"] == 1e-4
        ]  # fmt: skip
        if len(errors) == 2:
            said += f"; MSE of gradient inversion on cifar10 {max(errors):.2f} → {min(errors):.2f} (total variation 1e-4)"
        white = [
            _by(accuracy, "accuracy", data="cifar10", defence="white", value=k, noise="per_step")
            for k in (100.0, 300.0)
        ]
        if None not in white:
            said += f"; White on cifar10 hardly learns at such κ ({white[0]:.1f} % at 100, {white[1]:.1f} at 300)"
        out.append((text["capacity"], "stands for Natural" if up else "falls", said))
    else:
        out.append((text["capacity"], NOT_RUN, ""))
    if inversion:
        at = {
            (r["defence"], r["value"]): r["mse_scaled"]
            for r in inversion
            if r["total_variation"] == 1e-4
        }
        stronger = all(
            at.get((kind, k), 0) > at.get(("natural", k), 1e9)
            for kind in ("white", "personalized-paper")
            for k in (50.0, 100.0, 200.0, 300.0)
        )
        said = f"MSE at κ = 300: natural {at.get(('natural', 300.0), 0):.3f}, white {at.get(('white', 300.0), 0):.3f}, personalized {at.get(('personalized-paper', 300.0), 0):.3f} (bound) and {at.get(('personalized', 300.0), 0):.3f} (exact)"
        said += _at_equal_accuracy(accuracy, at)
        out.append((text["stronger"], "stands" if stronger else "in part", said))
    for claim, defence, rising in (("dp-batch", "dp", False), ("constant", "constant", True)):
        found = [r for r in guide if r["block"].startswith("batch") and r["defence"] == defence]
        if found:
            first, last = found[0]["mse_scaled"], found[-1]["mse_scaled"]
            series = [r["mse_scaled"] for r in found]
            ends = last > first if rising else last < first
            steady = series == sorted(series, reverse=not rising)
            said = f"MSE of the mean image {first:.3f} at B = {found[0]['batch']}, {last:.3f} at B = {found[-1]['batch']}"
            verdict = "falls" if not ends else "stands" if steady else "in part"
            said += "" if steady or not ends else "; not at every size between"
            out.append((text[claim], verdict, said))
    cut = [r for r in guide if r["block"].startswith("compression")]
    if cut:
        order = [r["mse_scaled"] for r in cut if r["defence"] == "compression"]
        said = ", ".join(f"λ = {r['value']:.3g}: {r['mse_scaled']:.3f}" for r in cut[1:])
        said += f"; {cut[0]['mse_scaled']:.3f} uncompressed, so the whole effect is small"
        out.append((text["compress"], "stands" if order[0] == max(order) else "falls", said))
    out.append(
        (
            text["bound"],
            "stands, but is empty",
            "κ = 300 and n = 10,000 allow an attacker everything; noise drawn once leaks κ in all "
            "(erratum 16)",
        )
    )
    out.append(
        (
            "The DP baselines have capacities 100 to 1,500, equal to the channels'.",
            "falls",
            "Theorem 4 loses a ½: 50 to 750 (erratum 15)",
        )
    )
    return out


def _at_equal_accuracy(accuracy: list[Any], at: dict[Any, float]) -> str:
    """Other channels beside the Natural one that is next below in accuracy, on CIFAR-10."""

    def right(kind: str, kappa: float) -> float | None:
        where = {"data": "cifar10", "defence": kind, "value": kappa, "noise": "per_step"}
        return _by(accuracy, "accuracy", **where)

    said = []
    for kind, kappa, natural in (
        ("white", 1500.0, 100.0), ("personalized-paper", 1500.0, 50.0),
    ):  # fmt: skip
        one, two = right(kind, kappa), right("natural", natural)
        if one is not None and two is not None and (kind, kappa) in at:
            said.append(
                f"{kind.removesuffix('-paper')} κ = {kappa:g} has {one:.1f} % and MSE {at[kind, kappa]:.2f}, natural κ = {natural:g} {two:.1f} % and {at['natural', natural]:.2f}"
            )
    return f". At equal accuracy it is the reverse: {'; '.join(said)}" if said else ""


def channel_page() -> None:
    accuracy, inversion = rows("channel-accuracy"), rows("channel-inversion")
    guide = rows("channel-guidelines")
    defence, embedded, timed = (
        rows("channel-defence"),
        rows("channel-embedding"),
        rows("channel-times"),
    )
    drawn = rows("channel-pictures")
    networks, inverted = rows("channel-networks"), rows("channel-networks-inversion")
    found = channel_verdicts.verdicts(defence, embedded, timed, drawn, networks, inverted)
    more = [(v.claim, v.stands, v.evidence) for v in found]
    parts = [
        "# Tan et al. (2024), checked",
        "Qi Tan, Qi Li, Yi Zhao, Zhuotao Liu, Xiaobing Guo, Ke Xu: *Defending against data "
        "reconstruction attacks in federated learning: an information theory approach*. Noise on "
        "records, sized by the information that may pass.",
        "**In short.** Noise on data does what is claimed for it: more nats, more accuracy and less protection. The bound n·κ allows everything; noise drawn once leaks κ per record in all and costs 3.2 points at most. "
        "White and Personalized defend better at equal κ, and worse at equal accuracy. The DP baselines' capacities are twice too large.",
        "## Which claims stand",
        claims(_channel_claims(accuracy, inversion, guide) + more),
        "Figures 9 to 16 are drawn without numbers (but for 14), so their values can only be compared in order. Model inversion (Figures 10, 13, 15, 16) is a weak attack here: "
        "even without defence it ends farther from the records than the image it starts from, so its errors show trends and no protection.",
        *_embedding_text(embedded),
        "## Beyond the paper: what other channels buy at equal capacity",
        _beyond(accuracy),
        *_channel_figure(accuracy),
        assumptions(channel.ASSUMPTIONS),
        "## Tables and figures",
        folded("Table 2: times", table(channel_more.times(timed))),
        folded("ε and capacity of the DP baselines", table(accounting.tan_dp())),
        folded("Figure 4: noise for one nat", table(accounting.tan_toy())),
        folded("Eigenvalues", table(others.tan_eigenvalues(accuracy))),
        folded("Figures 9, 11, 15: accuracy of LeNet", table(others.tan_accuracy(accuracy))),
        folded("Figure 12: accuracy by n", table(others.tan_rounds(accuracy))),
        folded(
            "Figure 14: gradient inversion, LeNet on CIFAR-10",
            table(others.tan_inversion(inversion)),
        ),
        folded("Figures 6 and 8: guidelines", table(others.tan_guidelines(guide))),
        folded("Figure 5: noisy faces (LFW for CelebA)", table(channel_more.faces(drawn))),
        folded("Figure 7: compression as noise", table(channel_more.compression())),
        folded("Figure 9, other networks", table(channel_more.networks(networks))),
        folded(
            "Figure 10: reconstruction by κ", table(channel_more.by_capacity(defence, inversion))
        ),
        folded("Figure 13: reconstruction by n", table(channel_more.by_rounds(defence))),
        folded(
            "Figure 14, other networks",
            table(channel_more.networks_inversion(inverted)),
        ),
        folded(
            "Figures 15 and 16: membership and reconstruction", table(channel_more.planes(defence))
        ),
        folded("Figure 17: the weights β", table(channel_more.beta_weights())),
        folded("The guideline on embeddings", table(channel_more.embedding(embedded))),
        folded("Figures", figures("channel")),
        "## What was not run in full",
        commands("channel"),
        "## Again",
        "`recondite reproduce channel/figure-9 --device cuda` and so on. Rows:\n\n"
        + sources(
            "channel-accuracy",
            "channel-inversion",
            "channel-guidelines",
            "channel-defence",
            "channel-embedding",
            "channel-times",
            "channel-pictures",
            "channel-networks",
            "channel-networks-inversion",
        ),
    ]
    write("channel", parts)


def _embedding_text(embedded: list[Any]) -> list[str]:
    out = []
    for data in dict.fromkeys(r["data"] for r in embedded):
        at = {(r["defence"], r["value"]): r for r in embedded if r["data"] == data}
        if ("embedding", 50.0) not in at or ("pixels", 50.0) not in at:
            continue
        one, two, clean = at["embedding", 50.0], at["pixels", 50.0], at["embedding", 0.0]
        small = " (small run on a CPU)" if one.get("run") else ""
        out.append(
            f"{data}{small}: the best linear guess of the pixels errs by {one['mse_scaled']:.3f} from the noisy embedding, by {two['mse_scaled']:.3f} "
            f"from the noisy picture and by {clean['mse_scaled']:.3f} from the embedding without any noise; accuracy {100 * mean(one['accuracy']):.1f} % "
            f"on embeddings, {100 * mean(two['accuracy']):.1f} % on pixels"
        )
    if not out:
        return []
    return [
        "On embeddings (the 84 features of a LeNet trained on other records) equal κ is not equal protection. At κ = 50:\n\n"
        + "\n".join(f"- {line}" for line in out)
        + "\n\nTo a linear guesser an embedding, even without noise, says less than the picture at κ = 50, so its 50 nats are spent on what matters for the task."
    ]


def _beyond(accuracy: list[Any]) -> str:
    """Exact Personalized, minimum-power and noise drawn once, beside the paper's channels."""
    lines = [
        "| LeNet on | capacity | paper's channel | accuracy | instead | accuracy | buys |",
        "| :-- | --: | :-- | --: | :-- | --: | --: |",
    ]
    pairs = (
        ("personalized-paper", "per_step", "personalized", "per_step", (500.0, 1000.0, 1500.0)),
        ("natural", "per_step", "minimum-power", "per_step", (50.0, 100.0, 200.0, 300.0)),
        ("white", "per_step", "minimum-power", "per_step", (500.0, 1000.0, 1500.0)),
        ("natural", "per_step", "natural", "once", (50.0, 100.0, 200.0, 300.0)),
        ("white", "per_step", "white", "once", (500.0, 1500.0)),
    )
    for data in ("fashion-mnist", "cifar10"):
        for kind, noise, other, drawn, capacities in pairs:
            for kappa in capacities:
                a = _by(accuracy, "accuracy", data=data, defence=kind, value=kappa, noise=noise)
                b = _by(accuracy, "accuracy", data=data, defence=other, value=kappa, noise=drawn)
                if a is not None and b is not None:
                    name = {
                        "personalized-paper": "personalized (bound)",
                        "personalized": "personalized (exact)",
                    }
                    lines.append(
                        f"| {data} | {kappa:g} | {name.get(kind, kind)}, {noise} | {a:.1f} | "
                        f"{name.get(other, other)}, {drawn} | {b:.1f} | {b - a:+.1f} |"
                    )
    if len(lines) == 2:
        return "Not run yet.\n"
    return (
        "\n".join(lines)
        + "\n\nNoise drawn once costs 3.2 points at most and leaks κ per record in all, where fresh noise "
        "leaks more with every use. Solving the Personalized channel exactly buys most of what its capacity "
        "allows; with less noise the attacker's error is smaller too (Figure 14, κ = 300: MSE 0.83 instead of 0.97; minimum-power 0.29 where Natural has 0.37). Two seeds; on CIFAR-10 they differ by up to 13 points where a channel hardly learns.\n"
    )


def _channel_figure(accuracy: list[Any]) -> list[str]:
    if not accuracy:
        return []
    plt = pyplot()
    names = sorted({r["data"] for r in accuracy})
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3), squeeze=False)
    for axis, data in zip(axes[0], names, strict=True):
        kinds = sorted({(r["defence"], r["noise"]) for r in accuracy if r["noise"]})
        for kind, noise in kinds:
            line = sorted(
                (r["value"], 100 * mean(r["accuracy"]))
                for r in accuracy
                if (r["data"], r["defence"], r["noise"]) == (data, kind, noise)
            )
            style = "o--" if noise == "once" else "o-"
            if line:
                axis.plot(*zip(*line, strict=True), style, ms=3, label=f"{kind}, {noise}")
        plain = _by(accuracy, "accuracy", data=data, defence="none")
        if plain is not None:
            axis.axhline(plain, color="0.5", lw=0.8)
        axis.set(title=data, xlabel="capacity, nats", xscale="log", ylabel="test accuracy, %")
    axes[0][-1].legend(fontsize=6)
    line = save(figure, "channel-accuracy")
    plt.close(figure)
    return [line]


def dirdp_page() -> None:
    accuracy, puzzle, images = rows("dirdp-accuracy"), rows("dirdp-puzzle"), rows("dirdp-iga")
    members, usual, relu = rows("dirdp-membership"), rows("dirdp-usual"), rows("dirdp-iga-relu")
    sweep = rows("dirdp-variants")
    cells = others.dirdp_accuracy(accuracy, usual)
    plain = [c for c in cells if "vmf" not in c.name]
    before = [c for c in others.dirdp_accuracy(usual) if "vmf" not in c.name]
    parts = [
        "# Faustini et al. (2023), checked",
        "Pedro Faustini, Natasha Fernandes, Shakila Tonni, Annabelle McIver, Mark Dras: *Applying "
        "directional noise to deep learning*. Every record's gradient is turned by VMF noise.",
        "**In short.** The ε of the tables does not hold (proved). As written, with noise on whole gradients, the mechanism defends like Gaussian noise and leaves no accuracy at small κ. "
        "With noise on single weights the printed accuracies come out, and the defence does not.",
        "## Which claims stand",
        claims(
            [
                *_dirdp_claims([*puzzle, *accuracy], images),
                _told(dirdp_more.verdict(members)),
                *_planes(accuracy, members, images),
            ],
        ),
        f"Undefended and Gaussian accuracies within 3 points of the printed ones: {within(plain)}, with one reading for all data sets; {within(before)} from torch's own first weights. "
        "(Networks and first weights are not printed and were picked after seeing some of these cells: the first share is a fit, the next section says for which cells it was none.)",
        _readings_text(
            plain, before, cells, images, relu, sweep, rows("dirdp-moved"), rows("dirdp-again")
        ),
        f"Table 3 was run from torch's own first weights, with noise on single weights only. Without defence its areas are, ours (printed): {_areas(members)}.",
        "## The puzzle: which partition gives Table 2?",
        "**Answer.** Only noise on every coordinate by itself (m = n blocks of one weight, so a weight's sign is kept with "
        "probability e^κ/(e^κ + e^−κ), 88% at κ = 1) gives accuracies that are near the undefended ones at κ = 1 and hardly move up to "
        f"300,000, as Table 2 has them on CIFAR-10 and, for the MLP, on Fashion-MNIST ({_vmf_near(cells)} cells are within 3 points, none of LeNet's on Fashion-MNIST: the pattern fits, not every number). In full, with the networks chosen: {_vmf_text(accuracy)}. Whether ε_V is κ or 2κ then makes no visible "
        "difference. Its true ε is 2κn = 124,012 for one participation at κ = 1 with public lengths, and infinite where lengths are "
        "released as they are.",
        "*Flat, layers, rows* are ruled out by κ up to 10 (from 50 on rows fit as well, but Table 2 hardly moves with κ): at κ = 1 a block of p weights keeps κ/p of its direction, 1.6e-5 when flat, and LeNet is at "
        "10.8, 35.6 and 60.2 % on Fashion-MNIST after five epochs where 81.5 % is printed. *Whether gradients are clipped or scaled to length 1*, as "
        "Algorithm 1 says, stays open: after five epochs single coordinates give 87.0 to 87.5 % clipped and 84.6 to 85.3 % scaled (printed 81.5 to 82.9). "
        "With ReLU scaling makes LeNet collapse even without noise, because records that are "
        "already right push as hard as the others; with tanh it does not.",
        "LeNet from torch's own first weights; CIFAR-10 for 30 epochs, Fashion-MNIST for 5, or (marked) for a few hundred steps on a CPU; tanh and average pooling, or "
        "(older runs) ReLU and max pooling. Weights: *public* (sound), *own* (share of the unit gradient), *clipped* (norms kept, clipped to 1). Single seeds.",
        table(others.dirdp_puzzle(puzzle)),
        _true_epsilon(),
        assumptions(dirdp.ASSUMPTIONS),
        "## Tables",
        folded("Table 2: accuracy", table(cells)),
        folded("Table 4: reconstruction", table(others.dirdp_images(images, relu))),
        folded("Table 5: recomputed", table(timing.dirdp_differences())),
        folded("Table 3: membership by reference models", table(dirdp_more.membership(members))),
        folded(
            "Figure 2: trade-offs, share of Gaussian points beaten",
            table(dirdp_more.trade_off(accuracy, members, images)),
        ),
        folded("Which network gives Table 2: all that was tried", table(reasons.readings(sweep))),
        folded(
            "Cells that are off, once more",
            table(reasons.again(rows("dirdp-again"), rows("dirdp-moved"))),
        ),
        folded(
            "Other clipping norms, from torch's own first weights and by SGD for the MLP on LFW: all that was tried",
            table(reasons.norms(rows("dirdp-norms"))),
        ),
        folded("Figures", figures("dirdp")),
        "## What was not run in full",
        commands("dirdp"),
        "## Again",
        "`recondite reproduce dirdp/table-2 --device cuda` and so on. Rows:\n\n"
        + sources(
            "dirdp-accuracy",
            "dirdp-variants",
            "dirdp-usual",
            "dirdp-norms",
            "dirdp-moved",
            "dirdp-again",
            "dirdp-puzzle",
            "dirdp-iga",
            "dirdp-iga-relu",
            "dirdp-membership",
        ),
    ]
    write("dirdp", parts)


def _areas(members: list[Any]) -> str:
    said = []
    for (model, defence, _, data), known in dirdp.TABLE_3.items():
        found = _by(members, "auc", model=model, data=data, defence="none")
        if defence == "none" and found is not None:
            said.append(f"{model} on {data} {100 * found:.1f} ({known:.1f})")
    return ", ".join(said) or NOT_RUN


def _told(verdict: Any) -> tuple[str, str, str]:
    return verdict.claim, verdict.stands, verdict.evidence


def _planes(accuracy: list[Any], members: list[Any], images: list[Any]) -> list[Any]:
    cells = dirdp_more.trade_off(accuracy, members, images)
    printed = sum(c.paper is not None and c.paper > 0.5 for c in cells)
    run = [c for c in cells if c.ours is not None and dirdp_more.SILENT not in c.why]
    ours = sum(c.ours > 0.5 for c in run)
    said = f"from the printed Tables 2 to 4 VMF wins {printed} of {len(cells)} panels; from our rows, with noise on single weights, {ours} of the {len(run)} where the attack works without defence"
    said += " (small run on a CPU)" if any(r.get("run") for r in members) else ""
    verdict = (
        NOT_RUN if not run else "stands" if ours == len(run) else "falls" if not ours else "in part"
    )
    return [("At comparable privacy VMF is more useful (Figure 2).", verdict, said)]


def _readings_text(
    plain: list[Any],
    before: list[Any],
    cells: list[Any],
    images: list[Any],
    relu: list[Any],
    sweep: list[Any],
    moved: list[Any],
    again: list[Any],
) -> str:
    """What the paper does not print, how it is read, and what speaks for that."""
    unseen = [
        [c for c in part if c.name.startswith(("lenet, fashion-mnist", "lenet, lfw"))]
        for part in (plain, before)
    ]
    off = "; ".join(f"{c.name} {c.ours:.1f} ({c.paper:.1f})" for c in plain if _far(c))
    return (
        "The paper says neither which activation and widths its networks have, nor how their weights are drawn, nor to what gradients were clipped (here: to 1). "
        "What was tested stands at the end of this page:\n\n"
        '- **LeNet "the original"**: tanh and average pooling. With ReLU and max pooling the undefended CIFAR-10 cell is 9 points too good.\n'
        "- **MLP**: tanh, 50 and 15 hidden units, the widths of the same authors' paper of 2025.\n"
        "- **First weights**: uniform in ±0.5, biases too, as the program of DLG's authors draws them; the first version of this paper runs their attack. From torch's own, CIFAR-10 under Gaussian noise "
        "comes out 4 to 10 points too well. They were picked on CIFAR-10 and the MLP's cells of Fashion-MNIST. What was not used to pick them, and speaks for them: "
        f"LeNet on Fashion-MNIST and LFW, {within(unseen[0])} cells within 3 points ({within(unseen[1])} from torch's own); the VMF cells of the puzzle below, {_vmf_near(cells)}; and "
        f"{_images_text(images, relu)} "
        f"Against them, or silent: the [first version](dirdp-v1.md)'s 70 cells, {_first_version()}; {_chance(plain)} of the 42 cells are at chance (Top-10 of 106 people), where any reading fits.\n"
        "- **Another way to the MLP's Gaussian cells on CIFAR-10** is a clipping norm of 40 with torch's own first weights (a table at the end has it). It gives neither LeNet's (4 to 6 points too good at ε = 3 and 50) nor the MLP's on Fashion-MNIST (7 to 13 points too low).\n"
        f"- **Adam on LFW**: Table 1 prints a momentum of 0.9 beside it for the MLP, which Adam does not have. By Adam the MLPs tried from torch's own first weights reach {_range(sweep, 'adam')} %, by SGD {_range(sweep, 'sgd')} (printed 15.6).\n"
        f"- **Still off** by more than 3 points, ours (printed): {off or 'none'}. {_why_off(before, again)}{_again_text(again)}{_elsewhere_text(sweep)}{_moved_text(moved)}"
    )


def _first_version() -> str:
    parts = []
    for job in ("dirdp-v1-accuracy", "dirdp-v1-usual"):
        found = rows(job)
        cells = dirdp_more.v1_accuracy(found) + dirdp_more.v1_faces(found)
        parts.append(within([c for c in cells if "vmf" not in c.name]).partition(" of ")[0])
    return f"{parts[0]} within 3 points, {parts[1]} from torch's own"


def _chance(plain: list[Any]) -> int:
    """Cells of LFW that are printed at chance, a Top-10 of 9.4 % or so."""
    return sum("lfw" in c.name and c.paper <= 10.7 for c in plain)


def _far(cell: Any) -> bool:
    return cell.ours is not None and abs(cell.difference) > 3


def _images_text(images: list[Any], relu: list[Any]) -> str:
    """Undefended errors of Table 4, which no noise touches."""
    said, nearer, count = [], 0, 0
    for (model, defence, _, data), known in dirdp.TABLE_4.items():
        where = {"model": model, "data": data, "defence": "none"}
        mine, other = (_by(part, "mse_scaled_median", **where) for part in (images, relu))
        if defence == "none" and mine is not None and other is not None:
            count += 1
            nearer += abs(mine - known) < abs(other - known)
            said.append(f"{model} on {data} {mine:.2f} ({known:g}; {other:.2g})")
    if not said:
        return f"Table 4: {NOT_RUN}."
    return (
        f"Table 4's undefended errors, nearer in {nearer} of {count} cells than with ReLU and torch's own first weights (two changes at once), from which the MLP's pictures come out exactly; "
        f"ours (printed; ReLU): {', '.join(said)}."
    )


def _why_off(before: list[Any], again: list[Any]) -> str:
    """The reason of each cell that is off, from what was tested."""
    cell = next((c for c in before if c.name == "mlp2, cifar10, none" and c.ours), None)
    seeds = _by(again, "accuracy", model="mlp2", data="lfw", network=_CHOSEN_MLP)
    if cell is None or seeds is None:
        return ""
    return (
        f"Reasons, each tested: first weights for the MLP on CIFAR-10 without defence ({cell.ours:.1f} from torch's own); seeds for the MLP on LFW ({seeds:.1f} from another) and for LeNet on CIFAR-10; "
        "how faces are aligned, and seeds, for LeNet on LFW. "
    )


def _again_text(again: list[Any]) -> str:
    """Cells that are off, trained once more."""
    said = []
    for r in again:
        at = f"at ε = {r['epsilon']:g}" if r["epsilon"] else "undefended"
        widths = f" with {r['network'].split('/')[2]} units" if r["model"] == "mlp2" else ""
        said.append(f"{r['model']} on {r['data']} {at}{widths} {100 * mean(r['accuracy']):.1f}")
    return f"Tested with another seed and other widths: {', '.join(said)}. " if said else ""


def _elsewhere_text(sweep: list[Any]) -> str:
    """LeNet on CIFAR-10 trained by the engine itself, so with other random numbers."""
    name = "lenet/tanh/average/half/as-is/dlg"
    found = [
        f"{100 * mean(r['accuracy']):.1f} at ε = {r['epsilon']:g}"
        for r in sweep
        if (r["network"], r["data"], r["defence"]) == (name, "cifar10", "gaussian")
    ]
    return f"LeNet on CIFAR-10 with other random numbers: {', '.join(found)}. " if found else ""


def _moved_text(moved: list[Any]) -> str:
    at = {(r["moved"], r["epsilon"]): 100 * mean(r["accuracy"]) for r in moved}
    found = [
        f"{at[pixels, None]:.0f}, {at[pixels, 8.0]:.0f} and {at[pixels, 50.0]:.0f} % with faces moved by up to {pixels} of 32 pixels and scaled by up to {pixels * 5} %"
        for pixels in (2, 4, 6)
        if (pixels, 50.0) in at
    ]
    if not found:
        return ""
    return (
        "LeNet on LFW: our pictures are aligned (deep-funneled); the paper does not say whether its were. Tested, without defence and at ε = 8 and 50: "
        f"{'; '.join(found)} (printed 32.0, 13.2 and 15.2), where aligned faces have {at[0, None]:.0f}, {at[0, 8.0]:.0f} and {at[0, 50.0]:.0f}."
    )


def _range(sweep: list[Any], optimizer: str) -> str:
    """Lowest and highest undefended accuracy of the MLPs tried on LFW."""
    found = [
        100 * mean(r["accuracy"])
        for r in sweep
        if (r["model"], r["data"], r["defence"]) == ("mlp2", "lfw", "none")
        and r["optimizer"] == optimizer
    ]
    return f"{min(found):.0f} to {max(found):.0f}" if found else NOT_RUN


def _vmf_near(cells: list[Any]) -> str:
    return within([c for c in cells if "vmf" in c.name]).partition(" (")[0]


def _vmf_text(accuracy: list[Any]) -> str:
    said = []
    for model, data in (
        ("mlp2", "fashion-mnist"),
        ("mlp2", "cifar10"),
        ("lenet", "cifar10"),
        ("lenet", "fashion-mnist"),
        ("mlp2", "lfw"),
        ("lenet", "lfw"),
    ):
        pairs = [
            (100 * mean(r["accuracy"]), dirdp.TABLE_2[model, "vmf", r["value"], data])
            for r in accuracy
            if (r["model"], r["data"], r["defence"]) == (model, data, "directional")
        ]
        if pairs:
            ours, known = zip(*pairs, strict=True)
            said.append(
                f"{model} on {data} {min(ours):.1f} to {max(ours):.1f} % (printed {min(known):.1f} to {max(known):.1f})"
            )
    return "; ".join(said) or NOT_RUN


def _true_epsilon() -> str:
    return (
        "What each partition of LeNet's 62,006 weights costs, one participation at κ = 1 (pure "
        "ε = 2κm) and 90 epochs of disjoint batches:\n\n"
        "| partition | blocks m | pure ε, once | pure ε, 90 epochs | Corollary 1's 2κ√m |\n"
        "| :-- | --: | --: | --: | --: |\n"
        + "".join(
            f"| {name} | {m:,} | {2 * m:,} | {180 * m:,} | {2 * m**0.5:.1f} |\n"
            for name, m in (
                ("flat", 1), ("layers", 10), ("rows", 241), ("last axis", 789), ("elements", 62006),
            )
        )
    )  # fmt: skip


def _single_text(images: list[Any]) -> str:
    """Errors on LeNet with noise on single weights, without any and under Gaussian noise."""
    said = []
    for data in ("fashion-mnist", "cifar10", "lfw"):
        where = {"model": "lenet", "data": data}
        one, five = (
            _by(images, "mse_scaled_median", defence="vmf", value=v, blocks="elements", **where)
            for v in (1.0, 5.0)
        )
        none = _by(images, "mse_scaled_median", defence="none", **where)
        gauss = _by(images, "mse_scaled_median", defence="gaussian", value=0.8, **where)
        if None not in (one, five, none, gauss):
            said.append(
                f"{data} {one:.2f} at κ = 1, {five:.2f} at 5, {none:.2f} without noise, {gauss:.2f} under Gaussian noise of ε = 0.8"
            )
    return "; ".join(said) or NOT_RUN


def _gaussian_gap(images: list[Any]) -> str:
    """How far Table 4's Gaussian errors are from ours, on the mean."""
    gaps = []
    for (model, defence, value, data), known in dirdp.TABLE_4.items():
        where = {"model": model, "data": data, "defence": "gaussian", "value": value}
        found = _by(images, "mse_scaled_median", **where) if defence == "gaussian" else None
        if found is not None:
            gaps.append(known - found)
    return f"{mean(gaps):.2f} on the mean of {len(gaps)} cells" if gaps else NOT_RUN


def _flat_text(images: list[Any]) -> str:
    """Errors of Inverting Gradients on LeNet: flat VMF noise at κ = 1 and Gaussian noise at ε = 0.8."""
    said = []
    for data in ("fashion-mnist", "cifar10"):
        where = {"model": "lenet", "data": data}
        vmf = _by(images, "mse_scaled_median", defence="vmf", value=1.0, blocks="flat", **where)
        gauss = _by(images, "mse_scaled_median", defence="gaussian", value=0.8, **where)
        if vmf is not None and gauss is not None:
            said.append(f"{data}: MSE {vmf:.2f} at κ = 1, {gauss:.2f} at ε = 0.8")
    return "; ".join(said) or NOT_RUN


def _worst_fashion(trained: list[Any]) -> float:
    """The largest gap of LeNet's on Fashion-MNIST, with noise on single weights in full."""
    gaps = [
        abs(100 * mean(r["accuracy"]) - dirdp.TABLE_2["lenet", "vmf", r["value"], r["data"]])
        for r in trained
        if (r["model"], r["data"], r["defence"]) == ("lenet", "fashion-mnist", "directional")
        and r["blocks"] == "elements"
        and r.get("epochs") == 30
    ]
    return max(gaps, default=math.nan)


def _dirdp_claims(trained: list[Any], images: list[Any]) -> list[Any]:
    text = dirdp.CLAIMS
    near = []
    for row in trained:
        known = dirdp.TABLE_2.get(("lenet", "vmf", row["value"], "cifar10"))
        same = (row.get("model"), row["data"], row["defence"]) == (
            "lenet",
            "cifar10",
            "directional",
        )
        if known is not None and same:
            gap = abs(100 * mean(row["accuracy"]) - known)
            near.append((gap, row["blocks"], row["weights"], row["value"]))
    if near:
        flat = [g for g in near if g[1] == "flat"]
        said = (
            f"on CIFAR-10 flat noise is {max(g[0] for g in flat):.0f} points off at worst"
            if flat
            else ""
        )
        best: dict[tuple[Any, Any], float] = {}
        for gap, blocks, weights, _ in near:
            best[blocks, weights] = max(best.get((blocks, weights), 0.0), gap)
        winner = min(best, key=lambda key: best[key])
        said += f" (ReLU, 30 of 90 epochs); the nearest that was trained is noise on {winner[0]}, {winner[1]} weights ({best[winner]:.0f} off at worst there, {_worst_fashion(trained):.0f} on Fashion-MNIST), which protects nobody: see the puzzle"
        verdict = "falls for the mechanism as written"
    else:
        verdict, said = NOT_RUN, ""
    return [
        (text["utility"], verdict, said),
        (text["privacy"], "falls", "one epoch is counted, and a partition costs 2κm, not 2κ√m"),
        (text["partition"], "falls", "v′ = −v attains 2κm (erratum 10)"),
        (
            text["defence"],
            "falls",
            f"no partition that was tried gives Tables 2 and 4 both. Noise on single weights, which gives Table 2's accuracies, leaves pictures nearly as open as no defence from κ = 5 on (LeNet, median MSE: {_single_text(images)}); flat noise defends as Gaussian noise "
            f"does ({_flat_text(images)}) and leaves no accuracy at such κ. (Single weights were attacked with clipped lengths only, and printed errors are larger than ours under Gaussian noise too, by {_gaussian_gap(images)}: compare ours with ours.)",
        ),
    ]


def v1_page() -> None:
    attacks, accuracy = rows("dirdp-v1-attacks"), rows("dirdp-v1-accuracy")
    usual, shown = rows("dirdp-v1-usual"), rows("dirdp-v1-pictures")
    plain = [
        [c for c in dirdp_more.v1_accuracy(part) + dirdp_more.v1_faces(part) if "vmf" not in c.name]
        for part in (accuracy, usual)
    ]
    parts = [
        "# Faustini et al. (2022), checked",
        "Pedro Faustini, Natasha Fernandes, Shakila Tonni, Annabelle McIver, Mark Dras: *Directional privacy for deep learning*, the first version of the paper of 2023: DLG and Inverting Gradients on MNIST, CIFAR and LFW.",
        "**In short.** Without noise DLG rebuilds digits exactly; Gaussian noise, or VMF noise up to κ = 500, leaves little of a picture. Fewer than half of the accuracies come out, and no partition that was tried gives LeNet's on MNIST.",
        "## Which claims stand",
        claims(_v1_claims(attacks, accuracy)),
        f"Undefended and Gaussian accuracies of Tables 1 and 2 within 3 points of the printed ones: {within(plain[0])}, {within(plain[1])} from torch's own first weights. "
        "Nothing was picked for them: networks, first weights and partitions are those of the 2023 version, whose [page](dirdp.md) has the search. "
        f"VMF cells: {_v1_vmf(accuracy)}. **LeNet on MNIST is printed from 50.2 to 81.8 %, rising with κ, and ours is {_v1_digits(accuracy)}: the partition that gives the 2023 version's Table 2 does not explain this one.**",
        "Inverting Gradients without defence is printed with an SSIM of 0.02 to 0.53 (Table 4), ours has "
        f"{_v1_plain(attacks)}: the printed attack was weak. MLPs were attacked with 10 images, LeNet with 50; CIFAR-100 is left out.",
        assumptions(dirdp_v1.ASSUMPTIONS),
        "## Tables",
        folded("Table 3: DLG", table(others.v1_attacks(attacks, "dlg"))),
        folded("Table 4: Inverting Gradients", table(others.v1_attacks(attacks, "iga"))),
        folded("Table 6: trained victims", table(others.v1_trained(attacks))),
        folded(
            "Table 1: accuracy on MNIST and CIFAR-10",
            table(dirdp_more.v1_accuracy(accuracy, usual)),
        ),
        folded("Table 2: accuracy on LFW", table(dirdp_more.v1_faces(accuracy, usual))),
        folded("Figure 4: pictures by DLG", table(dirdp_more.pictures(shown, "dlg"))),
        folded(
            "Figure 5: pictures by Inverting Gradients", table(dirdp_more.pictures(shown, "iga"))
        ),
        folded("Figure 6: trained victims", table(dirdp_more.pictures(shown, "both", "both"))),
        "Table 1's Gaussian row of LeNet on MNIST falls as ε rises (88.7 % at 0.8, 81.4 % at 80), and the MLP's on CIFAR-10 "
        f"ends at 21.3 % for ε = 80: less noise does not do that by itself (ours rises or stays: {_rising(accuracy)}). "
        "The MLP's rate of 0.1 by AdamW on CIFAR-10, as Table 5 prints it, teaches ours little.",
        folded("Figures", figures("dirdp-v1")),
        "## What was not run in full",
        commands("dirdp-v1"),
        "## Again",
        "`recondite reproduce dirdp-v1/table-3 --device cuda` and so on. Rows:\n\n"
        + sources("dirdp-v1-attacks", "dirdp-v1-accuracy", "dirdp-v1-usual", "dirdp-v1-pictures"),
    ]
    write("dirdp-v1", parts)


def _v1_vmf(accuracy: list[Any]) -> str:
    found = dirdp_more.v1_accuracy(accuracy) + dirdp_more.v1_faces(accuracy)
    return ", ".join(
        f"{within([c for c in found if f'({blocks})' in c.name])} within 3 points by {said}"
        for blocks, said in (("elements", "single weights"), ("rows", "rows"))
    )


def _v1_digits(accuracy: list[Any]) -> str:
    said = []
    for blocks, name in (("elements", "single weights"), ("rows", "rows")):
        found = [
            100 * r["top"]["1"]
            for r in accuracy
            if (r["model"], r["data"], r["defence"]) == ("lenet", "mnist", "vmf")
            and r["blocks"] == blocks
        ]
        if found:
            said.append(f"{min(found):.1f} to {max(found):.1f} by {name}")
    return " and ".join(said) or NOT_RUN


def _v1_plain(attacks: list[Any]) -> str:
    found = [
        r["ssim"]
        for r in attacks
        if r["block"].startswith("iga/") and r["defence"] == "none" and r["victim"] == "untrained"
    ]
    return f"{min(found):.2f} to {max(found):.2f}" if found else NOT_RUN


def _rising(accuracy: list[Any]) -> str:
    said = []
    for model, data in (("lenet", "mnist"), ("mlp2", "cifar10")):
        found = [
            100 * r["top"]["1"]
            for r in sorted(accuracy, key=lambda r: float(r["value"]))
            if (r["model"], r["data"], r["defence"]) == (model, data, "gaussian")
        ]
        if found:
            said.append(f"{model} on {data} {found[0]:.1f} to {found[-1]:.1f} %")
    return ", ".join(said) or NOT_RUN


def _v1_claims(attacks: list[Any], accuracy: list[Any]) -> list[Any]:
    text = dirdp_v1.CLAIMS
    # An attack that was stopped after a few iterations says nothing.
    attacks = [r for r in attacks if not (r["interrupted"] and r["iterations"] < 100)]
    clean = [r for r in attacks if r["defence"] == "none" and r["victim"] == "untrained"]
    found = [r for r in clean if r["attack"] == "dlg"]
    out = [_told(dirdp_more.v1_verdict(accuracy))]
    if found:
        said = ", ".join(f"{r['model']} on {r['data']}: SSIM {r['ssim']:.2f}" for r in found)
        said += next((f"; {r['run']}" for r in found if r.get("run")), "")
        verdict = "stands" if min(r["ssim"] for r in found) > 0.6 else "in part"
        out.append((text["dlg"], verdict, said))
        noisy = [r for r in attacks if r["defence"] != "none" and r["value"] < 1000]
        weak = [r for r in attacks if r["defence"] == "vmf" and r["value"] > 1000]
        gauss = max((r["ssim"] for r in noisy if r["defence"] == "gaussian"), default=0.0)
        worst, most = (max((r["ssim"] for r in part), default=0.0) for part in (noisy, weak))
        said = f"largest SSIM under Gaussian noise {gauss:.2f}, under VMF noise {worst:.2f} up to κ = 500 and {most:.2f} at κ = 300,000"
        out.append((text["defence"], "stands" if most < 0.1 else "in part", said))
        trained = [r for r in attacks if r["victim"] == "trained"]
        pairs = []
        for row in trained:
            before = next((r for r in clean if r["block"] == row["block"]), None)
            if before is None:
                continue
            pairs.append((row["block"], before["ssim"], row["ssim"]))
        lower = sum(after < before for _, before, after in pairs)
        out.append((text["trained"], "stands" if pairs and lower == len(pairs) else "in part",
                    f"SSIM is lower in {lower} of {len(pairs)} cases"))  # fmt: skip
    else:
        out += [(text[key], NOT_RUN, "") for key in ("dlg", "defence", "trained")]
    return out


PAGES = {"compare": compare_page, "channel": channel_page, "dirdp": dirdp_page, "dirdp-v1": v1_page}
