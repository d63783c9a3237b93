"""CSV files of channels, priors and gains."""

from __future__ import annotations

import numpy as np
import pytest

from recondite.leakage.files import read_channel, read_gain, read_matrix, read_prior


@pytest.fixture
def write(tmp_path):
    def save(content: str | bytes):
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return save


def test_reads_numbers_fractions_and_spaces(write):
    path = write("1/3, 1/3 ,1/3\n0.5,5e-1,0\n")
    np.testing.assert_array_equal(read_matrix(path), [[1 / 3] * 3, [0.5, 0.5, 0]])
    assert read_channel(path).secrets == 2
    assert read_matrix(str(path)).dtype == np.float64


def test_reads_what_spreadsheets_write(write):
    path = write(b"\xef\xbb\xbf1,0\r\n0,1\r\n\r\n")
    np.testing.assert_array_equal(read_matrix(path), np.eye(2))


@pytest.mark.parametrize("text", ["0.25,0.75\n", "0.25\n0.75\n"])
def test_a_prior_is_a_row_or_a_column(write, text):
    np.testing.assert_array_equal(read_prior(write(text)), [0.25, 0.75])


def test_gains_may_be_negative(write):
    np.testing.assert_array_equal(read_gain(write("1,-2,0\n")), [[1, -2, 0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,0\n1\n", "row 2 has 1 numbers where row 1 has 2"),
        ("1,0\n\n0,1\n", "row 2 has 0 numbers"),
        ("x,y\n1,0\n", "row 1, column 1 is 'x', not a number; .* no header"),
        ("1,0\n0,1/0\n", "row 2, column 2 is '1/0', not a number"),
        ("1,\n0,1\n", "row 1, column 2 is empty"),
        ("1,nan\n", "row 1, column 2 is 'nan'; write a finite number"),
        ("1,1e999\n", "write a finite number"),
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (b"\xff\xfe\x00\x01", "not a CSV file of text"),
    ],
)
def test_bad_files(write, content, message):
    path = write(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_matrix(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        read_matrix(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        read_matrix(tmp_path)


def test_a_bad_channel_names_its_file(write):
    path = write("0.5,0.5\n0.5,0.4\n")
    with pytest.raises(ValueError, match=r"data\.csv: row 2 of the channel sums to 0\.9"):
        read_channel(path)


def test_a_table_is_no_prior(write):
    with pytest.raises(ValueError, match="single row or a single column, got 2 rows"):
        read_prior(write("1,0\n0,1\n"))
