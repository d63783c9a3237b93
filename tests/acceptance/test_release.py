"""Two builds of a wheel are one, and the SBOM lists what the wheels need."""

import json
import subprocess
import sys
from pathlib import Path


def test_wheels_are_reproducible_and_listed(tmp_path):
    script = Path(__file__).with_name("make_release.py")
    command = [sys.executable, str(script), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bill = json.loads((tmp_path / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {one["name"].lower() for one in bill["components"]}
    assert {"recondite", "recondite-papers", "numpy", "scipy", "typer", "rich"} <= listed
    references = {one["bom-ref"] for one in bill["components"]}
    assert all(set(one["dependsOn"]) <= references for one in bill["dependencies"])
    assert len(list(tmp_path.glob("*.whl"))) == 2
