"""The one list of defences: every command, study, federation and report reads it."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest

import recondite as rc
from recondite.channels.registry import CHANNELS
from recondite.defences import NaturalNoise, PersonalizedNoise, RecordNoise, defences, find
from recondite.laws import InfiniteLoss
from recondite.mechanisms import registry


def test_every_channel_is_a_defence_on_records():
    known = defences()
    on_records = {each.channel: each for each in known.values() if each.on_records}
    assert set(on_records) == set(CHANNELS)
    for channel, each in on_records.items():
        assert find(channel) is not None
        assert find(channel).name == each.name
        assert ("beta" in each.settings) == CHANNELS[channel].weighted
        assert each.build(2.0) == each.make(capacity=2.0)


def test_every_defence_says_what_it_is():
    for name, each in defences(unproven=True).items():
        assert each.name == name
        assert each.title
        assert each.heading
        low, high = each.search_range
        assert 0 < low < high
        assert each.weaker in ("larger", "smaller")
        assert each.stage in ("data", "record", "sum", "update", None)
        assert not (each.on_records and each.on_gradients)
        assert (each.parameter is None) == (not each.symbol)
    assert find("vmf").label(500.0, {}) == "VMF κ = 500"
    assert find("natural").label(1e5, {"noise": "once"}) == (
        "Natural channel capacity = 100,000, noise once"
    )
    with pytest.raises(ValueError, match=r"defence must be one of none, clip.* got 'odd'"):
        find("odd")
    with pytest.raises(ValueError, match="got 'compression'"):
        find("compression")


def test_a_policy_and_a_study_and_the_report_have_one_title():
    pytest.importorskip("torch")
    from recondite.federated.policy import Policy
    from recondite.report.quantities import defence_name
    from recondite.studies.defences import label

    for name in ("partitioned", "directional", "vmf", "gaussian"):
        assert Policy(name, strength=5.0).label == label(name, 5.0, {}) == find(name).label(5.0, {})
    assert Policy("clip").label == label("clip", None, {}) == "clipping only"
    for name, each in defences(unproven=True).items():
        assert defence_name(name) == each.heading


@dataclass(frozen=True)
class Doubled(RecordNoise):
    """A package's own noise on records."""

    name: ClassVar[str] = "doubled-channel"
    title: ClassVar[str] = "doubled channel"

    def fit(self, rows, shape):
        return NaturalNoise(self.capacity / 2).fit(rows, shape)


class Entry:
    name, group = "doubled-channel", "recondite.defences"

    def load(self):
        return Doubled


def test_another_package_adds_noise_on_records(monkeypatch):
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: [Entry()] * (group == Entry.group)
    )
    assert "doubled-channel" not in registry.mechanisms(unproven=True)
    found = find("doubled")
    assert found.on_records
    assert found.build(4.0) == Doubled(4.0)


def test_the_group_of_the_last_version_is_read_with_a_warning(monkeypatch):
    class Old:
        name = "mine"

        def load(self):
            return rc.Gaussian

    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: [Old()] * (group == "recondite.mechanisms")
    )
    with pytest.warns(DeprecationWarning, match="recondite.mechanisms is now recondite.defences"):
        assert registry.mechanisms()["mine"] is rc.Gaussian


class Renamed(rc.Gaussian):
    """Somebody's own law under a name that ledgers would account as ours."""

    def loss(self, relation):
        return InfiniteLoss()


class Another(rc.Gaussian):
    name = "another"


class Odd:
    name = "odd"


@dataclass(frozen=True)
class Bare:
    name: ClassVar[str] = "odd"


@pytest.mark.parametrize(
    ("entry", "loaded", "reason"),
    [
        ("odd", RuntimeError("boom"), "boom"),
        ("odd", 3, "no dataclass"),
        ("odd", Odd, "no dataclass"),
        ("odd", Bare, "it has no title"),
        ("gaussian", Another, "its name gaussian is taken"),
        ("mine", Renamed, "its name gaussian is taken"),
        ("mine", Another, "it calls itself another"),
    ],
)
def test_one_broken_package_takes_no_other_away(entry, loaded, reason, monkeypatch):
    class Other:
        name = entry

        def load(self):
            if isinstance(loaded, Exception):
                raise loaded
            return loaded

    entries = [Other(), Entry()]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: entries * (group == Entry.group))
    with pytest.warns(
        UserWarning, match=f"defence {entry} (could not be loaded|is left out): .*{reason}"
    ):
        found = registry.registered()
    assert found == {"doubled-channel": Doubled}
    with pytest.warns(UserWarning, match=f"defence {entry}"):
        assert defences()["gaussian"].make is rc.Gaussian


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": None}, "capacity is needed"),
        ({"capacity": 0.0}, "capacity"),
        ({"noise": "twice"}, "noise"),
        ({"method": "guess"}, "method"),
    ],
)
def test_noise_on_records_is_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PersonalizedNoise(1.0), **changes)
