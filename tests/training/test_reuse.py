"""Inputs that are an earlier pass's: refused where the two batches do not explain it."""

import pytest
import torch

from recondite.training.reuse import Reuse
from recondite.training.sampling import Draw


def judge(reuse, places, batch, *passes, keep=True):
    reuse.opened(batch)
    drawn = Draw(len(places), keep, True, list(places))
    reuse.judge(drawn, [one if isinstance(one, list) else [one] for one in passes])


def rows(count=16, width=6, kind=torch.float32):
    return (1000 * torch.randn(count, width)).to(kind)


@pytest.mark.parametrize(
    "kind", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8]
)
@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 3000])
def test_an_earlier_batch_is_known_again_in_any_order(kind, width):
    if width == 1 and kind in (torch.uint8, torch.float16):
        pytest.skip("has few values")
    reuse, first = Reuse(every=1), rows(width=width, kind=kind)
    judge(reuse, range(16), first, first)
    other = rows(width=width, kind=kind)
    judge(reuse, range(16, 32), other, other)
    with pytest.raises(ValueError, match="16 of 16 rows .* has 0 in common"):
        judge(reuse, range(32, 48), rows(width=width, kind=kind), first.flip(0))


def test_many_dimensions_names_and_several_inputs():
    reuse = Reuse(every=1)
    images, marks = torch.randn(9, 3, 8, 8), torch.arange(9)
    judge(reuse, range(9), {"x": images}, [images, marks])
    more = torch.randn(9, 3, 8, 8)
    judge(reuse, range(9, 18), {"x": more}, [more, marks])  # positions are the same
    with pytest.raises(ValueError, match="9 of 9"):
        judge(reuse, range(18, 27), {"x": more + 1}, [images * 1.0, marks])


def test_places_explain():
    reuse, batch = Reuse(every=1), rows()
    judge(reuse, range(16), rows(), batch)
    for _ in range(3):
        judge(reuse, range(16), rows(), batch)
    judge(reuse, [*range(8), *range(20, 28)], rows(), batch)  # half of them
    with pytest.raises(ValueError, match="has 7 in common"):
        judge(reuse, [*range(7), *range(40, 49)], rows(), batch)


def test_records_that_are_twice_in_the_data_explain_but_labels_do_not():
    reuse, batch = Reuse(every=1), rows()
    judge(reuse, range(16), [batch, torch.arange(16) % 3], batch * 2)
    judge(reuse, range(16, 32), [batch, torch.arange(16) % 3], batch * 2)
    with pytest.raises(ValueError, match="has 0 in common"):
        judge(reuse, range(32, 48), [rows(), torch.arange(16) % 3], batch * 2)


def test_three_quarters_of_a_batch_and_no_less():
    reuse, first = Reuse(every=1), rows(40)
    judge(reuse, range(40), first, first)
    some = torch.cat([first[:29], rows(11)])
    judge(reuse, range(40, 80), rows(40), some)
    reuse, most = Reuse(every=1), torch.cat([first[:30], rows(10)])
    judge(reuse, range(40), first, first)
    with pytest.raises(ValueError, match="30 of 40"):
        judge(reuse, range(40, 80), rows(40), most)


def test_constant_inputs_small_batches_and_placeholders_tell_nothing():
    reuse = Reuse(every=1)
    for k in range(5):
        places = range(16 * k, 16 * k + 16)
        judge(reuse, places, rows(), torch.zeros(16, 6))
        judge(reuse, places, rows(), torch.arange(16.0)[:, None] // 2)
        judge(reuse, places, rows(7), torch.ones(7, 2).cumsum(0))
        judge(reuse, places, rows(), torch.ones(16, 2).cumsum(0), keep=False)
        judge(reuse, places, rows(), torch.zeros(16, 0))


def test_two_passes_of_one_step_may_be_the_same():
    reuse, batch = Reuse(every=1), rows()
    judge(reuse, range(16), batch, batch, batch)


@pytest.mark.parametrize("kinds", [8, 12, 16, 40, 128])
@pytest.mark.parametrize("count", [8, 16, 32, 64])
def test_few_kinds_of_rows_are_no_alarm(kinds, count):
    """Even where what was handed out explains nothing: rows are some of a few, by chance."""
    torch.manual_seed(7)
    reuse, known = Reuse(every=1), rows(kinds)
    for k in range(300):
        judge(reuse, range(count * k, count * (k + 1)), None, known[torch.randint(kinds, (count,))])


def test_history_ends(monkeypatch):
    monkeypatch.setattr("recondite.training.reuse._HISTORY", 64)
    reuse, first = Reuse(every=1), rows()
    judge(reuse, range(16), first, first)
    for k in range(1, 30):
        batch = rows()
        judge(reuse, range(16 * k, 16 * k + 16), batch, batch)
    assert len(reuse._seen) == 64
    judge(reuse, range(1000, 1016), rows(), first)  # forgotten, and known from now on
    with pytest.raises(ValueError, match="earlier batch"):
        judge(reuse, range(2000, 2016), rows(), first)


def test_later_batches_are_looked_at_by_chance():
    reuse, first = Reuse(), rows()
    with pytest.raises(ValueError, match="earlier batch"):
        for k in range(2000):
            batch = first if k in (0, *range(16, 2000)) else rows()
            judge(reuse, range(16 * k, 16 * k + 16), rows(), batch)
    assert reuse._opened > 16
