"""The reader of files of this package: what is written is read, and nothing else does harm."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcpn.io import hdf5_subset
from smcpn.io.hdf5_subset import NotPlainError, read_plain
from tests.io.hdf5_files import chunked, compressed, declared, external, linked, virtual, written


def sample(file):
    file.attrs["number"], file.attrs["text"] = 3, np.bytes_("kind")
    file["group/array"] = np.arange(6.0).reshape(2, 3)
    file["group/array"].attrs["names"] = np.array([b"c", "kä".encode()])
    file["group/empty"] = np.empty((0, 2))
    file["group/table"] = np.array([(1, 2.0, b"x")], dtype=[("a", "i8"), ("b", "f8"), ("c", "S4")])
    file["text"] = np.bytes_('{"a": "ü"}'.encode())
    for number in range(300):
        file[f"many/{number}"] = np.full(2, number, dtype="i4")


def test_what_was_written_is_read():
    found = read_plain(written(sample))
    assert found.attributes == {"number": 3, "text": "kind"}
    assert found.texts == {"text": '{"a": "ü"}'}
    arrays = found.groups["group"].arrays
    np.testing.assert_array_equal(arrays["array"].values, np.arange(6.0).reshape(2, 3))
    assert arrays["array"].attributes["names"].tolist() == [b"c", "kä".encode()]
    assert arrays["empty"].values.shape == (0, 2)
    assert arrays["table"].values["b"] == [2.0]
    many = found.groups["many"].arrays
    assert {int(name): one.values[1] for name, one in many.items()} == {n: n for n in range(300)}
    assert found.group("none").arrays == {}


def test_arrays_may_be_changed_and_are_not_the_file_s():
    values = read_plain(written(sample)).groups["group"].arrays["array"].values
    values[0] = -1.0
    assert values.flags.owndata
    assert values.flags.aligned


def circular(file, tmp_path):
    file["group/again"] = h5py.SoftLink("/group")


def hard(file, tmp_path):
    file["x"] = np.zeros(3)
    file["y"] = file["x"]


def deep(file, tmp_path):
    file["group/x"] = np.zeros(1)
    file["group/x/"[:5] + "/back"] = file["group"]


def strings(file, tmp_path):
    file["x"] = ["of", "any", "length"]


def reference(file, tmp_path):
    file.attrs["x"] = file.ref


def named_type(file, tmp_path):
    file["x"] = np.dtype("f8")


def groups_in_groups(file, tmp_path):
    file.create_group("/".join("g" * 40))


def booleans(file, tmp_path):
    file.attrs["x"] = True


def big_endian(file, tmp_path):
    file["x"] = np.zeros(3, ">f8")


def half(file, tmp_path):
    file["x"] = np.zeros(3, "f2")


def nested(file, tmp_path):
    file["x"] = np.zeros(3, [("a", [("b", "f8")])])


HOSTILE = [
    external, virtual, declared, chunked, compressed, linked, circular, hard, deep,
    strings, reference, named_type, groups_in_groups, booleans, big_endian, half, nested,
]  # fmt: skip


@pytest.mark.parametrize("fill", HOSTILE, ids=lambda fill: fill.__name__)
def test_what_is_no_plain_data_is_refused_unread(fill, tmp_path):
    content = written(lambda file: fill(file, tmp_path))
    with pytest.raises(NotPlainError):
        read_plain(content)


def test_the_newer_form_is_refused():
    with pytest.raises(NotPlainError, match="oldest form"):
        read_plain(written(sample, "latest"))


def test_the_parts_are_bounded(monkeypatch):
    monkeypatch.setattr(hdf5_subset, "MOST_PARTS", 64)
    with pytest.raises(NotPlainError, match="more than 64 parts"):
        read_plain(written(sample))


CONTENT = written(lambda file: file.update({"a/b": np.arange(9.0), "a/c": np.arange(3)}))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(CONTENT) - 8),
            st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([b"\xff" * 8, b"\0" * 8])),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, len(CONTENT)),
)
def test_any_bytes_are_read_or_refused(changes, end):
    """Of the HDF5 library four in six thousand such files corrupt the memory."""
    content = bytearray(CONTENT)
    for begin, data in changes:
        content[begin : begin + len(data)] = data
    try:
        found = read_plain(bytes(content[: max(end, 64)] if end % 3 == 0 else content))
    except NotPlainError:
        return
    sizes = [one.values.nbytes for one in found.group("a").arrays.values()]
    assert sum(sizes) <= len(content)
