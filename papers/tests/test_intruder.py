"""The four papers under attackers who know the defence: job, table, column and sentences."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from recondite.attacks.posterior.prior import PublicPrior
from recondite.channels.noise import Noise
from recondite.mechanisms import Directional, Gaussian, VonMisesFisher
from recondite_papers.jobs import intruder as job
from recondite_papers.jobs.compare_network import network
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.intruder_attacks import Guarded, bound, on_copies, on_gradients
from recondite_papers.jobs.intruder_scene import scene_of, strongest
from recondite_papers.single_weights import SingleWeights
from recondite_papers.tables import compare_verdicts, intruder, prediction

ROOT = Path(__file__).resolve().parents[2]
STUDIES = {
    "compare": "compare-iga",
    "channel": "channel-inversion",
    "dirdp": "dirdp-iga",
    "dirdp-v1": "dirdp-v1-attacks",
}


def rows(name):
    sys.path.insert(0, str(ROOT / "papers" / "pages"))
    try:
        import parts
    finally:
        sys.path.pop(0)
    return parts.rows(name)


def page(study):
    return (ROOT / "docs" / "studies" / f"{study}.md").read_text()


@pytest.fixture(scope="module")
def data():
    """Two classes of smooth images, 8×8, in [0, 1]."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(220) % 2
    waves = torch.linspace(0, math.pi, 8)
    base = torch.stack(
        [torch.sin(waves)[:, None].expand(8, 8), torch.cos(waves).abs().expand(8, 8)]
    )
    shift = 0.3 * torch.rand(220, 1, 1, generator=generator)
    noise = 0.1 * torch.rand(220, 8, 8, generator=generator)
    images = (0.6 * base[labels] + shift + noise).clamp(0, 1)[:, None].float()
    return Split(
        images[:40], labels[:40], images[40:], labels[40:], 0.0, 1.0, "waves", 2
    )  # fmt: skip


@pytest.fixture(scope="module")
def scene(data):
    return scene_of(data, victims=6, public=150, others=20)


def test_victims_and_public_records_are_apart(data, scene):
    assert torch.equal(scene.victims.images, data.images[:6])
    assert torch.equal(scene.others.images, data.images[6:26])
    assert len(scene.public) == 150
    exact = scene.scores(scene.victims.images)
    assert exact["share"] == pytest.approx(1.0, abs=1e-4)
    assert exact["mse"] == 0.0
    blind = scene.scores(scene.guess.guesses["mse"])
    assert blind["gain"] == pytest.approx(0.0, abs=1e-6)


def test_little_noise_gives_the_record_away_and_much_noise_does_not(data, scene):
    model = network(data.shape, 2, seed=0)
    guarded = [
        Guarded({"defence": "gaussian", "value": 1e-4}, Gaussian(1e-4)),
        Guarded({"defence": "gaussian", "value": 1e3}, Gaussian(1e3)),
        Guarded({"defence": "vmf", "value": 1e6}, VonMisesFisher(1e6), batch=8, releases=(1, 2)),
    ]
    found = on_gradients(model, scene, guarded, steps=1, rank=8, seed=0)
    clear, drowned, batch, pooled = found
    assert clear["picked"]["10"] == {"right": 6, "games": 6, "bound": 1.0}
    assert drowned["picked"]["10"]["right"] <= 4
    assert drowned["picked"]["10"]["bound"] < 0.11
    assert clear["share"] > drowned["share"]
    assert (batch["batch"], batch["releases"], pooled["releases"]) == (8, 1, 2)
    assert clear["share"] == max(clear["shares"].values())
    assert set(clear["shares"]) == {"importance-weights", "gauss-newton"}


def test_signs_and_blocks_are_weighed_but_not_linearised(data, scene):
    model = network(data.shape, 2, seed=0)
    guarded = [
        Guarded({"defence": "vmf", "value": 2.0, "blocks": "elements"}, SingleWeights(2.0)),
        Guarded({"defence": "vmf", "value": 9.0}, Directional(9.0, blocks="layers")),
    ]
    for row in on_gradients(model, scene, guarded, steps=1, rank=8, seed=0):
        assert list(row["shares"]) == ["importance-weights"]


def test_the_bound_is_rero_and_unclipped_gradients_have_none():
    assert bound(Gaussian(1.23), "none", 1, 10) is None
    once, thrice = (bound(Gaussian(1.23), "flat", k, 10) for k in (1, 3))
    assert 0.1 < once < thrice < 1
    # Telling N(0, 1) from N(1/σ, 1) at level 1/n: Φ(Φ⁻¹(1/n) + 1/σ).
    from scipy.stats import norm

    assert once == pytest.approx(norm.cdf(norm.ppf(0.1) + 1 / 1.23), abs=1e-3)
    # A direction needs no clipping, and is compared with another record's.
    assert bound(Directional(5.0, 64), "none", 1, 10) > 0.1


def test_a_noisy_copy_is_undone_as_far_as_its_noise_allows(data, scene):
    prior = PublicPrior(scene.public, rank=10)
    clear, drowned = (
        on_copies(scene, prior, Noise(64, variance), {"defence": "natural"}, (1,), 1.0, 3)[0]
        for variance in (1e-8, 1e4)
    )
    assert clear["picked"]["10"]["right"] == 6
    assert clear["share"] > 0.3 > drowned["share"]
    assert drowned["picked"]["10"]["bound"] < 0.2
    assert (
        clear["attack"]
        == strongest({name: {"share": share} for name, share in clear["shares"].items()})["attack"]
    )


def test_the_job_has_a_block_for_every_table_of_reconstructions():
    named = [*job._COMPARE, *job._CHANNEL, *job._DIRDP, *job._EARLY]
    assert {name.partition("/")[0] for name in named} == set(STUDIES)
    assert len(named) == len(set(named)) == 19


def made(**more):
    row = {
        "study": "compare", "data": "mnist", "model": "mlp", "defence": "vmf", "value": 500.0,
        "batch": 128, "releases": 1, "attack": "gauss-newton", "gain": 0.4, "share": 0.4,
        "gain_interval": [0.3, 0.5], "gain_ssim_interval": [0.1, 0.2], "victims": 24,
        "blind_ssim": 0.31, "blind_mse": 0.05,
        "picked": {"10": {"right": 20, "games": 24, "bound": 0.95},
                   "100": {"right": 15, "games": 24, "bound": 0.61234}},
    }  # fmt: skip
    return {**row, **more}


def test_a_setting_is_broken_where_only_the_intruder_sees_something():
    naive = {"data": "mnist", "defence": "vmf", "batch": 128, "ssim": 0.2, "mse": 0.2}
    lost = {"gain": 0.0, "share": 0.0, "gain_interval": [-0.1, 0.1], "gain_ssim_interval": None}
    none = {"10": {"right": 2, "games": 24, "bound": 0.2}}
    found = [
        made(),
        made(value=75.0, picked=none, **lost),
        made(value=5.0, picked=none, **lost),
    ]
    likeness = {500.0: 0.01, 75.0: 0.01, 5.0: 0.3}
    attacks = [{**naive, "value": v, "ssim_placed": s} for v, s in likeness.items()]
    sorted_out = intruder.open_settings(found, attacks, "compare")
    assert {kind: len(part) for kind, part in sorted_out.items()} == {
        "broken": 1, "safe": 1, "seen": 0, "alarm": 1,
    }  # fmt: skip
    text = intruder.sentence(found, attacks, "compare")
    assert "of 3 attacked settings 2 look safe" in text
    assert "1 are broken by the intruder (VMF noise, batch 128, κ = 500 (mnist))" in text
    assert "1 hold against both (VMF noise, batch 128, κ = 5 (mnist))" in text
    (one,) = intruder.verdict(found, attacks, "compare")
    assert one.stands == "falls"
    clearer = [{**row, "mse": 0.01} for row in attacks]  # the paper's own attack is the stronger
    assert intruder.open_settings(found, clearer, "compare")["alarm"] == []
    assert intruder.verdict([], attacks, "compare") == []


def test_the_column_has_gain_games_and_a_bound_that_is_rounded_up():
    pooled = made(releases=3, gain=0.5, gain_interval=[0.4, 0.6])
    text = intruder.beside([pooled, made()], study="compare", value=500.0)
    first, second = text.split("; 3 pooled: ")
    assert first == "+40% [30, 50]; 1 of 100: 15/24, at most 61.3% (Gauss-Newton)"
    assert second.startswith("+50% [40, 60]")
    assert intruder.beside([made()], value=1.0) == ""
    raw = made(picked={"100": {"right": 1, "games": 9, "bound": None}})
    assert "1 of 100: 1/9, no bound" in intruder.beside([raw])


def test_one_interval_above_zero_by_a_hair_is_no_break():
    assert not intruder.beaten(made(share=0.01, gain_interval=[0.001, 0.02]))
    assert intruder.beaten(made())


@pytest.mark.parametrize("study", STUDIES)
def test_every_page_says_what_its_rows_say(study):
    found = [row for row in rows("intruder") if row["study"] == study]
    if not found:
        pytest.skip("no rows of this paper are stored")
    for one in intruder.verdict(found, rows(STUDIES[study]), study):
        assert one.evidence in page(study)
        assert one.believe in page(study)
    top = page(study).partition("## Which claims stand")[0]
    said = intruder.finding(found, rows(STUDIES[study]), study)
    assert said in top
    counts = intruder.open_settings(found, rows(STUDIES[study]), study)
    safe = len(counts["broken"]) + len(counts["safe"])
    assert f"{len(counts['broken'])} of the {safe} settings" in said


def test_no_attack_beats_a_bound():
    """Right picks are no more than the bound allows, but for chance."""
    for row in rows("intruder"):
        for game in row["picked"].values():
            if game["bound"] is not None:
                expected = game["bound"] * game["games"]
                slack = 3.0 * math.sqrt(max(expected * (1 - game["bound"]), 0.25))
                assert game["right"] <= expected + slack, row


def test_at_equal_accuracy_the_intruder_decides_and_the_failing_attack_does_not():
    accuracy, attacks, blind = rows("compare-accuracy"), rows("compare-iga"), rows("blind")
    found = compare_verdicts.verdicts(accuracy, attacks, rows("compare-signal"), blind)
    alone = next(v for v in found if "equal utility" in v.claim)
    assert alone.stands == "undecided"
    assert "beats the mean image at 0 of 191 accuracies" in alone.evidence
    known = rows("intruder")
    points = {
        d: compare_verdicts.trade_off(accuracy, attacks, d) for d in ("mnist", "fashion-mnist")
    }
    (decided,) = compare_verdicts.matched(points, blind, accuracy, known)
    assert decided.stands in ("stands", "falls", "in part")
    assert decided.evidence in page("compare")


def test_ranks_under_the_intruder_are_those_on_the_page():
    known, signal = rows("intruder"), rows("compare-signal")
    found = prediction.gained(known, signal, "mnist")
    assert len(found) >= 20
    rho = prediction.ranks(found)
    gains = np.array([1 - one.error for one in found])
    assert gains.max() > 0.5  # the attack works where there is little noise
    assert f"{rho['capacity_length']:+.2f}" in page("compare")
    (one,) = prediction.verdict(rows("compare-iga"), signal, rows("blind"), known)
    assert one.evidence in page("compare")


def test_the_lead_of_a_notion_is_an_interval_over_settings():
    """Nothing where two notions rank alike; above 0 where one is perfect and the other random."""

    def made_of(values, errors):
        return [
            prediction.AttackedDefence(
                "gaussian", 1.0, error, True, {"epsilon": value, "capacity_length": -error}
            )
            for value, error in zip(values, errors, strict=True)
        ]

    errors = [float(n) for n in range(1, 21)]
    alike = made_of([-error for error in errors], errors)
    assert prediction.lead(alike) == (0.0, 0.0)
    mixed = np.random.default_rng(1).permutation(20).astype(float)
    low, high = prediction.lead(made_of(mixed, errors))
    rho = prediction.spearmanr(mixed, errors).statistic
    assert 0 < low < 1 + rho < high
    found = [
        one
        for one in prediction.gained(rows("intruder"), rows("compare-signal"), "mnist")
        if one.beats
    ]
    low, high = prediction.lead(found)
    assert f"95% over resampled settings: {low:+.2f} to {high:+.2f}" in page("compare")
