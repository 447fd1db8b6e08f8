from __future__ import annotations

import io

import h5py
import numpy as np
import pytest

from smcpn.io.hdf5 import Measurements, NotPlainError


def written(fill) -> bytes:
    with io.BytesIO() as stream:
        with h5py.File(stream, "w") as file:
            fill(file)
        return stream.getvalue()


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


@pytest.mark.parametrize("fill", [external, virtual, chunked, declared, linked])
def test_measurements_come_from_the_file_itself(fill, tmp_path):
    content = written(lambda file: fill(file, tmp_path))
    with h5py.File(io.BytesIO(content), "r") as file, pytest.raises(NotPlainError):
        Measurements(file)["x"]


def test_measurements_may_be_compressed():
    content = written(lambda file: compressed(file, None))
    with h5py.File(io.BytesIO(content), "r") as file:
        np.testing.assert_array_equal(Measurements(file)["x"][()], np.zeros(1000))
