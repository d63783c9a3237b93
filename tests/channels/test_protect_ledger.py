"""The ledger: it counts before, forgets nothing, counts nothing twice, and stops in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recondite.channels import BudgetSpentError, NaturalChannel, RecordLedger, Spectrum
from recondite.channels.ledger import Counted, law_of
from recondite.channels.secret import NoiseDraw

SPECTRUM = Spectrum.from_eigenvalues([4.0, 1.0, 0.5])
CHANNEL = NaturalChannel.from_spectrum(SPECTRUM, 2.0)
OTHER = NaturalChannel.from_spectrum(SPECTRUM, 3.0)


def draw(name, channel=CHANNEL):
    return NoiseDraw(name, law_of(channel), channel.capacity_nats)


def test_nothing_used_tells_nothing():
    ledger = RecordLedger(CHANNEL, 5)
    assert (ledger.uses, ledger.nats) == (0, 0.0)


def test_every_serving_counts():
    ledger = RecordLedger(CHANNEL, 5)
    served = ledger.serve([0, 1, -1, np.int64(1), torch.tensor(1)])
    assert served == [0, 1, 4, 1, 1]
    assert all(isinstance(index, Counted) for index in served)
    assert ledger.uses == 3
    assert ledger.nats == CHANNEL.information(3, "per_step")
    assert ledger.serve([]) == []
    assert ledger.uses == 3


def test_draws_count_once_each():
    ledger = RecordLedger(CHANNEL, 5)
    ledger.draw(draw("a"))
    ledger.draw(draw("a"))
    assert (ledger.uses, ledger.nats) == (1, CHANNEL.capacity_nats)
    ledger.draw(draw("b"))
    assert (ledger.uses, ledger.nats) == (2, CHANNEL.information(2, "per_step"))
    ledger.serve([2])
    assert (ledger.uses, ledger.nats) == (3, CHANNEL.information(3, "per_step"))


def test_other_channels_are_added_at_their_capacity():
    ledger = RecordLedger(CHANNEL, 5)
    ledger.draw(draw("a"), draw("b", OTHER), draw("c", OTHER))
    assert ledger.uses == 3
    assert ledger.nats == pytest.approx(2.0 + 2 * 3.0)


def test_a_channel_fitted_again_is_the_same_law():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, 6)) @ np.diag([3, 2, 1, 1, 0.5, 0.1])
    one, two = (NaturalChannel.fit(data * scale, 2.0) for scale in (1.0, 1 + 1e-13))
    assert one.noise_variance != two.noise_variance
    assert law_of(one) == law_of(two)
    assert len({law_of(c) for c in (CHANNEL, OTHER, one, NaturalChannel.fit(data * 1.1, 2.0))}) == 4


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=8), st.randoms())
def test_states_of_any_age_lose_nothing_and_count_nothing_twice(batches, random):
    """Three runs, checkpoints taken on the way, put together in any order, some repeatedly."""
    runs = [RecordLedger(CHANNEL, 5) for _ in range(3)]
    states = []
    for batch in batches:
        run = random.choice(runs)
        run.serve(batch)
        states.append(run.state_dict())
    states += [run.state_dict() for run in runs] + states[:3]
    random.shuffle(states)
    total = RecordLedger(CHANNEL, 5)
    for state in states:
        total.load_state_dict(json.loads(json.dumps(state)))
    counts = np.bincount([index for batch in batches for index in batch], minlength=5)
    assert total.uses == counts.max()
    runs[0].load_state_dict(total.state_dict())
    assert runs[0].uses == counts.max()


def test_going_back_to_a_checkpoint_forgets_nothing():
    ledger = RecordLedger(CHANNEL, 5)
    ledger.serve([0])
    state = ledger.state_dict()
    ledger.serve([0, 0])
    ledger.load_state_dict(state)
    assert ledger.uses == 3
    ledger.serve([0])
    assert ledger.uses == 4


def test_state_can_be_saved_by_torch(tmp_path):
    ledger = RecordLedger(CHANNEL, 5)
    ledger.serve([0, 1])
    ledger.draw(draw("a"))
    torch.save(ledger.state_dict(), tmp_path / "state.pt")
    again = RecordLedger(CHANNEL, 5)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert again.state_dict()["laws"] == ledger.state_dict()["laws"]


@pytest.mark.parametrize("total", [2.0, 2.5, 4.0, 6.0])
def test_the_budget_is_used_up_and_never_exceeded(total):
    ledger = RecordLedger(CHANNEL, 3, total=total)
    served = 0
    while served < 1000 and ledger.message is None:
        with pytest.warns(UserWarning, match="spent") if _next_exceeds(ledger) else _quiet():
            if ledger.serve([0, 1]) is not None:
                served += 1
        assert ledger.nats <= total
    assert served < 1000
    assert CHANNEL.information(served + 1, "per_step") > total
    assert ledger.uses == served
    assert ledger.serve([0]) is None
    # A record that was used less may still be served.
    assert ledger.serve([2]) == [2]


def _next_exceeds(ledger):
    return CHANNEL.information(ledger.uses + 1, "per_step") > ledger.total


def _quiet():
    import contextlib

    return contextlib.nullcontext()


def test_a_record_twice_in_a_batch_counts_twice_against_the_budget():
    ledger = RecordLedger(CHANNEL, 3, total=CHANNEL.information(1))
    with pytest.warns(UserWarning, match="spent"):
        assert ledger.serve([1, 1]) is None
    assert ledger.uses == 0


def test_a_budget_out_of_reach_is_no_limit():
    ledger = RecordLedger(CHANNEL, 3, total=1e6)
    for _ in range(50):
        assert ledger.serve([0]) == [0]
    assert ledger.uses == 50
    assert ledger.message is None


def test_draws_beyond_the_budget():
    ledger = RecordLedger(CHANNEL, 3, total=2.0)
    ledger.draw(draw("a"))
    assert ledger.within_budget()
    with pytest.raises(BudgetSpentError, match="2 use"):
        ledger.draw(draw("b"))


def test_a_state_can_spend_the_budget():
    used, ledger = RecordLedger(CHANNEL, 3), RecordLedger(CHANNEL, 3, total=2.5)
    used.draw(draw("a"), draw("b"))
    assert ledger.within_budget()
    ledger.load_state_dict(used.state_dict())
    with pytest.warns(UserWarning, match="spent"):
        assert not ledger.within_budget()
    assert ledger.serve([0]) is None


def test_journal_is_found_again(tmp_path):
    path = tmp_path / "uses"
    first = RecordLedger(CHANNEL, 3, path=path)
    first.serve([0, 0])
    first.draw(draw("a"))
    again = RecordLedger(CHANNEL, 3, path=path)
    assert again.uses == 3
    again.serve([0])
    assert first.uses == again.uses == 4
    # What a state and the journal both know counts once.
    again.load_state_dict(first.state_dict())
    assert again.uses == 4
    other = RecordLedger(OTHER, 3, path=path)
    assert other.uses == 4
    assert other.nats == 4 * CHANNEL.capacity_nats
    assert path.stat().st_mode & 0o077 == 0


def test_runs_side_by_side_share_a_budget(tmp_path):
    total = CHANNEL.information(3, "per_step")
    one, two = (RecordLedger(CHANNEL, 3, total=total, path=tmp_path / "uses") for _ in range(2))
    for ledger in (one, two, one):
        assert ledger.serve([0]) == [0]
    with pytest.warns(UserWarning, match="spent"):
        assert two.serve([0]) is None


def test_journal_with_a_line_cut_short(tmp_path):
    path = tmp_path / "uses"
    RecordLedger(CHANNEL, 3, path=path).serve([0])
    with path.open("ab") as file:
        file.write(b'{"served":[0,0,0],"ru')
    again = RecordLedger(CHANNEL, 3, path=path)
    assert again.uses == 1
    again.serve([0])
    assert RecordLedger(CHANNEL, 3, path=path).uses == 2


def test_a_killed_run_reports_every_batch_it_served(tmp_path):
    """The child is killed without warning; what it printed it had served."""
    script = """
        import sys
        from recondite.channels import Ledger, NaturalChannel, Spectrum
        channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues([4.0, 1.0, 0.5]), 2.0)
        ledger = Ledger(channel, 3, path=sys.argv[1])
        while True:
            ledger.serve([0])
            print(ledger.uses, flush=True)
    """
    path = tmp_path / "uses"
    arguments = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        for _ in range(20):
            last = child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        served = [int(last), *map(int, child.stdout.read().split())]
    again = RecordLedger(CHANNEL, 3, path=path)
    assert again.uses >= served[-1] >= 20


def test_bad_arguments(tmp_path):
    ledger = RecordLedger(CHANNEL, 3)
    with pytest.raises(IndexError, match="out of range for 3"):
        ledger.serve([3])
    with pytest.raises(ValueError, match="by number"):
        ledger.serve(["a"])
    with pytest.raises(ValueError, match="total_information"):
        RecordLedger(CHANNEL, 3, total=-1)
    for state, reason in [
        ({}, "not one of a ledger"),
        (None, "not one of a ledger"),
        ({**ledger.state_dict(), "version": 2}, "version 2"),
        (RecordLedger(CHANNEL, 4).state_dict(), "of 4 records"),
    ]:
        with pytest.raises(ValueError, match=reason):
            ledger.load_state_dict(state)
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(ValueError, match="not a file written by recondite"):
        RecordLedger(CHANNEL, 3, path=tmp_path / "text")
    RecordLedger(CHANNEL, 4, path=tmp_path / "four")
    with pytest.raises(ValueError, match="give each set its own"):
        RecordLedger(CHANNEL, 3, path=tmp_path / "four")
    with pytest.raises(ValueError, match="cannot be written"):
        RecordLedger(CHANNEL, 3, path=tmp_path)


def test_a_damaged_line_is_refused(tmp_path):
    path = tmp_path / "uses"
    ledger = RecordLedger(CHANNEL, 3, path=path)
    ledger.serve([0, 1])
    ledger.serve([2])
    whole = path.read_bytes()
    for damaged in (whole.replace(b"[0,1]", b"[0,2]"), whole.replace(b'{"served":[0', b"")):
        path.write_bytes(damaged)
        with pytest.raises(
            ValueError, match=r"uses is damaged in line 2, and uses may be"
        ) as caught:
            RecordLedger(CHANNEL, 3, path=path)
        assert "\n" not in str(caught.value)


def test_a_draw_whose_line_failed_is_written_the_next_time(tmp_path, monkeypatch):
    ledger = RecordLedger(CHANNEL, 3, path=tmp_path / "uses")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match="cannot be written: No space left"):
        ledger.draw(draw("a"))
    monkeypatch.undo()
    ledger.draw(draw("a"))
    assert RecordLedger(CHANNEL, 3, path=tmp_path / "uses").uses == 1


def test_a_seed_is_never_forgotten(tmp_path):
    first = RecordLedger(CHANNEL, 3, path=tmp_path / "uses")
    assert not first.simulation
    first.simulate()
    assert RecordLedger(CHANNEL, 3, path=tmp_path / "uses").simulation
    other = RecordLedger(CHANNEL, 3, path=tmp_path / "other")
    other.load_state_dict(first.state_dict())
    assert other.simulation
    assert RecordLedger(CHANNEL, 3, path=tmp_path / "other").simulation


def test_a_spent_budget_is_one_exception_whatever_was_spent():
    pytest.importorskip("torch")
    from recondite import training

    assert training.BudgetSpentError is BudgetSpentError
    assert issubclass(BudgetSpentError, ValueError)  # of records, in 0.1.0
    assert issubclass(BudgetSpentError, RuntimeError)  # of training, in 0.1.0
