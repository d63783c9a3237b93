"""The papers' study files: valid, with the printed values, and complete for every table."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import yaml

import recondite as rc
from recondite.channels.registry import rectangle_weights
from recondite.cli.main import run
from recondite.models import resolve
from recondite.records.catalogue import names as data_names
from recondite.studies import checks
from recondite.studies.attackers import reads
from recondite.studies.facts import Facts
from recondite.training.plan import Plan
from recondite_papers import study_files
from recondite_papers.jobs import channel as channel_job
from recondite_papers.jobs import compare as compare_job
from recondite_papers.jobs import dirdp as dirdp_job
from recondite_papers.jobs import dirdp_v1 as early_job
from recondite_papers.jobs import membership as membership_job
from recondite_papers.jobs.channels import beta
from recondite_papers.jobs.dirdp_networks import CHOSEN, usual
from recondite_papers.printed import channel, compare, dirdp, dirdp_v1
from recondite_papers.registry import ITEMS

FILES = sorted({name for names in study_files.FILES.values() for name in names})
# Data: training and test records, shape, classes.
SETS = {
    "mnist": (60_000, 10_000, (1, 28, 28), 10),
    "fashion-mnist": (60_000, 10_000, (1, 28, 28), 10),
    "cifar10": (50_000, 10_000, (3, 32, 32), 10),
    "lfw": (1113, 371, (3, 32, 32), 106),
}
NETWORKS = "recondite_papers.jobs.dirdp_networks"
GLOROT = "recondite_papers.jobs.compare_network:mlp"
SMALL_NETWORKS = (
    GLOROT, "mlp2", "lenet", "lenet-dlg", f"{NETWORKS}:lenet", f"{NETWORKS}:mlp",
    f"{NETWORKS}:usual_lenet", f"{NETWORKS}:usual_mlp",
)  # fmt: skip


def known_facts(study, data_dir=None):
    """What the study's data and model would be, were the data here."""
    records, tests, shape, classes = SETS[study.data]
    if study.prepare in ("crop16", "resize16"):
        shape = (shape[0], 16, 16)
    if study.prepare == "resize32":
        shape = (shape[0], 32, 32)
    # The others have only channels as defences: their weights are not looked at.
    model = study.model if study.model in SMALL_NETWORKS else "lenet"
    network = resolve(model, shape, classes, seed=0)
    shapes = tuple(tuple(p.shape) for p in network.parameters())
    size = sum(math.prod(s) for s in shapes)
    return Facts(records, tests, shape, classes, "images", (), size, shapes, True, "digest", None)


@pytest.mark.parametrize("name", FILES)
def test_every_file_passes_what_compare_checks(name, monkeypatch):
    monkeypatch.setattr(checks, "facts_of", known_facts)
    study = study_files.read(name)
    assert checks.mistakes_of(study) == []
    assert checks.mistakes_of(study_files.quickened(study)) == []
    assert study.name == name.replace("/", "-")
    assert study.data in data_names()
    lines = study_files.text(name).splitlines()
    assert any(line.startswith("# assumed: ") for line in lines)
    assert any(line.startswith("# printed: ") for line in lines)
    assert all(len(line) <= 140 for line in lines)


def test_every_item_that_trains_has_its_files_and_no_file_is_left_over():
    folder = study_files.resources.files(study_files._HOME).joinpath("studies")
    there = {
        f"{part.name}/{file.name.removesuffix('.yaml')}"
        for part in folder.iterdir()
        for file in part.iterdir()
    }
    assert there == set(FILES)
    assert set(study_files.FILES) <= set(ITEMS)
    wanted = {f"compare/table-{n}" for n in (2, 3, 5, 6)}
    wanted |= {f"compare/figure-{n}" for n in (1, 2, 3, 4, 6)}
    wanted |= {"channel/table-2", *(f"channel/figure-{n}" for n in (5, 6, 8, *range(9, 17)))}
    wanted |= {f"dirdp/table-{n}" for n in (2, 3, 4)}
    wanted |= {f"dirdp-v1/table-{n}" for n in (1, 2, 3, 4, 6)}
    wanted |= {f"dirdp-v1/figure-{n}" for n in (4, 5, 6)}
    assert wanted <= set(study_files.FILES)
    for item, names in study_files.FILES.items():
        # CIFAR-100 aside, all data of an item are covered: LFW has a table of its own in one study.
        covered = {study_files.read(name).data for name in names}
        assert covered <= set(ITEMS[item].data)


def values(study, name, key, **training):
    """Strengths that a file asks of a defence with exactly these overrides."""
    out = []
    for defence in study.defences:
        if defence.name == name and defence.training.given() == training:
            out += defence.settings()[key]
    return tuple(float(value) for value in out)


@pytest.mark.parametrize("data", ["mnist", "fashion-mnist"])
def test_compare_has_the_printed_values(data):
    kappas = tuple(float(row[1]) for row in compare.TABLE_4)
    sigmas = tuple(row[2] for row in compare.TABLE_4)
    assert kappas == tuple(map(float, compare_job.KAPPA))
    assert sigmas == compare_job.SIGMA
    five = study_files.read(f"compare/table-5-{data}")
    assert five.training.epochs == compare.SETTING["epochs"]
    assert five.training.batch_size == compare.SETTING["batch"]
    assert five.training.max_grad_norm == compare.SETTING["clip"]
    rate, decay = five.training.learning_rate, five.training.weight_decay
    assert compare.SETTING["optimizer"] == f"Adam, learning rate {rate}, weight decay {decay}"
    # Decoupled: the assumption that is marked.
    assert (five.training.optimizer, five.prepare) == ("adamw", compare_job.DATA[data])
    plan = compare_job.CHOSEN.plan(1, 128)
    assert (plan.optimizer, plan.rate, plan.decay) == ("adamw", rate, decay)
    # One over the records, as printed.
    assert five.delta is None
    assert values(five, "vmf", "kappa") == kappas
    assert values(five, "gaussian", "noise_multiplier") == sigmas
    for _, defence, value, batch in (key for key in compare.TABLE_5 if key[0] == data):
        own = {} if batch == 128 else {"batch_size": batch}
        key = "kappa" if defence == "vmf" else "noise_multiplier"
        assert value in values(five, defence, key, **own)
    six = study_files.read(f"compare/table-6-{data}")
    iterations = {attack.options()["steps"] for attack in six.attacks}
    assert [f"{n:,} iterations" in compare.SETTING["attack"] for n in iterations] == [True]
    assert {attack.batch_size for attack in six.attacks} == {16, 32, 64, 128}
    assert {attack.images * attack.batch_size for attack in six.attacks} == {128, 256}
    three = study_files.read(f"compare/table-3-{data}")
    for study, table in ((six, compare.TABLE_2), (three, compare.TABLE_3)):
        for defence, value in table:
            if value is not None:
                key = "kappa" if defence == "vmf" else "noise_multiplier"
                assert value in values(study, defence, key)
            else:
                assert any(each.name == defence for each in study.defences)


@pytest.mark.parametrize("data", ["fashion-mnist", "cifar10"])
def test_channel_has_the_printed_values(data):
    files = [f"channel/figure-9-{m}-{data}" for m in ("lenet", "resnet10", "alexnet", "vgg16")]
    for name in (*files, f"channel/figure-15-{data}"):
        study = study_files.read(name)
        assert study.training.steps == channel.SETTING["steps"] == channel_job.STEPS
        assert study.training.batch_size == channel.SETTING["batch"]
        assert study.delta == 1e-5
        for defence in study.defences:
            given = defence.settings()
            if defence.name == "natural-channel":
                assert set(given["capacity"]) <= set(channel_job.SMALL)
            if given.get("method") == "paper":
                assert set(channel_job.LARGE) <= set(given["capacity"])
        if "lenet" in name or "15" in name:
            for own in ({}, {"clipping": "psac"}):
                found = values(study, "gaussian", "noise_multiplier", **own)
                assert found == tuple(channel.DP) == channel_job.MULTIPLIERS
            # n of Figures 12 and 13 at κ = 300.
            rounds = {d.training.steps for d in study.defences if d.training.steps}
            rounds.add(study.training.steps)
            assert rounds == {int(total // 300) for total in channel_job.TOTALS}


def test_figure_14_asks_for_every_printed_cell():
    names = {"natural": "natural-channel", "white": "white-channel"}
    for model, kind, kappa in channel.FIGURE_14:
        study = study_files.read(f"channel/figure-14-{model}")
        if kappa == 0:
            assert study.defences[0].name == "none"
            continue
        found = [
            d.settings()
            for d in study.defences
            if d.name == names.get(kind, "personalized-channel")
            and d.settings().get("method", "paper") == "paper"
        ]
        assert kappa in found[0]["capacity"]


def test_beta_is_the_papers():
    found = [
        defence.settings()["beta"]
        for name in FILES
        for defence in study_files.read(name).defences
        if defence.name == "personalized-channel"
    ]
    assert len(found) > 10
    for weights in found:
        assert np.array_equal(rectangle_weights((3, 32, 32), **weights).ravel(), beta((3, 32, 32)))


def assert_same_network(study, network):
    """What the study trains is what the stacked job trains, initial weights included."""
    _, _, shape, classes = SETS[study.data]
    mine = resolve(study.model, shape, classes, seed=3)
    theirs = network.build(shape, classes, 3)
    assert str(mine) == str(theirs)
    pairs = zip(mine.parameters(), theirs.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_directional_noise_has_the_printed_values():
    for key, (batch, rate, epochs, optimizer, momentum) in dirdp.TABLE_1.items():
        table = "table-3" if "mia" in key else "table-2"
        study = study_files.read(f"dirdp/{table}-{key[0]}-{key[1]}")
        training = study.training
        found = (training.batch_size, training.learning_rate, training.epochs, training.optimizer)
        network = usual(key[0]) if "mia" in key else CHOSEN[key[0]]
        assert found == (batch, rate, epochs, optimizer.lower())
        if "mia" in key:
            assert membership_job.HYPER[key[:2]] == found[:3]
            assert study.attacks[0].options()["references"] == 8
        else:
            assert dirdp_job.HYPER[key][:3] == found[:3]
            # Printed once beside Adam, which has none.
            assert training.momentum == (None if optimizer == "Adam" else momentum)
        assert_same_network(study, network)
        assert study.delta == 1e-5
        printed = dirdp.TABLE_3 if "mia" in key else dirdp.TABLE_2
        wanted = {k[1:3] for k in printed if k[0] == key[0] and k[3] == key[1]}
        asked = {("none", 0.0)}
        asked |= {("gaussian", e) for e in study.defences[1].at.epsilon}
        asked |= {("vmf", float(k)) for k in study.defences[2].settings()["kappa"]}
        assert asked == wanted
        assert {e for d, e in asked if d == "gaussian"} == set(dirdp_job.EPSILONS)
        assert {k for d, k in asked if d == "vmf"} == set(dirdp_job.KAPPAS)


def test_table_4_attacks_the_jobs_networks_under_the_jobs_noise():
    wanted = {(k[0], k[3], k[1], k[2]) for k in dirdp.TABLE_4}
    for (model, data), multipliers in dirdp_job.MULTIPLIERS.items():
        study = study_files.read(f"dirdp/table-4-{model}-{data}")
        assert_same_network(study, CHOSEN[model])
        assert study.attacks[0].victim == "untrained"
        assert values(study, "gaussian", "noise_multiplier") == multipliers
        asked = {("none", 0.0)} | {("gaussian", e) for e in dirdp_job.EPSILONS}
        asked |= {("vmf", k) for k in values(study, "kept-lengths", "kappa")}
        assert asked == {key[2:] for key in wanted if key[:2] == (model, data)}


@pytest.mark.parametrize("pair", list(dirdp_job.MULTIPLIERS))
def test_the_stacked_jobs_noise_meets_the_studys_targets(pair):
    """One σ of each pair, taken in turn: its tight ε after the study's epochs is the target."""
    study = study_files.read(f"dirdp/table-2-{pair[0]}-{pair[1]}")
    records, batch = SETS[study.data][0], study.training.batch_size
    place = list(dirdp_job.MULTIPLIERS).index(pair)
    sigma = dirdp_job.MULTIPLIERS[pair][place]
    plan = Plan(study.data, study.model, rc.Gaussian(1.0), **study.training.given())
    schedule = rc.Poisson(batch / records, plan.total_steps(records))
    found = rc.epsilon(rc.Gaussian(sigma), schedule, study.delta)
    assert found == pytest.approx(study.defences[1].at.epsilon[place], rel=2e-3)


def test_the_first_version_has_the_printed_values():
    for pair, (batch, rate, epochs, optimizer) in dirdp_v1.TABLE_5.items():
        table = "table-2" if pair[1] == "lfw" else "table-1"
        study = study_files.read(f"dirdp-v1/{table}-{pair[0]}-{pair[1]}")
        training = study.training
        found = (training.batch_size, training.learning_rate, training.epochs, training.optimizer)
        assert found == (batch, rate, epochs, optimizer.lower()) == early_job.HYPER[pair]
        assert_same_network(study, CHOSEN[pair[0]])
        printed = {k[1:3] for k in dirdp_v1.TABLE_1 if k[0] == pair[0]}
        assert {k[1:3] for k in dirdp_v1.TABLE_2 if k[0] == pair[0]} == printed
        asked = {("none", 0.0)} | {("gaussian", e) for e in study.defences[1].at.epsilon}
        for defence, (blocks, _) in zip(study.defences[2:], early_job.PARTITIONS, strict=True):
            assert defence.settings()["blocks"] == blocks
            mine = {("vmf", float(k)) for k in defence.settings()["kappa"]}
            assert asked | mine == printed
        for data in ("mnist", "cifar10", "lfw"):
            attacked = study_files.read(f"dirdp-v1/table-3-{pair[0]}-{data}")
            noise = attacked.defences[1]
            norm = noise.training.max_grad_norm
            deviations = {round(v * norm, 9) for v in noise.settings()["noise_multiplier"]}
            assert deviations == {k[2] for k in dirdp_v1.TABLE_3 if k[1] == "gaussian"}
            turned = set(attacked.defences[2].settings()["kappa"])
            assert turned == {k[2] for k in dirdp_v1.TABLE_4 if k[1] == "vmf"}
            assert {a.name for a in attacked.attacks} == {"dlg", "inverting-gradients"}
            victims = study_files.read(f"dirdp-v1/table-6-{pair[0]}-{data}").attacks
            assert {a.victim for a in victims} == {"untrained", "trained"}


def test_a_quick_version_is_small_and_says_so():
    for name in FILES:
        whole, quick = study_files.read(name), study_files.quickened(study_files.read(name))
        assert quick.name == f"{whole.name}-quick"
        assert quick.training.steps <= 60
        assert quick.training.records == (1000 if whole.model in SMALL_NETWORKS else 200)
        assert quick.training.epochs is None
        assert len(quick.seeds) == 1
        assert [d.name for d in quick.defences] == [d.name for d in whole.defences]
        for mine, theirs in zip(quick.attacks, whole.attacks, strict=True):
            if "batch_size" in reads(mine.name):
                assert mine.images <= min(2, theirs.images)
            assert mine.options().get("steps", 0) <= 20
            assert mine.batch_size == theirs.batch_size
    rounds = [d.training.steps for d in
              study_files.quickened(study_files.read("channel/figure-15-cifar10")).defences
              if d.training.steps]  # fmt: skip
    assert all(a < b for a, b in pairwise(rounds))


def test_the_list_names_the_files(capsys):
    assert run(["reproduce", "--list", "--json"]) == 0
    items = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["items"]}
    assert items["channel/figure-14"]["studies"] == ["channel/figure-14-lenet"]
    assert items["compare/table-1"]["studies"] == []


def test_study_prints_the_files_as_they_are(capsys):
    assert run(["reproduce", "compare/table-5", "--study"]) == 0
    out = capsys.readouterr().out
    assert "# assumed: initial weights are drawn by Glorot's" in out
    documents = list(yaml.safe_load_all(out))
    assert [d["name"] for d in documents] == [
        "compare-table-5-mnist", "compare-table-5-fashion-mnist",
    ]  # fmt: skip
    assert run(["reproduce", "dirdp/table-3", "--study", "--quick"]) == 0
    (document,) = yaml.safe_load_all(capsys.readouterr().out)
    assert document["name"] == "dirdp-table-3-lenet-fashion-mnist-quick"
    assert document["training"]["records"] == 1000


def test_study_writes_files_for_compare(tmp_path, capsys):
    folder = tmp_path / "studies"
    assert run(["reproduce", "channel/figure-14", "--study", "--out", str(folder)]) == 0
    file = folder / "channel-figure-14-lenet.yaml"
    assert capsys.readouterr().out == f"recondite compare {file}\n"
    assert file.read_text() == study_files.text("channel/figure-14-lenet")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare/table-4", "--minutes", "-1"], "minutes must be"),
        (["channel/figure-7", "--study"], "channel/figure-7 has no study file"),
        (["compare/table-1", "--engine", "comparison"], "compare/table-1 has no study file"),
        (["compare/table-5", "--engine", "fast"], "--engine must be stacked or comparison or ray"),
    ],
)
def test_mistakes_are_one_line(words, said, capsys):
    assert run(["reproduce", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
