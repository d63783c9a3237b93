"""The form: what is typed is read as a person means it, or refused beside its field."""

import pytest

from recondite.explore.question import Query, Refused


def test_a_form_becomes_a_setting(form):
    asked = Query.read(form(records="60,000", delta="1/60000", batch_size="256"))
    assert (asked.records, asked.batch_size, asked.epochs) == (60_000, 256, 10)
    assert asked.delta == 1 / 60_000
    assert asked.schedule.steps == 10 * 235
    assert asked.mechanism.strength == 1.0


@pytest.mark.parametrize(
    ("changes", "field", "line"),
    [
        ({"value": "much"}, "value", "'much' is no number"),
        ({"value": ""}, "value", "is empty"),
        ({"value": "-1"}, "value", "must be above 0"),
        ({"records": "12.5"}, "records", "whole number"),
        ({"batch_size": "5000"}, "batch_size", "at most records (4000)"),
        ({"delta": "2"}, "delta", "must lie in (0, 1)"),
        ({"delta": "1/0"}, "delta", "no number or fraction"),
        ({"epochs": "99999999"}, "epochs", "give fewer epochs"),
        ({"candidates": "1"}, "candidates", "2 or more"),
        ({"sampling": "by hand"}, "sampling", "must be one of poisson"),
        ({"threat": "magic"}, "threat", "must be one of training"),
        ({"defence": "wall"}, "defence", "must be one of gaussian"),
        ({"defence": "vmf", "dim": ""}, "dim", "dim"),
        ({"lock": "epsilon", "target": "-3"}, "target", "above 0"),
        ({"lock": "rero", "target": "0.05"}, "target", "a guess unaided has 0.1"),
        ({"lock": "identification", "target": "0.1"}, "target", "ask for more"),
    ],
)
def test_a_mistake_is_one_line_beside_its_field(form, changes, field, line):
    with pytest.raises(Refused) as refused:
        Query.read(form(**changes))
    assert refused.value.field == field
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_loose_delta_is_told(form):
    assert "publishing one record" in Query.read(form(delta="0.01")).loose_delta
    assert Query.read(form()).loose_delta == ""
