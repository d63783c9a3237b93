"""The conformance suite of records: ours pass, and each broken promise is found."""

import pytest
import torch

from recondite.records import ImageSet, load, read_table
from recondite.testing import check_records


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    rows = ["age,sex,work,hours,income"]
    for i in range(60):
        work = ("office", "farm", "shop")[i * 7 % 3]
        rows.append(
            f"{20 + i * 13 % 47},{'mf'[i % 2]},{work},{(i * 29 % 41) / 2},{'<>'[i % 5 > 2]}"
        )
    path.write_text("\n".join(rows))
    return read_table(path, "income")


def colours():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(16, 3, 6, 6, generator=generator)
    return ImageSet(pixels, torch.arange(16) % 4, ("a", "b", "c", "d"), public=True)


def test_images():
    check_records(colours())
    check_records(load("digits", "test").spread(60))


def test_tables(table):
    check_records(table)


class Leaky(ImageSet):
    def rendered(self, rebuilt, original, *, reveal):
        return super().rendered(rebuilt, original, reveal=True)


class Revealing(ImageSet):
    def rendered(self, rebuilt, original, *, reveal):
        first, second = super().rendered(rebuilt, original, reveal=True)
        return (first if reveal else None), second


class Peeking(ImageSet):
    def blind(self, public, labels=None):
        return super().blind(public.without(self), labels)


class Generous(ImageSet):
    def compare(self, rebuilt, originals):
        scores = super().compare(rebuilt, originals)
        return {**scores, "ssim": scores["ssim"] + 20 * scores["mse"]}


class Forgetful(ImageSet):
    def digest(self):
        return "0"


class Shuffling(ImageSet):
    def split(self, share, *, seed=0):
        return self, self


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Leaky, "shows an original that may not be seen"),
        (Revealing, "gives an original away"),
        (Peeking, "takes victims for public records"),
        (Generous, "better than an exact copy's"),
        (Forgetful, "one digest for different records"),
        (Shuffling, "loses or repeats records"),
    ],
)
def test_a_broken_promise_is_found(kind, message):
    whole = colours()
    broken = kind(whole.images, whole.labels, whole.classes)
    with pytest.raises(AssertionError, match=message):
        check_records(broken)
