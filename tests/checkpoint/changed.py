"""Files changed by one who knows the format, with a right checksum; problems as plain data."""

import io
import json

import h5py
import numpy as np

from smcpn.base.stored import Reading
from smcpn.checkpoint import StoredProblem
from smcpn.checkpoint.codec import TEXT, made, written
from smcpn.checkpoint.container import HEADER_BYTES, _header


def changed(kind, content, change):
    """Return a file whose HDF5 a function has changed."""
    body = io.BytesIO(content[HEADER_BYTES:])
    with h5py.File(body, "r+", libver="earliest") as file:
        change(file)
    return _header(kind, body.getvalue()) + body.getvalue()


def number(name, place, value):
    def change(file):
        file[name][place] = value

    return change


def put(name, value):
    def change(file):
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value

    return change


def entry(part, *keys, value):
    """Change an entry of the text of a part."""

    def change(file):
        held = json.loads(file[f"{part}/{TEXT}"][()])
        inner = held
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        put(f"{part}/{TEXT}", text(held))(file)

    return change


def text(held):
    return np.bytes_(json.dumps(held).encode())


def read(kind, document, arrays):
    """Return a dataclass from values for JSON, and its arrays by their paths."""
    return made(json.dumps(document), Reading(dict(arrays)), kind)


def document_of(problem):
    """Return a problem as values for JSON, and its arrays by their paths."""
    return written(StoredProblem.of(problem))


def problem_of(document, arrays, records):
    """Return the problem of such values."""
    return read(StoredProblem, document, arrays).restored(records)
