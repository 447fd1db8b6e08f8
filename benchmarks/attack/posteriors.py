"""Numbers of a posterior's file that nothing computes with: refused, or reported without harm."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np

import smcpn
from benchmarks.attack.child import ended
from benchmarks.attack.code import Edit, edited
from benchmarks.attack.outputs import posterior
from benchmarks.rows import Row, at_most
from benchmarks.study import study

SECONDS = 300
"""A report on a machine that is busy."""
VALUES = (np.inf, -np.inf, np.nan, 1e308, -1e308)
QUICK = 6
LIKELY = ("log_evidences", "log_evidence_path", "r_hat", "theta", "log_weights")
"""Arrays that the quick form takes."""


def _array(name: str, value: float) -> Edit:
    def edit(file: Any) -> None:
        array = file[name][()]
        array.flat[0] = value
        file[name][...] = array

    return edit


def _entry(name: str, value: float) -> Edit:
    def edit(file: Any) -> None:
        document = json.loads(file["posterior/fields"][()]) | {name: value}
        del file["posterior/fields"]
        file["posterior/fields"] = np.bytes_(json.dumps(document).encode())

    return edit


def edits(content: bytes, quick: bool) -> list[tuple[str, Edit]]:
    """All edits of one number to one value, with their names; some of them in the quick form."""
    found: list[tuple[str, Edit]] = []
    with h5py.File(io.BytesIO(content), "r") as file:
        draws: Any = file["posterior"]
        names = [name for name, one in draws.items() if one.dtype.kind == "f" and one.size]
        document = json.loads(file["posterior/fields"][()])  # type: ignore[index]
    for value in VALUES:
        for name in names:
            if not quick or name in LIKELY:
                found.append((f"{name} = {value}", _array(f"posterior/{name}", value)))
        for name, entry in document.items():
            if isinstance(entry, float) and not quick:
                found.append((f"{name} = {value}", _entry(name, value)))
    chosen = np.random.default_rng(17).permutation(len(found))[: QUICK if quick else None]
    return [found[k] for k in chosen]


def _reported(path: Path) -> None:
    read = smcpn.load(path)
    read.summary()
    read.to_latex()
    read.report(path.with_suffix(".html"), progress=False)


@study("posterior numbers")
def numbers(quick: bool) -> Iterator[Row]:
    """Files of a posterior in which a number is infinite, missing or too large."""
    faults, kinds = list[str](), Counter[str]()
    with TemporaryDirectory() as folder:
        path = posterior().save(Path(folder, "p.h5"))
        content = path.read_bytes()
        tried = edits(content, quick)
        for name, edit in tried:
            path.write_bytes(edited(content, edit))
            end = ended(lambda: _reported(path), SECONDS, 2000)
            kinds[end.kind] += 1
            faults += [] if end.harmless else [f"{name}: {end.text.strip()[-150:]}"]
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    note = "; ".join(faults)[:1000] or told
    yield at_most(f"tracebacks, crashes, hangs of {len(tried)} edits", len(faults), 0, note)
