"""Sums of bits: what changes is seen, whatever the type, the shape and the place in memory."""

import pytest
import torch

from recondite.training.checksums import Checksum

KINDS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8]


@pytest.mark.parametrize("kind", [*KINDS, torch.complex64, torch.complex128])
@pytest.mark.parametrize("size", [1, 2, 7, 64, 65, 70_001])
def test_one_number_that_changes_is_seen(kind, size):
    values = (torch.arange(size) % 50).to(kind)
    checksum = Checksum([torch.ones(3), values])
    before = int(checksum())
    for place in {0, size // 2, size - 1}:
        held = values[place].clone()
        values.data[place] = held + 1
        assert int(checksum()) != before
        values.data[place] = held
        assert int(checksum()) == before


@pytest.mark.parametrize(
    "part",
    [
        lambda t: t[1:],  # 8 bytes do not begin there
        lambda t: t.reshape(10, 10).t(),
        lambda t: t[::3],
        lambda t: t[:96].reshape(2, 3, 4, 4).to(memory_format=torch.channels_last),
        lambda t: t[:0],
        lambda t: t[0],
    ],
)
def test_any_view_is_read(part):
    values = part(torch.randn(100, generator=torch.Generator().manual_seed(0)))
    checksum = Checksum([values])
    before = int(checksum())
    assert int(checksum()) == before
    if values.numel():
        values.data.view_as(values)[(-1,) * values.dim()] += 1
        assert int(checksum()) != before


def test_other_memory_is_found():
    weight = torch.nn.Parameter(torch.randn(5, 4))
    checksum = Checksum([weight])
    before = int(checksum())
    weight.data = weight.data.clone()
    assert int(checksum()) == before
    weight.data = weight.data + 1
    assert int(checksum()) != before


def test_threads_do_not_matter():
    values = [torch.randn(300_000), torch.randn(77)]
    checksum, threads = Checksum(values), torch.get_num_threads()
    before = int(checksum())
    try:
        torch.set_num_threads(2)
        assert int(checksum()) == before
    finally:
        torch.set_num_threads(threads)


def test_nothing_has_a_sum():
    assert int(Checksum([])()) == 0
