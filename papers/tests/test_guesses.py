"""Errors of an attack that is worse than a guess decide nothing: verdicts recomputed from rows."""

import json
import re
from pathlib import Path

import pytest

import recondite as rc
from recondite_papers.printed import channel as tan
from recondite_papers.tables import channel_claims, channel_verdicts
from recondite_papers.tables.guesses import errs_more, failing, fails, mean_image

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


def stored(*names):
    return [row for name in names for row in json.loads((RESULTS / name).read_text())["rows"]]


def page(study):
    return (ROOT / "docs" / "studies" / f"{study}.md").read_text()


def rows_of_pages(job, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "papers" / "pages"))
    import parts

    return parts.rows(job)


def test_an_attack_fails_where_it_is_no_better_by_either_measure():
    blind = [{"study": "s", "data": "d", "guess": "mean image", "mse_scaled": 0.2, "ssim": 0.1}]
    row = {"data": "d", "mse_scaled": 0.3, "ssim": 0.05}
    assert mean_image(blind, "s", "e") is None
    assert fails(row, blind, "s")
    assert not fails({**row, "ssim": 0.2}, blind, "s")
    assert not fails({**row, "mse_scaled": 0.1}, blind, "s")
    assert not fails(row, [], "s")
    assert failing([row, {**row, "ssim": 0.2}], blind, "s") == (1, 2)
    assert errs_more([row], blind, "s") == 0.2
    assert errs_more([row, {**row, "mse_scaled": 0.1}], blind, "s") is None
    assert errs_more([], blind, "s") is None
    assert errs_more([row], [], "s") is None


def test_guidelines_on_the_batch_rest_on_an_attack_that_fails():
    """Figure 6: at every size the error is above a guess's, so neither trend is a verdict."""
    blind, guide = stored("blind.cpu.json"), stored("channel-guidelines.cifar.json")
    guess = mean_image(blind, "channel", "cifar10")["mse_scaled"]
    found = {v.claim: v for v in channel_claims._batches(guide, blind)}
    for key, defence in (("dp-batch", "dp"), ("constant", "constant")):
        errors = [
            r["mse_scaled"] for r in guide if r["defence"] == defence and "batch/" in r["block"]
        ]
        assert len(errors) == 7
        assert min(errors) > guess
        one = found[tan.CLAIMS[key]]
        assert one.stands == "undecided"
        assert f"({guess:.2f})" in one.evidence
        assert f"| **undecided** | {one.believe} |" in page("channel")
    # What is said of ε: one release, noise s on the clipped average, at two batch sizes.
    multiplier = {size: 1.3 / 64 * size for size in (1, 64)}
    small, large = (
        rc.epsilon(rc.Gaussian(s), rc.Poisson(1.0, 1), 1e-5) for s in multiplier.values()
    )
    assert large < small


def test_channels_are_compared_by_the_intruder(monkeypatch):
    """At equal κ and at equal accuracy: gains of the stored rows, by hand."""
    intruder = rows_of_pages("intruder", monkeypatch)
    inversion = stored("channel-inversion.cifar.json")
    accuracy = rows_of_pages("channel-accuracy", monkeypatch)
    blind = stored("blind.cpu.json")
    (one,) = channel_claims._stronger(accuracy, inversion, blind, intruder)
    assert one.evidence in page("channel")
    assert f"{one.believe} |" in page("channel")
    at = {
        (r["data"], r["defence"], r["value"]): r["share"]
        for r in intruder
        if r["study"] == "channel" and r["model"] == "copy" and r["releases"] == 1
    }
    for data in ("cifar10", "fashion-mnist"):
        for kind, shown in (("white", "white"), ("personalized-paper", "personalized (bound)")):
            gain, natural = at[data, kind, 300.0], at[data, "natural", 300.0]
            assert f"{shown} on {data} {gain:.2f}, natural {natural:.2f}" in one.evidence
    # Settings of the paper's own attack that beat the mean image by a measure, by hand.
    guess = mean_image(blind, "channel", "cifar10")
    good = {
        (r["defence"], r["value"])
        for r in inversion
        if r["value"] and (r["mse_scaled"] < guess["mse_scaled"] or r["ssim"] > guess["ssim"])
    }
    total = len({(r["defence"], r["value"]) for r in inversion if r["value"]})
    assert f"in {total - len(good)} of {total} noisy settings" in one.evidence
    # Without the intruder nothing is decided by an attack that mostly fails.
    (alone,) = channel_claims._stronger(accuracy, inversion, blind, [])
    assert alone.stands == "undecided"


def test_other_networks_of_figure_14_are_undecided():
    rows, blind = stored("channel-networks-inversion.b.json"), stored("blind.cpu.json")
    (one,) = channel_verdicts.verdicts([], [], [], [], [], rows, blind)
    assert one.stands == "undecided"
    assert one.evidence in page("channel")
    assert channel_verdicts.verdicts([], [], [], [], [], rows)[0].stands == "in part"


def test_table_4_is_read_beside_a_guess():
    rows, blind = stored("dirdp-iga.full.json"), stored("blind.cpu.json")
    for kind, pattern in (("none", r"in (\d+) of (\d+) cases"), ("", r"in (\d+) of (\d+) noisy")):
        chosen = [r for r in rows if (r["defence"] == "none") == bool(kind)]
        worse = 0
        for row in chosen:
            guess = mean_image(blind, "dirdp", row["data"])
            worse += row["mse_scaled"] >= guess["mse_scaled"] and row["ssim"] <= guess["ssim"]
        line = next(s for s in page("dirdp").splitlines() if s.startswith("- *It defends as well"))
        assert re.search(pattern, line).groups() == (str(worse), str(len(chosen)))


@pytest.mark.parametrize("blocks", ["elements", "flat"])
def test_records_picked_out_under_a_partition_are_counted(blocks, monkeypatch):
    games = [
        r["picked"]["100"]
        for r in rows_of_pages("intruder", monkeypatch)
        if (r["study"], r.get("blocks")) == ("dirdp", blocks) and r["value"] <= 5
        if "100" in r["picked"]
    ]
    right, count = (sum(g[key] for g in games) for key in ("right", "games"))
    assert f"{right} of {count} games under" in page("dirdp")
