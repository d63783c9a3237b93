"""The how-to on texts shows what results/ holds, and its own study names the threat it answers."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/text.md").read_text(encoding="utf-8")
NOISES = {"gaussian": "Gaussian", "vmf": "von Mises-Fisher"}


def table(name):
    lines = PAGE.split(f"<!-- {name} -->\n")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def mean(values):
    return percent(sum(values) / len(values))


def percent(value):
    return f"{100 * value:.1f}%"


def test_accuracies_are_those_of_the_runs():
    runs = json.loads((ROOT / "results/text-lora.json").read_text(encoding="utf-8"))["runs"]
    found = {run["defence"]["name"]: run["results"]["test_accuracy"] for run in runs}
    names = {"none": "no defence", **NOISES}
    assert table("text-lora") == [[names[key], percent(found[key])] for key in names]
    assert 100 * (found["none"] - found["gaussian"]) < 6  # points
    for run in runs[1:]:
        assert run["privacy"]["epsilon"]["pld"] <= 8


def test_shares_of_tokens_are_those_of_the_victims():
    cases = json.loads((ROOT / "results/text-inversion.json").read_text(encoding="utf-8"))["cases"]
    assert len(table("text-inversion")) == len(cases)
    for (told, case), line in zip(cases.items(), table("text-inversion"), strict=True):
        victims = case["victims"]

        sure = [one.get("verified", one.get("sure")) for one in victims]
        blind = [one["blind"]["tokens"] for one in victims]
        shares = [mean(part) for part in ([one["tokens"] for one in victims], blind, sure)]
        shown = [*shares, str(len(victims))]
        assert line[1:] == shown, told
        assert str(case["batch_size"]) in re.findall(r"\d+", line[0])
        noise = NOISES.get(case.get("defence", "none"))
        assert noise is None or noise in line[0]


def test_the_page_s_study_asks_for_the_threat_that_its_attack_answers():
    from recondite.attacks.text.span_check import SpanCheck

    study = PAGE.split("```yaml\n")[1].split("```")[0]
    (threat,) = re.findall(r"^threat: (\w+)", study, re.M)
    assert threat in SpanCheck.threats
