"""Paths of a study: from the working directory, else from beside the file; names stay names."""

from recondite.studies.source import read


def test_paths_are_found_beside_the_study_file(tmp_path, monkeypatch):
    place = tmp_path / "elsewhere"
    (place / "faces" / "a").mkdir(parents=True)
    (place / "digits").mkdir()
    (place / "w.safetensors").write_bytes(b"")
    file = place / "study.yaml"
    file.write_text("data: ./faces\ntraining: {weights: ./w.safetensors}\n")
    monkeypatch.chdir(tmp_path)
    found = read(file).data
    assert found["data"] == str(place / "faces")
    assert found["training"]["weights"] == str(place / "w.safetensors")
    (tmp_path / "faces").mkdir()
    assert read(file).data["data"] == "./faces"  # what is in the working directory comes first
    file.write_text("data: digits\n")
    assert read(file).data["data"] == "digits"
    file.write_text("data: ./nowhere\n")
    assert read(file).data["data"] == "./nowhere"


def test_a_table_is_found_beside_the_study_file(tmp_path, monkeypatch):
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "people.csv").write_text("a,b\n1,2\n")
    (folder / "study.yaml").write_text("data: people.csv#b\n")
    monkeypatch.chdir(tmp_path)
    assert read(folder / "study.yaml").data["data"] == f"{folder / 'people.csv'}#b"
    monkeypatch.chdir(folder)
    assert read(folder / "study.yaml").data["data"] == "people.csv#b"
