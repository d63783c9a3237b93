"""A search: K is drawn once and kept, only the best is told, and what that costs is printed."""

import json
import math

import pytest

from recondite.accounting import Poisson
from recondite.accounting.selection import Trial, search_epsilon
from recondite.dossier.recheck import account_command
from recondite.mechanisms import Gaussian
from recondite.report.answer import Answers
from recondite.report.recommend import Requirements
from recondite.report.rows import read_runs
from recondite.studies import cell, runner
from recondite.studies.source import StudyError
from recondite.studies.study import SearchSpec, read_study
from recondite.studies.tasks import run_task
from recondite.studies.trials import FOLDER, TRIALS, Price, Trials, priced

STUDY = """\
name: searched
data: digits
model: mlp
prepare: none
public: false
defences:
  - name: gaussian
    noise_multiplier: [1.0, 2.0]
  - name: vmf
    kappa: 40
training: {steps: 3, batch_size: 64, records: 300}
search: {rule: geometric, mean: 3}
"""


QUICK = STUDY.replace("  - name: vmf\n    kappa: 40\n", "")


class Inline:
    """Runs tasks here, one after the other; stops after so many."""

    name, workers = "inline", 1

    def __init__(self, left=10**9):
        self.left, self.ran = left, 0

    def run(self, tasks, on_event):
        for task in tasks:
            if self.ran >= self.left:
                raise KeyboardInterrupt
            self.ran += 1
            run_task(task, lambda event, task=task: on_event(0, task, event))

    def close(self):
        pass


@pytest.fixture
def study(study_file):
    def read(text=QUICK):
        return read_study(study_file(text))[0]

    return read


@pytest.fixture
def search(monkeypatch, tmp_path):
    """Runs a study with so many runs to make; returns its outcome and what ran."""

    def run(study, count=4, left=10**9, **options):
        made = Inline(left)
        monkeypatch.setattr(runner, "make_executor", lambda *_: made)
        monkeypatch.setattr(type(study.search.law()), "draw", lambda self, rng: count)
        return runner.compare(study, tmp_path / "run", **options), made

    return run


def test_only_the_best_of_the_runs_is_told(study, search, tmp_path):
    seen = {}
    finish = Trials.finish

    def watched(self, rows):
        seen.update(rows)
        finish(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trials, "finish", watched)
        outcome, made = search(study())
    assert made.ran == 5  # four, and the best once more, for its attacks
    assert len(seen) == 4
    best = max(row["utility"]["test_accuracy"] for row in seen.values())
    (row,) = outcome.rows
    assert row["utility"]["test_accuracy"] == best
    assert row["seed"] == "secret"
    assert row["utility"]["train_accuracy"] is row["utility"]["train_loss"] is None
    told = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert sorted(path.name for path in told) == ["plan.json", "records.jsonl", "study.json"]
    private = tmp_path / "run" / FOLDER
    assert private.stat().st_mode & 0o077 == 0
    kept = json.loads((private / "plan.json").read_text())
    assert kept["runs"] is None
    others = {str(row["seed"]) for row in seen.values()}
    text = "".join(path.read_text() for path in told if path.parent != private)
    assert not any(seed in text for seed in others)
    described = json.loads((tmp_path / "run" / "study.json").read_text())
    assert described["seconds"] is None
    assert described["created"] == described["finished"]


def test_the_price_is_that_of_the_dearest_setting_at_every_order(study, search, tmp_path):
    outcome, _ = search(study(STUDY), count=1)
    price = outcome.rows[0]["search"]
    made = study(STUDY)
    trials = Trials(made, runner.facts_of(made, None), {}, tmp_path / "run")
    kinds = []
    for one in trials.settings:
        if one.defence["name"] == "gaussian":
            kinds.append(Poisson(64 / 300, 3).composition(Gaussian(one.defence["value"])))
    law = made.search.law()
    assert price["epsilon"] >= search_epsilon(Trial(tuple(kinds)), 1 / 300, law) * (1 - 1e-9)
    assert price["one"] >= outcome.rows[0]["privacy"]["epsilon"]["pld"] * (1 - 1e-9)
    assert price["settings"] == 3
    assert price["one"] < price["epsilon"] < 3 * price["one"]
    # A report says it, and by which rule.
    answers = Answers.of(read_runs([tmp_path / "run"]))
    (line,) = answers.price(answers.view(None, None), {})
    assert "geometric rule with mean 3" in line
    assert "secret" in line
    assert "by adding up" not in line


def test_bounds_of_the_winner_are_of_the_best_of_several(study, search, tmp_path):
    """A gate that asks for an ε gets that of the choice: one run's was claimed here once."""
    outcome, _ = search(study(), count=2)
    (row,) = outcome.rows
    price, found = row["search"], row["notions"]
    alone = row["privacy"]["epsilon"]["pld"]
    assert found["epsilon"] == price["epsilon"] > 1.2 * alone
    # Any (ε, δ) algorithm: the pair of randomised response attains the bound.
    prior, delta, e = found["rero_prior"], price["delta"], math.exp(price["epsilon"])
    # Of 1/r candidates the truth is told with δ; else the right one is e times as likely as others.
    attained = delta + (1 - delta) * e / (e + 1 / prior - 1)
    assert attained <= found["rero_bound"] <= min(1.0, e * prior + delta) + 1e-12
    assert found["rero_bound"] > row["privacy"]["rero"]["bound"]
    assert found["mutual_information_run"] is None
    assert "one run" in found["reasons"]["mutual_information_run"]
    assert [one["epsilon"] for one in row["exposures"]] == [None, None]
    answers = Answers.of(read_runs([tmp_path / "run"]))
    view = answers.view("training", "secret")
    middle = 0.5 * (alone + price["epsilon"])
    assert not answers.gate(view, Requirements(epsilon=middle))[0]
    assert answers.standings[view][0].epsilon == price["epsilon"]
    assert account_command(row) is None, "it would compute the account of one run"
    game = {"candidates": 10, "rate": 0.3, "bound": 0.32, "reason": ""}
    floors = [{"key": "packing", "proven": True}, {"key": "van-trees", "proven": False}]
    told = priced({**row, "identification": [game], "floors": floors}, Price(**price))
    assert told["identification"][0]["bound"] is None
    assert told["floors"] == floors[1:]


def test_a_rehearsal_on_public_records_speaks_of_one_run(study, search):
    outcome, _ = search(study(QUICK.replace("public: false", "public: true")), count=2)
    (row,) = outcome.rows
    assert row["notions"]["epsilon"] == row["privacy"]["epsilon"]["pld"]
    assert account_command(row).startswith("recondite account gaussian")


def test_a_search_that_is_stopped_goes_on_and_never_draws_again(study, search, tmp_path):
    path = tmp_path / "run" / FOLDER / "plan.json"
    with pytest.raises(KeyboardInterrupt):
        search(study(), left=0)
    drawn = path.read_bytes()
    assert len(json.loads(drawn)["runs"]) == 4
    with pytest.raises(KeyboardInterrupt):
        search(study(), count=9, left=2)
    assert path.read_bytes() == drawn
    assert len((tmp_path / "run" / FOLDER / TRIALS).read_text().splitlines()) == 2
    _, made = search(study(), count=9)
    assert made.ran == 2 + 1
    outcome, made = search(study(), count=9)
    assert made.ran == outcome.ran == 0
    assert len(outcome.rows) == 1


def test_another_search_in_the_same_folder_is_refused(study, search):
    search(study(), count=1)
    with pytest.raises(ValueError, match="a second search costs its own price"):
        search(study(QUICK.replace("2.0", "2.1")), count=1)


def test_a_damaged_plan_is_refused(study, search, tmp_path):
    search(study(), count=1)
    path = tmp_path / "run" / FOLDER / "plan.json"
    path.write_text(path.read_text().replace('"best": [', '"best": [1'))
    with pytest.raises(ValueError, match="damaged or edited"):
        search(study(), count=1)


def test_a_search_without_a_finite_price_is_refused_unless_records_are_public(
    study, search, tmp_path
):
    text = STUDY.replace("  - name: vmf\n    kappa: 40\n", "  - name: none\n")
    with pytest.raises(ValueError, match="no finite price"):
        search(study(text), count=2)
    assert not (tmp_path / "run" / FOLDER).exists()
    search(study(text.replace("public: false", "public: true")), count=2)
    answers = Answers.of(read_runs([tmp_path / "run"]))
    lines = answers.price(answers.view(None, None), {})
    assert "zero here, because the records are public" in lines[0]
    assert "no finite ε" in lines[1]


def test_no_run_tells_nothing(study, search):
    outcome, made = search(study(QUICK.replace("geometric", "poisson")), count=0)
    assert outcome.rows == []
    assert made.ran == 0


def test_runs_that_all_failed_have_no_best(study, search, monkeypatch):
    monkeypatch.setattr(cell, "train", lambda *given, **options: 1 / 0)
    with pytest.raises(ValueError, match="every run of the search failed, .* division by zero"):
        search(study(), count=2)
    monkeypatch.undo()
    outcome, made = search(study(), count=9, retry_failed=True)
    assert made.ran == 3
    assert len(outcome.rows) == 1


def test_settings_under_different_relations_are_refused(study, search):
    text = STUDY.replace("    kappa: 40\n", "    kappa: 40\n    training: {sampling: fixed-size}\n")
    with pytest.raises(ValueError, match="one neighbouring relation"):
        search(study(text))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("search:", "seeds: 2\nsearch:", "drawn by the search"),
        ("kappa: 40", "at: {accuracy: 0.5}", "looks at the records before"),
        ("search:", "attacks: [{name: membership-threshold, records: 20}]\nsearch:", "another"),
        ("rule: geometric", "rule: banana", "search"),
        ("rule: geometric", "rule: negative-binomial", "shape is given with"),
        ("mean: 3", "mean: 1", "search"),
        ("mean: 3", "average: 3", "mean"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(study_file, old, new, said):
    with pytest.raises(StudyError, match=said):
        read_study(study_file(STUDY.replace(old, new)))


def test_the_rules_are_the_published_ones():
    laws = {rule: SearchSpec(rule=rule, mean=7).law() for rule in ("logarithmic", "geometric")}
    assert {rule: law.shape for rule, law in laws.items()} == {"logarithmic": 0, "geometric": 1}
    assert SearchSpec(rule="negative-binomial", mean=7, shape=-0.5).law().shape == -0.5
    assert all(law.mean == pytest.approx(7) for law in laws.values())
    assert SearchSpec(rule="poisson", mean=7).law().mean == 7
