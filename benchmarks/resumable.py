"""Many independent pieces of work on several processes; what was done before is not done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

__all__ = ["resumed"]

Row = dict[str, Any]


def resumed(
    compute: Callable[[int], Row],
    numbers: Iterable[int],
    work: Path,
    *,
    workers: int = 1,
    tell: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """One row for each number, in their order.

    Args:
      compute: Makes a row; a function of a module, so that other processes find it.
      numbers: What is asked for.
      work: A file with a line for every row; rows of earlier calls are read from it.
      workers: Processes.
      tell: Called with every new row.
    """
    wanted = list(numbers)
    work.parent.mkdir(parents=True, exist_ok=True)
    there: dict[int, Row] = {}
    if work.exists():
        for line in work.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was killed
            there[row["number"]] = row
    missing = [number for number in wanted if number not in there]
    with work.open("a", encoding="utf-8") as file:

        def keep(row: Row) -> None:
            there[row["number"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
            tell(row)

        if workers == 1:
            for number in missing:
                keep(compute(number))
        else:
            with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
                for done in as_completed([pool.submit(compute, number) for number in missing]):
                    keep(done.result())
    return [there[number] for number in wanted]
