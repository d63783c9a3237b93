"""The ladder, the recommendation and what is required: one rule, for every reader."""

import copy
import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import synthetic

from recondite import Gaussian, Poisson, account
from recondite.cli.comparison import show
from recondite.metrics.membership import MembershipResult
from recondite.notions.exposures import exposures
from recondite.report import build
from recondite.report.answer import Answers
from recondite.report.evidence import FloorSeen, evidence
from recondite.report.intruders import _kind, intruders, victims
from recondite.report.ladder import VIEWS, measured_by, rung
from recondite.report.members import told_apart
from recondite.report.price import price
from recondite.report.recommend import (
    Requirements,
    choose,
    eligible,
    nearest,
    without_accuracy,
)
from recondite.report.released import participation_of, threat_of
from recondite.report.rows import StoredRun
from recondite.report.sentences import proof, risk, who
from recondite.report.words import chance, chance_at_most

SERVER, TOLD = ("training", "secret"), ("training", "known")


def answers_of(rows):
    return Answers.of([StoredRun(0, "demo", ".", tuple(synthetic.plain(rows)))])


def judged(members, others):
    result = MembershipResult("attack", members, others)
    return {"attack": "membership-lira", "membership": result.to_dict()}


def test_naming_a_few_without_a_mistake_beats_a_coin_whatever_the_area_is():
    # Twenty of 200 members stand before everybody else. The area's interval reaches 1/2, and that
    # was said to be no better than guessing: the defence "resisted".
    generator = np.random.default_rng(20)
    rest, others = generator.normal(-0.15, 1, 180), generator.normal(0, 1, 200)
    row = judged(np.concatenate([rest, generator.normal(6, 0.1, 20)]), others)
    assert row["membership"]["auc_low"] <= 0.5
    beats, reach, text = told_apart([row])
    assert beats is True
    assert reach >= 0.09
    assert "named 10% of them" in text
    assert told_apart([judged(rest[:20], others), row])[0] is True


def test_an_attack_that_knows_nothing_seldom_beats_a_coin():
    generator = np.random.default_rng(0)
    rows = [judged(*generator.normal(size=(2, 150))) for _ in range(200)]
    assert sum(told_apart([row])[0] is True for row in rows) <= 18
    bare = {"membership": {"auc": 0.5, "tpr_at_0.01": 0.2}}
    assert told_apart([bare])[0] is None


@pytest.fixture(scope="module")
def modern():
    return answers_of(synthetic.modern_rows(seeds=2))


def by_label(answers, view):
    return {answers.points[one.point].label: one for one in answers.standings[view]}


@pytest.mark.parametrize(
    ("rero", "beats", "contradicted", "expected"),
    [
        (0.3, [True], False, "proven"),  # a bound within the budget needs no failing attack
        (0.3, [False], True, "broken"),  # but a contradicted claim ends every promise
        (0.9, [True, False], False, "broken"),
        (0.9, [False, None], False, "resisted"),
        (None, [None], False, "untested"),
        (None, [], False, "untested"),
        (0.5, [], False, "proven"),
        (0.991, [], False, "untested"),  # however much is allowed, next to no bound is none
        (1.0, [True], False, "broken"),
    ],
)
def test_the_rungs(rero, beats, contradicted, expected):
    budget = 1.0 if rero is not None and rero > 0.99 else 0.5
    assert rung(rero, beats, budget, contradicted=contradicted) == expected


def test_nothing_undefended_is_proven_whatever_the_budget(modern):
    """The page lets a reader allow 10 in 10."""
    for view in VIEWS:
        for one in modern.standings[view]:
            point = modern.points[one.point]
            if point.undefended or (one.rero is not None and one.rero >= 0.99):
                assert one.rung(1.0) != "proven"
                assert one.point not in modern.payload()[" ".join(view)]["rero"]
    steps = intruders(modern)[0]["ladder"]
    assert all(step["most"] is None for step in steps if step["label"] == "Undefended")


@pytest.mark.parametrize(("candidates", "games", "beats"), [(2, 5, None), (2, 6, False)])
def test_games_too_few_to_beat_a_guess_resist_nothing(candidates, games, beats):
    rows = synthetic.modern_rows(seeds=1)
    (row,) = [r for r in rows if r["attack"] == "identification" and r["label"] == "VMF κ = 2500"][
        :1
    ]
    game = {**row["identification"][0], "candidates": candidates, "games": games, "bound": None}
    row["identification"] = [game | {"rate": 0.5, "low": 0.0, "high": 1.0, "blind": 0.5}]
    (finding,) = [f for f in by_label(answers_of([row]), SERVER)["VMF κ = 2500"].findings]
    assert finding.beats is beats
    member = next(r for r in rows if r["membership"])
    for count, told in ((3, None), (4, False)):
        member["membership"] |= {"members": count, "nonmembers": count, "auc": 0.5, "auc_low": 0.3}
        ((found,),) = (s.findings for s in answers_of([member]).standings["model", "secret"])
        assert found.beats is told


def test_a_bound_speaks_only_of_intruders_who_see_no_more(modern):
    server, told, update = (by_label(modern, view) for view in (*VIEWS[:2], ("update", "secret")))
    name = "Gaussian σ = 1"
    ran = next(p for p in modern.points if p.label == name)
    assert server[name].rero == pytest.approx(ran.notions["rero_bound"])
    assert server[name].rung() == "proven"
    # Secret participation is worth nothing to a server that knows who took part when: only the
    # bound of the game that told it counts.
    assert told[name].rero > server[name].rero
    # That is an average over how often records took part. It says nothing of one update that the
    # record is in, and neither does secret participation.
    assert update[name].rero is None
    assert told[name].epsilon is None
    assert update[name].epsilon is None
    # The trained model is computed from the training: the same bound holds for it.
    assert by_label(modern, ("model", "secret"))[name].rero == server[name].rero
    # What is never sampled hides nothing: its account holds for whoever is told.
    rows = synthetic.comparison_rows(seeds=1)
    for row in rows:
        row["privacy"]["schedule"] = {"sampling": "shuffled"}
    assert by_label(answers_of(rows), TOLD)[name].rero == ran.notions["rero_bound"]


def test_evidence_counts_against_whoever_sees_at_least_as_much(modern):
    found = by_label(modern, SERVER)["VMF κ = 2500"]
    assert {finding.threat for finding in found.findings} == {"update", "training", "model"}
    assert {f.participation for f in found.findings} == {"secret"}
    known = by_label(modern, TOLD)["VMF κ = 2500"]
    assert {f.participation for f in known.findings} == {"secret", "known"}
    alone = by_label(modern, ("model", "secret"))["VMF κ = 2500"]
    assert {f.threat for f in alone.findings} == {"model"}
    assert found.strongest.beats


def test_attacks_are_compared_and_never_averaged():
    rows = synthetic.modern_rows(seeds=2)
    weak = copy.deepcopy([r for r in rows if r["attack"] == "identification"])
    for row in weak:
        row["attack_options"]["options"] = {"candidates": 10}
        for item in row["identification"]:
            item |= {"rate": item["blind"], "low": 0.0, "high": 1.0}
    alone, both = answers_of(rows), answers_of(rows + weak)
    for view in (SERVER, TOLD):
        for one, other in zip(alone.standings[view], both.standings[view], strict=True):
            assert one.identification == other.identification
            assert one.rung() == other.rung()


def test_seeds_of_one_setting_are_averaged_and_the_largest_bound_counts():
    rows = synthetic.modern_rows(seeds=2)
    mine = [r for r in rows if r["attack"] == "identification" and r["label"] == "VMF κ = 20"]
    for row, rate, bound in zip(mine, (0.2, 0.4), (0.5, 0.6), strict=True):
        row["identification"][0] |= {"rate": rate, "low": rate - 0.1, "high": rate + 0.1}
        row["identification"][0]["bound"] = bound
    point = next(p for p in answers_of(rows).points if p.label == "VMF κ = 20")
    (ten,) = (
        one
        for one in evidence(point).chances
        if (one.candidates, one.participation) == (10, "secret")
    )
    assert (ten.rate, ten.low, ten.high) == pytest.approx((0.3, 0.2, 0.4))
    assert (ten.bound, ten.games) == (0.6, 800)


def test_of_a_portfolio_the_winner_is_named():
    rows = synthetic.modern_rows(seeds=1, attacks=("inverting-gradients",))
    rows[0]["attack"] = "strongest"
    rows[0]["reconstruction"] |= {"gain_dlg": 0.2, "gain_analytic": 0.9, "gain_mean-image": None}
    assert evidence(answers_of(rows[:1]).points[0]).findings[0].attack == "Portfolio (Analytic)"


def test_no_better_than_guessing_is_no_break_and_a_copy_of_one_victim_is():
    rows = synthetic.modern_rows(seeds=1, attacks=("inverting-gradients",))
    point = "Gaussian σ = 4"
    stand = by_label(answers_of(rows), ("update", "secret"))[point]
    assert stand.rung() == "resisted"
    assert "no better than guessing" in stand.strongest.sentence
    for row in rows:
        if row["label"] == point:
            row["reconstruction"]["ssim"][0] = 0.7
    stand = by_label(answers_of(rows), ("update", "secret"))[point]
    assert (stand.rung(), stand.legible) == ("broken", True)


def test_rows_of_the_first_version_still_load_and_are_not_measured():
    rows = synthetic.comparison_rows(seeds=1, attacks=("inverting-gradients",))
    answers = answers_of(rows)
    found = by_label(answers, SERVER)
    assert found["Gaussian σ = 4"].rung() == "proven"
    assert found["Natural channel κ = 10"].rung() == "untested"
    assert "not measured" in found["Natural channel κ = 10"].strongest.sentence
    assert found["Undefended"].rung() == "broken", "SSIM 0.99 needs no guess beside it"
    assert threat_of(rows[0]) == "update"
    told = {**rows[0], "claims": [{"lower": 3.5, "claim": 9.0, "about": "12 of 16 right"}]}
    told["reconstruction"] = {**told["reconstruction"], "ssim": [0.1], "ssim_worst": 0.1}
    stand = answers_of([told]).standings["update", "secret"][0]
    assert stand.rung() == "broken"
    assert "12 of 16 right" in stand.strongest.sentence


def test_what_is_recommended_is_proven_defended_and_illegible(modern):
    for view, level in itertools.product(VIEWS, np.linspace(0.3, 1, 15)):
        limits = Requirements(accuracy=float(level)).limits()
        chosen = choose(modern.ranked[view], limits)
        able = [
            one
            for one in modern.standings[view]
            if one.rung() == "proven"
            and not one.legible
            and (modern.points[one.point].mean("accuracy") or 0) >= level
        ]
        assert (chosen is None) == (not able)
        if chosen is not None:
            best = max(modern.points[one.point].mean("accuracy") for one in able)
            assert modern.points[chosen.point].mean("accuracy") == pytest.approx(best, rel=1e-5)
            assert modern.points[chosen.point].bounded


def test_what_is_left_out_of_the_ranked_list_is_never_the_answer():
    rows = synthetic.modern_rows(seeds=1)
    for row in rows:
        if row["defence"] == "vmf":
            row["utility"]["test_accuracy"] -= 0.2
    modern, generator = answers_of(rows), np.random.default_rng(0)
    for view in (SERVER, TOLD):
        every, kept = eligible(modern.points, modern.standings[view]), modern.ranked[view]
        assert len(kept) < len(every)
        for _ in range(200):
            asked = Requirements(
                *(float(x) if coin < 0.6 else None
                  for x, coin in zip(
                      (np.exp(generator.uniform(-1, 4)), *generator.uniform(0.1, 1, 3)),
                      generator.random(4), strict=True))
            ).limits()  # fmt: skip
            assert choose(every, asked) == choose(kept, asked)


def test_the_contradicted_and_the_named_are_never_recommended():
    rows = synthetic.modern_rows(seeds=1)
    name = answers_of(rows).gate(SERVER, Requirements())[1].split(":")[0].removeprefix("met by ")
    for row in rows:
        if row["label"] == name:
            row["claims"] = [{"notion": "epsilon", "claim": 1.0, "lower": 2.0, "violated": True}]
    assert name not in answers_of(rows).gate(SERVER, Requirements())[1]
    rows = synthetic.modern_rows(seeds=1)
    for row in rows:
        for item in row["identification"]:
            if row["label"] == name and item["candidates"] == 10:
                item |= {"rate": 0.99, "low": 0.97, "high": 1.0, "bound": None}
    assert name not in answers_of(rows).gate(SERVER, Requirements(epsilon=1e9))[1]


def test_a_game_won_more_often_than_its_bound_allows_contradicts_it():
    rows = synthetic.modern_rows(seeds=1)
    for row in rows:
        if row["attack"] == "identification" and row["label"] == "VMF κ = 100":
            row["identification"][0] |= {"rate": 0.9, "low": 0.88, "high": 0.92}
    answers = answers_of(rows)
    assert {answers.points[i].label for i in answers.contradicted} == {"VMF κ = 100"}
    assert by_label(answers, ("model", "known"))["VMF κ = 100"].rung() == "broken"


def test_the_answer_gives_up_accuracy_or_says_that_nothing_protects(modern):
    lines = modern.lines(SERVER)
    assert len(lines) == 3
    assert "Nothing tried protects at 89.0% (undefended −5): give up" in lines[0]
    assert max(map(len, lines)) <= 80
    assert "Gaussian σ = 1" in lines[0]
    assert lines[1].startswith("No intruder picks you out of 10 in over ")
    assert "; told when you took part: " in lines[1]
    assert "safest" not in " ".join(lines)
    none = answers_of([r for r in synthetic.comparison_rows(seeds=1) if r["defence"] == "vmf"])
    told = none.lines(TOLD)
    assert told[0] == "Nothing tried is proven against threat training, participation known."
    assert told[1].endswith("no proof.")
    bare = answers_of(synthetic.comparison_rows(seeds=1, attacks=("none",)))
    assert "Not attacked." in " ".join(bare.lines(SERVER))


@pytest.mark.parametrize(("key", "head"), [("test_r2", "R²"), ("test_perplexity", "perplexity")])
def test_models_without_an_accuracy_show_what_they_have(key, head, tmp_path, capsys):
    """They are not recommended by it, and what is proven of them is not denied either."""
    rows = synthetic.modern_rows(seeds=1)
    for row in rows:
        row["utility"] = {key: 0.125}
    answers = answers_of(rows)
    first, second, _ = answers.lines(SERVER)
    assert first == f"No defence is recommended: that goes by accuracy; compare {head} below."
    assert second.startswith("Proven: ")
    assert head in answers.nothing(SERVER)
    show(answers, SERVER, list(rows), "demo")
    shown = capsys.readouterr().out
    assert re.search(rf"defence +rung +{head} ", shown)
    assert "0.125" in shown
    page = build([synthetic.write(tmp_path, rows)], tmp_path / "r.html").read_text("utf-8")
    assert f">{head[:1].upper()}{head[1:]}" in page
    assert "Nothing tried here is proven" not in page
    assert "None is recommended here" in page


@pytest.mark.parametrize(
    ("rate", "bound", "limit"),
    [(0.96, 0.9908, "99.1%."), (0.96, 1.0, "100%."), (0.47, None, "100%.")],
)
def test_the_answer_says_what_was_seen_where_participation_is_known(rate, bound, limit):
    """A proof for secret participation is no answer to a server that knows who took part."""
    answers = answers_of(synthetic.modern_rows(seeds=1))
    one = answers.choice(SERVER, Requirements().limits())[0]
    stands = answers.standings[TOLD]
    chances = tuple(replace(c, rate=rate) for c in stands[one.point].chances)
    stands[one.point] = replace(stands[one.point], rero=bound, chances=chances)
    lines = answers.lines(SERVER)
    assert lines[1].endswith(f"; told when you took part: {limit}")
    assert lines[2].endswith(f"blind 10%), told {100 * rate:g}%.")
    assert max(map(len, lines)) <= 80
    assert " at δ = " in lines[2]
    uncovered = answers.said(SERVER, one)["plain"]["uncovered"]
    assert f"picked out {10 * rate:g} in 10 times" in uncovered
    one_update = " ".join(answers.lines(("update", "secret")))
    assert "told" not in one_update


def test_games_above_their_bound_by_chance_are_shown_with_their_interval():
    """'41% ≤ 35%' was printed of twenty games."""
    answers = answers_of(synthetic.modern_rows(seeds=1))
    one = answers.choice(SERVER, Requirements().limits())[0]
    stands = answers.standings[TOLD]
    chances = tuple(replace(c, rate=0.41, low=0.2, high=0.63) for c in stands[one.point].chances)
    stands[one.point] = replace(stands[one.point], rero=0.35, chances=chances)
    second, third = answers.lines(SERVER)[1:]
    assert second.endswith("; told when you took part: 35%.")
    assert third.endswith(", told 41% (95%: 20–63).")
    said = answers.said(SERVER, one)
    assert "more than 35% of cases, and 41% (95%: 20–63) was seen" in said["promise"]
    assert "4.1 in 10 times of 400, which may be 2 to 6.3 in 10" in said["plain"]["uncovered"]


def test_the_risk_is_a_chance_with_its_proof(modern):
    one = modern.ranked[SERVER][0]
    first = modern.said(SERVER, one)["risks"][0]
    assert first.startswith("An intruder who knows everyone else and sees the whole training ")
    assert "without being told in which steps your record took part picks your record" in first
    assert "out of 10 in" in first
    assert "no such intruder can exceed" in first
    assert first.endswith("blind: 10%.")
    assert len(modern.said(SERVER, one)["risks"]) == 3
    picked = modern.standings[SERVER][one.point].chances[0]
    apart = risk(SERVER, replace(picked, among="one of each label"), 0.5)
    assert "out of 10, one of each label, in" in apart
    assert "no bound is proven" in risk(SERVER, picked, 0.9999)
    assert "without being told" not in who(("update", "secret"))


def test_a_promise_says_what_the_intruder_is_not_told_and_100_percent_is_none(modern):
    """Its own sentence, not the next one: sentences are quoted alone."""
    point, stand = (of[modern.ranked[SERVER][0].point]
                    for of in (modern.points, modern.standings[SERVER]))  # fmt: skip
    assert "without being told in which steps" in proof(point, stand)
    plain = modern.said(SERVER, modern.ranked[SERVER][0])["plain"]["proven"]
    assert plain.startswith("Nobody who watches the whole training, without being told when your")
    assert "without" not in modern.said(TOLD, modern.ranked[TOLD][0])["plain"]["proven"]
    empty = proof(point, replace(stand, rero=0.9999))
    assert "100%" not in empty
    assert empty.startswith("ε ≤ ")


def test_a_bound_of_features_alone_says_so_wherever_it_is_said(capsys):
    """Labels go with noisy records as they are: whoever uses them has fewer candidates left."""
    rows = synthetic.modern_rows(seeds=1)
    for row in rows:
        if row["defence"] == "natural-channel":
            subject = "one record's features"
            row["notions"] |= {"subject": subject, "rero_bound": 0.2, "epsilon": 1}
        else:
            row["notions"] |= {"rero_bound": 1.0, "epsilon": 50}
            row["identification"], row["exposures"] = [], []
    answers = answers_of(rows)
    second = answers.lines(SERVER)[1]
    assert second.startswith("Labels aside, no intruder picks you out of 10 in over 20%")
    for one in answers.ranked[SERVER]:
        said = answers.said(SERVER, one)
        aside = answers.points[one.point].open_labels
        assert said["promise"].startswith("Labels aside, no") == aside
        assert all(("leaves labels aside" in text) == aside for text in said["risks"])
        assert ("leaves the label aside" in said["plain"]["proven"]) == aside
    asked = Requirements(epsilon=2.0)
    assert answers.gate(SERVER, asked)[1].endswith("labels are not protected")
    show(answers, SERVER, rows, "demo")
    assert "labels are open" in " ".join(capsys.readouterr().out.split())


def test_every_intruder_has_its_tables(modern):
    tables = {one["key"]: one for one in intruders(modern)}
    assert list(tables) == [" ".join(view) for view in VIEWS]
    server = tables["training secret"]
    order = [line["rung"] for line in server["ladder"]]
    assert order == sorted(order, key=["proven", "resisted", "untested", "broken"].index)
    assert server["counts"] == [10, 100, 1000]
    assert not server["sandwich"]
    line = tables["update secret"]["sandwich"][0]
    assert line["floors"][0]["kind"] == "bound"
    assert "untrained model" in line["victims"]
    assert "labels told" in line["victims"]
    assert victims(modern.points) == [line["victims"]]
    floor = FloorSeen("update", 0.5, False, False, "", "")
    assert _kind(floor, evidence(modern.points[0]).rebuilt[0]) == "estimate, undercut here"
    assert any(
        "no better than guessing" in one["verdict"] for one in tables["update secret"]["sandwich"]
    )


def test_settings_that_a_table_has_no_room_for_are_counted(modern, monkeypatch):
    whole = next(one for one in intruders(modern) if one["key"] == "training secret")
    monkeypatch.setattr("recondite.report.intruders.MOST", 8)
    cut = next(one for one in intruders(modern) if one["key"] == "training secret")
    assert len(cut["ladder"]) == 8
    assert cut["tally"] == whole["tally"]
    assert sum(cut["tally"].values()) == len(whole["ladder"]) == 8 + len(cut["left_out"])
    shown = [line["rung"] for line in cut["ladder"]]
    assert set(shown) == {rung for rung, count in whole["tally"].items() if count}
    below = [rung for most, rung in cut["left_out"] if most is None or most > 0.5]
    assert shown.count("broken") + below.count("broken") == whole["tally"]["broken"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("eps<=8", "epsilon<=NUMBER"),
        ("epsilon", "is not understood"),
        ("epsilon>=8", "write epsilon<=8"),
        ("accuracy<=0.8", "write accuracy>=0.8"),
        ("accuracy>=80", "did you mean 0.8"),
        ("rero<=nan", "a number above 0"),
        ("epsilon<=-1", "a number above 0"),
    ],
)
def test_a_requirement_that_is_wrong_is_one_line(text, complaint):
    with pytest.raises(ValueError, match="require") as error:
        Requirements.parse([text])
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_requirements_hold_together(modern):
    asked = Requirements.parse(["epsilon <= 8", "accuracy>=0.5", "identification≤0.4"])
    assert asked == Requirements(epsilon=8, accuracy=0.5, identification=0.4)
    assert asked.limits() == {"epsilon": 8, "identification": 0.4, "accuracy": 0.5}
    assert Requirements().limits() == {"rero": 0.5}
    with pytest.raises(ValueError, match="twice"):
        Requirements.parse(["rero<=0.5", "rero<=0.3"])
    met, line = modern.gate(SERVER, asked)
    assert met
    assert line.startswith("met by ")
    met, line = modern.gate(SERVER, Requirements(epsilon=8, accuracy=0.99))
    assert not met
    assert "accuracy" in line
    assert "epsilon" not in line, "the nearest keeps the proof and lacks only accuracy"
    assert modern.gate(TOLD, Requirements(epsilon=8))[1].endswith("epsilon not proven (<=8 asked)")
    assert nearest([], {}) is None
    assert without_accuracy({"accuracy": 0.5, "rero": 0.2}) == {"rero": 0.2}


def test_choosing_has_a_price_and_says_when_it_is_zero():
    rows = synthetic.comparison_rows(seeds=2)
    points = answers_of(rows).points
    two = [p for p in points if p.label in ("Gaussian σ = 2", "Gaussian σ = 4")]
    lines = price(points, two)
    assert "zero here, because the records are public" in lines[0]
    total = 2 * sum(p.notions["epsilon"] for p in two)
    shown = float(lines[1].split("ε ≤ ")[1].split(" ")[0])
    assert total <= shown <= 1.01 * total
    assert "4 trained models" in lines[1]
    assert "no finite ε" in lines[-1]
    private = answers_of(synthetic.comparison_rows(seeds=1, public=False)).points
    noisy = [p for p in private if math.isfinite(p.notions["epsilon"] or math.inf)]
    assert "costs their composition" in price(noisy, noisy)[-1]
    assert "zero" not in " ".join(price(noisy, noisy))


def test_chances_are_short_and_bounds_round_up():
    assert [chance(x) for x in (0.296, 0.004, 1.0, 0.0)] == ["30%", "0.4%", "100%", "0%"]
    assert [chance_at_most(x) for x in (0.32221, 0.1, 0.00123, 0.9999999)] == [
        "32.3%", "10%", "0.123%", "100%",
    ]  # fmt: skip
    for value in np.random.default_rng(0).uniform(0, 1, 500):
        assert float(chance_at_most(value)[:-1]) >= 100 * value - 1e-12


def test_a_row_that_stores_bounds_for_other_intruders_has_them_on_the_ladder():
    rows = synthetic.plain(synthetic.modern_rows(seeds=2))
    name = "Gaussian σ = 1"
    for row in rows:
        if row["label"] == name:
            row["exposures"] = [
                {"threat": threat, "participation": "known", "epsilon": epsilon + row["seed"],
                 "rero": rero, "prior": 0.1, "delta": 1e-5, "releases": 1, "relation": "",
                 "reason": ""}
                for threat, epsilon, rero in (("update", 4.0, 0.4), ("training", 30.0, 0.8))
            ]  # fmt: skip
    answers = answers_of(rows)
    update, told = by_label(answers, ("update", "secret"))[name], by_label(answers, TOLD)[name]
    worst = max(row["seed"] for row in rows)
    # The worst seed's; for one update it says nothing whether participation is secret.
    assert (update.epsilon, update.rero) == (4.0 + worst, 0.4)
    assert by_label(answers, ("update", "known"))[name].epsilon == update.epsilon
    assert (told.epsilon, told.rero) == (30.0 + worst, min(0.8, told.rero))
    assert by_label(answers, ("model", "known"))[name].epsilon == told.epsilon
    met, line = answers.gate(("update", "secret"), Requirements.parse(["epsilon<=8"]))
    assert met, line
    assert not answers.gate(TOLD, Requirements.parse(["epsilon<=8"]))[0]
    # Without them there is no ε, and the row says why.
    bare = by_label(answers_of(synthetic.modern_rows(seeds=2)), ("update", "secret"))[name]
    assert bare.epsilon is None
    assert "before such" in bare.unproven


def test_a_run_that_a_record_is_hardly_ever_in_says_nothing_of_the_update_that_it_is_in():
    """Bounds of a run are averages over records, most of which took part in no step of this one."""
    stored = account(Gaussian(0.5), Poisson(0.01, 10), 1e-5).to_dict()
    one, run = exposures(stored)
    assert run.rero < 0.2
    assert one.rero > 0.7
    rows = synthetic.plain(synthetic.modern_rows(seeds=2))
    name = "Gaussian σ = 1"
    for row in rows:
        if row["label"] == name:
            row["exposures"] = [vars(one), vars(run)]
            for game in row["identification"]:
                game["bound"] = 0.15
    answers = answers_of(rows)
    assert by_label(answers, TOLD)[name].rero == 0.15
    for side in ("secret", "known"):
        stand = by_label(answers, ("update", side))[name]
        assert (stand.rero, stand.epsilon) == (one.rero, one.epsilon)
        assert stand.rung() != "proven"
        assert set(stand.bounds) == {10}


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"threat": "training"}, {"training secret"}),
        ({"threat": "training", "side": "known"}, {"training secret", "training known"}),
        ({"threat": "training", "sampling": "shuffled"}, {"training secret", "training known"}),
        ({"threat": "update"}, {"update secret", "update known"}),
        ({"threat": "update", "releases": 20}, set()),
    ],
)
def test_a_floor_says_nothing_of_an_intruder_who_sees_more(row, shown):
    """A floor against somebody who is not told who took part when is none against one who is."""
    (one,) = [
        found
        for found in synthetic.modern_rows(seeds=1)
        if found["label"] == "VMF κ = 2500" and found["reconstruction"]
    ][:1]
    one |= {"threat": row["threat"], "attack_options": {"participation": row.get("side")}}
    one["privacy"]["schedule"] = {"sampling": row.get("sampling", "poisson")}
    one["reconstruction"]["releases"] = row.get("releases", 1)
    tables = {table["key"]: table["sandwich"] for table in intruders(answers_of([one]))}
    assert {key for key, lines in tables.items() if any(x["floors"] for x in lines)} == shown


def test_measures_of_a_view_are_of_attacks_that_saw_no_more(modern):
    point = modern.points[by_label(modern, SERVER)["VMF κ = 2500"].point]
    whole = {threat_of(row) for row in point.rows if row.get("reconstruction")}
    seen = measured_by(point, SERVER)
    assert whole
    assert "gain" in seen
    for view in VIEWS:
        mine = measured_by(point, view)
        if view[0] not in whole and view[0] != "training":
            assert "gain" not in mine


def test_games_that_know_batches_of_one_size_are_asked_for_by_the_other_participation(capsys):
    """Rows of before say "secret" too: there is no such game among batches of one size."""
    rows = [row for row in synthetic.modern_rows(seeds=1) if row["attack"] == "identification"]
    rows = [row for row in rows if row["threat"] == "training"]
    for row in rows:
        row["privacy"]["schedule"] = {"sampling": "fixed-size"}
    answers = answers_of(rows)
    assert not any(one.findings or one.chances for one in answers.standings[SERVER])
    assert all(one.chances for one in answers.standings[TOLD])
    show(answers, SERVER, rows, "demo")
    assert "participation secret: try --participation known" in " ".join(
        capsys.readouterr().out.split()
    )


def test_several_updates_of_one_record_are_more_than_one_update():
    one = {"threat": "update", "reconstruction": {"releases": 1}, "attack_options": {}}
    many = {**one, "reconstruction": {"releases": 20}}
    assert (threat_of(one), participation_of(one)) == ("update", "secret")
    assert (threat_of(many), participation_of(many)) == ("training", "known")


def test_one_update_is_one_that_the_record_is_in_whoever_knows_of_it(modern):
    """Played with the record in the batch: the game counts whether or not that is called secret."""
    rows = synthetic.plain(synthetic.modern_rows(seeds=1))
    row = next(row for row in rows if row["label"] == "Gaussian σ = 1")
    game = {"candidates": 10, "rate": 0.4, "low": 0.3, "high": 0.5, "confidence": 0.95,
            "games": 90, "runs": 1, "participation": "known", "bound": 0.6, "relation": "",
            "reason": ""}  # fmt: skip
    rows.append({**row, "key": "update", "attack": "identification", "threat": "update",
                 "reconstruction": None, "membership": None, "identification": [game]})  # fmt: skip
    for side in ("secret", "known"):
        one = by_label(answers_of(rows), ("update", side))["Gaussian σ = 1"]
        assert one.identification.rate == 0.4
        assert any(finding.beats for finding in one.findings)
