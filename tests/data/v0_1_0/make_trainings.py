"""Wrote the folders beside it, with version 0.1.0: interrupted trainings, and federations.

Run with that version (commit 76043d6) on the import path:
``python tests/data/v0_1_0/make_trainings.py FOLDER``. Each of FOLDER/training is what
``recondite train`` leaves after an interruption in its second epoch; FOLDER/federation holds the
ledgers of a client of ``recondite federate up --data digits --rounds 2``, with what
``recondite federate ledger --json`` of that version said of them.
"""

import contextlib
import json
import sys
import tempfile
from pathlib import Path

import recondite as rc

RUNS = {
    "gaussian": {"mechanism": rc.Gaussian(1.5)},
    "seeded": {"mechanism": rc.VonMisesFisher(50.0), "seed": 3},
    "natural": {
        "mechanism": rc.NoNoise(),
        "clipping": "none",
        "channel": "natural",
        "capacity": 5.0,
        "channel_noise": "per_step",
    },
}
FEDERATIONS = {
    "gaussian": ("gaussian", "--strength", "2", "--level", "record"),
    "vmf": ("vmf", "--strength", "500"),
    "natural": ("natural-channel",),
}


def plan(name):
    """The configuration of a run, as 0.1.0 wrote it."""
    from recondite.training.plan import Plan

    few = {"epochs": 2, "records": 100, "batch_size": 25, "optimizer": "sgd", "prepare": "none"}
    return Plan(data="digits", model="mlp", **few, **RUNS[name])


def stop(progress):
    """Interrupts the second epoch after its first step."""
    if progress.epoch == 1:
        raise KeyboardInterrupt


def federation(name, folder):
    """Two rounds of two processes; of the first one's folder the ledger is kept."""
    from recondite.cli.main import run
    from recondite.federated import cost
    from recondite.federated.ledger import ReleaseLedger

    with tempfile.TemporaryDirectory() as place:
        words = ["--data", "digits", "--rounds", "2", "--audit-seconds", "0.5", "--out", place]
        assert run(["federate", "up", "--defence", *FEDERATIONS[name], *words]) == 0
        ledger = Path(place) / "ledgers" / "client-0"
        (folder / "releases.jsonl").write_bytes((ledger / "releases.jsonl").read_bytes())
        spent = cost.spent(ReleaseLedger(ledger).lines(), delta=1e-5)
    (folder / "account.json").write_text(json.dumps(spent.to_dict()) + "\n")


def main(folder):
    """Writes everything."""
    from recondite.training.trainer import train

    for name in RUNS:
        out = folder / "training" / name
        with contextlib.suppress(KeyboardInterrupt):
            train(plan(name), out=out, progress=stop)
    for name in FEDERATIONS:
        out = folder / "federation" / name
        out.mkdir(parents=True)
        federation(name, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
