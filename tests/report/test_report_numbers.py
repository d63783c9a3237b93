"""From rows to numbers: points, intervals, improvements, correlations, claims, recommendations."""

import json
import math
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
import synthetic
from scipy import stats

from recondite import Gaussian, Poisson, account
from recondite.attacks.posterior.floors import _packing
from recondite.notions import notions, round_bound
from recondite.report.claims import claims
from recondite.report.correlation import predictions, spearman
from recondite.report.download import csv_text
from recondite.report.improvement import with_improvements
from recondite.report.ladder import standings
from recondite.report.payload import embed, payload_points, series_of
from recondite.report.points import estimate, make_points
from recondite.report.quantities import axis
from recondite.report.rows import StoredRun, number, read_runs
from recondite.report.views import audit_rows, finding
from recondite.report.words import at_least, at_most, figure


def runs_of(rows, directory="."):
    return [StoredRun(0, "demo", directory, tuple(synthetic.plain(rows)))]


def payload(rows):
    runs = runs_of(rows)
    points = with_improvements(make_points(runs))
    broken = {claim.point for claim in claims(points) if claim.violated}
    return points, payload_points(points, broken, series_of(points, runs)[0]), runs


def test_several_seeds_give_a_mean_with_students_interval():
    values = [0.8, 0.9, 0.85]
    found = estimate(values)
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert found.mean == pytest.approx(0.85)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate([0.8]).low is None
    assert estimate([]) is None


def test_attacks_of_one_seed_are_not_counted_as_independent_models():
    rows = synthetic.comparison_rows(seeds=2)
    vmf = next(p for p in make_points(runs_of(rows)) if p.label == "VMF κ = 500")
    assert vmf.seeds == 2
    assert vmf.values["accuracy"].seeds == 2


def test_the_strongest_settings_of_an_attack_speak_for_it():
    """One attack three times with other settings: their average is nobody's success."""
    rows = []
    for steps, ssim, auc in ((10, 0.1, 0.5), (100, 1.0, 0.6), (1000, 0.538, 0.9)):
        for row in synthetic.comparison_rows(seeds=2, attacks=("dlg",)):
            row["attack_options"] = {"images": 8, "options": {"steps": steps}}
            if row["reconstruction"]:
                row["reconstruction"]["ssim_mean"] = ssim
                row["reconstruction"]["mse_mean"] = 1.0 - ssim + 0.02 * row["seed"]
            if row["membership"]:
                row["membership"]["auc"] = auc
            rows.append(row)
    for point in make_points(runs_of(rows)):
        assert point.values["ssim"].mean == 1.0
        assert point.attacks["dlg"]["ssim"].mean == 1.0
        assert point.values["ssim"].seeds == 2
        assert point.values["mse"].mean == pytest.approx(0.01), "seeds of one setting are averaged"
        assert point.values.get("auc") is None or point.values["auc"].mean == 0.9


def test_the_chart_and_the_ladder_show_the_same_game():
    """Candidates alike, or one of each label: the game that the intruder won more often."""
    rows = synthetic.modern_rows()
    for row in rows:
        for game in [one for one in row["identification"] if one["candidates"] == 10]:
            more = min(1.0, game["rate"] + 0.1)
            apart = {"among": "one of each label", "rate": more, "low": more - 0.05, "high": more}
            row["identification"].append({**game, **apart})
    points = make_points(runs_of(rows))
    ladder = standings(points, set())["training", "secret"]
    seen = 0
    for point, standing in zip(points, ladder, strict=True):
        drawn, told = point.values.get("identification"), standing.identification
        assert (drawn is None) == (told is None)
        if drawn is not None and told is not None:
            assert (drawn.mean, drawn.low, drawn.high) == (told.rate, told.low, told.high)
            seen += told.among == "one of each label"
    assert seen > 3


def test_the_strongest_attack_speaks_for_a_point():
    rows = synthetic.comparison_rows(seeds=1, attacks=("dlg", "inverting-gradients"))
    for row in rows:
        if row["attack"] == "dlg":
            row["reconstruction"]["ssim_mean"] = 0.999
    points = make_points(runs_of(rows))
    assert all(point.values["ssim"].attack == "dlg" for point in points)
    worst = max(r["reconstruction"]["ssim_worst"] for r in rows if r["defence"] == "none")
    assert points[0].mean("ssim_worst") == worst


def test_a_bound_is_the_largest_of_its_seeds_and_undefined_if_one_is():
    rows = synthetic.comparison_rows(seeds=2)
    mine = [r for r in rows if r["label"] == "Gaussian σ = 1"]
    mine[0]["notions"]["epsilon"] = 99.0
    mine[1]["notions"]["rero_bound"] = None
    point = next(p for p in make_points(runs_of(rows)) if p.label == "Gaussian σ = 1")
    assert point.notions["epsilon"] == 99.0
    assert point.notions["rero_bound"] is None


def test_only_a_finite_bound_of_the_run_counts():
    points = {p.label: p for p in make_points(runs_of(synthetic.comparison_rows(seeds=1)))}
    assert not points["Undefended"].bounded
    assert not points["Clipping only"].bounded
    assert points["VMF κ = 500"].bounded
    assert points["Natural channel κ = 40"].bounded  # mutual information


def test_improvements_are_those_of_the_paper():
    points, _, _ = payload(synthetic.comparison_rows(seeds=1))
    base, some = points[0], points[5]
    auc, auc0 = some.mean("auc"), base.mean("auc")
    mse, mse0 = some.mean("mse"), base.mean("mse")
    assert some.mean("imp_mia") == pytest.approx((auc0 - auc) / auc0)
    assert some.mean("imp_dra") == pytest.approx((1 / mse0 - 1 / mse) / (1 / mse0))
    assert some.mean("gdc") == pytest.approx((some.mean("imp_mia") + some.mean("imp_dra")) / 2)
    assert base.mean("gdc") == 0


def test_without_an_undefended_model_there_is_no_improvement():
    rows = [r for r in synthetic.comparison_rows(seeds=1) if r["defence"] != "none"]
    assert all(point.mean("gdc") is None for point in payload(rows)[0])


def test_spearman_matches_scipy_with_ties_and_infinities():
    x = np.array([1.0, 2.0, 2.0, 5.0, np.inf, np.inf])
    y = np.array([0.1, 0.3, 0.2, 0.2, 0.9, 0.8])
    finite = np.where(np.isinf(x), 99.0, x)
    assert spearman(x[None], y[None])[0] == pytest.approx(stats.spearmanr(finite, y).statistic)
    assert np.isnan(spearman(np.ones((1, 4)), np.arange(4.0)[None])[0])


def test_values_that_print_alike_are_ties():
    """Eleven bounds of 1.00 whose order is in the tenth digit order nothing."""
    rows = synthetic.comparison_rows(seeds=1, attacks=("inverting-gradients",))
    rows = [r for r in rows if r["defence"] in ("none", "clip", "gaussian", "vmf")]
    for row in rows:
        row["notions"]["rero_bound"] = 1.0 - 1e-9 * row["reconstruction"]["mse_mean"]
    cells = {c.notion: c for c in predictions(make_points(runs_of(rows)))[0].cells}
    assert cells["rero_bound"].rho is None
    assert cells["epsilon"].rho > 0.9


def test_every_notion_is_correlated_with_every_attack():
    table = predictions(make_points(runs_of(synthetic.comparison_rows(seeds=1))))
    assert {(row.attack, row.measure) for row in table} == {
        ("inverting-gradients", "mse"), ("inverting-gradients", "ssim"),
        ("membership-threshold", "auc"),
    }  # fmt: skip
    cell = table[0].cells[0]
    assert cell.low <= cell.rho <= cell.high
    assert cell.rho > 0.9  # oriented: a larger bound, a better reconstruction
    assert cell.points == 12  # channels have no ε


def test_only_notions_that_every_setting_has_are_ranked():
    points = make_points(runs_of(synthetic.comparison_rows(seeds=1)))
    table = predictions(points)
    ranked = {c.notion for c in table[0].cells if c.points == table[0].settings}
    assert "epsilon" not in ranked  # channels have no ε
    said = finding(table)
    assert f"all {table[0].settings} settings" in said
    assert axis("epsilon").label not in said
    noisy = [point for point in points if point.notions["epsilon"] is not None]
    assert "all 12 settings" in finding(predictions(noisy))


def test_too_few_points_have_no_correlation():
    rows = [r for r in synthetic.comparison_rows(seeds=1) if r["defence"] == "vmf"][:6]
    assert all(c.rho is None for c in predictions(make_points(runs_of(rows)))[0].cells)


def test_a_violated_claim_is_found_even_if_the_row_denies_it():
    rows = synthetic.comparison_rows(seeds=1)
    row = next(r for r in rows if r["claims"] and r["label"] == "VMF κ = 100")
    row["claims"][0]["lower"] = row["claims"][0]["claim"] + 1
    first = claims(make_points(runs_of(rows)))[0]
    assert first.violated
    assert first.lower > first.claim


def test_a_test_of_less_than_the_run_has_a_claim_of_its_own():
    rows = synthetic.comparison_rows(seeds=1)
    row = next(r for r in rows if r["claims"] and r["label"] == "VMF κ = 100")
    own = row["claims"][0]
    audit = {"notion": "epsilon", "claim": 70.0, "lower": 3.3, "how": "canary audit"}
    row["claims"].append(audit | {"about": "1 release"})
    points = make_points(runs_of(rows))
    mine = [c for c in claims(points) if points[c.point].label == "VMF κ = 100"]
    mine = {claim.own: claim for claim in mine if claim.notion == "epsilon"}
    assert (mine[True].claim, mine[True].lower) == (own["claim"], own["lower"])
    assert (mine[False].claim, mine[False].lower) == (70.0, 3.3)
    (line,) = audit_rows(claims(points), points, runs_of(rows))
    assert (line["claim"], line["lower"], line["about"]) == ("70.0", "3.30", "1 release")
    assert line["verdict"] == "tested, too weak to tell"
    row["claims"][-1]["lower"] = 35.0
    points = make_points(runs_of(rows))
    assert audit_rows(claims(points), points, runs_of(rows))[0]["verdict"] == "tested, strong"
    # 3.3 is above this run's own ε, and no proof against it: it was another release.
    assert own["claim"] < 3.3


def test_a_membership_attack_is_evidence_at_its_delta_or_a_smaller_one():
    rows = synthetic.comparison_rows(seeds=1)
    for row in rows:
        row["claims"] = []
        if row["membership"]:
            row["membership"] |= {"epsilon_lower": 50.0, "epsilon_lower_delta": 1e-5}
    assert not any(claim.violated for claim in claims(make_points(runs_of(rows))))
    for row in rows:
        if row["membership"]:
            row["membership"]["epsilon_lower_delta"] = 1e-3
    assert any(claim.violated for claim in claims(make_points(runs_of(rows))))


@pytest.mark.skipif(shutil.which("node") is None, reason="no interpreter of the page's language")
def test_bounds_on_the_charts_card_are_rounded_as_everywhere_else():
    # The card said "≤ 2.98" of an ε of 2.984.
    page = (resources.files("recondite.report") / "assets" / "page.js").read_text("utf-8")
    start, end = page.index("const fixed = "), page.index("/** An element with text")
    values = [2.984, 2.99, 0.3, 1e-4, 1.2341e-5, 9.9999e-5, 12345.6, 9999.2, 3.00001e9, 0.0501]
    code = f"""{page[start:end]}
    const values = {values};
    console.log(JSON.stringify(values.map((v) =>
      [figure(v, 3, 1), figure(v, 3, -1), figure(v), fixed(v, 1, 1)])));"""
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    for value, texts in zip(values, json.loads(done.stdout), strict=True):
        up, down, near, tenth = (float(t.replace(",", "").replace("−", "-")) for t in texts)
        assert down <= value <= up <= value * 1.01
        assert down >= value * 0.99
        assert near in (up, down)
        assert value <= tenth < value + 0.1
        if value < 1000:  # of larger ones no whole number is rounded away
            assert up == round_bound(value, 3)
            assert down == round_bound(value, 3, "lower")


def test_a_delta_and_a_floor_are_rounded_to_their_safe_side_too():
    # ε at δ = 1.2341e-5 is no ε at 1.23e-5; a floor of 0.1238 is none of 0.124.
    run = account(Gaussian(1.0), Poisson(0.1, 2), 1.2341e-5)
    assert "at delta 1.24e-05" in str(run)
    assert notions()["epsilon.pld"].remark(run.to_dict()) == "at δ = 1.24e-05"
    assert _packing(0.1238, 4, "it").sentence.endswith("below 0.123.")


def test_bounds_are_never_rounded_in_their_own_favour():
    generator = np.random.default_rng(0)
    for value in np.exp(generator.uniform(-20, 20, 500)):
        for digits in (2, 3, 6):
            assert round_bound(value, digits) >= value
            assert round_bound(value, digits) <= value * (1 + 10.0 ** (2 - digits))
    assert at_most(1.2301) == "1.24"
    assert at_least(1.2399) == "1.23"
    assert at_most(math.inf) == "∞"
    assert figure(None) == "–"
    assert figure(12345.6) == "12,346"
    assert figure(3.2e-5) == "3.20 × 10⁻⁵"


def test_rows_speak_of_infinity_in_words():
    assert number("inf") == math.inf
    assert [number(value) for value in (None, "x", float("nan"), True)] == [None] * 4


def test_csv_cells_cannot_start_a_formula():
    rows = synthetic.comparison_rows(seeds=1)[:2]
    rows[0]["label"], rows[1]["label"] = "=cmd|' /C calc'!A0", "@SUM(A1)"
    rows[0]["status"], rows[0]["reason"] = "failed", "-1+1"
    text = csv_text(runs_of(rows))
    for cell in ("'=cmd|' /C calc'!A0", "'@SUM(A1)", "'-1+1"):
        assert cell in text
    import csv
    import io

    parsed = list(csv.DictReader(io.StringIO(text)))
    assert len(parsed) == 2
    assert float(parsed[1]["utility.test_accuracy"]) == rows[1]["utility"]["test_accuracy"]


def test_embedded_json_cannot_leave_its_element():
    text = embed({"a": "</script><!--&\u2028", "b": [1.5, "inf"]})
    assert "<" not in text
    assert "&" not in text
    assert "\u2028" not in text


def test_a_directory_without_rows_is_one_clear_line(tmp_path):
    with pytest.raises(ValueError, match="run_dirs: .*records.jsonl"):
        read_runs([tmp_path])
    (tmp_path / "records.jsonl").write_text("")
    with pytest.raises(ValueError, match="run_dirs: .*no finished row"):
        read_runs(tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        read_runs([])
