"""Files and streams of others: each kind that is read, changed at random, and what can mislead.

Every variation is read in a forked process. It may be read, or be refused in one sentence; whether
a changed number is believed is no question here. `benchmarks.files` asks that of whole files.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import h5py
import numpy as np
from scipy.io import savemat

import smcpn
from benchmarks.attack.child import ended
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.io import Channels, Lines
from smcpn.io.parse import LineParser
from smcpn.io.sources import File
from tests.models import oscillator_problem, oscillator_record

VARIATIONS, QUICK_VARIATIONS = 500, 20
SECONDS = 2.0
"""Of processor time that one may take."""
BATCH = 20
"""Read one after another by a process; each by one of its own where that is lost."""
BATCH_SECONDS = 300
SAMPLES = 30
PROBLEM = oscillator_problem(oscillator_record(samples=20), noise=0.5)
READING: dict[str, Any] = {"time": "t", "inputs": "u", "outputs": "y"}


# What is read


def _arrays() -> dict[str, Any]:
    t = np.arange(SAMPLES) * 0.1
    return {"t": t, "u": np.sin(t), "y": np.cos(t)}


def _csv() -> bytes:
    rows = [f"{t:.1f},{u:.4f},{y:.4f}" for t, u, y in zip(*_arrays().values(), strict=True)]
    return "\n".join(["# logger 7", 't [s],u [N],"y [mm]"', *rows, ""]).encode()


def _lines() -> bytes:
    return _csv().replace(b"# logger 7\n", b"")


def _json() -> bytes:
    columns = _arrays()
    rows = [{name: values[k] for name, values in columns.items()} for k in range(SAMPLES)]
    return "\n".join([*map(json.dumps, rows), ""]).encode()


def _mat() -> bytes:
    file = io.BytesIO()
    more = {"rig": {"name": "logger 7", "gains": np.eye(3)}, "cells": np.array([1, "x"], object)}
    savemat(file, _arrays() | more, do_compression=False)
    return file.getvalue()


def _mat_compressed() -> bytes:
    file = io.BytesIO()
    savemat(file, _arrays(), do_compression=True)
    return file.getvalue()


def _hdf5() -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as written:
        for name, values in _arrays().items():
            written.create_dataset(name, data=values, compression="gzip", chunks=(10,))
            written[name].attrs.update({"units": "s", "scale_factor": 1.0, "_FillValue": -9999.0})
    return file.getvalue()


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **_arrays())
    return file.getvalue()


def _mat_hdf5() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.mat"
        with h5py.File(path, "w", userblock_size=512) as file:
            for name, values in _arrays().items():
                file[name] = values[:, None]
        head = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
        return head.ljust(512, b"\0") + path.read_bytes()[512:]


def _toml() -> bytes:
    with TemporaryDirectory() as folder:
        _new_system(Path(folder))
        return (Path(folder) / SYSTEM / "config.toml").read_bytes()


def _new_system(folder: Path) -> None:
    from smcpn.cli.config.new import write_new

    write_new(folder / SYSTEM)


SYSTEM = "mysystem"


def _record(path: Path) -> Any:
    return len(smcpn.read_record(path, **READING))


def _stream(path: Path) -> Any:
    return sum(1 for _ in Lines(File(path), LineParser(Channels.of(PROBLEM))).items(Event()))


def _configuration(path: Path) -> Any:
    from smcpn.cli.config.case import configured_case
    from smcpn.cli.config.document import Document

    return configured_case(Document.read(path)).name


@dataclass(frozen=True)
class Kind:
    """A kind of file or stream: its name, a whole one, how it is read, and what lies beside it."""

    name: str
    file: str
    content: Callable[[], bytes]
    read: Callable[[Path], Any]
    prepare: Callable[[Path], Any] = lambda folder: None


KINDS = (
    Kind("CSV", "a.csv", _csv, _record),
    Kind("MAT", "a.mat", _mat, _record),
    Kind("MAT, compressed", "a.mat", _mat_compressed, _record),
    Kind("HDF5", "a.h5", _hdf5, _record),
    Kind("MAT 7.3", "a.mat", _mat_hdf5, _record),
    Kind("NPZ", "a.npz", _npz, _record),
    Kind("stream of CSV", "lines", _lines, _stream),
    Kind("stream of JSON", "lines", _json, _stream),
    Kind("configuration", f"{SYSTEM}/config.toml", _toml, _configuration, _new_system),
)

# Variations

TOKENS = (
    b"\0", b"\xff" * 8, b"\n", b"\r", b'"', b'""', b"'", b",", b";" * 50, b"\t", b"[" * 500, b"]",
    b"{", b"}", b"(" * 500, b"#", b"nan", b"inf", b"-1e999", b"9" * 400, b"1_0", b"\xef\xbb\xbf",
    b"\xff\xfe", b"\x1b[2J", b"t,u,y\n", b"2026-01-01", b"00:01", b"\x7f\xff\xff\xff", b" " * 5000,
    b"[" * 65000, b"=", b"\\u0000", b'"""', b"0x10", b"1,234", b"1.000",
)  # fmt: skip
"""Pieces that are put in, or in place of others."""


def varied(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file of which some bytes, pieces, or its end are others."""
    changed = bytearray(content)
    for _ in range(1 if rng.uniform() < 0.7 else 3):
        at, other = (int(k) for k in rng.integers(0, len(changed) + 1, 2))
        size = int(rng.integers(1, 64))
        change = rng.integers(10)
        if change >= 5 and changed:
            for k in rng.integers(0, len(changed), int(rng.integers(1, 11))):
                changed[int(k)] = int(rng.integers(256))
        elif change == 2:
            changed[at:at] = TOKENS[int(rng.integers(len(TOKENS)))]
        elif change == 3:
            changed[at : at + size] = TOKENS[int(rng.integers(len(TOKENS)))]
        elif change == 4:
            del changed[at : at + size]
        elif change == 1:
            changed[at:at] = changed[other : other + size]
        elif rng.uniform() < 0.3:
            del changed[at:]
    return bytes(changed)


def _read(kind: Kind, path: Path, content: bytes) -> tuple[str, str, float]:
    """How reading ends, what is said, and the processor time it takes."""
    path.write_bytes(content)
    begin = time.process_time()
    try:
        kind.read(path)
        how, said = "read", ""
    except smcpn.InputError as error:
        how, said = "refused", str(error)
        if not said.isprintable():
            how = "traceback"
    except Exception:
        how, said = "traceback", traceback.format_exc()[-900:]
    return how, said, time.process_time() - begin


def _all_read(kind: Kind, contents: Sequence[bytes]) -> list[tuple[str, str, float]]:
    """How reading each ends, by a process for many of them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / kind.file
        kind.prepare(Path(folder))

        def call() -> list[tuple[str, str, float]]:
            warnings.simplefilter("ignore")
            logging.disable()
            return [_read(kind, path, content) for content in contents]

        end = ended(call, seconds=round(BATCH_SECONDS * max(1.0, os.getloadavg()[0])))
    if end.kind == "value":
        return end.value
    if len(contents) == 1:
        return [(end.kind, end.text, 0.0)]
    return [_all_read(kind, [content])[0] for content in contents]


def _reads(kind: Kind, content: bytes) -> int:
    ((how, _, _),) = _all_read(kind, [content])
    return int(how == "read")


@study("readers", full=VARIATIONS, quick=QUICK_VARIATIONS)
def variations(number: int) -> Iterator[Row]:
    """Files and streams of every kind, changed at random."""
    for kind in KINDS:
        rng, found = np.random.default_rng(35), Counter[str]()
        whole = kind.content()
        slowest = crashes = 0.0
        yield at_least(f"{kind.name}: whole ones read", _reads(kind, whole), 1)
        contents = [varied(whole, rng) for _ in range(number)]
        for begin in range(0, len(contents), BATCH):
            batch = contents[begin : begin + BATCH]
            for content, (how, said, seconds) in zip(batch, _all_read(kind, batch), strict=True):
                found[how] += 1
                slowest = max(slowest, seconds)
                crashes += "ends in a crash" in said
                if how not in ("read", "refused"):
                    print(f"{kind.name}: {how} {said} {content[:2000]!r}", file=sys.stderr)
        bad = sum(count for how, count in found.items() if how not in ("read", "refused"))
        note = ", ".join(f"{count} {how}" for how, count in found.most_common())
        lost = f"; {crashes:.0f} crashed their reading process" if crashes else ""
        yield at_most(f"{kind.name}: neither read nor refused in a sentence", bad, 0, note + lost)
        yield at_most(f"{kind.name}: slowest, s of processor", slowest, SECONDS)


# What was found by hand

LONG = 65_000
HOSTILE_LINES = {
    "brackets": "[" * LONG, "brackets and spaces": "[ " * (LONG // 2), "names": "a[" * (LONG // 2),
    "spaces": " " * LONG + "x", "digits": "1" * LONG + "x", "commas": "," * LONG,
    "columns": "x\t" * (LONG // 2), "units": "m [s]," * (LONG // 6), "quotes": '"' * LONG,
    "braces": "{" * LONG, "closed": "(" * (LONG - 1) + ")", "dates": "2026-01-31," * (LONG // 11),
}  # fmt: skip
"""Lines that are as long as one may be, which a reader must not read for minutes."""


@study("long lines")
def long_lines(quick: bool) -> Iterator[Row]:
    """Lines of 65 kB before and behind samples, in a file and in a stream."""
    stream = next(kind for kind in KINDS if kind.name == "stream of CSV")
    file = next(kind for kind in KINDS if kind.name == "CSV")
    slowest, bad = 0.0, list[str]()
    for name, line in HOSTILE_LINES.items():
        contents = [
            f"{before}t,u,y{line}\n0.1,1,2\n0.2,1,2\n".encode() for before in ("", "t,u,y\n0,1,2\n")
        ]
        for kind in (stream, file):
            for how, said, seconds in _all_read(kind, contents):
                slowest = max(slowest, seconds)
                if how not in ("read", "refused"):
                    bad.append(f"{kind.name}, {name}: {how} {said}")
    yield at_most("long lines neither read nor refused", len(bad), 0, "; ".join(bad))
    yield at_most("slowest of them, s of processor", slowest, SECONDS)
