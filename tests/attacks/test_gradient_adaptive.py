"""The attacker who knows the defence, against noise on real digits; and no bound is beaten."""

import math

import pytest
import torch
from torch.nn import functional

import recondite as rc
from recondite import models
from recondite.attacks import Adaptive, Bounding, GaussianPrior, InvertingGradients
from recondite.gradients.leaked import configured_for, leaked_gradients
from recondite.mechanisms import Directional, Gaussian, VonMisesFisher
from recondite.metrics import mse
from recondite.records import load

LOSS = functional.cross_entropy
SHAPE = (1, 8, 8)
DEFENCES = {"gaussian": Gaussian(noise_multiplier=0.02), "vmf": VonMisesFisher(kappa=2700.0)}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def prior(digits):
    return GaussianPrior.fit(digits.images[200:])


@pytest.fixture(scope="module")
def model():
    return models.build("mlp", SHAPE, seed=0)


def error(result, x):
    return float(mse(result.images.squeeze(1), x.squeeze(1)).mean())


@pytest.mark.parametrize("name", DEFENCES)
def test_knowing_the_defence_helps_and_so_do_a_prior_and_more_rounds(name, digits, prior, model):
    x, y = digits.images[:4].unsqueeze(1), digits.labels[:4].unsqueeze(1)
    defence = DEFENCES[name]
    known = configured_for(defence, model, 1)
    rounds = [leaked_gradients(model, x, y, defence, seed=seed) for seed in range(3)]
    options = {"shape": SHAPE, "labels": y, "bounds": (0.0, 1.0), "seed": 0}
    plain = Adaptive(log_likelihood=known.log_likelihood, bounding=Bounding("clip", 1.0), steps=120)
    informed = Adaptive(
        log_likelihood=known.log_likelihood,
        bounding=Bounding("clip", 1.0),
        prior=prior,
        steps=120,
    )
    naive = error(
        InvertingGradients(steps=120).reconstruct_many(model, LOSS, rounds[0], **options), x
    )
    one = error(plain.reconstruct_many(model, LOSS, rounds[0], **options), x)
    better = error(informed.reconstruct_many(model, LOSS, rounds[0], **options), x)
    many = informed.reconstruct_rounds(model, LOSS, [(None, r) for r in rounds], **options)
    assert one < naive
    assert better < one
    assert error(many, x) < better
    assert "3 rounds" in many.notes[-1]


def test_without_noise_to_speak_of_it_still_finds_the_image(digits, model):
    x, y = digits.images[:2].unsqueeze(1), digits.labels[:2].unsqueeze(1)
    defence = VonMisesFisher(kappa=1e8)
    leak = leaked_gradients(model, x, y, defence, seed=0)
    attack = Adaptive(log_likelihood=configured_for(defence, model, 1).log_likelihood, steps=300)
    result = attack.reconstruct_many(model, LOSS, leak, shape=SHAPE, bounds=(0.0, 1.0), seed=0)
    assert error(result, x) < 0.01


def test_rounds_may_have_weights_of_their_own(digits, prior, model):
    x, y = digits.images[:2].unsqueeze(1), digits.labels[:2].unsqueeze(1)
    other = models.build("mlp", SHAPE, seed=7)
    rounds = [(dict(net.state_dict()), leaked_gradients(net, x, y)) for net in (model, other)]
    attack = Adaptive(prior=prior, steps=60)
    options = {"shape": SHAPE, "labels": y, "bounds": (0.0, 1.0), "seed": 0}
    before = {n: p.clone() for n, p in model.state_dict().items()}
    assert attack.reconstruct_rounds(model, LOSS, rounds, **options).images.shape == x.shape
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())
    wrong = {("x" if n == "fc1.weight" else n): p for n, p in model.state_dict().items()}
    with pytest.raises(ValueError, match="weights and model do not agree on fc1.weight"):
        attack.reconstruct_rounds(model, LOSS, [(wrong, rounds[0][1])], **options)
    with pytest.raises(ValueError, match="one round or more"):
        attack.reconstruct_rounds(model, LOSS, [], **options)
    fewer = {n: g[:1] for n, g in rounds[0][1].items()}
    with pytest.raises(ValueError, match="same victims|one label for each"):
        attack.reconstruct_rounds(model, LOSS, [rounds[0], (None, fewer)], **options)
    with pytest.raises(ValueError, match="prior is of images"):
        Adaptive(prior=GaussianPrior.fit(torch.rand(5, 1, 4, 4))).reconstruct_many(
            model, LOSS, rounds[0][1], **options
        )


def test_noise_on_each_record(digits, prior, model):
    x, y = digits.images[:4].reshape(2, 2, *SHAPE), digits.labels[:4].reshape(2, 2)
    defence = Directional(kappa=3e4)
    known = configured_for(defence, model, 2)
    leak = leaked_gradients(model, x, y, defence, seed=0)
    attack = Adaptive(log_likelihood=known.log_likelihood, per_record=True, prior=prior, steps=80)
    result = attack.reconstruct_many(
        model, LOSS, leak, shape=SHAPE, batch_size=2, labels=y, bounds=(0.0, 1.0), seed=0
    )
    blind = prior.mean.reshape(SHAPE).expand_as(x)
    assert float((result.images - x).square().mean()) < float((blind - x).square().mean())


def test_the_prior_is_the_law_of_public_images(digits):
    public = digits.images[200:]
    prior = GaussianPrior.fit(public, rank=20)
    assert prior.basis.shape == (20, 64)
    rows = public.flatten(1).double()
    values = torch.linalg.eigvalsh(torch.cov(rows.T)).flip(0)[:20]
    assert torch.allclose(prior.basis.double().square().sum(1), values, rtol=1e-4)
    coefficients = torch.zeros(1, 1, 20)
    assert torch.allclose(prior.images(coefficients)[0, 0], public.mean(0), atol=1e-5)
    assert float(prior.penalty(coefficients + 1)) == pytest.approx(10.0)
    with pytest.raises(ValueError, match="two or more public images"):
        GaussianPrior.fit(public[:1])


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
