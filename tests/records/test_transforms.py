"""Cropping and resizing, against Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image

from recondite.records import centre_crop, crop16, load, prepare, resize


def test_crop16_of_mnist_is_its_middle():
    images = torch.arange(28 * 28.0).reshape(1, 1, 28, 28)
    cropped = crop16(images)
    assert torch.equal(cropped, images[..., 6:22, 6:22])
    assert torch.equal(prepare(images, "crop16"), cropped)


def test_odd_margins_lie_at_the_bottom_right():
    images = torch.arange(25.0).reshape(5, 5)
    assert torch.equal(centre_crop(images, 4), images[:4, :4])
    assert centre_crop(images, 5).shape == (5, 5)


@pytest.mark.parametrize(("before", "after"), [(28, 16), (28, 32), (33, 7)])
def test_resize_agrees_with_pillow(before, after):
    pixels = np.random.default_rng(0).random((before, before)).astype(np.float32)
    expected = Image.fromarray(pixels).resize((after, after), Image.Resampling.BILINEAR)
    ours = resize(torch.from_numpy(pixels), after)
    assert np.allclose(ours.numpy(), np.asarray(expected), atol=2e-6)


def test_resize_keeps_leading_axes_and_the_same_size():
    images = torch.rand(2, 3, 8, 10)
    assert resize(images, 4).shape == (2, 3, 4, 4)
    square = torch.rand(2, 3, 8, 8)
    assert resize(square, 8) is square


def test_prepared_sets_have_the_papers_shape():
    assert load("mnist-5k", "test", prepare="crop16").shape == (1, 16, 16)
    assert load("mnist-5k", "test", prepare="resize32").shape == (1, 32, 32)


@pytest.mark.parametrize(
    "how", ["crop", "crop0", "resize-3", "shrink16", "crop16 ", "", "crop99999"]
)
def test_unknown_preparations_are_refused(how):
    with pytest.raises(ValueError, match="cropN or resizeN"):
        prepare(torch.zeros(1, 28, 28), how)


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="cannot crop images of 8×8 to 16×16: resize them"):
        crop16(torch.zeros(1, 8, 8))
