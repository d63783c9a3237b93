"""The three walks of CONTRIBUTING.md are what runs: every file they name is gone through."""

import gc
import re
import sys
from pathlib import Path

import pytest

import recondite
from recondite.cli.main import run
from recondite.notions import registry

SOURCE = Path(recondite.__file__).parent
PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
TITLES = ("**`recondite account`**", "**One private step**", "**`recondite compare`**")
# Named as what happens with another option, another executor or several processes.
OTHERWISE = {"studies/trials.py", "studies/executors/local.py", "studies/executors/ray.py"}
STUDY = """\
name: small
data: digits
model: mlp
prepare: none
defences:
  - {name: gaussian, noise_multiplier: 1.0}
  - {name: gaussian, at: {epsilon: 20}}
training: {steps: 2, batch_size: 64, records: 200}
attacks:
  - {name: mean-image, images: 2}
"""


def walk(title):
    """The files and folders that a walk names."""
    after = PAGE[PAGE.index(title) + len(title) :]
    text = after[: min(after.find(end) for end in (*TITLES, "## Minutes") if end in after)]
    found = re.findall(r"`([a-z_]+/(?:[a-z_]+/)?(?:[a-z_]+\.py)?)`", text)
    assert len(found) > 7
    return set(found)


def entered(command):
    """The library's files in which a function runs, those of a module's import left out."""
    files = set()

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_name not in ("<module>", "<genexpr>"):
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    gc.collect()  # what other tests left is taken away now, not on the walk
    gc.disable()
    sys.setprofile(profile)
    try:
        command()
    finally:
        sys.setprofile(before)
        gc.enable()
    found = (Path(name) for name in files)
    return {path.relative_to(SOURCE).as_posix() for path in found if SOURCE in path.parents}


def missed(title, files):
    """What a walk names, and nothing went through."""
    return {name for name in walk(title) if not any(file.startswith(name) for file in files)}


def test_account():
    for known in (registry.notions, registry.built_in):
        known.cache_clear()  # read once a process, and perhaps by another test
    words = "account vmf --kappa 75 --dim 99 --rate .1 --steps 9 --delta .1"
    files = entered(lambda: run(words.split()))
    assert missed(TITLES[0], files) == set()
    assert {file.partition("/")[0] for file in files} <= {
        *("accounting", "cli", "laws", "leakage", "mechanisms", "notions", "numerics"),
        *("_deprecated.py", "_lazy.py", "_plugins.py", "_validate.py"),
    }


def test_one_private_step():
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    model = torch.nn.Linear(5, 3)
    records = torch.utils.data.TensorDataset(torch.randn(64, 5), torch.arange(64) % 3)

    def made_and_stepped():
        private, optimizer, loader = recondite.PrivacyEngine(seed=0).make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), 0.1),
            data_loader=torch.utils.data.DataLoader(records, batch_size=8),
            mechanism=recondite.Gaussian(1.0),
            max_grad_norm=1.0,
        )
        inputs, labels = next(iter(loader))
        torch.nn.functional.cross_entropy(private(inputs), labels).backward()
        optimizer.step()

    files = entered(made_and_stepped)
    assert missed(TITLES[1], files) == set()
    rooms = {file.partition("/")[0] for file in files}
    assert not rooms & {"attacks", "cli", "federated", "report", "studies"}


@pytest.mark.usefixtures("inline")
def test_compare(tmp_path):
    pytest.importorskip("torchmetrics")
    pytest.importorskip("jinja2")
    (tmp_path / "study.yaml").write_text(STUDY)
    words = ["-q", "compare", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run")]
    codes = []
    files = entered(lambda: codes.append(run(words)))
    assert codes == [0]
    assert missed(TITLES[2], files) == OTHERWISE
