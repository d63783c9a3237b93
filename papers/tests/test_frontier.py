"""The frontier's program: its scores against the library's game, its laws, its page."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recondite.attacks.identification import IdentificationGame, Turn
from recondite.gradients.clipping import Automatic, Clip, ClipLayers, Psac, Scale
from recondite.mechanisms import Gaussian, Units
from recondite.training.low_pass import LowPass
from recondite_papers.frontier import copies, risk, training
from recondite_papers.frontier.banks import Factors, Head, Net, network
from recondite_papers.frontier.batches import Batches, FrontierPlan
from recondite_papers.frontier.defences import DEFENCES, FrontierRun
from recondite_papers.frontier.releases import Filter
from recondite_papers.frontier.scattering import Scattering
from recondite_papers.frontier.training import Intruder, private
from recondite_papers.frontier.world import Sizes, views

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
PLAN = FrontierPlan(records=30, per_epoch=3, epochs=3, victims=5)
POOL = 7
BY_NAME = {defence.name: defence for defence in DEFENCES}
SETTINGS = {
    "gaussian": 0.7, "gaussian-per-layer": 0.5, "gaussian-automatic": 0.7, "gaussian-psac": 0.7,
    "directional": 400.0, "vmf": 300.0, "partitioned": 60.0,
}  # fmt: skip


class _Features(nn.Module):
    """A head as the library sees it."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 10, bias=False)

    def forward(self, x):
        return self.linear(x)


def _bound(rule, layers):
    if rule == "per-layer":
        each = 1.0 / math.sqrt(len(layers))
        return ClipLayers((each,) * len(layers)), Units((each,) * len(layers), sizes=layers)
    made = {"flat": Clip, "automatic": Automatic, "psac": Psac, "scale": Scale}[rule](1.0)
    return made, Units((1.0,))


def _played(monkeypatch, bank, runs, blocks, images, labels, sampling):
    """The program's games, and the library's on what the program released."""
    batches = Batches.draw(PLAN, sampling, 3)
    steps = []
    look = training._look

    def watched(bank, games, intruder, found, parts, releaser, sums, count, taken):
        look(bank, games, intruder, found, parts, releaser, sums, count, taken)
        release = releaser.release.clone()
        for family in found:
            if family.kind == "additive":
                release[family.runs] += releaser.noise
        steps.append((bank.flat.clone(), sums.clone(), release))

    monkeypatch.setattr(training, "_look", watched)
    victims = PLAN.victims
    inputs = torch.cat([images[:victims], images[PLAN.records :]])
    named = torch.cat([labels[:victims], labels[PLAN.records :]])
    if isinstance(bank, Head):
        bank.keep(inputs.unsqueeze(1), victims)
    games = private(
        bank, runs, PLAN, batches, lambda index: images[index].unsqueeze(1), labels, blocks,
        seed=5, intruder=Intruder(inputs.unsqueeze(1), named, POOL),
    )  # fmt: skip
    return games, steps, batches


def _library(run, place, bank, blocks, model, images, labels, steps, batches):
    mechanism = run.defence.mechanism(run.value, bank.dim, blocks)
    bound, units = _bound(run.defence.rule, bank.layers)
    if run.defence.rule == "per-layer":
        mechanism = Gaussian(run.value, dim=bank.dim, clip_norm=math.sqrt(len(bank.layers)))
    victims = PLAN.victims
    game = IdentificationGame(
        model, mechanism, units, bound, targets=list(range(victims)),
        target_records=(images[:victims], labels[:victims]),
        pool=(images[PLAN.records :], labels[PLAN.records :]),
        schedule=PLAN.schedule(run.defence.sampling),
    )  # fmt: skip
    for step, (flat, sums, release) in enumerate(steps):
        torch.nn.utils.vector_to_parameters(flat[place], model.parameters())
        there = batches.index[step][batches.mask[step] > 0].tolist()
        seen = release[place]
        if run.defence.noise == "directional":
            # The stand-in of the library shrinks; the program divides the shrinkage out.
            seen = seen / mechanism.stand_in(len(there))[1]
        game.watch(Turn(release=seen, total=sums[place], records=there))
    return game


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
@pytest.mark.parametrize("model", ["head", "net"])
def test_scores_are_those_of_the_identification_game(monkeypatch, model, sampling):
    torch.manual_seed(0)
    count = PLAN.records + POOL
    labels = torch.arange(count) % 10
    names = ["gaussian"] if sampling == "allocation" else list(SETTINGS)
    if model == "head":
        images = torch.randn(count, 40)
        names = [n for n in names if n != "gaussian-per-layer"]
        bank, other = Head(len(names), 40, 10, CPU), _Features(40)
        bank.flat += 0.1 * torch.randn_like(bank.flat)
        blocks = (40,) * 10
    else:
        images = torch.randn(count, 1, 28, 28)
        bank, other = Net([network((1, 28, 28), 1)] * len(names), CPU), network((1, 28, 28), 1)
        blocks = bank.layers
    runs = [FrontierRun(replace(BY_NAME[n], sampling=sampling), SETTINGS[n], 0.5) for n in names]
    games, steps, batches = _played(monkeypatch, bank, runs, blocks, images, labels, sampling)
    for place, run in enumerate(runs):
        game = _library(run, place, bank, blocks, other, images, labels, steps, batches)
        for ours, theirs in ((games.known, game.known), (games.secret, game.secret)):
            assert np.abs(theirs).max() > 0.01
            np.testing.assert_allclose(
                ours[place].numpy(), theirs, rtol=2e-3, atol=2e-3 * np.abs(theirs).max()
            )


@pytest.mark.parametrize("rule", ["flat", "automatic", "psac", "scale", "per-layer"])
def test_factors_are_the_librarys(rule):
    squared = torch.rand(1, 50, 3, dtype=torch.float64) * torch.logspace(-6, 4, 50)[None, :, None]
    bound, _ = _bound(rule, (1, 1, 1))
    ours = Factors([rule], 1.0, CPU)(squared)[0]
    theirs = bound.factors(squared[0])
    if rule == "per-layer":  # in units of each layer's bound
        theirs = theirs * math.sqrt(3.0)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def test_the_filter_is_the_librarys():
    weights = nn.Parameter(torch.zeros(4))
    theirs = LowPass(torch.optim.SGD([weights], lr=1.0))
    ours = Filter([False, True], 4, CPU)
    for _ in range(5):
        gradient = torch.randn(4)
        before = weights.detach().clone()
        weights.grad = gradient.clone()
        theirs.step()
        found = ours(torch.stack([gradient, gradient]))
        torch.testing.assert_close(found[0], gradient)
        torch.testing.assert_close(found[1], before - weights.detach())


def test_the_scattering_is_free_of_shifts_it_averages_and_sees_no_constant():
    made = Scattering(28)
    flat = made(torch.full((1, 1, 28, 28), 0.7))
    assert flat.shape == (1, 81, 7, 7)
    torch.testing.assert_close(flat[0, 0], torch.full((7, 7), 0.7))
    assert float(flat[0, 1:].abs().max()) < 1e-5  # wavelets have mean zero
    # A wave along the rows excites the fine wavelet across it more than the one along it.
    wave = torch.cos(0.75 * math.pi * torch.arange(28.0)).expand(1, 1, 28, 28)
    fine = made(wave)[0, 1:9].mean((1, 2))
    assert int(fine.argmax()) == 0
    assert fine[0] > 20 * fine[4]


def test_views_are_the_record_its_mirror_image_and_both_moved():
    image = torch.arange(64.0).view(1, 1, 8, 8)
    one, mirror, moved, both = views(image, 4)
    assert torch.equal(one, image)
    assert torch.equal(mirror.flip(-1), image)
    assert torch.equal(moved[..., 2:, 2:], image[..., :-2, :-2])
    assert torch.equal(both.flip(-1)[..., :-2, :-2], image[..., 2:, 2:])


def test_four_views_of_one_kind_are_one_view():
    torch.manual_seed(0)
    images, labels = torch.randn(6, 1, 28, 28), torch.arange(6)
    for bank, inputs in (
        (Net([network((1, 28, 28), 1)] * 2, CPU), images),
        (Head(2, 784, 10, CPU), images.flatten(1)),
    ):
        sums = []
        for count in (1, 4):
            many = inputs.unsqueeze(1).repeat(1, count, *[1] * (inputs.ndim - 1))
            bank.backward(many, labels, torch.ones(6))
            sums.append(bank.total(Factors(["flat", "psac"], 1.0, CPU)(bank.squared())))
        torch.testing.assert_close(sums[0], sums[1], rtol=1e-4, atol=1e-5)


def test_the_channels_noise_is_that_of_the_natural_channel():
    from recondite.channels import NaturalChannel, Spectrum

    values = torch.tensor([3.0, 1.0, 0.2, 0.01], dtype=torch.float64)
    known = NaturalChannel.from_spectrum(Spectrum.from_covariance(np.diag(values.numpy())), 2.0)
    assert copies.variance_of(values, 2.0) == pytest.approx(known.noise_variance, rel=1e-6)


def test_gains_are_one_less_the_error_over_the_class_means():
    torch.manual_seed(1)
    pool, named = torch.rand(40, 9), torch.arange(40) % 4
    public = risk.Public(pool[:8] + 0.01, named[:8], pool, named)
    sharp = -1e4 * torch.cdist(public.victims.double(), pool.double())
    found = risk.gains(sharp, public)
    assert found["plain"] > 0.99
    assert found["gain"] > 0.99
    assert risk.gains(torch.zeros(8, 40), public)["gain"] == pytest.approx(0.0, abs=1e-6)
    assert risk.identified(torch.cat([torch.ones(8, 1), torch.zeros(8, 40)], 1))["10"] == 1.0


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Random images in the jobs' packed form."""
    folder = tmp_path_factory.mktemp("frontier")
    rng = np.random.default_rng(0)
    parts = {}
    for prefix, count in (("", 60), ("test_", 24)):
        parts[f"{prefix}images"] = rng.integers(0, 256, (count, 1, 28, 28), dtype=np.uint8)
        parts[f"{prefix}labels"] = (np.arange(count) % 10).astype(np.int16)
    np.savez_compressed(folder / "fashion-mnist.npz", **parts)
    return folder


def test_a_small_run_is_measured_accounted_for_and_resumed(small, tmp_path, monkeypatch):
    from recondite_papers.jobs import frontier as job
    from recondite_papers.jobs.frontier_accounts import accounts
    from recondite_papers.jobs.sink import Context
    from recondite_papers.tables import frontier as table

    monkeypatch.setattr(job, "plan_of", lambda name, quick: FrontierPlan(60, 3, 1, 5))
    monkeypatch.setattr(job, "_sizes", lambda name, model, quick: Sizes(5, 12, 12))
    monkeypatch.setattr("recondite_papers.jobs.frontier_accounts.plan_of", job.plan_of)
    monkeypatch.setattr(job, "DEFENCES", tuple(BY_NAME[n] for n in ("gaussian", "vmf")))

    def context():
        return Context(data_dir=str(small), out=tmp_path, quick=True, say=lambda _: None)

    first = context()
    job.measured(first)
    accounts(first)
    rows, proven = first.sink("frontier").rows, first.sink("frontier-accounts").rows
    assert {row["defence"] for row in rows} == {"gaussian", "vmf", "none", "natural-per-step"}
    for row in rows:
        if row["kind"] == "run" and row["defence"] != "none":
            assert 0.0 <= row["secret"]["identified"]["10"] <= 1.0
            assert row["known"]["gain"] <= 1.0
    assert all(row["epsilon"] is None or row["epsilon"] >= 0 for row in proven)
    assert len(table.cells(rows, proven)) == len(proven)
    again = context()
    before = len(rows)
    job.measured(again)
    assert len(again.sink("frontier").rows) == before


def _stored():
    sys.path.insert(0, str(ROOT / "papers" / "pages"))
    try:
        import parts
    finally:
        sys.path.pop(0)
    return parts.rows("frontier"), parts.rows("frontier-accounts")


def _page():
    return (ROOT / "docs" / "studies" / "frontier.md").read_text()


def test_every_sentence_of_the_page_is_of_the_stored_rows():
    from recondite_papers.tables import frontier_findings as said
    from recondite_papers.tables.frontier import curves

    found, page = curves(*_stored()), _page()
    assert said.in_short(found) in page
    for one in said.findings(found):
        assert one.evidence in page
        assert 2 <= len(one.believe.split()) <= 12


def test_the_readmes_figures_are_of_the_stored_rows():
    from recondite_papers.tables.frontier import curves
    from recondite_papers.tables.frontier_findings import losses

    found, readme = curves(*_stored()), (ROOT / "README.md").read_text()
    proven = [-one.value for one in losses(found, "vmf", "epsilon")]
    assert f"VMF noise costs {min(proven):.0f} to {max(proven):.0f} points" in readme
    assert max(abs(one.value) for one in losses(found, "vmf", "known")) < 1  # "level"
    for worse in ("directional", "natural-once"):
        assert max(one.value for one in losses(found, worse, "known")) < -2


@pytest.mark.parametrize("defence", ["gaussian", "vmf", "partitioned"])
def test_accuracy_at_equal_epsilon_is_numpys_interpolation(defence):
    from recondite_papers.tables.frontier import curves, held

    rows, proven = _stored()
    where = {"data": "fashion-mnist", "model": "head", "defence": defence}
    known = {r["value"]: r["epsilon"] for r in proven if all(r[key] == where[key] for key in where)}
    each = []
    for seed in range(5):
        mine = {
            r["value"]: 100 * r["accuracy"]
            for r in rows
            if r["kind"] == "run" and r["seed"] == seed and all(r[k] == where[k] for k in where)
        }
        order = sorted(mine, key=known.__getitem__)
        each.append(np.interp(math.log(8), [math.log(known[v]) for v in order],
                              [mine[v] for v in order]))  # fmt: skip
    (curve,) = [
        c for c in curves(rows, proven) if (c.data, c.model, c.defence) == tuple(where.values())
    ]
    ours = held(curve, "epsilon", 8.0)
    np.testing.assert_allclose(ours.each, each, rtol=1e-9)
    assert f"| {curve.name} | 5 | {np.mean(each):.1f} ± " in _page()


def test_no_measured_risk_is_above_what_is_proven():
    """Up to what a hundred games a seed can show."""
    from recondite_papers.tables.frontier import curves

    for curve in curves(*_stored()):
        for point in curve.points:
            bound, seen = point.mean("proven"), point.mean("secret")
            if bound is not None and seen is not None:
                games = 100 * len(point.seeds)
                assert seen <= bound + 4 * math.sqrt(0.25 / games), (curve.name, point.value)


def test_rows_are_full_ones_and_their_files_say_where_they_come_from():
    for data in ("fashion-mnist", "cifar10"):
        stored = json.loads((ROOT / "results" / f"frontier.{data}.json").read_text())
        assert not stored["quick"]
        assert "H200" in stored["provenance"]["device"]
        assert f"results/frontier.{data}.json" in _page()
    assert re.search(r"\d+ of \d+ settings have their best learning rate at the edge", _page())
