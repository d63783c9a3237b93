"""recondite data list."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from recondite.cli import data


@pytest.fixture
def run():
    app = typer.Typer()
    data.register(app)
    app.callback()(lambda: None)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_table(run, directory, mnist_files):
    mnist_files(directory / "mnist")
    result = run("data", "list", "--data-dir", str(directory))
    assert result.exit_code == 0, result.output
    assert f"searched in {directory}" in result.output
    assert "20 + 10" in result.output
    assert "1,437 + 360" in result.output
    assert "not here" in result.output
    assert "cifar-10-binary.tar.gz" in result.output


def test_json(run, directory, mnist_files):
    mnist_files(directory / "mnist")
    result = run("data", "list", "--data-dir", str(directory), "--json")
    content = json.loads(result.output)
    assert content["schema_version"] == 1
    assert content["searched"] == [str(directory)]
    rows = {row["name"]: row for row in content["data_sets"]}
    assert rows["mnist"]["records"] == {"train": 20, "test": 10}
    assert rows["mnist"]["found"] is True
    assert rows["celeba"]["found"] is False
    assert "celeba" in rows["celeba"]["remedy"]


def test_a_file_as_the_directory(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("data", "list", "--data-dir", str(tmp_path / "file"))
    assert isinstance(result.exception, ValueError)
    assert "must be a folder" in str(result.exception)


def test_listing_does_not_import_torch():
    code = (
        "import sys, typer\n"
        "from recondite.cli import data\n"
        "data.list_data()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
