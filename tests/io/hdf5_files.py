"""Files of HDF5 that hold ``x``, as it may stand in a file or outside of it."""

from __future__ import annotations

import io

import h5py
import numpy as np


def written(fill, libver="earliest") -> bytes:
    with io.BytesIO() as stream:
        with h5py.File(stream, "w", libver=libver) as file:
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
