"""The reader of columns by name, and the records that come through it, on small files."""

import numpy as np
import pytest

import smcpn
from smcpn.datasets import lynx_hare
from smcpn.datasets.inventory import columns_of


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text('"",c,"a",b\n0,3,1,2\n1,6,4,5\n')
    np.testing.assert_array_equal(columns_of(path, ["a", "b", "c"], "it"), [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has 0 samples"),
        ("a,c\n1,2\n", "no column 'b', and so is no record of it: fetch it again"),
        ("a,b\n1,2\n3\n", "cannot be read as the record of it"),
        ("a,b\n1,two\n", "cannot be read as the record of it"),
        ("a,b\n1,2\n", "has 1 samples, not 2"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path, content, message):
    path = tmp_path / "some.csv"
    path.write_text(content)
    with pytest.raises(smcpn.InputError, match=message):
        columns_of(path, ["a", "b"], "it", rows=2)


def test_lynx_and_hare_are_read_in_years(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    lines = [f"{1900 + year},{10 + year},{year + 1}" for year in range(21)]
    (tmp_path / "lynx_hare.csv").write_text("year,hare,lynx\n" + "\n".join(lines))
    record = lynx_hare()
    np.testing.assert_array_equal(record.t, np.arange(21))
    np.testing.assert_array_equal(record.y[:2], [[10, 1], [11, 2]])
    (tmp_path / "lynx_hare.csv").unlink()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(smcpn.InputError, match="columns named year,hare,lynx"):
        lynx_hare()
