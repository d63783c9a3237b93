"""What a release consists of: wheels that anybody can build again bit by bit, and their SBOM.

    python tests/acceptance/make_release.py            both wheels and sbom.cdx.json in dist/

Both distributions are built twice from copies of the sources, in different folders and with the
time of the last commit (``SOURCE_DATE_EPOCH``): the digests must agree. The SBOM (CycloneDX 1.5)
lists every distribution of this environment that the wheels declare, directly or not, with its
version and licence: what the tests ran with. Known vulnerabilities are not looked up here: that
takes an advisory database, which does not come with pip; ``pip-audit`` reads this SBOM's versions
where there is a network.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = {"recondite": ROOT, "recondite-papers": ROOT / "papers"}
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", "dist", "build", "site", "data", "runs", ".*_cache", "demo"
)


def built(source: Path, epoch: int, into: Path) -> Path:
    """The wheel of a copy of the sources, made in a folder of its own."""
    with tempfile.TemporaryDirectory() as work:
        copy = shutil.copytree(source, Path(work) / "source", ignore=_LEFT_OUT)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run(
            [*command, "wheel", "--no-deps", "-w", work, str(copy)],
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        )
        into.mkdir(parents=True, exist_ok=True)
        wheel = next(Path(work).glob("*.whl"))
        return Path(shutil.copy2(wheel, into))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def last_commit() -> int:
    """Seconds of the last commit, or a constant where there is no repository."""
    command = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(found.stdout) if found.stdout.strip() else 1_767_225_600


def components(names: list[str]) -> dict[str, dict[str, Any]]:
    """Everything that these distributions need, as far as it is installed, by name."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [(name, ("",)) for name in names]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        name, extras = waiting.pop()
        key = canonicalize_name(name)
        if (key, extras) in seen:
            continue
        seen.add((key, extras))
        try:
            what = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that was not installed
        about = what.metadata
        offered = extras if key not in names else (*(about.get_all("Provides-Extra") or ()), "")
        licence = about.get("License-Expression") or about.get("License") or ""
        needed = set()
        for text in what.requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in offered):
                needed.add(canonicalize_name(wanted.name))
                waiting.append((wanted.name, ("", *sorted(wanted.extras))))
        before = found.get(key, {}).get("needs", set())
        found[key] = {
            "name": about["Name"],
            "version": what.version,
            "licence": licence.splitlines()[0][:80] if licence.strip() else "",
            "needs": needed | before,
        }
    return found


def sbom(found: dict[str, dict[str, Any]], wheels: dict[str, str], epoch: int) -> dict[str, Any]:
    """CycloneDX, version 1.5; the same environment gives the same bytes."""
    listed, wanted = [], []
    for key, one in sorted(found.items()):
        reference = f"pkg:pypi/{key}@{one['version']}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": reference,
            "name": one["name"],
            "version": one["version"],
            "purl": reference,
        }
        if one["licence"]:
            component["licenses"] = [{"license": {"name": one["licence"]}}]
        if key in wheels:
            component["hashes"] = [{"alg": "SHA-256", "content": wheels[key]}]
        listed.append(component)
        needs = [f"pkg:pypi/{n}@{found[n]['version']}" for n in sorted(one["needs"]) if n in found]
        wanted.append({"ref": reference, "dependsOn": needs})
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([listed, wheels], sort_keys=True))
    when = datetime.fromtimestamp(epoch, timezone.utc).isoformat(timespec="seconds")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{name}",
        "version": 1,
        "metadata": {
            "timestamp": when,
            "component": next(one for one in listed if one["name"] == "recondite"),
        },
        "components": listed,
        "dependencies": wanted,
    }


def main() -> None:
    """Builds twice, compares, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    epoch, wheels = last_commit(), {}
    with tempfile.TemporaryDirectory() as second:
        for name, source in DISTRIBUTIONS.items():
            first = built(source, epoch, given.out)
            again = built(source, epoch, Path(second))
            if digest(first) != digest(again):
                raise SystemExit(f"{first.name}: two builds differ")
            wheels[name] = digest(first)
            print(f"{first.name}: {digest(first)}, twice")
    body = sbom(components(list(DISTRIBUTIONS)), wheels, epoch)
    path = given.out / "sbom.cdx.json"
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(body['components'])} components")


if __name__ == "__main__":
    main()
