"""Kills −9 of a federation's server and of its clients, each followed by resuming.

``python -m benchmarks.kills_federated --server-kills 50 --out results/kills-federated.json``

The server is a process, and every client answers in a process of its own, started by the server
for each message as Flower's SuperNode does. Either is killed at a random instant; the server is
then started again with ``resume``. Ended federations are checked: no round is lost, and whatever
reached the server is in its client's ledger, once, and never with other bytes for the same round.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import pickle
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.provenance import provenance
from recondite._locks import Log
from recondite.federated.flower.app import ready_client
from recondite.federated.flower.processes import descendants
from recondite.federated.flower.replies import error_reply, server_round
from recondite.federated.flower.server import federate
from recondite.federated.flower.simulation import HereGrid
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.settings import Settings
from recondite.federated.shares import held_out_set, initial_model, share_of

__all__ = ["federation", "main"]

CLIENTS, ROUNDS = 2, 6


class _Apart(HereGrid):
    """Clients that answer in processes of their own; what reaches the server is written down."""

    def __init__(self, folder: Path, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.log = Log(folder / "received.jsonl")

    def _answered(self, message: Any) -> Any:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            # Its server may be gone when it is done: it ends without a word.
            with contextlib.suppress(OSError), os.fdopen(writing, "wb") as file:
                pickle.dump(super()._answered(message), file)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            content = file.read()
        _, code = os.waitpid(child, 0)
        if code:
            return error_reply(message, "this client was killed")
        reply = pickle.loads(content)
        reply.metadata.__dict__.update(_src_node_id=message.metadata.dst_node_id)
        if not reply.has_error():
            digest = hashlib.blake2b(digest_size=16)
            for array in reply.content["arrays"].values():
                digest.update(array.data)
            seen = (message.metadata.dst_node_id - 1, server_round(message), digest.hexdigest())
            self.log.append(json.dumps(seen).encode())
        return reply


def _settings(folder: Path, resume: bool) -> Settings:
    return Settings(
        data="digits",
        prepare="none",
        clients=CLIENTS,
        rounds=ROUNDS,
        defence="gaussian",
        strength=4.0,
        out=str(folder / "out"),
        resume=int(resume),
    )


def _serve(folder: Path) -> None:
    """The server, from where the last one was killed; the same if it is the first."""
    resume = (folder / "out" / "checkpoint.json").exists()
    settings = _settings(folder, resume)
    policy = settings.policy().with_values(ledger=str(folder / "ledgers"))
    federate(_Apart(folder, ready_client(policy), CLIENTS), settings)


def _checked(folder: Path) -> dict[str, int]:
    """What a federation that ended holds; raises where something was lost or not counted."""
    rounds = (folder / "out" / "rounds.csv").read_text().splitlines()[1:]
    numbers = [int(line.split(",")[0]) for line in rounds]
    assert numbers == list(range(ROUNDS + 1)), f"rounds were lost: {numbers}"
    received = [json.loads(line) for line in Log(folder / "received.jsonl").read()]
    counted = 0
    for client in range(CLIENTS):
        lines = ReleaseLedger(folder / "ledgers" / f"client-{client}").lines()
        told = [line["round"] for line in lines]
        assert told == sorted(set(told)), f"a round was counted twice or out of order: {told}"
        mine = {(number, digest) for who, number, digest in received if who == client}
        assert {number for number, _ in mine} <= set(told), "a release was not counted"
        assert len(mine) == len({number for number, _ in mine}), "a round left with other bytes"
        counted += len(told)
    return {"received": len(received), "counted": counted}


def federation(folder: Path, kills: int, chance: random.Random) -> dict[str, int]:
    """One federation, killed and resumed until it ends; at most so many kills.

    Returns:
      Kills of the server and of clients, and what was received and counted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {"server": 0, "client": 0}
    while True:
        process = _started(folder)
        code = None
        while code is None:
            if sum(done.values()) >= kills:
                code = os.waitpid(process, 0)[1]
            elif chance.random() < 0.5:
                code = _waited(process, chance.uniform(0.0, 2.0))
                if code is None:
                    os.kill(process, signal.SIGKILL)
                    code = os.waitpid(process, 0)[1]
                    done["server"] += 1
            else:
                code, killed = _without_client(process, chance)
                done["client"] += killed
        if code == 0:
            return {**done, **_checked(folder)}
        assert os.WIFSIGNALED(code), f"the server ended with status {code}"


def _started(folder: Path) -> int:
    process = os.fork()
    if process:
        return process
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    try:
        _serve(folder)
    except BaseException as error:
        print(f"server: {error!r}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def _waited(process: int, seconds: float) -> int | None:
    """The status of a server that ended within a time; None where it did not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            return code
        time.sleep(0.001)
    return None


def _without_client(process: int, chance: random.Random) -> tuple[int | None, int]:
    """Kills the next client that answers, at a random instant; the server goes on."""
    code = _waited(process, chance.uniform(0.0, 1.0))
    while code is None and not descendants([process]):
        code = _waited(process, 0.001)
    if code is not None:
        return code, 0
    code = _waited(process, chance.uniform(0.0, 0.1))
    killed = 0
    for client in descendants([process]) if code is None else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(client, signal.SIGKILL)
            killed = 1
    return code, killed


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=50, help="of servers and clients together")
    parser.add_argument("--server-kills", type=int, default=0, help="at least so many of servers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    # Of the code that runs, not of what the folder holds when it ends.
    wanted = f"--kills {given.kills} --server-kills {given.server_kills} --seed {given.seed}"
    command = f"python -m benchmarks.kills_federated {wanted}"
    whence = {**provenance(), "command": command}
    chance, total = random.Random(given.seed), dict[str, int]()
    with tempfile.TemporaryDirectory() as place:
        # Read before the first fork: servers and clients find them in memory.
        warm = _settings(Path(place), resume=False)
        held_out_set(warm), initial_model(warm), share_of(warm, 0)
    federations = 0
    with tempfile.TemporaryDirectory() as place:
        while left := _left(total, given.kills, given.server_kills):
            found = federation(Path(place) / str(federations), min(left, 10), chance)
            federations += 1
            total = {key: total.get(key, 0) + value for key, value in found.items()}
            print(f"{federations} federations: {total}", file=sys.stderr, flush=True)
            if given.out is not None:
                _write(given.out, federations, total, whence)
    result = {"federations": federations, **total, "lost": 0, "not_counted": 0}
    print(json.dumps(result))
    return 0


def _left(total: dict[str, int], kills: int, server_kills: int) -> int:
    """Kills that are still wanted; each may be a server's or a client's."""
    servers = total.get("server", 0)
    return max(0, kills - servers - total.get("client", 0), server_kills - servers)


def _write(out: Path, federations: int, total: dict[str, int], whence: dict[str, Any]) -> None:
    # A federation that lost or hid something raises, and is never counted.
    result = {"federations": federations, **total, "lost": 0, "not_counted": 0}
    out.write_text(json.dumps({**result, "provenance": whence}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
