"""Entry points of other packages are read once for an import path."""

from importlib import metadata

from recondite._plugins import entry_points


def test_a_group_is_read_once_and_again_when_the_path_changes(monkeypatch, tmp_path):
    asked = []

    def source(*, group):
        asked.append(group)
        return [group]

    monkeypatch.setattr(metadata, "entry_points", source)
    assert entry_points(group="a") == entry_points(group="a") == ("a",)
    assert entry_points(group="b") == ("b",)
    assert asked == ["a", "b"]
    monkeypatch.syspath_prepend(tmp_path)
    assert entry_points(group="a") == ("a",)
    assert asked == ["a", "b", "a"]
