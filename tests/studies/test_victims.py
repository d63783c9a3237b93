"""A cell's victim: loaded and fitted once, whatever attacks it; rows with the keys they had."""

import ast
from pathlib import Path

import recondite
from recondite.studies import facts
from recondite.studies.cell import run_cell
from recondite.studies.checks import facts_of
from recondite.studies.grid import cells
from recondite.studies.study import Study
from recondite.training import on_records, setup

BLIND = {  # since 0.2
    *("blind", "gain", "beats_guessing", "metrics", "exposure"),
    *("psnr_median", "psnr_worst", "ssim_median"),
}
SCORED = {
    *("images", "mse", "psnr", "ssim", "mse_median", "mse_mean", "mse_worst", "psnr_mean"),
    *("ssim_mean", "ssim_worst", "mse_placed_mean", "ssim_placed_mean", "scale", "gallery"),
    *("matching_loss", "labels_right", "iterations", "restarts", "batch_size", "victim"),
    *("images_from", "interrupted"),
}
OWN = {
    "model-inversion": {"mse_start"},
    "released-record": {"mse_uncut_mean", "mse_uncut_inside", "mse_uncut_outside"},
}


def rows_of(*attacks):
    study = Study(
        data="digits", model="mlp", prepare="none",
        training={"steps": 2, "batch_size": 64, "records": 300},
        defences=[{"name": "natural-channel", "capacity": 20}],
        attacks=list(attacks),
    )  # fmt: skip
    facts = facts_of(study, None)
    (cell,) = cells(study, facts, {})
    shared = {
        "study": "small",
        "data_facts": {"name": "digits", "public": True},
        "model_facts": {"name": "mlp", "parameters": facts.parameters},
    }
    task = cell.task(cell.attacks, shared)
    found = []
    run_cell(task, lambda event: found.append(event) if event["type"] == "row" else None)
    assert [event["row"]["reason"] for event in found] == [None] * len(attacks)
    return {event["row"]["attack"]: event["row"] for event in found}


def test_records_are_loaded_and_a_channel_is_fitted_once_for_all_attacks(monkeypatch):
    loads, fits = [], []
    facts.facts.cache_clear()
    load, fit = setup.load, on_records.fit_channel
    monkeypatch.setattr(setup, "load", lambda *a, **k: (loads.append(a), load(*a, **k))[1])
    monkeypatch.setattr(
        on_records, "fit_channel", lambda *a, **k: (fits.append(a), fit(*a, **k))[1]
    )
    rows_of(
        {"name": "inverting-gradients", "images": 2, "steps": 2},
        {"name": "dlg", "images": 2, "steps": 1},
        {"name": "released-record", "images": 2},
        {"name": "membership-threshold", "records": 30},
    )
    assert len(loads) == 4, "the training and the test records: to check the study, and to run it"
    assert len(fits) == 2, "by the training, and for the attacks"


def test_rows_have_the_keys_of_0_1_0():
    rows = rows_of(
        {"name": "dlg", "images": 2, "steps": 1},
        {"name": "released-record", "images": 2},
        {"name": "model-inversion", "iterations": 2},
        {"name": "membership-threshold", "records": 30},
    )
    for name, row in rows.items():
        if name == "membership-threshold":
            assert row["reconstruction"] is None
            assert {"auc", "roc", "epsilon_lower", "inclusion"} <= set(row["membership"])
            assert not {"seconds", "notes"} & set(row["membership"])
        else:
            assert set(row["reconstruction"]) == SCORED | BLIND | OWN.get(name, set())
            assert row["reconstruction"]["gallery"] == f"gallery/{row['key']}.npz"
    claims = rows["dlg"]["claims"]
    keys = {"notion", "claim", "lower", "how", "confidence", "about", "violated"}
    assert claims
    assert all(set(claim) == keys for claim in claims)


def test_attacks_import_neither_training_nor_studies():
    above = ("recondite.training", "recondite.studies", "recondite.report", "recondite.cli")
    for path in (Path(recondite.__file__).parent / "attacks").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.startswith(above)], path
