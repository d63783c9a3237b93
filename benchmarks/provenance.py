"""Where numbers come from: command, commit, machine, versions, date."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["provenance", "source_digest"]

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = (
    "recondite",
    "numpy",
    "scipy",
    "torch",
    "dp-accounting",
    "prv-accountant",
    "mpmath",
    "breaching",
)


def provenance() -> dict[str, Any]:
    """What another person needs to judge or repeat a run."""
    changes = _git("status", "--porcelain")
    return {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        # A copy of the tree has no history: whoever makes it says what it is a copy of.
        "commit": _git("rev-parse", "HEAD") or os.environ.get("RECONDITE_COMMIT"),
        "uncommitted_changes": None if changes is None else bool(changes),
        "source_digest": source_digest(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "cores": _cores(),
            "cpu": _cpu_model(),
            "system": platform.platform(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        },
        "versions": {"python": platform.python_version(), **_versions()},
    }


def source_digest() -> str:
    """A digest of the library and of the benchmarks: whether somebody edited them meanwhile."""
    digest = hashlib.sha256()
    for folder in ("src", "benchmarks"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(_ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _versions() -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = None
    return out
