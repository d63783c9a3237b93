"""The page of Tan et al. (2024)."""

# ruff: noqa: D103, E501
from __future__ import annotations

from typing import Any

from parts import (
    assumptions,
    by,
    claims,
    commands,
    figures,
    folded,
    printed_cells,
    pyplot,
    rows,
    save,
    sources,
    table,
    write,
)
from recondite_papers.printed import channel
from recondite_papers.tables import accounting, channel_claims, channel_verdicts, taylor
from recondite_papers.tables import channel as channel_cells
from recondite_papers.tables.cells import mean
from recondite_papers.tables.channel_claims import once_costs
from recondite_papers.tables.guesses import failing
from recondite_papers.tables.intruder import finding as intruder_finding
from recondite_papers.tables.intruder import table as intruder_cells
from recondite_papers.tables.intruder import verdict as under_intruder
from recondite_papers.tables.shares import sentence


def page() -> None:
    accuracy, inversion = rows("channel-accuracy"), rows("channel-inversion")
    guide = rows("channel-guidelines")
    defence, embedded, timed = (
        rows("channel-defence"),
        rows("channel-embedding"),
        rows("channel-times"),
    )
    drawn = rows("channel-pictures")
    networks, inverted = rows("channel-networks"), rows("channel-networks-inversion")
    expanded, intruder, blind = rows("channel-taylor"), rows("intruder"), rows("blind")
    found = channel_claims.of_lenet(accuracy, inversion, guide, blind, intruder)
    found += channel_verdicts.verdicts(defence, embedded, timed, drawn, networks, inverted, blind)
    worse, total = failing(channel_claims.at_best(inversion), blind, "channel")
    stronger = next(v for v in found if v.claim == channel.CLAIMS["stronger"])
    found += under_intruder(intruder, inversion, "channel")
    found += taylor.first_order_verdict(expanded)
    parts = [
        "# Tan et al. (2024), checked",
        "Qi Tan, Qi Li, Yi Zhao, Zhuotao Liu, Xiaobing Guo, Ke Xu: *Defending against data "
        "reconstruction attacks in federated learning: an information theory approach*. Noise on "
        "records, sized by the information that may pass.",
        "**In short.** Noise on data does what is claimed for it: more nats, more accuracy and less protection. The bound n·κ allows everything; noise drawn once leaks κ per record in all. "
        f"{once_costs(accuracy)} "
        f"White and Personalized defend better than Natural at equal κ: {stronger.stands}. {stronger.believe} The paper's gradient inversion does worse than the mean image, which sees nothing, in {worse} of {total} noisy settings. "
        "The DP baselines' capacities are twice too large, and are per batch where a channel's κ is per record. "
        + intruder_finding(intruder, inversion, "channel"),
        "## Which claims stand",
        claims(found),
        sentence(printed_cells("channel")),
        "Figures 9 to 16 are drawn without numbers (but for 14), so their values can only be compared in order. Model inversion (Figures 10, 13, 15, 16) fails here: "
        "even without defence it ends farther from the records than the image it starts from. Its errors show trends. They show no protection.",
        *_embedding_text(embedded),
        "## Beyond the paper: what other channels buy at equal capacity",
        _beyond(accuracy, inversion),
        *_channel_figure(accuracy),
        assumptions(channel.ASSUMPTIONS),
        "## Tables and figures",
        folded("Table 2: times", table(channel_cells.times(timed))),
        folded("ε and capacity of the DP baselines", table(accounting.tan_dp())),
        folded("Figure 4: noise for one nat", table(accounting.tan_toy())),
        folded("Eigenvalues", table(channel_cells.tan_eigenvalues(accuracy))),
        folded("Figures 9, 11, 15: accuracy of LeNet", table(channel_cells.tan_accuracy(accuracy))),
        folded("Figure 12: accuracy by n", table(channel_cells.tan_rounds(accuracy))),
        folded(
            "Figure 14: gradient inversion, LeNet on CIFAR-10",
            table(channel_cells.tan_inversion(inversion, intruder)),
        ),
        folded(
            "All settings under the strongest attacks", table(intruder_cells(intruder, "channel"))
        ),
        folded("Figures 6 and 8: guidelines", table(channel_cells.tan_guidelines(guide))),
        folded("Figure 5: noisy faces (LFW for CelebA)", table(channel_cells.faces(drawn))),
        folded("Figure 7: compression as noise", table(channel_cells.compression())),
        folded("Figure 9, other networks", table(channel_cells.networks(networks))),
        folded(
            "Figure 10: reconstruction by κ", table(channel_cells.by_capacity(defence, inversion))
        ),
        folded("Figure 13: reconstruction by n", table(channel_cells.by_rounds(defence))),
        folded(
            "Figure 14, other networks",
            table(channel_cells.networks_inversion(inverted)),
        ),
        folded(
            "Figures 15 and 16: membership and reconstruction", table(channel_cells.planes(defence))
        ),
        folded("Figure 17: the weights β", table(channel_cells.beta_weights())),
        folded("The guideline on embeddings", table(channel_cells.embedding(embedded))),
        folded(
            "Eq. 17: the share that its first order leaves", table(taylor.first_order(expanded))
        ),
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
            "channel-taylor",
            "blind",
            "intruder",
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
            f"from the noisy image and by {clean['mse_scaled']:.3f} from the embedding without any noise; accuracy {100 * mean(one['accuracy']):.1f} % "
            f"on embeddings, {100 * mean(two['accuracy']):.1f} % on pixels"
        )
    if not out:
        return []
    return [
        "On embeddings (the 84 features of a LeNet trained on other records) equal κ is not equal protection. At κ = 50:\n\n"
        + "\n".join(f"- {line}" for line in out)
        + "\n\nTo a linear guesser an embedding, even without noise, says less than the image at κ = 50, so its 50 nats are spent on what matters for the task."
    ]


def _strongest_text(inversion: list[Any]) -> str:
    at = channel_claims.strongest(inversion)
    pairs = (("personalized", "personalized-paper"), ("minimum-power", "natural"))
    said = [
        f"{one} {at[one, 300.0]:.2f} where {two.replace('-paper', ' (bound)')} has {at[two, 300.0]:.2f}"
        for one, two in pairs
        if (one, 300.0) in at and (two, 300.0) in at
    ]
    return (
        f" (Figure 14, κ = 300, the stronger of two attacks, MSE: {'; '.join(said)})."
        if said
        else "."
    )


def _beyond(accuracy: list[Any], inversion: list[Any]) -> str:
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
                a = by(accuracy, "accuracy", data=data, defence=kind, value=kappa, noise=noise)
                b = by(accuracy, "accuracy", data=data, defence=other, value=kappa, noise=drawn)
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
        + f"\n\n{once_costs(accuracy)} It leaks κ per record in all, where fresh noise "
        "leaks more with every use. Solving the Personalized channel exactly buys most of what its capacity "
        "allows; with less noise the attacker's error is smaller too"
        + _strongest_text(inversion)
        + f" Two seeds; on CIFAR-10 they differ by up to {_apart(accuracy, 'cifar10'):.0f} points where a channel hardly learns.\n"
    )


def _apart(accuracy: list[Any], data: str) -> float:
    """The largest difference between the seeds of one setting, in points."""
    return max(
        (100 * (max(r["accuracy"]) - min(r["accuracy"])) for r in accuracy if r["data"] == data),
        default=0.0,
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
        plain = by(accuracy, "accuracy", data=data, defence="none")
        if plain is not None:
            axis.axhline(plain, color="0.5", lw=0.8)
        axis.set(title=data, xlabel="capacity, nats", xscale="log", ylabel="test accuracy, %")
    axes[0][-1].legend(fontsize=6)
    line = save(figure, "channel-accuracy")
    plt.close(figure)
    return [line]
