"""A ledger that was damaged or lost is refused: it must never read as a smaller one."""

import json

import pytest

import recondite as rc
from recondite.federated import Budget, defend
from recondite.federated.ledger import ReleaseLedger


@pytest.fixture
def client(tmp_path, message, context, app):
    """A client with a budget of four rounds, asked for one round after the other."""
    folder = tmp_path / "ledger"

    def ask(number, node=5, run=7):
        mod = defend(rc.Gaussian(4.0), max_norm=1.0, ledger=folder, budget=Budget(rounds=4))
        given = context()
        given.node_id = node
        return mod(message(number=number, run=run), given, app())

    for number in (1, 2, 3):
        assert not ask(number).has_error()
    ask.path, ask.folder = folder / "releases.jsonl", folder
    return ask


def release_lines(path):
    return [n for n, text in enumerate(path.read_bytes().split(b"\n")) if b'"key"' in text]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace(b'"key"', b'"kez"'),
        lambda text: text.replace(b'"key":"', b'"key":"0', 1),
        lambda text: text.replace(b'"noise_multiplier":4.0', b'"noise_multiplier":9.0'),
        lambda text: text.replace(b'"round":2', b'"round":3'),
        lambda text: text.replace(b'"check"', b'"chxck"'),
        lambda text: b"[]",
        lambda text: b"{}",
        lambda text: b"{" + text,
        lambda text: text[:-1] + b"|",
        lambda text: text[: len(text) // 2],
    ],
)
@pytest.mark.parametrize("which", [1, 2])
def test_a_damaged_line_is_refused_in_one_line(client, damage, which):
    lines = client.path.read_bytes().split(b"\n")
    place = release_lines(client.path)[which]
    changed = damage(lines[place])
    if changed == lines[place]:
        pytest.skip("this line has no such part")
    lines[place] = changed
    client.path.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=f"damaged at line {place + 1}: restore it"):
        ReleaseLedger(client.folder)
    assert client(4).has_error()


def test_every_byte_of_a_release_counts(client):
    whole = client.path.read_bytes()
    start = whole.index(b"\n") + 1
    for place in range(start, len(whole)):
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        client.path.write_bytes(flipped)
        with pytest.raises(ValueError, match="damaged"):
            ReleaseLedger(client.folder).lines()


def test_a_deleted_ledger_is_not_a_new_one(client):
    client.path.unlink()
    with pytest.raises(ValueError, match="was deleted, not its releases"):
        ReleaseLedger(client.folder)
    assert client(4).has_error()
    client.path.touch()
    assert client(4).has_error(), "an emptied one neither"


def test_a_line_cut_short_by_a_kill_is_passed_over(client):
    with client.path.open("ab") as file:
        file.write(b'{"key": "half')
    assert len(ReleaseLedger(client.folder).lines()) == 3
    assert not client(4).has_error()
    assert len(ReleaseLedger(client.folder).lines()) == 4
    assert b"half" not in client.path.read_bytes()
    assert "budget" in client(5).error.reason


def test_a_folder_whose_first_line_was_cut_short_begins_again(tmp_path):
    (tmp_path / "releases.jsonl").write_bytes(b'{"form')
    assert ReleaseLedger(tmp_path).lines() == []
    ReleaseLedger(tmp_path).write({"key": "a"})
    assert ReleaseLedger(tmp_path).lines() == [{"key": "a"}]


def test_a_ledger_of_the_first_format_is_read_and_goes_on(client):
    texts = client.path.read_text().replace("ledger 2", "ledger 1").splitlines()
    plain = [json.loads(text) for text in texts]
    for line in plain:
        line.pop("check", None)
        line.pop("node", None)
    client.path.write_text("".join(f"\n{json.dumps(line)}\n" for line in plain))
    assert len(ReleaseLedger(client.folder).lines()) == 3
    assert not client(4).has_error()
    assert "budget" in client(5).error.reason


def test_two_clients_on_one_ledger_never_send_the_same_bytes(client):
    first = client(4, node=5)
    second = client(4, node=6)
    assert not first.has_error()
    assert "another client released this round from the same ledger" in second.error.reason
    assert not client(4, node=5).has_error(), "a retry of the first is still one"
