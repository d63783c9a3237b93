"""Writes docs/studies/*.md and their figures from results/*.json.

    python papers/pages/make_studies.py            # all pages
    python papers/pages/make_studies.py compare    # one

Nothing is computed here but the tables of pure accounting: rows come from the jobs of
recondite_papers, whose files lie in results/ under the job's name.
"""

from __future__ import annotations

import sys

import biswas2025
import faustini2022
import faustini2023
import frontier
import tan2024

__all__ = ["PAGES", "main"]

# The names of the pages, their items and their stored rows.
PAGES = {
    "compare": biswas2025.page,
    "channel": tan2024.page,
    "dirdp": faustini2023.page,
    "dirdp-v1": faustini2022.page,
    "frontier": frontier.page,
}


def main() -> None:
    """Writes the pages that were named, or all."""
    for name in sys.argv[1:] or list(PAGES):
        PAGES[name]()


if __name__ == "__main__":
    main()
