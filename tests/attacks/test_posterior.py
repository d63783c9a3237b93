"""Posterior attackers: exact where theory says so, never worse than a blind guess, repeatable."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

import recondite as rc
from recondite import models
from recondite.attacks import GaussNewton, ImportanceWeights, PublicPrior, registry
from recondite.attacks.base import AttackRequest
from recondite.attacks.posterior.channel import BehindNoise
from recondite.attacks.posterior.floors import best_packing
from recondite.attacks.posterior.generated import with_draws
from recondite.attacks.posterior.gradients import BoundedGradient
from recondite.attacks.posterior.importance import weigh
from recondite.attacks.posterior.rehearsal import RehearsalTrial, judged
from recondite.attacks.posterior.releases import released
from recondite.attacks.posterior.strongest import exposure
from recondite.attacks.scoring import blind_beside, public_of, scored
from recondite.attacks.victim import Defended, RecordSets, Victim
from recondite.channels import NaturalChannel, WhiteChannel
from recondite.gradients.leaked import leaked_gradients
from recondite.leakage.floors import packings
from recondite.mechanisms import (
    Directional,
    Gaussian,
    NoNoise,
    PartitionedVonMisesFisher,
    VonMisesFisher,
)
from recondite.records import load
from recondite.testing.attacks import small_victim

LOSS = functional.cross_entropy
SHAPE = (1, 8, 8)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def victim_of(digits, mechanism=None, images=8, **options):
    net = models.build("mlp", SHAPE, seed=0).eval()
    defence = Defended(mechanism or NoNoise(), clipping="flat", max_grad_norm=1.0, **options)
    return Victim(
        model=net,
        initial=lambda: net,
        fresh=lambda: net,
        records=RecordSets(
            training=digits.subset(range(1000, 1300)), test=digits.subset(range(600))
        ),
        defence=defence,
        asked=AttackRequest(images=images),
    )


def channelled(digits, nats, **options):
    rows = digits.images.flatten(1).double().numpy()
    channel = NaturalChannel.fit(rows, capacity=nats)

    def seen(images):
        flat = images.flatten(0, -4).flatten(1).double().numpy()
        noisy = np.asarray(channel.perturb(flat, np.random.default_rng(3)))
        return torch.as_tensor(noisy).to(images).reshape(images.shape)

    return victim_of(digits, noisy_records=True, seen=seen, fitted=lambda: channel, **options)


def row_of(name, victim, **options):
    return registry.build(name, **options).evaluate(victim).to_dict()


@pytest.mark.parametrize("clipping", ["flat", "scale", "per-layer", "automatic", "none"])
def test_both_ways_to_a_bounded_gradient_agree_with_what_is_released(digits, clipping):
    net = models.build("mlp", SHAPE, seed=0)
    images, labels = digits.images[:5], digits.labels[:5]
    leak = leaked_gradients(
        net, images[:, None], labels[:, None], NoNoise(), clipping=clipping, max_grad_norm=0.3
    )
    true = torch.cat([part.flatten(1) for part in leak.values()], 1)
    gradient = BoundedGradient(net, clipping, 0.3)
    (_, rows), *rest = gradient.rows(images, labels)
    assert not rest
    assert torch.allclose(rows, true, atol=1e-6)
    one = torch.stack([gradient.at(*pair) for pair in zip(images, labels, strict=True)])
    assert torch.allclose(one, true, atol=1e-5)


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(0.3),
        VonMisesFisher(300.0),
        Directional(300.0),
        PartitionedVonMisesFisher(300.0, blocks=3),
    ],
)
def test_weights_are_the_likelihoods_of_every_release(digits, mechanism):
    """Against the mechanism's own density, one candidate and one release at a time."""
    victim = victim_of(digits, mechanism, images=2)
    chosen, public = digits.subset(range(2)), digits.subset(range(50, 70))
    site, _ = released(victim, victim.model, chosen.images, chosen.labels, 3)
    weights = weigh([site], public, None)
    bare = leaked_gradients(victim.model, public.images[:, None], public.labels[:, None], NoNoise())
    centres = torch.cat([part.flatten(1) for part in bare.values()], 1).double()
    law, seen = site.law.mechanism, site.seen.double()
    for number in range(2):
        logs = torch.stack(
            [
                sum(
                    law.log_likelihood(one, row[None] if law.stage == "record" else row)
                    for one in seen[number]
                )
                for row in centres
            ]
        )
        assert torch.allclose(weights[number], torch.softmax(logs, 0), atol=1e-4)
    told = weigh([site], public, chosen.labels)
    assert bool((told[chosen.labels[:, None] != public.labels[None]] == 0).all())


def test_the_known_rest_of_a_batch_is_part_of_the_centre(digits):
    victim, public = victim_of(digits, Gaussian(0.3), images=1), digits.subset(range(50, 60))
    site, _ = released(victim, victim.model, digits.images[:1], digits.labels[:1], 1)
    rest = torch.randn(1, site.gradient.dim, generator=torch.Generator().manual_seed(0))
    shifted = replace(site, seen=site.seen + rest[:, None], rest=rest)
    alone, among = (weigh([one], public, None) for one in (site, shifted))
    assert torch.allclose(alone, among, atol=1e-5)


@pytest.mark.parametrize("mechanism", [Gaussian(0.3), VonMisesFisher(300.0), Directional(300.0)])
def test_the_score_of_a_linearised_release_is_the_likelihoods_slope(digits, mechanism):
    victim = victim_of(digits, mechanism, images=1)
    prior = PublicPrior(digits.subset(range(100, 400)), rank=12)
    site, _ = released(victim, victim.model, digits.images[:1], digits.labels[:1], 2)
    point = prior.coordinates(digits.images[1:2])[0]
    label = digits.labels[0]
    vector, precision = site.linearised(0, prior, point, label)

    def value(at):
        centre = site.centre(site.gradient.at(prior.images(at).float(), label), 0).double()
        return float(site.log_likelihood(0, centre[None])[0])

    score = vector - precision @ point
    for axis in (0, 5):
        step = torch.zeros_like(point)
        step[axis] = 0.05
        slope = (value(point + step) - value(point - step)) / 0.1
        assert slope == pytest.approx(float(score[axis]), rel=0.05, abs=0.02)
    assert torch.linalg.eigvalsh(precision)[0] > -1e-6


def test_a_gaussian_prior_gives_wieners_filter():
    """With one class's worth of normal records the mixture's answer is the linear one."""
    torch.manual_seed(0)
    images = 0.5 + 0.1 * torch.randn(400, 1, 2, 2)
    records = (
        load("digits")
        .subset(range(400))
        .replaced(images.clamp(0, 1), torch.zeros(400, dtype=torch.long))
    )
    prior = PublicPrior(records)
    noise = 0.2
    seen = prior.images(torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64)).flatten()
    precision = prior.basis @ prior.basis.T / noise**2
    vector = (seen - prior.mean) @ prior.basis.T / noise**2
    found = prior.posterior(vector, precision, 0)
    wiener = torch.linalg.solve(precision + torch.linalg.inv(prior.covariance(0)), vector)
    assert torch.allclose(found.mean, wiener, atol=0.1)
    expected = 0.1**2 * noise**2 / (0.1**2 + noise**2) * 4
    assert found.variance == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("mechanism", "least"),
    [(VonMisesFisher(3_000.0), 0.1), (Gaussian(0.02), 0.1), (Gaussian(2.0), -0.12)],
)
def test_a_release_helps_and_noise_alone_does_not_hurt(digits, mechanism, least):
    """Gains over the blind guess; under strong noise no worse than it, but for a little noise."""
    victim = victim_of(digits, mechanism, images=12)
    for name in ("importance-weights", "gauss-newton"):
        row = row_of(name, victim)
        found = row["reconstruction"]
        assert found["gain"]["mse"]["value"] > least
        assert found["blind"]["guess"]
        floors = {floor["key"]: floor for floor in row["floors"]}
        assert floors["rero_packing"]["proven"]
        if name == "gauss-newton":
            assert not floors["van_trees"]["proven"]
            assert "rough estimate" in floors["van_trees"]["sentence"]
            assert found["expected_mse"] == pytest.approx(found["mse_mean"], rel=0.6)


def test_more_releases_tell_more(digits):
    victim = victim_of(digits, Gaussian(0.1), images=12)
    one, pooled = (
        row_of("gauss-newton", victim, releases=count, steps=2, rank=30) for count in (1, 30)
    )
    few, many = (row["reconstruction"]["mse_mean"] for row in (one, pooled))
    assert many < few
    assert one["claims"]
    assert any("30 releases" in note for note in pooled["notes"])
    assert pooled["claims"] == []  # they are about one release


def test_labels_are_found_where_they_are_not_told(digits):
    victim = victim_of(digits, VonMisesFisher(3_000.0))
    victim = replace(victim, asked=AttackRequest(images=8, labels=False))
    for name in ("importance-weights", "gauss-newton"):
        found = row_of(name, victim)["reconstruction"]
        assert found["labels_right"] >= 0.75
        assert found["gain"]["mse"]["value"] > 0.3


def test_a_channels_posterior_beats_looking_and_fresh_copies_tell_more(digits):
    once = channelled(digits, 10.0)
    looked, guessed = (row_of(name, once) for name in ("released-record", "channel-posterior"))
    assert guessed["reconstruction"]["mse_mean"] < 0.7 * looked["reconstruction"]["mse_mean"]
    assert guessed["reconstruction"]["gain"]["mse"]["value"] > 0.2
    assert guessed["reconstruction"]["expected_mse"] == pytest.approx(
        guessed["reconstruction"]["mse_mean"], rel=0.5
    )
    assert 0 <= guessed["floors"][0]["mse"] <= guessed["reconstruction"]["mse_mean"]
    again = row_of("channel-posterior", once, releases=8)
    assert again["reconstruction"]["mse_mean"] == guessed["reconstruction"]["mse_mean"]
    assert any("drawn once" in note for note in again["notes"])
    fresh = row_of("channel-posterior", channelled(digits, 10.0, fresh_noise=True), releases=8)
    assert fresh["reconstruction"]["mse_mean"] < guessed["reconstruction"]["mse_mean"]
    assert (
        registry.build("channel-posterior").exposed(AttackRequest(threat="training")) == "training"
    )


@pytest.mark.parametrize("looks", [1, 13])
def test_noise_that_follows_the_data_is_undone_as_well_as_a_linear_filter_can(digits, looks):
    """White noise is least where records vary least: what the basis leaves out is no free look."""
    public, records = digits.subset(range(600)), digits.subset(range(1000, 1040))
    rows = public.images.flatten(1).double()
    channel = WhiteChannel.fit(rows.numpy(), capacity=60.0)
    noise = torch.as_tensor(np.asarray(channel.noise.covariance()))
    truth = records.images.flatten(1).double()
    normal = np.random.default_rng(0).standard_normal(truth.shape) / math.sqrt(looks)
    copies = truth + torch.as_tensor(channel.noise.shape(normal))
    behind = BehindNoise(PublicPrior(public, rank=20), noise, looks)
    told = [int(label) for label in records.labels]
    found = [behind.believed(copy, label) for copy, label in zip(copies, told, strict=True)]
    images = torch.stack([image for _, image in found])
    assert images.shape == records.images.shape
    error = float((images.flatten(1) - truth).square().sum(1).mean())
    own = torch.cov(rows.T)
    linear = rows.mean(0) + (copies - rows.mean(0)) @ torch.linalg.solve(own + noise / looks, own)
    assert error < 1.05 * float((linear - truth).square().sum(1).mean())
    expected = sum(one.variance for one, _ in found) / len(found)
    assert error == pytest.approx(expected, rel=0.35)


def test_what_does_not_apply_is_refused_in_one_line(digits):
    cases = [
        ("channel-posterior", victim_of(digits, Gaussian(1.0)), "needs noise on records"),
        ("gauss-newton", victim_of(digits, PartitionedVonMisesFisher(9.0, blocks=2)), "choose imp"),
        (
            "gauss-newton",
            replace(victim_of(digits), asked=AttackRequest(images=4, batch_size=2)),
            "batch_size must be 1",
        ),
        ("importance-weights", victim_of(digits, images=600), "must leave public records"),
    ]
    for name, victim, said in cases:
        with pytest.raises(ValueError, match=said) as caught:
            registry.build(name).evaluate(victim)
        assert "\n" not in str(caught.value)
    victim = victim_of(digits)
    overlapping = replace(victim.records, public=digits)
    with pytest.raises(ValueError, match="the public records hold 8 of the victims"):
        registry.build("inverting-gradients", steps=2).evaluate(
            replace(victim, records=overlapping)
        )
    with pytest.raises(ValueError, match="three records or more"):
        PublicPrior(digits.subset([0, 1]))
    with pytest.raises(ValueError, match="all of them are alike"):
        PublicPrior(digits.subset([0, 0, 0, 0]))


def test_the_attacked_records_are_never_public(digits):
    victim = victim_of(digits)
    places = torch.tensor([3, 5])
    public = public_of(victim, places)
    assert len(public) == 598
    apart = torch.cdist(public.images.flatten(1), digits.images[places].flatten(1))
    assert float(apart.min()) > 0
    assert public_of(victim, torch.arange(600)) is None


@pytest.mark.parametrize(
    ("name", "options"),
    [("inverting-gradients", {"steps": 5}), ("mean-image", {"steps": 5}), ("model-inversion", {})],
)
def test_every_reconstruction_stands_beside_a_blind_guess(name, options):
    victim = small_victim(AttackRequest(images=6, batch_size=2 if name == "mean-image" else 1))
    found = row_of(name, victim, **options)["reconstruction"]
    assert set(found["gain"]) == {"mse", "ssim"}
    assert len(found["blind"]["mse"]) == found["images"]
    assert found["beats_guessing"] in (True, False, None)


def test_the_blind_guess_gains_nothing_over_itself(digits):
    victims, public = digits.subset(range(8)), digits.subset(range(50, 300))
    guess = victims.blind(public, victims.labels)
    scores, _ = scored(guess.guesses["mse"][:, None], victims.images[:, None])
    blind = blind_beside(scores, victims, public, told=True)
    assert blind.gains["mse"].value == pytest.approx(0.0, abs=1e-6)
    assert blind_beside(scores, victims, None, told=True) is None


def test_the_strongest_is_the_maximum_and_depends_on_no_clock(digits):
    victim = victim_of(digits, VonMisesFisher(3_000.0), images=6)
    first = registry.build("strongest", budget=8).evaluate(victim)
    each = {
        key.removeprefix("gain_"): value
        for key, value in first.rebuilt.figures.items()
        if key.startswith("gain_")
    }
    assert set(each) == {"analytic", "importance-weights", "gauss-newton", "inverting-gradients"}
    assert exposure(first) == max(each.values())
    assert f"strongest: {max(each, key=each.get)};" in first.notes[0]
    small, left = registry.build("strongest", budget=3).planned(victim)
    assert len(small) < 4
    assert any("budget" in line for line in left)
    bare = victim_of(digits, images=6)
    assert row_of("gauss-newton", bare, steps=1, rank=10)["floors"] == []  # nothing is hidden
    assert row_of("strongest", bare, budget=3)["reconstruction"]["mse_mean"] < 0.01


def test_the_old_name_says_what_it_is_now(digits):
    victim = victim_of(digits, VonMisesFisher(3_000.0), images=6)
    with pytest.warns(DeprecationWarning, match="adaptive is now gauss-newton"):
        old = registry.build("adaptive", steps=1, rank=10, prior="public")
    row = old.evaluate(victim).to_dict()
    assert row["notes"][-1].startswith("adaptive is now gauss-newton")
    new = GaussNewton(steps=1, rank=10).evaluate(victim).to_dict()
    assert row["reconstruction"]["mse"] == new["reconstruction"]["mse"]


@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_no_attack_is_below_a_proven_floor(digits, sigma):
    """On the packing's own prior: records of the packing, and the attacker holds all of them."""
    victim = victim_of(digits, Gaussian(sigma), images=8)
    one_class = digits.subset(digits.labels == 0)
    schedule = rc.FixedSize(records=1, batch_size=1, steps=1)

    def success(_, prior):
        made = Gaussian(sigma, batch_size=1).with_dim(1)
        return float(rc.account(made, schedule, 1e-5, prior_success=prior).rero["bound"])

    floor, size = best_packing(one_class, success)
    packing = next(
        one for one in packings(one_class.pixels().flatten(1).numpy()) if len(one.records) == size
    )
    points = one_class.subset(list(packing.records))
    errors = []
    for seed in range(20):
        whom = replace(victim, seed=seed)
        site, _ = released(whom, victim.model, points.images, points.labels, 1)
        weights = weigh([site], points, points.labels)
        guess = torch.einsum("vn,n...->v...", weights, points.images.double())
        errors.append(float((guess - points.images).square().mean()))
    assert floor > 0
    assert np.mean(errors) > floor


def test_settings_are_checked():
    for options, said in (
        ({"releases": 0}, "releases must be 1 or more"),
        ({"steps": 0}, "steps must be 1 or more"),
    ):
        with pytest.raises(ValueError, match=said):
            GaussNewton(**options)
    with pytest.raises(ValueError, match="releases"):
        ImportanceWeights(releases=0)
    with pytest.raises(ValueError, match="budget"):
        registry.build("strongest", budget=0)


@pytest.mark.parametrize(
    "defence",
    [
        Gaussian(noise_multiplier=0.7, batch_size=1),
        Gaussian(noise_multiplier=2.0, batch_size=1),
        VonMisesFisher(kappa=1.0),
        VonMisesFisher(kappa=4.0),
    ],
)
def test_no_guess_beats_the_bound(defence):
    """A record that is one of two, released once: the best guess is right no oftener than bounded.

    The pair is as far apart as clipped gradients can be, so the bound is nearly met.
    """
    dim, draws = 12, 20000
    sized = defence.with_dim(dim)
    candidates = torch.zeros(2, dim, dtype=torch.float64)
    candidates[0, 0], candidates[1, 0] = 1.0, -1.0
    truth = torch.arange(draws) % 2
    generator = torch.Generator().manual_seed(0)
    release = torch.as_tensor(sized.perturb(candidates[truth], generator))
    likely = torch.stack([sized.log_likelihood(release, c.expand_as(release)) for c in candidates])
    success = float((likely.argmax(0) == truth).double().mean())
    schedule = rc.FixedSize(records=1, batch_size=1, steps=1)
    bound = rc.account(sized, schedule, 1e-5, prior_success=0.5).rero["bound"]
    slack = 4 * math.sqrt(0.25 / draws)
    assert success <= bound + slack
    assert success > 0.5
    # Wrong by much, it would say nothing.
    assert bound < success + 0.2 + slack


def lone_records(digits, count):
    """Records of which none is like another: the weights collapse on one that is no nearer."""
    generator = torch.Generator().manual_seed(0)
    images = (0.5 + 0.12 * torch.randn(count, *SHAPE, generator=generator)).clamp(0, 1)
    alike = digits.subset(torch.arange(count) % len(digits))
    return alike.replaced(images, torch.arange(count) % 3)


@pytest.mark.parametrize("mechanism", [NoNoise(), Gaussian(0.1), VonMisesFisher(300.0)])
@pytest.mark.parametrize("hard", [True, False])
def test_a_rehearsal_keeps_the_answer_from_falling_below_a_blind_guess(digits, mechanism, hard):
    """Over many victims: the interval of the gain never lies below nought, by more than noise."""
    victim = victim_of(digits, mechanism, images=48)
    if hard:
        records = lone_records(digits, 500)
        sets = RecordSets(training=records.subset(range(400, 500)), test=records.subset(range(400)))
        victim = replace(victim, records=sets)
    for name, options in (("importance-weights", {}), ("gauss-newton", {"steps": 2, "rank": 15})):
        row = row_of(name, victim, **options)
        found = row["reconstruction"]
        assert found["gain"]["mse"]["high"] >= -0.01
        assert found["gain"]["mse"]["value"] > -0.04
        assert 0 <= found["kept_of_posterior"] <= 1
        said = any("rehearsed" in note for note in row["notes"])
        assert said == (found["kept_of_posterior"] < 1)


def test_a_rehearsal_looks_at_no_victim_and_is_left_out_where_little_is_public(digits):
    victim = victim_of(digits, NoNoise(), images=4)
    chosen, public = digits.subset(range(4)), lone_records(digits, 200)
    site, _ = released(victim, victim.model, chosen.images, chosen.labels, 2)
    trial = RehearsalTrial.of([site], public, told=True)
    assert len(trial.known) == 16
    assert len(trial.rest) == 184
    assert trial.sites[0].seen.shape == (20, 2, site.gradient.dim)
    # Releases of the rehearsed records are made as the victims' are.
    again = site.again(chosen.images, chosen.labels)
    assert torch.allclose(again, site.seen, atol=1e-6)
    assert RehearsalTrial.of([site], public.subset(range(31)), told=True) is None
    assert RehearsalTrial.of([replace(site, again=None)], public, told=True) is None


def test_a_rehearsal_draws_towards_the_guess_by_what_served_the_known(digits):
    known, public = digits.subset(range(200, 216)), digits.subset(range(300, 500))
    guess = torch.stack([public.images[public.labels == one].mean(0) for one in known.labels])
    perfect = judged(known.images, known, public, told=True)
    assert (perfect.share, perfect.gain) == (1.0, pytest.approx(1.0))
    assert perfect.beats
    assert perfect.notes == ()
    wrong = judged(guess - (known.images - guess), known, public, told=True)
    assert (wrong.share, wrong.gain) == (0.0, pytest.approx(-3.0))
    far = judged(guess + 4.0 * (known.images - guess), known, public, told=True)
    assert far.share == pytest.approx(0.25)  # a quarter of the way is a copy
    assert not far.beats
    assert "rehearsed on 16" in far.notes[0]


def good_generator(count, seed):
    """A person's own: draws that are like the digits, as arrays."""
    records = load("digits").subset(range(600, 1000))
    order = np.random.default_rng(seed).integers(len(records), size=count)
    return records.pixels()[order].numpy(), records.labels[order].numpy()


def bad_generator(count, seed):
    """Draws that are like nothing."""
    random = np.random.default_rng(seed)
    return random.random((count, *SHAPE)), random.integers(10, size=count)


def test_a_generative_prior_counts_beside_the_public_records(digits, tmp_path):
    few = replace(
        victim_of(digits, VonMisesFisher(3_000.0), images=10),
        records=RecordSets(training=digits, test=digits.subset(range(10)),
                           public=digits.subset(range(20, 90))),
    )  # fmt: skip
    bare = row_of("importance-weights", few)["reconstruction"]
    named = f"{__name__}:good_generator"
    row = row_of("importance-weights", few, prior=named, draws=300)
    assert row["reconstruction"]["public_records"] == 370
    # Ten victims, three hundred draws like them: no worse than with seventy public records alone.
    assert row["reconstruction"]["mse_mean"] < 1.1 * bare["mse_mean"]
    assert any("300 draws" in note for note in row["notes"])
    # Blind is what real public records give: the prior is the attack's.
    assert row["reconstruction"]["blind"]["mse_mean"] == bare["blind"]["mse_mean"]
    images, labels = good_generator(50, 0)
    np.savez(tmp_path / "samples.npz", images=images, labels=labels)
    samples = str(tmp_path / "samples.npz")
    told = row_of("strongest", few, prior=samples, draws=40, budget=1.6)
    assert any("40 draws" in note for note in told["notes"])
    # A bad one is found out on real records, and the answer does not fall below a guess.
    misled = row_of("importance-weights", few, prior=f"{__name__}:bad_generator", draws=3000)
    assert misled["reconstruction"]["gain"]["mse"]["high"] > -0.01


def test_a_generative_prior_is_in_the_scale_of_the_public_records(digits):
    public = digits.subset(range(20)).normalised((0.4,), (0.5,))
    found = with_draws(public, f"{__name__}:good_generator", 30, seed=1)
    images, labels = good_generator(30, 1)
    assert torch.equal(found.images[:20], public.images)
    assert torch.allclose(found.pixels()[20:], torch.as_tensor(images), atol=1e-6)
    assert found.labels[20:].tolist() == labels.tolist()


def no_pair(count, seed):
    return np.zeros((count, *SHAPE))


def too_large(count, seed):
    return np.full((count, *SHAPE), 255.0), np.zeros(count, int)


def other_shape(count, seed):
    return np.zeros((count, 1, 9, 9)), np.zeros(count, int)


def other_classes(count, seed):
    return np.zeros((count, *SHAPE)), np.full(count, 10)


def failing(count, seed):
    raise RuntimeError("no weights")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_pair", "must return images"),
        ("too_large", "in \\[0, 1\\]"),
        ("other_shape", "must give records of 1×8×8"),
        ("other_classes", "labels must lie in 0..9"),
        ("failing", "RuntimeError: no weights"),
        ("absent", "has no absent"),
    ],
)
def test_a_prior_that_gives_no_records_is_refused_in_one_line(digits, name, said):
    with pytest.raises(ValueError, match=said) as caught:
        with_draws(digits.subset(range(20)), f"{__name__}:{name}", 5)
    assert "\n" not in str(caught.value)
