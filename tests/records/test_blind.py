"""Blind guesses from public records: which, from whom, and never from a victim."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from recondite.metrics import gains
from recondite.records import ImageSet, load
from recondite.records.blind import duplicates
from recondite.records.image_files import png


def images(count, seed=0, classes=2, **options):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    pixels = (
        0.5 * torch.rand(count, 1, 8, 8, generator=generator) + 0.4 * labels[:, None, None, None]
    )
    return ImageSet(pixels, labels, tuple("abcdef"[:classes]), **options)


def test_the_mean_of_all_or_of_the_class():
    public, victims = images(40), images(10, seed=1)
    unknown, known = victims.blind(public), victims.blind(public, victims.labels)
    assert unknown.how["mse"] == "mean image"
    assert known.how["mse"] == "mean image of the class"
    assert torch.allclose(unknown.guesses["mse"][3], public.images.mean(0))
    same = public.images[public.labels == victims.labels[3]]
    assert torch.allclose(known.guesses["mse"][3], same.mean(0))
    by_hand = ((victims.images - known.guesses["mse"]) ** 2).flatten(1).mean(1)
    assert known.scores.values["mse"] == pytest.approx(by_hand.double().numpy())
    assert known.scores.mean("mse") < unknown.scores.mean("mse")


def test_a_class_of_few_records_is_guessed_by_the_mean_of_all_where_that_is_better():
    """Forty classes that say nothing of the image: the mean of three is a worse guess than of 120.

    An attack that only finds the mean of all must gain nothing over it.
    """
    generator = torch.Generator().manual_seed(0)
    names = tuple(f"person {number}" for number in range(40))
    labels = torch.arange(160) % 40
    whole = ImageSet(torch.rand(160, 1, 8, 8, generator=generator), labels, names)
    victims, public = whole.subset(range(40)), whole.subset(range(40, 160))
    guess = victims.blind(public, victims.labels)
    assert guess.label_known
    assert guess.how["mse"] == "mean image"
    assert torch.allclose(guess.guesses["mse"][0], public.images.mean(0))
    own = victims.score(
        torch.stack([public.images[public.labels == one].mean(0) for one in victims.labels]),
        matched=False,
    )
    assert guess.scores.mean("mse") < 0.85 * own.mean("mse")
    mean = victims.score(public.images.mean(0).expand_as(victims.images), matched=False)
    assert not gains(mean, guess.scores)["mse"].beats_guessing
    # Two public records a class, or one: somebody blind still decides by what can be judged.
    assert victims.blind(public.subset(range(80)), victims.labels).how["mse"] == "mean image"
    assert "of the class" in victims.blind(public.subset(range(40)), victims.labels).how["mse"]


def test_a_single_public_record_where_it_is_the_better_guess():
    """A pattern and, less often, its negative: their mean is nearly flat."""
    generator = torch.Generator().manual_seed(0)
    pattern = torch.rand(1, 12, 12, generator=generator).round()
    patterns = torch.stack([pattern, 1 - pattern])
    which = (torch.arange(60) // 2 % 5 > 2).long()
    noise = 0.01 * torch.rand(60, 1, 12, 12, generator=generator)
    whole = ImageSet((patterns[which] * 0.9 + noise).clamp(0, 1), torch.arange(60) % 2, ("a", "b"))
    victims, public = whole.split(0.3)
    guess = victims.blind(public)
    assert guess.how["mse"] == "mean image"
    assert guess.how["ssim"] == "best public record"
    assert any(torch.equal(guess.guesses["ssim"][0], image) for image in public.images)


def test_the_choice_of_the_guess_never_sees_the_victims():
    public = images(40)
    one, other = images(10, seed=1), images(10, seed=2)
    first, second = one.blind(public), other.blind(public)
    for key in first.guesses:
        assert torch.equal(first.guesses[key], second.guesses[key])
    assert first.how == second.how


def test_the_scale_does_not_matter():
    public, victims = images(40), images(10, seed=1)
    scaled = victims.normalised([0.3], [0.2]).blind(public.normalised([0.3], [0.2]))
    plain = victims.blind(public)
    assert scaled.how == plain.how
    for key, values in plain.scores.values.items():
        assert scaled.scores.values[key] == pytest.approx(values, rel=1e-4, abs=1e-5)


def test_victims_among_the_public_records_are_refused():
    public = images(40)
    victims = public.subset([7, 11])
    with pytest.raises(
        ValueError, match=r"hold 2 of the victims \(record 7 is victim 0\)"
    ) as caught:
        victims.blind(public)
    assert "\n" not in str(caught.value)
    rest = public.without(victims)
    assert len(rest) == 38
    assert torch.equal(rest.images[7], public.images[8])
    victims.blind(rest)
    with pytest.raises(ValueError, match="every record"):
        victims.without(public)


def test_duplicates_survive_a_change_of_scale_and_neighbours_are_none():
    public = load("digits", "test")
    back = public.normalised([0.3], [0.31]).pixels()
    found = duplicates(public.images, back[[3, 50]])
    assert found == [(3, 0), (50, 1)]
    near = public.images[:1].clone()
    near[0, 0, 4, 4] += 1e-3
    assert duplicates(public.images, near) == []
    assert duplicates(torch.zeros(2, 3), torch.zeros(1, 3)) == [(0, 0), (1, 0)]


def test_a_class_without_public_records_is_guessed_as_unknown():
    public, victims = images(40), images(12, seed=1)
    only = public.subset(public.labels == 0)
    guess = victims.blind(only, victims.labels)
    assert torch.allclose(guess.guesses["mse"], only.images.mean(0).expand_as(victims.images))


@pytest.mark.parametrize(
    ("public", "message"),
    [
        (lambda: images(40).normalised([0.5], [0.5]), "have the scale"),
        (lambda: replace(images(40), classes=("a", "c")), "have the classes"),
        (lambda: images(40).prepared("crop4"), "have the shape"),
    ],
)
def test_public_records_of_another_make_are_refused(public, message):
    with pytest.raises(ValueError, match=message):
        images(10, seed=1).blind(public())


def test_labels_must_be_those_of_the_victims():
    with pytest.raises(ValueError, match="one for each of 10 victims"):
        images(10, seed=1).blind(images(40), torch.zeros(3, dtype=torch.int64))


def test_one_public_record_is_a_guess():
    guess = images(3, seed=1).blind(images(1))
    assert torch.equal(guess.guesses["mse"][2], images(1).images[0])


def test_gains_of_an_attack_on_digits():
    public, test = load("digits"), load("digits", "test")
    victims = test.spread(40).normalised([0.3], [0.4])
    floor = victims.blind(public.normalised([0.3], [0.4]), victims.labels)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(victims.images.shape, generator=generator)
    strong = victims.score(victims.images + 0.2 * noise, matched=False)
    useless = victims.score(noise, matched=False)
    assert all(one.beats_guessing for one in gains(strong, floor.scores).values())
    assert not any(one.beats_guessing for one in gains(useless, floor.scores).values())


def test_scores_are_those_of_the_metrics_and_find_the_order():
    from recondite import metrics

    victims = images(6)
    rebuilt = (victims.images + 0.05).flip(0)
    mine = victims.score(rebuilt)
    theirs = metrics.score(rebuilt.clamp(0, 1), victims.images)
    assert mine.order.tolist() == [5, 4, 3, 2, 1, 0]
    for key in ("mse", "psnr", "ssim"):
        assert mine.values[key] == pytest.approx(getattr(theirs, key).double().numpy())
    with pytest.raises(ValueError, match=r"must both be \(n, 1, 8, 8\)"):
        victims.score(rebuilt[:3])


def test_private_images_are_not_shown():
    victims = images(10)
    hidden = victims.show(victims.images, most=2)
    assert [(one.original, one.rebuilt) for one in hidden] == [(None, None)] * 2
    assert hidden[0].scores["ssim"] == pytest.approx(1)
    shown = victims.show(victims.images, reveal=True)
    assert len(shown) == 8
    assert shown[0].original == shown[0].rebuilt
    assert load("digits").public
    assert not victims.public
    assert victims.subset([1]).public is False


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_png_by_another_reader(channels, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).random((channels, 5, 7))
    (tmp_path / "a.png").write_bytes(png(pixels))
    read = np.asarray(image.open(tmp_path / "a.png"))
    bytes_ = np.rint(pixels * 255).astype(np.uint8)
    right = bytes_.transpose(1, 2, 0) if channels == 3 else np.concatenate(list(bytes_), axis=1)
    assert np.array_equal(read, right)


def test_png_of_broken_pixels():
    content = png(np.array([[[np.nan, -1.0, 2.0, np.inf, -np.inf]]]))
    size = struct.unpack(">I", content[33:37])[0]
    assert list(zlib.decompress(content[41 : 41 + size])) == [0, 0, 0, 255, 255, 0]
