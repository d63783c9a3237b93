"""Random inputs over everything that a stranger's words reach: no traceback, no NaN, known codes.

    python -m benchmarks.fuzz --inputs 100000 --workers 16

Command lines, study files, JSON, records, safetensors headers and federated messages
(``benchmarks.fuzz_inputs``), in this process and its workers. What was tried is kept in a work
file, so that a run that was stopped goes on. Counts go to ``results/fuzz.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.fuzz_inputs import SEED, attempt, findings
from benchmarks.provenance import provenance
from benchmarks.resumable import resumed

_BATCH = 100


def batch(number: int) -> dict[str, Any]:
    """A hundred inputs, counted."""
    # No allocation of terabytes: a bound on memory makes one an error that is seen.
    resource.setrlimit(resource.RLIMIT_AS, (32 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rows = [attempt(number * _BATCH + offset) for offset in range(_BATCH)]
    counts = Counter((row["kind"], row.get("outcome", "finding")) for row in rows)
    return {
        "number": number,
        "counts": [[kind, outcome, count] for (kind, outcome), count in sorted(counts.items())],
        "findings": findings(rows),
    }


def _tell(row: dict[str, Any]) -> None:
    for found in row["findings"]:
        print(f"{found['number']} ({found['kind']}): {found['finding']}", flush=True)


def main() -> None:
    """Tries what is missing; the exit code is 1 after a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", default="results/fuzz.json")
    parser.add_argument("--work", default="benchmarks/results/fuzz.jsonl")
    given = parser.parse_args()
    batches = -(-given.inputs // _BATCH)
    rows = resumed(batch, range(batches), Path(given.work), workers=given.workers, tell=_tell)
    counts: Counter[str] = Counter()
    for row in rows:
        for kind, outcome, count in row["counts"]:
            counts[f"{kind}, {outcome}"] += count
    found = [one for row in rows for one in row["findings"]]
    body = {
        **provenance(),
        "command": f"python -m benchmarks.fuzz --inputs {given.inputs}",
        "seed": SEED,
        "inputs": batches * _BATCH,
        "counts": dict(sorted(counts.items())),
        "findings": found,
    }
    Path(given.out).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    print(f"{body['inputs']:,} inputs, {len(found)} findings")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
