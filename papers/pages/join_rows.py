"""Joins files of one job that ran in several processes: ``join_rows.py FILE… TARGET``.

Rows and blocks follow one another; where blocks ran on several devices each is named. A block that
is in several files is refused: nothing says which one counts.
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
    heads = {(p["job"], p["quick"], p.get("small", False), p["schema_version"]) for p in parts}
    if len(heads) != 1:
        raise ValueError(f"files must be of one job, one size and one schema, got {heads}")
    blocks = [block for part in parts for block in part["blocks"]]
    twice = {block for block in blocks if blocks.count(block) > 1}
    if twice:
        raise ValueError(f"a block must be in one file only: {', '.join(sorted(twice))}")
    out = {key: value for key, value in parts[0].items() if key not in ("rows", "blocks")}
    out["blocks"] = sorted(blocks)
    out["rows"] = [row for part in parts for row in part["rows"]]
    return out


def main(arguments: list[str]) -> None:
    """Reads all files but the last, and writes that."""
    *files, target = map(Path, arguments)
    content = joined([json.loads(file.read_text()) for file in sorted(files)])
    rows = ",\n  ".join(json.dumps(row) for row in content.pop("rows"))
    text = json.dumps(content, indent=1)[:-2] + f',\n "rows": [\n  {rows}\n ]\n}}\n'
    target.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
