import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import recondite as rc
from recondite.training.ledger import Ledger

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "distributed.md"


def test_the_script_of_the_page_in_two_processes(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    # A file in the place of torchrun's address: tests side by side must not share a port.
    code = code.replace(
        '"gloo")', f'"gloo", init_method="file://{tmp_path / "store"}", rank=RANK, world_size=2)'
    )
    (tmp_path / "train.py").write_text("import sys\n\nRANK = int(sys.argv[1])\n" + code)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "train.py", str(rank)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [process.communicate(timeout=300)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    expected = rc.epsilon(rc.Gaussian(1.0), rc.Poisson(0.1, 30), 1e-3)
    for steps, epsilon in said:
        assert int(steps) == 30
        assert float(epsilon) == pytest.approx(expected, rel=1e-9)
        assert f"ε ≈ {expected:.2f}" in text
    assert Ledger(tmp_path / "ledger.json").taken == 30
