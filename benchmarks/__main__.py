"""The command: ``python -m benchmarks [--only NAME ...] [--repetitions N] [--quick]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

# Before NumPy is imported: two threads beside a busy neighbour are slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks import (
    accounting,
    attacks,
    bessel,
    capacities,
    channel_training,
    channels,
    commands,
    comparisons,
    federated,
    sampling,
    training,
)
from benchmarks.provenance import provenance, source_digest
from benchmarks.runner import Benchmark, Settings, run
from benchmarks.table import print_outcome

_TOPICS = {
    "bessel": bessel.BENCHMARKS,
    "capacities": capacities.BENCHMARKS,
    "accounting": accounting.BENCHMARKS,
    "sampling": sampling.BENCHMARKS,
    "channels": channels.BENCHMARKS,
    "commands": commands.BENCHMARKS,
    "training": training.BENCHMARKS,
    "comparisons": comparisons.BENCHMARKS,
    "attacks": attacks.BENCHMARKS,
    "channel-training": channel_training.BENCHMARKS,
    "federated": federated.BENCHMARKS,
}
_RESULTS = Path(__file__).resolve().parent / "results" / "latest.json"


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help=f"topics ({', '.join(_TOPICS)}) or parts of the names of benchmarks",
    )
    parser.add_argument("--repetitions", type=int, help="measurements a side (5, quick 3)")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="the file to write")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute")
    parsed = parser.parse_args(given)
    if parsed.repetitions is not None and parsed.repetitions < 1:
        parser.error(f"--repetitions must be at least 1, got {parsed.repetitions}")
    return parsed


def _chosen(only: list[str] | None) -> list[Benchmark]:
    every = [(topic, benchmark) for topic, several in _TOPICS.items() for benchmark in several]
    if not only:
        return [benchmark for _, benchmark in every]
    words = [word.lower() for word in only]
    return [
        benchmark
        for topic, benchmark in every
        if any(word == topic or word in benchmark.name.lower() for word in words)
    ]


def main(given: list[str] | None = None) -> int:
    """Runs, prints and writes; returns 1 if a benchmark broke and 2 if none was chosen."""
    arguments = _arguments(given)
    settings = Settings(arguments.repetitions or (3 if arguments.quick else 5), arguments.quick)
    chosen = _chosen(arguments.only)
    if not chosen:
        print(f"bench: --only matches nothing; topics: {', '.join(_TOPICS)}", file=sys.stderr)
        return 2
    origin = provenance()
    start = time.perf_counter()
    outcome = run(chosen, settings)
    origin["source_changed_meanwhile"] = source_digest() != origin["source_digest"]
    result = {
        "rows": [row.to_dict() for row in outcome.rows],
        "skipped": outcome.skipped,
        "failed": outcome.failed,
        "repetitions": settings.repetitions,
        "quick": settings.quick,
        "seconds": round(time.perf_counter() - start, 1),
        "provenance": origin,
    }
    out = arguments.out
    out.parent.mkdir(exist_ok=True, parents=True)
    draft = out.with_suffix(".part")
    draft.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(out)
    print_outcome(outcome)
    print(f"bench: {result['seconds']} s, written to {out}", file=sys.stderr)
    if origin["source_changed_meanwhile"]:
        print("bench: the source was edited during the run: rows may differ", file=sys.stderr)
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
