"""Verdicts follow from the stored rows: what a page says is recomputed here."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import recondite as rc
from recondite.leakage.information import dp_information
from recondite_papers.gpu import JOBS
from recondite_papers.printed import channel
from recondite_papers.single_weights import SingleWeights
from recondite_papers.tables import (
    channel_claims,
    channel_verdicts,
    dirdp_decided,
    intruder,
    prediction,
)
from recondite_papers.tables.compare import table_3

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("compare", "channel", "dirdp", "dirdp-v1")


def rows(job):
    sys.path.insert(0, str(ROOT / "papers" / "pages"))
    try:
        import parts
    finally:
        sys.path.pop(0)
    return parts.rows(job)


@pytest.mark.parametrize("page", PAGES)
def test_every_claim_says_what_to_believe_in_twelve_words(page):
    text = (ROOT / "docs" / "studies" / f"{page}.md").read_text()
    lines = text[text.index("| claim |") : text.index("### Why")].strip().splitlines()[2:]
    assert lines
    for line in lines:
        _, claim, _, believe, _ = (part.strip() for part in line.split("|"))
        assert 2 <= len(believe.split()) <= 12, claim


def test_ranks_of_the_papers_attack_are_said_to_rank_failures():
    attacks, signal, blind = rows("compare-iga"), rows("compare-signal"), rows("blind")
    page = (ROOT / "docs" / "studies" / "compare.md").read_text()
    for data in ("mnist", "fashion-mnist"):
        found = prediction.settings(attacks, signal, data, blind)
        assert len(found) == 58
        assert sum(one.beats for one in found) <= 1
        rho = prediction.ranks(found)
        assert abs(rho["epsilon"]) < 0.45 < abs(rho["capacity_1"])
        assert abs(rho["capacity_L"]) > 0.85
        assert abs(rho["capacity_length"]) > 0.9
        for key in ("1", "L", "length"):
            assert abs(rho[f"capacity_{key}"] - rho[f"information_{key}"]) < 0.02
        for kind in ("vmf", "gaussian"):
            alone = prediction.ranks([one for one in found if one.defence == kind])
            assert max(alone.values()) - min(alone.values()) < 0.01
        assert f"{rho['capacity_length']:+.2f}" in page
    (alone,) = prediction.verdict(attacks, signal, blind)
    assert alone.stands == "undecided"
    assert "beats the mean image, which sees nothing, in 1 of 58 and 0 of 58" in alone.evidence
    (one,) = prediction.verdict(attacks, signal, blind, rows("intruder"))
    assert one.evidence in page
    # Where nothing leaks any notion that is small there ranks well: what counts is what is left.
    known = prediction.gained(rows("intruder"), signal, "mnist")
    every, seen = prediction.ranks(known), prediction.ranks([one for one in known if one.beats])
    assert every["epsilon"] - every["capacity_1"] > 0.1
    assert seen["epsilon"] == pytest.approx(seen["capacity_1"])
    assert seen["capacity_L"] > seen["epsilon"]  # the corrected radius ranks leaks worse
    assert seen["epsilon"] - seen["capacity_length"] > 0.2
    assert sum(one.defence == "vmf" for one in known if one.beats) >= 5
    assert one.stands == "in part"


def test_figure_15_is_undecided_where_the_attack_fails_without_a_defence():
    found = channel_verdicts.verdicts(rows("channel-defence"), [], [], [])
    at = {verdict.claim: verdict for verdict in found}
    fifteen = at["Natural has the best trade-off of accuracy and defence (Figure 15)."]
    sixteen = next(v for claim, v in at.items() if "Figure 16" in claim)
    assert fifteen.stands == "undecided"
    assert sixteen.stands.endswith("undecided for reconstruction")
    assert "moves away from the records" in fifteen.evidence
    page = (ROOT / "docs" / "studies" / "channel.md").read_text()
    assert f"| **{fifteen.stands}** | {fifteen.believe} |" in page
    works = [{"data": "a", "defence": "none", "mse_inversion": 0.1, "mse_start": 0.2}]
    assert channel_verdicts.failing(works) == ""


def test_flat_noise_is_decided_on_victims_that_learnt_something():
    decided = rows("dirdp-decided")
    found = dirdp_decided.verdicts(decided, rows("intruder"))
    page = (ROOT / "docs" / "studies" / "dirdp.md").read_text()
    for one in found:
        assert one.evidence in page
    plain = [r for r in decided if r["defence"] == "none"]
    assert min(r["auc_low"] for r in plain) > 0.5  # the attack works without defence
    weak = [r for r in decided if r.get("blocks") == "flat" and r["value"] <= dirdp_decided.WEAK]
    assert dirdp_decided.at_chance(decided, "flat") == all(r["auc_low"] <= 0.5 for r in weak)
    assert dirdp_decided.verdicts([]) == []
    both = next(v for v in found if "membership and reconstruction" in v.claim)
    for part, name in (
        ("flat", "flat noise"),
        ("layers", "noise by layers"),
        ("elements", "noise on single weights"),
    ):
        # To stand a partition needs both attacks; images that leak, or records picked
        # out, are enough for it to fall.
        safe = dirdp_decided.held(rows("intruder"), part)
        said = dict(clause.split(" for ", 1) for clause in both.stands.split("; "))
        assert name in said["stands" if safe else "falls"]
    # Whatever rests on a small run says so.
    assert all("small run" in one.evidence for one in found)


def test_what_the_first_versions_attacks_lack_is_counted_from_their_rows():
    stored = rows("dirdp-v1-attacks")
    page = (ROOT / "docs" / "studies" / "dirdp-v1.md").read_text()
    for item, attack in (("table-3", "dlg"), ("table-4", "inverting-gradients")):
        found = [r for r in stored if (r["attack"], r["victim"]) == (attack, "untrained")]
        few = sum(r["images"] < 50 for r in found)
        line = next(line for line in page.splitlines() if line.startswith(f"| dirdp-v1/{item} "))
        assert f"{few} of {len(found)} rows with fewer than 50 images" in line
    noisy = [r["iterations"] for r in stored if r["attack"] == "dlg" and r["defence"] != "none"]
    assert f"stopped at {max(noisy)} of 1,000 iterations" in page


def test_results_whose_command_has_moved_name_todays():
    moved = 0
    for file in (ROOT / "results").glob("*.json"):
        made = json.loads(file.read_text()).get("provenance")
        command = made.get("command", "") if isinstance(made, dict) else ""
        if "recondite.experiments" in command:
            moved += 1
            module, job = made["command_now"].split()[2:4]
            assert module == "recondite_papers.gpu"
            assert job in JOBS
    assert moved == 8


def test_numbers_of_the_readme_come_from_rows():
    """Its row on each paper, as far as it has figures."""
    readme = (ROOT / "README.md").read_text()
    costs = channel_claims.once_costs(rows("channel-accuracy"))
    most, least = re.search(
        r"on cifar10 .*? and (\d+\.\d) \(κ = 50\) to (\d+\.\d) \(κ = 300\)", costs
    ).groups()
    assert f"for {float(least):.0f} to {float(most):.0f} points of accuracy on CIFAR-10" in readme
    (capacity,) = prediction.verdict(
        rows("compare-iga"), rows("compare-signal"), rows("blind"), rows("intruder")
    )
    assert capacity.stands == "in part"
    assert capacity.believe.startswith("Perhaps with the gradient's true length")
    assert (
        "Bayes' capacity as printed ranks leaks no better than ε, and perhaps better with the "
        "gradient's true length" in readme
    )
    early = intruder.open_settings(rows("intruder"), rows("dirdp-v1-attacks"), "dirdp-v1")
    assert early["broken"]  # "some settings that look safe fall"
    errata = (ROOT / "docs" / "errata.md").read_text()
    text = SingleWeights(1.0, 62_006).metric_privacy().per_record
    assert f"{text:,.0f}" in errata


def test_noise_drawn_once_is_priced_against_no_defence_too():
    text = channel_claims.once_costs(rows("channel-accuracy"))
    page = (ROOT / "docs" / "studies" / "channel.md").read_text()
    assert text in page
    plain = [r for r in rows("channel-accuracy") if r["defence"] == "none"]
    once = [
        r
        for r in rows("channel-accuracy")
        if (r["defence"], r["value"], r["noise"]) == ("natural", 50.0, "once")
    ]
    for data in ("cifar10", "fashion-mnist"):
        first, second = (
            100 * sum(r["accuracy"]) / len(r["accuracy"])
            for part in (plain, once)
            for r in part
            if r["data"] == data
        )
        assert f"{first - second:.1f} (κ = 50)" in text


def test_the_strongest_attack_is_the_smallest_error_over_its_settings():
    stored = json.loads((ROOT / "results" / "channel-inversion.cifar.json").read_text())["rows"]
    at = channel_claims.strongest(stored)
    assert at["natural", 300.0] == min(
        r["mse_scaled"] for r in stored if (r["defence"], r["value"]) == ("natural", 300.0)
    )


def test_mean_and_spread_are_on_one_scale():
    row = {
        "block": "dlg/mnist", "defence": "none", "value": 0.0, "mse": 0.01, "mse_scaled": 0.1,
        "mse_scaled_sd": 0.2, "ssim_placed": 0.5,
    }  # fmt: skip
    cell = next(c for c in table_3([row]) if c.name == "MNIST, none: MSE")
    assert cell.spread == pytest.approx(0.02)


def test_erratum_12_has_the_figures_of_the_rows():
    errata = (ROOT / "docs" / "errata.md").read_text()
    text = " ".join(errata[errata.index("{#e12}") : errata.index("{#e13}")].split())
    members, images = rows("dirdp-membership"), rows("dirdp-iga")
    for model, data in (("lenet", "fashion-mnist"), ("mlp2", "cifar10")):
        found = [r for r in members if (r["model"], r["data"]) == (model, data)]
        weak = [100 * r["auc"] for r in found if r["defence"] == "vmf" and r["value"] <= 50]
        (plain,) = (100 * r["auc"] for r in found if r["defence"] == "none")
        assert re.search(rf"{min(weak):.1f} to {max(weak):.1f} \((undefended )?{plain:.1f}\)", text)
    for data in ("cifar10", "fashion-mnist", "lfw"):
        at = {
            (r["defence"], r["value"], r.get("blocks")): r["mse_scaled_median"]
            for r in images
            if (r["model"], r["data"]) == ("lenet", data)
        }
        for key in (("none", 0.0, None), ("vmf", 5.0, "elements"), ("vmf", 5.0, "flat")):
            assert f"{at[key]:.2f}" in text, (data, key)


def test_the_true_epsilon_of_single_weights_is_that_of_public_lengths():
    errata = (ROOT / "docs" / "errata.md").read_text()
    text = " ".join(errata[errata.index("{#e12}") : errata.index("{#e13}")].split())
    once = SingleWeights(1.0, 62_006).metric_privacy().per_record
    assert f"**{once:,.0f} for one participation at κ = 1 with public lengths**" in text
    assert f"({90 * once:,.0f} for 90 epochs; infinite with the clipped lengths" in text
    page = (ROOT / "docs" / "studies" / "dirdp.md").read_text()
    assert f"| elements | 62,006 | {once:,.0f} | {90 * once:,.0f} |" in page
    assert f"{once:,.0f}" not in (ROOT / "README.md").read_text()


def test_capacities_of_a_batch_are_not_those_of_a_record():
    batch, multipliers = channel.SETTING["batch"], (0.8, 0.57, 0.46, 0.2066)
    right = [dp_information(batch, 1.0, s * s) for s in multipliers]
    page = (ROOT / "docs" / "studies" / "channel.md").read_text()
    errata = " ".join((ROOT / "docs" / "errata.md").read_text().split())
    assert ", ".join(f"{nats:.1f}" for nats in right[:3]) in errata
    assert f"{round(right[0])} to {round(right[-1], -1):.0f} (erratum 15)" in page
    # As printed, for the batch; what one of its records adds is 2B times less.
    printed = 2 * right[0]
    assert printed / (right[0] / batch) == pytest.approx(2 * batch)
    assert f"about 2·{batch}" in page
    assert f"about 2·{batch}" in errata


def test_figures_15_and_16_are_two():
    folder = ROOT / "docs" / "images" / "studies"
    one, other = ((folder / f"channel-figure-{n}.svg").read_bytes() for n in (15, 16))
    assert one != other


def test_capacity_is_an_average_and_epsilon_at_delta_is_no_bound_on_the_ratio():
    theory = " ".join((ROOT / "docs" / "theory" / "leakage.md").read_text().split())
    assert "no worst case over observations" in theory
    # Two inputs, one observation in a hundred tells them apart: the capacity is next to nothing,
    # what that observation gives away is everything.
    rows_of = np.array([[0.01, 0.0, 0.99], [0.0, 0.01, 0.99]])
    assert np.log(rows_of.max(0).sum()) == pytest.approx(np.log(1.01))
    assert rows_of[:, 0].max() / rows_of[:, 0].sum() == 1
    edges = " ".join((ROOT / "docs" / "sharp-edges.md").read_text().split())
    assert "ε = 8 at δ = 0 bounds a likelihood ratio by e^8" in edges
    # Gaussian noise has a finite ε at every δ > 0 and a ratio without limit.
    epsilon = rc.epsilon(rc.Gaussian(1.0), rc.Poisson(1.0, 1), 1e-5)
    far = 2 * epsilon
    assert far - 0.5 > epsilon  # ln of the ratio at an output `far` deviations out


def test_every_finding_on_the_studies_names_tests_that_there_are():
    lines = (ROOT / "docs" / "reviewed.md").read_text().splitlines()
    found = [line for line in lines if re.match(r"\| S\d+ \|", line)]
    assert {line.split("|")[1].strip() for line in found} >= {f"S{n}" for n in range(1, 13)}
    for line in found:
        named = re.findall(r"`((?:\w+/)*test_\w+\.py)::(\w+)`", line)
        assert named, line
        for path, name in named:
            folder = ROOT if path.startswith("tests/") else ROOT / "papers" / "tests"
            source = (folder / path).read_text()
            assert re.search(rf"^ *def {name}\(", source, re.MULTILINE), f"{path}::{name}"
