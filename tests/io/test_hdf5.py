from __future__ import annotations

import io

import h5py
import numpy as np
import pytest

from smcpn.io import hdf5
from smcpn.io.hdf5 import Measurements, NotPlainError, read_plain


def written(fill) -> bytes:
    with io.BytesIO() as stream:
        with h5py.File(stream, "w") as file:
            fill(file)
        return stream.getvalue()


def read(content: bytes):
    with h5py.File(io.BytesIO(content), "r") as file:
        return read_plain(file, len(content))


def test_what_was_written_is_read():
    def fill(file):
        file.attrs["number"], file.attrs["text"] = 3, np.bytes_("kind")
        file["group/array"] = np.arange(6.0).reshape(2, 3)
        file["group/table"] = np.array(
            [(1, 2.0, b"x")], dtype=[("a", "i8"), ("b", "f8"), ("c", "S4")]
        )
        file["text"] = np.bytes_('{"a": "ü"}'.encode())

    found = read(written(fill))
    assert found.attributes == {"number": 3, "text": "kind"}
    assert found.texts == {"text": '{"a": "ü"}'}
    np.testing.assert_array_equal(
        found.groups["group"].arrays["array"], np.arange(6.0).reshape(2, 3)
    )
    assert found.groups["group"].arrays["table"]["b"] == [2.0]
    assert found.group("none").arrays == {}


def external(file, tmp_path):
    (tmp_path / "secret").write_bytes(b"12345678")
    file.create_dataset("x", (1,), "f8", external=[(str(tmp_path / "secret"), 0, 8)])


def virtual(file, tmp_path):
    layout = h5py.VirtualLayout((1,), "f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (1,))
    file.create_virtual_dataset("x", layout)


def declared(file, tmp_path):
    file.create_dataset("x", (1 << 40,), "f8")


def chunked(file, tmp_path):
    file.create_dataset("x", (1 << 30, 2), "f8", chunks=(1024, 2), fillvalue=1.0)


def compressed(file, tmp_path):
    file.create_dataset("x", data=np.zeros(1000), compression="gzip")


def linked(file, tmp_path):
    file["x"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")


def circular(file, tmp_path):
    file["group/again"] = h5py.SoftLink("/group")


def hard(file, tmp_path):
    file["x"] = np.zeros(3)
    file["y"] = file["x"]


def deep(file, tmp_path):
    file["group/x"] = np.zeros(1)
    file["group/x/"[:5] + "/back"] = file["group"]


def objects(file, tmp_path):
    for number in range(100):
        file.create_group(f"{number}")


def strings(file, tmp_path):
    file["x"] = ["of", "any", "length"]


def reference(file, tmp_path):
    file.attrs["x"] = file.ref


def named_type(file, tmp_path):
    file["x"] = np.dtype("f8")


HOSTILE = [
    external, virtual, declared, chunked, compressed, linked, circular, hard, deep, objects,
    strings, reference, named_type,
]  # fmt: skip


@pytest.mark.parametrize("fill", HOSTILE, ids=lambda fill: fill.__name__)
def test_what_is_no_plain_data_is_refused_unread(fill, tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "MOST_OBJECTS", 64)
    content = written(lambda file: fill(file, tmp_path))
    with pytest.raises(NotPlainError):
        read(content)


@pytest.mark.parametrize("fill", [external, virtual, chunked, declared, linked])
def test_measurements_come_from_the_file_itself(fill, tmp_path):
    content = written(lambda file: fill(file, tmp_path))
    with h5py.File(io.BytesIO(content), "r") as file, pytest.raises(NotPlainError):
        Measurements(file)["x"]


def test_measurements_may_be_compressed():
    content = written(lambda file: compressed(file, None))
    with h5py.File(io.BytesIO(content), "r") as file:
        np.testing.assert_array_equal(Measurements(file)["x"][()], np.zeros(1000))
