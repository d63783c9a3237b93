"""Builds the wheel and tries it in a clean environment that has only what it declares."""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def call(*arguments: object) -> str:
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        call(*pip, "wheel", "--no-deps", "-w", work, ROOT)
        wheel = next(Path(work).glob("recondite-*.whl"))
        venv.create(Path(work) / "env", with_pip=True)
        binary = Path(work) / "env" / "bin"
        inside = [binary / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
        call(*inside, "install", "-c", ROOT / "constraints.txt", wheel)
        run = ["--rate", "128/60000", "--steps", "1407", "--delta", "1/60000", "--json"]
        out = call(binary / "recondite", "account", "vmf", "--kappa", 75, "--dim", 13700, *run)
        epsilon = json.loads(out)["epsilon"]["pld"]
        assert abs(epsilon - 0.7906) < 2e-3, epsilon
        code = "import recondite, importlib.resources as r; print(r.files('recondite')/'py.typed')"
        assert Path(call(binary / "python", "-c", code).strip()).exists(), "py.typed is missing"
        missing = subprocess.run(
            [binary / "python", "-c", "import torch"], check=False, capture_output=True
        )
        assert missing.returncode != 0, "torch came along: it must stay an extra"
        need = subprocess.run(
            [binary / "python", "-c", "import recondite.accounting.events"],
            check=False,
            capture_output=True,
            text=True,
        )
        assert "pip install 'recondite[dp-accounting]'" in need.stderr, need.stderr
        print(f"{wheel.name}: installed alone, tight epsilon {epsilon:.4f}")


if __name__ == "__main__":
    main()
