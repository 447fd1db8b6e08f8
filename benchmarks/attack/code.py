"""Whether anything that is read as data runs code: a canary lies where it could be found.

The canary is a module by every name that a file could ask for, first on ``sys.path`` and in the
working directory. It leaves a file where it runs; a process that is started counts as well.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np

import smcpn
from benchmarks.attack.child import ended
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.checkpoint.container import HEADER_BYTES
from tests.models import oscillator_problem, oscillator_record

SECONDS = 120
RECORD = oscillator_record(samples=40)
CANARIES = ("canary", "pytest", "hypothesis", "sitecustomize", "usercustomize", "smcpn_canary")
WORDS = (
    "test", "canary", "canary.Canary", "canary:Canary", "smcpn_canary", "os.system", "__import__",
    "__class__", "seterr", "rv_generic", "canary()", "../canary.py",
)  # fmt: skip
"""What a file asks for in place of a name."""


def _trap(folder: Path, mark: Path) -> None:
    """Put canaries into a folder."""
    for name in CANARIES:
        text = f"open({str(mark)!r}, 'w').close()\nclass Canary: pass\n"
        (folder / f"{name}.py").write_text(text)


def _audited(mark: Path, call: Callable[[], object]) -> Callable[[], None]:
    """The call from within the folder of the canaries; a new process or a shell is a canary too."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork"):
            mark.touch()

    def run() -> None:
        os.chdir(mark.parent)
        sys.path[:0] = ["", str(mark.parent)]
        for name in CANARIES:
            sys.modules.pop(name, None)
        sys.addaudithook(watch)
        call()

    return run


def _files(folder: Path) -> dict[str, bytes]:
    smcpn.identify(
        oscillator_problem(RECORD), method="ibis", solver=smcpn.RK4(1), particles=30, seed=1,
        progress=False, checkpoint=folder / "run.h5",
    )  # fmt: skip
    live = smcpn.Online(oscillator_problem(RECORD), solver=smcpn.RK4(1), particles=30, seed=1)
    for u, y in zip(RECORD.u, RECORD.y, strict=True):
        live.update(u, y)
    live.save(folder / "stream.h5")
    return {path.name: path.read_bytes() for path in folder.glob("*.h5")}


Edit = Callable[[Any], None]


def edited(content: bytes, edit: Edit) -> bytes:
    """Return a file of ours after an edit, with a right checksum."""
    kind, buffer = content.split(b"\n")[0].decode(), io.BytesIO(content)
    with h5py.File(buffer, "r+") as file:
        edit(file)
    return with_header(kind, buffer.getvalue()[HEADER_BYTES:])


def with_header(kind: str, body: bytes) -> bytes:
    """Return a file of ours of a kind, with the checksum of its body."""
    begin = f"{kind}\nsha256 {hashlib.sha256(body).hexdigest()}\nbytes {len(body)}\n"
    return begin.encode().ljust(HEADER_BYTES, b"\0") + body


def _replaced(value: Any, word: str, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Copies of a document, each with one text or key replaced, and where."""
    if isinstance(value, str):
        yield "/".join(map(str, path)), word
    elif isinstance(value, dict):
        for key, entry in value.items():
            for where, changed in _replaced(entry, word, (*path, key)):
                yield where, value | {key: changed}
        yield "/".join(map(str, (*path, "+"))), value | {word: word}
    elif isinstance(value, list):
        for place, entry in enumerate(value[:3]):
            for where, changed in _replaced(entry, word, (*path, place)):
                yield where, [*value[:place], changed, *value[place + 1 :]]


def _edits(content: bytes, word: str) -> Iterator[Edit]:
    """Edits that put a word in place of one text of a file: in a document, attribute or dataset."""
    documents: dict[str, str] = {}
    texts: list[tuple[str, str, str]] = []
    tables: list[str] = []

    def collect(name: str, item: Any) -> None:
        texts.extend((name, key, v) for key, v in item.attrs.items() if isinstance(v, str))
        if isinstance(item, h5py.Dataset) and h5py.check_string_dtype(item.dtype):
            if item.shape == ():
                documents[name] = str(item.asstr()[()])
            else:
                tables.append(name)

    with h5py.File(io.BytesIO(content), "r") as file:
        file.visititems(collect)

    def put(name: str, text: str) -> Edit:
        def edit(file: Any) -> None:
            del file[name]
            file[name] = text

        return edit

    def put_attribute(name: str, key: str, text: str) -> Edit:
        return lambda file: file[name].attrs.__setitem__(key, text)

    def put_entry(name: str) -> Edit:
        def edit(file: Any) -> None:
            values: Any = file[name].asstr()[...]
            values.flat[len(values) // 2] = word
            del file[name]
            file[name] = values.astype(object)

        return edit

    for name, text in documents.items():
        for _, changed in _replaced(json.loads(text), word):
            yield put(name, json.dumps(changed))
    for name, key, text in texts:
        yield put_attribute(name, key, word)
        if text.startswith("{"):
            for _, changed in _replaced(json.loads(text), word):
                yield put_attribute(name, key, json.dumps(changed))
    for name in tables:
        yield put_entry(name)


def _opened(path: Path) -> None:
    if path.name == "stream.h5":
        smcpn.Online.load(path)
    else:
        smcpn.resume(path.with_name("run.h5"), progress=False)


@study("names", full=None, quick=24)
def names(most: int | None) -> Iterator[Row]:
    """Every text of a run, a stream and records, replaced by the name of something to call."""
    rng, ran, kinds = np.random.default_rng(17), 0, Counter[str]()
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "files"
        folder.mkdir()
        files, mark = _files(folder), Path(parent) / "trap" / "mark"
        mark.parent.mkdir()
        _trap(mark.parent, mark)
        ended(_audited(mark, lambda: __import__("canary")))
        caught = mark.exists()
        mark.unlink(missing_ok=True)
        edits = [
            (name, edit)
            for name, content in files.items()
            for word in WORDS
            for edit in _edits(content, word)
        ]
        chosen = rng.permutation(len(edits))[:most]
        # The generator is what was once looked up by its name.
        edits = [edits[k] for k in chosen] + [("run.h5", _generator(word)) for word in WORDS]
        for name, edit in edits:
            (folder / name).write_bytes(edited(files[name], edit))
            kinds[
                ended(_audited(mark, lambda name=name: _opened(folder / name)), SECONDS).kind
            ] += 1
            ran += mark.exists()
            mark.unlink(missing_ok=True)
            for one, content in files.items():
                (folder / one).write_bytes(content)
    told = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    yield at_least("the canary sings when it is imported", float(caught), 1)
    yield at_most(f"code run, {len(edits)} edits", ran, 0, told)


def _generator(word: str) -> Edit:
    def edit(file: Any) -> None:
        state = json.loads(file["run/fields"].asstr()[()])
        state["samplers"][0]["random_state"]["bit_generator"] = word
        del file["run/fields"]
        file["run/fields"] = json.dumps(state)

    return edit
