"""A server that was killed in a round goes on: no round is spent twice, none is left out."""

import pytest

import recondite.federated.flower.server as module
from recondite.federated.flower.app import ready_client
from recondite.federated.flower.server import federate
from recondite.federated.flower.simulation import HereGrid
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.settings import Settings


class Killed(BaseException):
    """As a signal that cannot be caught."""


def settings_in(folder, **changes):
    return Settings(
        data="digits",
        prepare="none",
        clients=2,
        rounds=3,
        defence="vmf",
        strength=500.0,
        out=str(folder / "out"),
        ledger=str(folder / "ledgers"),
    ).with_values(**changes)


def grid_of(settings):
    """A new run, as a server that is started again has: only ledgers and results are left."""
    return HereGrid(ready_client(settings.policy()), settings.clients)


def rounds(settings):
    return [
        [line["round"] for line in ReleaseLedger(f"{settings.ledger}/client-{client}").lines()]
        for client in range(2)
    ]


def killed_in(settings, number, monkeypatch, when):
    """Ends a server in a round: once a client replied, or once all did."""
    grid = grid_of(settings)
    answered = grid._answered
    replies = 0

    def counted(message):
        nonlocal replies
        reply = answered(message)
        assert not reply.has_error(), reply.error.reason
        replies += 1
        if replies == 2 * (number - 1) + when:
            raise Killed
        return reply

    monkeypatch.setattr(grid, "_answered", counted)
    with pytest.raises(Killed):
        federate(grid, settings)


@pytest.mark.parametrize("when", [1, 2])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_rounds_and_ledgers_are_exact(tmp_path, monkeypatch, number, when):
    settings = settings_in(tmp_path)
    killed_in(settings, number, monkeypatch, when)
    spent_before = rounds(settings)
    _, rows = federate(grid_of(settings), settings.with_values(resume=1))
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert sum(map(len, spent_before)) == 2 * (number - 1) + when
    assert rounds(settings) == [[1, 2, 3], [1, 2, 3]]
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["rounds.csv", "study.json", "weights.safetensors"]


def test_a_seeded_run_ends_where_it_would_have(tmp_path, monkeypatch):
    whole = settings_in(tmp_path / "whole", seed=3, local_steps=2)
    wanted = federate(grid_of(whole), whole)[0].state_dict()
    cut = settings_in(tmp_path / "cut", seed=3, local_steps=2)
    # The clients live on, as SuperNodes do: their streams are where they were.
    grid = grid_of(cut)
    real = module.evaluate
    seen = []

    def dies(*arguments):
        seen.append(1)
        if len(seen) == 3:
            raise Killed  # after the second round's replies, before they are written
        return real(*arguments)

    monkeypatch.setattr(module, "evaluate", dies)
    with pytest.raises(Killed):
        federate(grid, cut)
    monkeypatch.setattr(module, "evaluate", real)
    found = federate(grid, cut.with_values(resume=1))[0].state_dict()
    assert max(float((found[k] - wanted[k]).abs().max()) for k in wanted) == 0.0


def test_nothing_to_resume_and_other_settings_are_refused(tmp_path, monkeypatch):
    settings = settings_in(tmp_path)
    with pytest.raises(ValueError, match="holds no checkpoint to resume"):
        federate(grid_of(settings), settings.with_values(resume=1))
    killed_in(settings, 1, monkeypatch, 1)
    with pytest.raises(ValueError, match="of other settings"):
        federate(grid_of(settings), settings.with_values(resume=1, batch_size=7))


def test_without_resuming_a_new_federation_is_counted_anew(tmp_path, monkeypatch):
    settings = settings_in(tmp_path)
    killed_in(settings, 1, monkeypatch, 2)
    federate(grid_of(settings), settings)
    assert rounds(settings) == [[1, 1, 2, 3], [1, 1, 2, 3]]
