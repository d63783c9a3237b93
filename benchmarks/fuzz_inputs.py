"""Random inputs, most of them wrong: command lines, study files, JSON, records, weights, messages.

Every input follows from its number alone. ``attempt`` says what came of it; anything but an answer
or one line of refusal is a finding.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CLI_CODES", "KINDS", "attempt", "findings", "run_command"]

Random = np.random.Generator
SEED = 1234
CLI_CODES = (0, 1, 2, 130)
_NUMBERS = (
    "0", "1", "-1", "2", "3.5", "10", "1000", "0.5", "0.01", "1e-5", "1e-12", "1e-300", "1e300",
    "1e309", "inf", "-inf", "nan", "", " ", "1/3", "1/0", "0/0", "128/60000", "1e12", "1e9", "abc",
    "0x10", "١", "1_000", "--", "-0.0", "1e-400", "2,2", "2,,2", "9" * 30, "½", "1;2", "None",
)  # fmt: skip
_NAMES = (
    "gaussian", "vmf", "partitioned", "directional", "none", "natural", "white", "GAUSSIAN", "",
    "poisson", "allocation", "fixed-size", "shuffled", "banana", "release", "run", "epsilon",
    "rero", "bayes-capacity", "mutual-information", "../..", "%s", "{}", "\u202e", "x" * 300,
)  # fmt: skip
_OPTIONS = {
    "account": (
        "--kappa", "--noise-multiplier", "--dim", "--blocks", "--clip-norm", "--max-batch-size",
        "--layers", "--layer-norms", "--set", "--batch-size", "--sampling", "--rate", "--steps",
        "--epochs", "--records", "--delta", "--group-size", "--prior-success", "--neighbouring",
        "--selected-from", "--json",
    ),
    "calibrate": (
        "--epsilon", "--rero", "--bayes-capacity", "--mutual-information", "--target", "--per",
        "--dim", "--rate", "--steps", "--delta", "--batch-size", "--max-batch-size", "--json",
        "--selected-from", "--secret", "--group-size",
    ),
    "match": ("--to", "--by", "--kappa", "--dim", "--noise-multiplier", "--per", "--delta",
              "--rate", "--steps", "--max-batch-size", "--json"),
}  # fmt: skip
_FLAGS = ("--json", "--secret")
_USUAL = {
    "account": (
        "account gaussian --noise-multiplier 1.1 --rate 0.01 --steps 100 --delta 1e-5",
        "account vmf --kappa 75 --dim 13700 --rate 128/60000 --steps 1407 --delta 1/60000",
        "account partitioned --kappa 20 --dim 100 --blocks 4 --rate 0.01 --steps 10 --delta 1e-5",
        "account directional --kappa 2 --dim 50 --batch-size 9 --records 99 --epochs 2 --delta .01",
        "account gaussian --noise-multiplier 2 --batch-size 9 --records 99 --epochs 2 --delta 1e-5",
    ),
    "calibrate": (
        "calibrate gaussian --epsilon 3 --rate 0.01 --steps 100 --delta 1e-5",
        "calibrate vmf --dim 1000 --bayes-capacity 4",
        "calibrate gaussian --rero 0.5 --rate 0.01 --steps 50",
    ),
    "match": ("match gaussian --noise-multiplier 1.23 --max-batch-size 160 --to vmf "
              "--by bayes-capacity --dim 137",),
}  # fmt: skip


def _pick(rng: Random, among: Any) -> Any:
    return among[int(rng.integers(len(among)))]


def _command(rng: Random, folder: Path) -> None:
    """A usual command line with a few words replaced, dropped or added."""
    del folder
    name = _pick(rng, tuple(_USUAL))
    words = _pick(rng, _USUAL[name]).split()
    for _ in range(int(rng.integers(1, 4))):
        change, place = rng.integers(5), int(rng.integers(1, len(words)))
        if change == 0:
            words[place] = str(_pick(rng, _NUMBERS))
        elif change == 1:
            words[place] = str(_pick(rng, _NAMES))
        elif change == 2 and len(words) > 2:
            del words[place]
        else:
            option = _pick(rng, _OPTIONS[name])
            words += [option] if option in _FLAGS else [option, str(_pick(rng, _NUMBERS))]
    run_command(words)


def _files_command(rng: Random, folder: Path) -> None:
    """A command that reads a small file of a person's own."""
    which = int(rng.integers(3))
    if which == 0:
        rows = [["0.5", "0.5"], ["0.1", "0.9"]]
        text = _mutated_table(rng, rows)
        (folder / "channel.csv").write_bytes(text)
        run_command(["leakage", "channel", str(folder / "channel.csv"), "--json"])
    elif which == 1:
        file = io.BytesIO()
        np.save(file, rng.normal(size=(int(rng.integers(0, 6)), int(rng.integers(1, 4)))))
        (folder / "records.npy").write_bytes(_mutated(rng, file.getvalue()))
        capacity = str(_pick(rng, _NUMBERS))
        kind = _pick(rng, ("natural", "white", "personalized", "minimum-power", "banana"))
        where = str(folder / "records.npy")
        run_command(["channel", kind, "--data", where, f"--capacity={capacity}", "--json"])
    else:
        line = json.dumps({"key": "a", "round": 1, "mechanism": "gaussian", "steps": 3})
        (folder / "releases.jsonl").write_bytes(_mutated(rng, (line + "\n").encode() * 3))
        run_command(["federate", "ledger", str(folder), "--json"])


def _mutated(rng: Random, content: bytes) -> bytes:
    """Bytes flipped, cut, doubled or inserted."""
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(out) + 1)) if out else 0
        change = rng.integers(5)
        if change == 0 and out:
            out[place % len(out)] = int(rng.integers(256))
        elif change == 1:
            out[place:place] = rng.bytes(int(rng.integers(1, 9)))
        elif change == 2:
            del out[place : place + int(rng.integers(1, 20))]
        elif change == 3:
            out[place:place] = out[place : place + 30]
        else:
            out[place:place] = str(_pick(rng, _NUMBERS)).encode()
    return bytes(out)


def _mutated_table(rng: Random, rows: list[list[str]]) -> bytes:
    for _ in range(int(rng.integers(1, 4))):
        row = _pick(rng, rows)
        if row:
            row[int(rng.integers(len(row)))] = str(_pick(rng, _NUMBERS))
    text = "\n".join(",".join(row) for row in rows).encode()
    return _mutated(rng, text) if rng.random() < 0.3 else text


_STUDY = """\
name: tried
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [0.5, 1.0]
  - name: vmf
    at: {epsilon: [2, 8]}
training: {epochs: 4, batch_size: 64, learning_rate: 0.01}
attacks:
  - name: inverting-gradients
    images: 4
    steps: 150
seeds: 2
delta: 0.001
"""


def _yaml(rng: Random, folder: Path) -> None:
    """A study file with lines moved and values replaced."""
    del folder
    from recondite.studies.source import parse
    from recondite.studies.study import check_source

    lines = _STUDY.splitlines()
    for _ in range(int(rng.integers(1, 4))):
        place, change = int(rng.integers(len(lines))), _pick(rng, (0, 1, 2, 3, 4, 5, 6, 6, 6, 6))
        if change == 0:
            key = lines[place].split(":")[0]
            lines[place] = f"{key}: {_pick(rng, _NUMBERS + _NAMES)}"
        elif change == 6:  # another value alone: YAML still, and a study nearly
            words = re.findall(r"[^\s:\[\]{},-][^:\[\]{},\n]*", lines[place])[1:]
            if words:
                with_it = str(_pick(rng, (*_NUMBERS, *_NAMES, *_STUDY.split())))
                lines[place] = lines[place].replace(str(_pick(rng, words)), with_it, 1)
        elif change == 1:
            del lines[place]
        elif change == 2:
            lines.insert(place, lines[int(rng.integers(len(lines)))])
        elif change == 3:
            lines[place] = " " * int(rng.integers(8)) + lines[place].strip()
        elif change == 4:
            lines.insert(place, str(_pick(rng, ("&a", "*a", "? x", "- - -", "!!python/x", "\t"))))
        else:
            text = _mutated(rng, "\n".join(lines).encode()).decode("utf-8", "replace")
            lines = text.splitlines() or [""]
    check_source(parse("\n".join(lines), "study.yaml"))


def _json(rng: Random, folder: Path) -> None:
    """A ledger of a training, or the rows of a study, damaged."""
    from recondite.studies import store
    from recondite.training.ledger import Ledger

    if rng.random() < 0.5:
        path = folder / "ledger.json"
        ledger = Ledger(path)
        ledger.bind({"mechanism": "gaussian", "parameters": {"noise_multiplier": 1.0}})
        ledger.close()
        path.write_bytes(_mutated(rng, path.read_bytes()))
        _ = Ledger(path).taken
    else:
        row = {"key": "a", "kind": "row", "status": "done", "attack": "none", "notions": {}}
        text = "".join(json.dumps({**row, "key": f"k{n}"}) + "\n" for n in range(3))
        (folder / store.RECORDS).write_bytes(_mutated(rng, text.encode()))
        study = json.dumps({"schema_version": 1, "keys": ["k0", "k1"], "name": "x"})
        (folder / store.STUDY).write_bytes(
            _mutated(rng, study.encode()) if rng.random() < 0.5 else study.encode()
        )
        store.load(folder)


def _records(rng: Random, folder: Path) -> None:
    """A table with odd cells, or an IDX file with odd bytes."""
    from recondite.records.idx import read_idx

    from recondite.records.table_files import load_table

    if rng.random() < 0.7:
        rows = [["age", "town", "class"]]
        rows += [[str(n * n % 17), _pick(rng, ("a", "b", "c")), str(n % 2)] for n in range(12)]
        path = folder / "table.csv"
        path.write_bytes(_mutated_table(rng, rows))
        name = _pick(rng, ("class", "class", "town", "age", "none", ""))
        load_table(f"{path}#{name}", _pick(rng, ("train", "test", "all")))
    else:
        content = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 3, 3)) + bytes(18)
        path = folder / "images-idx3-ubyte"
        path.write_bytes(_mutated(rng, content))
        read_idx(path)


def _safetensors(rng: Random, folder: Path) -> None:
    """A safetensors file with a damaged header or odd entries."""
    from recondite.models.weights import read_tensors

    entry: dict[str, Any] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    for _ in range(int(rng.integers(0, 3))):
        key = _pick(rng, tuple(entry))
        entry[key] = _pick(
            rng, ([], [-1], [1e99], [0, 17], [16, 0], "F64", "I8", None, {}, [2**63])
        )
    header = json.dumps({"w": entry, **({"w2": entry} if rng.random() < 0.2 else {})}).encode()
    size = len(header) if rng.random() < 0.7 else int(rng.integers(0, 2**62))
    content = size.to_bytes(8, "little") + header + bytes(16)
    path = folder / "w.safetensors"
    path.write_bytes(_mutated(rng, content) if rng.random() < 0.5 else content)
    read_tensors(path)


def _message(rng: Random, folder: Path) -> None:
    """A reply of a client, or a server's configuration."""
    del folder
    from recondite.federated.checks import screened

    from recondite.federated.flower import flower
    from recondite.federated.settings import Settings

    if rng.random() < 0.5:
        names = ("rounds", "fraction", "defence", "strength", "wait", "max-weight", "attack-steps",
                 "server.rounds", "max-update", "resume", "audit-every", "\0", "capacity", "seed",
                 "sampling", "delta", "max-grad-norm")  # fmt: skip
        values = [*_NUMBERS, *_NAMES, 3, -1, 1.5, float("nan"), float("inf"), 10**30, True]
        config = {_pick(rng, names): _pick(rng, values) for _ in range(3)}
        _pick(rng, (Settings.of, Settings.of_server, Settings.pinned))(config)
        return
    app = flower()
    identity: Any = flower("flwr.supercore.task_identity").TaskIdentity
    identity.task_id, identity.run_id, identity.node_id = 1, 7, 1
    odd = (np.nan, np.inf, 3e38, 0.0, 1.0, -1e-45)
    array = rng.normal(size=_pick(rng, ((2, 2), (4,), (0,), (2, 3)))).astype(
        _pick(rng, ("f4", "f8", "i8", "u1", "f2"))
    )
    if array.size and array.dtype.kind == "f" and rng.random() < 0.5:
        array.flat[0] = _pick(rng, odd)
    held = app.Array(array)
    if rng.random() < 0.4:
        held.data = _mutated(rng, held.data)
    weight = _pick(rng, (1, 10**15, -1, 0, 0.5, float("nan"), float("inf"), 10**300))
    content = app.RecordDict(
        {
            "arrays": app.ArrayRecord({_pick(rng, ("w", "w", "v", "")): held}),
            "metrics": app.MetricRecord({_pick(rng, ("num-examples", "x")): weight}),
        }
    )
    question = app.Message(app.RecordDict(), dst_node_id=3, message_type="train")
    question.metadata.__dict__.update(_run_id=7, _message_id="7-1")
    reply = app.Message(content, reply_to=question)
    sent = {3: {"w": np.zeros((2, 2), "f4")}, reply.metadata.src_node_id: {"w": np.zeros((2, 2))}}
    good, _ = screened([reply], sent, round_number=1)
    for passed in good:
        for record in passed.content.array_records.values():
            for value in record.values():
                assert np.isfinite(value.numpy()).all(), "a reply that is not finite passed"


KINDS: dict[str, tuple[float, Callable[[Random, Path], None]]] = {
    "command": (0.3, _command),
    "command with a file": (0.15, _files_command),
    "yaml": (0.15, _yaml),
    "json": (0.1, _json),
    "records": (0.1, _records),
    "safetensors": (0.1, _safetensors),
    "message": (0.1, _message),
}


class FindingError(Exception):
    """Something that must not happen did."""


def run_command(words: list[str]) -> tuple[int, str]:
    """Runs a command line in this process and looks at what came out.

    Raises:
      FindingError: A traceback, a NaN, an odd exit code or an error that nobody foresaw.
    """
    from recondite.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["-q", *words])
    said, told = out.getvalue(), err.getvalue()
    if code not in CLI_CODES:
        raise FindingError(f"exit code {code}")
    if "Traceback" in said + told:
        raise FindingError("traceback")
    if "run again with --debug" in told:
        raise FindingError(told.strip()[-300:])
    if code == 0 and re.search(r"\bnan\b", said, re.IGNORECASE):
        raise FindingError("NaN in the output")
    if code and not told.strip() and code != 130:
        raise FindingError(f"exit code {code} without a word")
    return code, said


def attempt(number: int, seed: int = SEED) -> dict[str, Any]:
    """Tries one input.

    Returns:
      Its number, its kind, and ``finding`` where something is wrong.
    """
    import time

    from recondite.federated.policy import StayOutError
    from recondite.studies.store import StoreError
    from recondite.training.ledger import LedgerError

    rng = np.random.default_rng([seed, number])
    names = list(KINDS)
    kind = names[int(rng.choice(len(names), p=[KINDS[name][0] for name in names]))]
    row: dict[str, Any] = {"number": number, "kind": kind}
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            KINDS[kind][1](rng, Path(folder))
            row["outcome"] = "answer"
        except (ValueError, LedgerError, StoreError, StayOutError) as error:
            row["outcome"] = "refusal"
            if len(str(error).splitlines()) > 12:
                row["finding"] = f"a refusal of {len(str(error).splitlines())} lines"
        except FindingError as error:
            row["finding"] = str(error)
        except Exception as error:  # whatever it is, it is a finding
            row["finding"] = f"{type(error).__name__}: {error}"[:300]
    if (seconds := time.process_time() - started) > 10.0:
        row["finding"] = f"took {seconds:.0f} s of processor time"
    return row


def findings(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that must be mended."""
    return [row for row in rows if "finding" in row]
