"""Study files: what is right is read, what is wrong is named with its line."""

import pytest

from recondite.studies.source import StudyError, parse, read, where
from recondite.studies.study import read_study

GOOD = """\
name: tiny
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: vmf
    kappa: [50, 5e2]
  - name: gaussian
    at: {epsilon: [2, 8]}
  - name: partitioned
    kappa: 10
    blocks: layers
    training: {learning_rate: 0.1}
  - name: personalized-channel
    capacity: 5
    noise: per_step
training:
  epochs: 1
attacks:
  - name: inverting-gradients
    images: 4
    steps: 10
seeds: 2
delta: 1e-4
"""


def test_a_study_is_read(study_file):
    study, _ = read_study(study_file(GOOD))
    assert study.seeds == [0, 1]
    assert study.delta == 1e-4
    assert study.defences[1].settings() == {"kappa": [50, 500.0]}
    assert study.defences[2].at.targets() == [("epsilon", 2.0), ("epsilon", 8.0)]
    assert study.training.given() == {"epochs": 1}
    assert study.attacks[0].options() == {"steps": 10}


def test_a_threat_is_each_attacks_that_answers_it_and_says_nothing_else(study_file):
    asked = "seeds: 2\nthreat: update\nparticipation: known\n"
    study, _ = read_study(study_file(GOOD.replace("seeds: 2\n", asked)))
    assert study.attacks[0].asked().threat == "update"
    assert study.attacks[0].options() == {"steps": 10}
    asked = asked.replace("update", "model")
    more = "  - name: membership-threshold\n    records: 100\n"
    study, _ = read_study(study_file(GOOD.replace("seeds: 2\n", more + asked)))
    assert [attack.asked().threat for attack in study.attacks] == [None, "model"]
    own = more.replace("records", "threat: model\n    records")
    study, _ = read_study(study_file(GOOD.replace("seeds: 2\n", own + "threat: update\n")))
    assert [attack.asked().threat for attack in study.attacks] == ["update", "model"]


# What is changed in the good study, and the line that reports it.
MISTAKES = [
    (
        "seeds: 2",
        "threat: everything",
        "study.yaml:24: threat must be update, training or model, got 'everything'",
    ),
    (
        "seeds: 2",
        "threat: model",
        "study.yaml:24: threat model is what no attack here answers: add one",
    ),
    (
        "    kappa: [50, 5e2]",
        "    kapa: [50]",
        "study.yaml:8: defences[1].kapa is not a setting of vmf: did you mean kappa?",
    ),
    ("name: vmf", "name: vfm", "study.yaml:7: defences[1].name is unknown: did you mean vmf?"),
    (
        "kappa: [50, 5e2]",
        "kappa: [50, -1]",
        "study.yaml:8: defences[1].kappa[1] must be a number above 0, got -1",
    ),
    (
        "kappa: [50, 5e2]",
        "kappa: many",
        "study.yaml:8: defences[1].kappa must be a number above 0, got 'many'",
    ),
    ("kappa: [50, 5e2]", "kappa: []", "study.yaml:8: defences[1].kappa is empty"),
    ("    kappa: [50, 5e2]", "    label: x", "study.yaml:7: defences[1].kappa is missing: give"),
    ("blocks: layers", "blocks: 0", "study.yaml:12: defences[3].kappa is refused: blocks"),
    (
        "at: {epsilon: [2, 8]}",
        "at: {epsilom: 8}",
        "study.yaml:10: defences[2].at.epsilom is not a setting of at: did you mean epsilon?",
    ),
    ("at: {epsilon: [2, 8]}", "at: {}", "study.yaml:10: defences[2].at has no target"),
    (
        "at: {epsilon: [2, 8]}",
        "at: {epsilon: -8}",
        "study.yaml:10: defences[2].at.epsilon must be greater than 0",
    ),
    ("- name: none", "- name: none\n    at: {epsilon: 1}", "study.yaml:7: defences[0].at is not"),
    ("noise: per_step", "noise: often", "study.yaml:17: defences[4].noise must be once or"),
    ("    capacity: 5\n", "    at: {epsilon: 1}\n", "study.yaml:16: defences[4].at.epsilon is not"),
    ("data: digits", "data: digit", "study.yaml:2: data cannot be used: data must be one of"),
    ("model: mlp", "model: mpl", "study.yaml:3: model cannot be used: model must be one of"),
    ("prepare: none", "prepare: crop99", "study.yaml:4: prepare cannot be used:"),
    (
        "  epochs: 1",
        "  epoch: 1",
        "study.yaml:19: training.epoch is not a setting of training: did you mean epochs?",
    ),
    ("  epochs: 1", "  epochs: 0", "study.yaml:19: training.epochs must be greater than or equal"),
    ("  epochs: 1", "  momentum: 0.9", "study.yaml:18: training is refused: momentum belongs to"),
    ("  epochs: 1", "  optimizer: adan", "study.yaml:19: training.optimizer must be sgd, adam or"),
    (
        "{learning_rate: 0.1}",
        "{learning_rat: 0.1}",
        "study.yaml:14: defences[3].training.learning_rat is not a setting of training: "
        "did you mean learning_rate?",
    ),
    (
        "name: inverting-gradients",
        "name: inverting-gradient",
        "study.yaml:21: attacks[0].name is unknown: did you mean inverting-gradients?",
    ),
    (
        "    steps: 10",
        "    stepps: 10",
        "study.yaml:23: attacks[0].stepps is not an option of inverting-gradients: "
        "did you mean steps?",
    ),
    ("    steps: 10", "    steps: 0", "study.yaml:21: attacks[0] is refused: steps must be 1 or"),
    (
        "    steps: 10",
        "    records: 10",
        "study.yaml:23: attacks[0].records is not an option of inverting-gradients",
    ),
    (
        "    images: 4",
        "    images: 4000",
        "study.yaml:22: attacks[0].images needs 4000 held-out records: digits has 360",
    ),
    (
        "    steps: 10",
        "    steps: 10\n  - name: membership-threshold\n    records: 1000",
        "study.yaml:25: attacks[1].records must be at most 359 for 1437 training records "
        "(twice as many take part in coin flips), got 1000",
    ),
    ("    steps: 10", "    threat: model-user", "attacks[0] is refused: attack inverting"),
    ("seeds: 2", "seeds: []", "study.yaml:24: seeds must have at least one item"),
    (
        "seeds: 2",
        "seeds: many",
        "study.yaml:24: seeds must be a number of repetitions above 0, or a list of seeds, got 'ma",
    ),
    ("seeds: 2", "seeds: 0", "study.yaml:24: seeds must be a number of repetitions above 0, or a"),
    ("seeds: 2", "seeds: [1, 2, 1]", "study.yaml:24: seeds has 1 twice: each seed is one"),
    ("data: digits", "data: 5", "study.yaml:2: data must be text, got 5"),
    ("- name: vmf", "- nam: vmf", "study.yaml:7: defences[1].nam is unknown: did you mean name?"),
    (
        "  epochs: 1",
        "  batch_size: 2000",
        "study.yaml:19: training.batch_size must be at most 1437, the training records, got 2000",
    ),
    (
        "{learning_rate: 0.1}",
        "{batch_size: 2000}",
        "study.yaml:14: defences[3].training.batch_size must be at most 1437",
    ),
    ("  epochs: 1", "  device: gpu", "study.yaml:19: training.device must be cpu or cuda, got 'gp"),
    (
        "{epsilon: [2, 8]}",
        "{accuracy: [0.5, 95]}",
        "study.yaml:10: defences[2].at.accuracy[1] must be at most 1, got 95: did you mean 0.95?",
    ),
    (
        "{epsilon: [2, 8]}",
        "{accuracy: 1}",
        "study.yaml:10: defences[2].at.accuracy must lie between 0 and 1, got 1",
    ),
    (
        "{epsilon: [2, 8]}",
        "{rero: 0.05}",
        "study.yaml:10: defences[2].at.rero must lie between 0.1, that of a guess unaided, and 1",
    ),
    ("delta: 1e-4", "delta: 2", "study.yaml:25: delta must be less than 1, got 2"),
    (
        "delta: 1e-4",
        "delts: 2",
        "study.yaml:25: delts is not a key of a study: did you mean delta?",
    ),
    ("name: tiny", "name: a/b", "study.yaml:1: name must be letters, digits, dots, dashes"),
    ("data: digits\n", "", "study.yaml:1: data is missing: add it"),
    ("seeds: 2", "seeds: 2\nseeds: 3", "study.yaml:25: seeds is given twice: keep one"),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_named_with_its_line(study_file, old, new, said):
    assert old in GOOD
    with pytest.raises(StudyError) as caught:
        read_study(study_file(GOOD.replace(old, new, 1)))
    assert any(said in line for line in caught.value.lines), caught.value.lines
    assert all("\n" not in line for line in caught.value.lines)


def test_a_device_that_is_not_here_is_refused_once(study_file, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(StudyError) as caught:
        read_study(study_file(GOOD.replace("  epochs: 1", "  device: cuda")))
    assert caught.value.lines == [
        "study.yaml:19: training.device cuda is not here: choose cpu",
    ]


def test_several_mistakes_come_one_a_line_in_the_order_of_the_file(study_file):
    text = GOOD.replace("name: vmf", "name: vfm").replace("steps: 10", "steppes: 10")
    with pytest.raises(StudyError) as caught:
        read_study(study_file(text))
    assert [line.split(":")[1] for line in caught.value.lines] == ["7", "23"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "study.yaml:1:"),
        ("defences:\n\t- x", "study.yaml:2:"),
        ("- one\n- two", "study.yaml:1: the study must have keys"),
        ("", "study.yaml:1: the study must have keys"),
        ("!!python/object/apply:os.system ['true']", "study.yaml:1:"),
    ],
)
def test_what_is_no_study_is_one_line(study_file, text, said):
    with pytest.raises(StudyError) as caught:
        read_study(study_file(text))
    assert said in caught.value.lines[0]


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="cannot read the study .*nothing.yaml: No such file"):
        read_study(tmp_path / "nothing.yaml")


def test_places_are_written_as_people_write_them():
    assert where(("defences", 1, "kappa", 0)) == "defences[1].kappa[0]"
    assert where(()) == "the study"


def test_yaml_numbers_with_an_exponent_are_numbers(study_file):
    source = read(study_file("a: 1e-5\nb: '1e-5'\nc: 1.5E3\nd: e5\n"))
    assert source.data == {"a": 1e-5, "b": "1e-5", "c": 1500.0, "d": "e5"}
    assert source.line(("c",)) == 3
    assert source.line(("c", "no", 1)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [1,1,1,1,1,1,1,1]\n"
        + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 9)),
        "a: &a [*a]\n",
        "[" * 5_000,
    ],
)
def test_a_small_file_that_unfolds_without_end_is_refused(text):
    with pytest.raises(StudyError, match="smaller study|write it flat|found undefined alias"):
        parse(text, "bomb.yaml")


def test_more_repetitions_than_memory_are_refused(tmp_path):
    (tmp_path / "study.yaml").write_text(
        "data: digits\nmodel: mlp\ndefences: [{name: none}]\nseeds: 1000000\n"
    )
    with pytest.raises(StudyError, match="seeds must be at most 1,000 repetitions"):
        read_study(tmp_path / "study.yaml")
