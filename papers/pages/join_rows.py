"""Joins files of one job that ran in several processes: ``join_rows.py FILE… TARGET``.

Rows and blocks follow one another. A block that is in several files is refused: nothing says which
one counts; so are files of several devices. Rows of a small run that say "on a CPU", as all did for
a while, are corrected where the device was another.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["joined", "main"]


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One content from several.

    Raises:
      ValueError: Where they are of several jobs or sizes, or share a block.
    """
    heads = {
        (
            *(p["job"], p["quick"], p.get("small", False), p["schema_version"]),
            p["provenance"]["device"],
        )
        for p in parts
    }
    if len(heads) != 1:
        raise ValueError(f"files must be of one job, size, schema and device, got {heads}")
    blocks = [block for part in parts for block in part["blocks"]]
    twice = {block for block in blocks if blocks.count(block) > 1}
    if twice:
        raise ValueError(f"a block must be in one file only: {', '.join(sorted(twice))}")
    out = {key: value for key, value in parts[0].items() if key not in ("rows", "blocks")}
    out["blocks"] = sorted(blocks)
    out["rows"] = [row for part in parts for row in part["rows"]]
    if not out["provenance"]["device"].startswith("cpu"):
        for row in out["rows"]:
            if row.get("run") == "small run on a CPU":
                row["run"] = "small run"
    return out


def main(arguments: list[str]) -> None:
    """Reads all files but the last, and writes that."""
    *files, target = map(Path, arguments)
    content = joined([json.loads(file.read_text()) for file in sorted(files)])
    content["provenance"]["command"] = (
        f"python -m recondite_papers.gpu {content['job']} --device "
        f"{content['provenance']['device'].split()[0]}, one process for each block by --only"
    )
    rows = ",\n  ".join(json.dumps(row) for row in content.pop("rows"))
    text = json.dumps(content, indent=1)[:-2] + f',\n "rows": [\n  {rows}\n ]\n}}\n'
    target.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
