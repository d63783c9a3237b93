"""The dossier of a run: what an assessor needs to judge it, as a page and as JSON, signed.

``make`` writes the folder, ``verify`` checks it. The page needs jinja2 (the ``compare`` extra), a
signature needs cryptography (the ``federated`` extra).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.dossier.making import make
    from recondite.dossier.manifest import Verification, verify

__all__ = ["Verification", "make", "verify"]

__getattr__, __dir__ = lazy_names(
    __name__, {"making": ("make",), "manifest": ("Verification", "verify")}
)
