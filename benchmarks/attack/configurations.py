"""Configurations with values, keys and content that cannot be meant: one sentence, every time.

The configuration that ``smcpn new`` writes, with every documented key in it, is changed in one
place: a value by one of another kind or of extreme size, a key by another one. Besides these come
files that are hard to read at all. Each is read in a forked child.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.attack.child import ended
from benchmarks.rows import Row, at_most
from benchmarks.study import study

MUTATIONS, QUICK_MUTATIONS = 300, 30
WRONG = (
    "2026-01-01", "2026-01-01T00:00:00Z", "07:00:00", "{nothing = {}}", "[[[]]]", "[{}]",
    "{a = {b = {c = 1}}}",
)  # fmt: skip
"""Values that no key takes."""
EXTREME = (
    "true", "-1", "0", "0.0", "nan", "inf", "-inf", "1e308", "1e999", "5e-324", "1" * 60,
    "9" * 5000, "[]", "[1]", "{}", '""', '"\\u0000"', '"\\u001b[2J\\r\\n"', '"\\u202e"',
    '"nothing"',
    '"mm**9**9**9**9"', '"/"', '"../../../../etc/passwd"', '"~nobody-here/x"',
    '"' + "x" * 5000 + '"',
    "[" * 90 + "]" * 90, '["a", "a"]',
)  # fmt: skip
"""Values that some key may take; what it does not take it must refuse."""
OTHERS: dict[str, Mapping[str, Any]] = {
    "data": {"periodic": False, "delimiter": ",", "decimal": ".", "header": ["t", "force [N]"]},
    "solver": {"kind": "EKF0", "form": "first", "diffusion": "fixed-diagonal", "smooth": False,
               "likelihood": "marginal"},
    "run": {"ess": 0.5, "block": 64, "max_moves": 20, "resampling": "systematic",
            "replicates": 1, "threads": 1, "checkpoint": "run.h5", "checkpoint_every": 60.0,
            "existing": "resume", "method": "ibis", "report": "report.html", "start": "auto",
            "moves": "independent"},
    "initial": {"x": {"normal": {"mean": 0.0, "sd": 1e-3}}, "v": 0.0},
}  # fmt: skip
"""Documented keys that the first configuration does without; each is put in to be changed."""


class Literal(str):
    """A value as TOML, written as it is."""


@dataclass(frozen=True)
class Mutation:
    """A configuration, and whether it must be refused."""

    name: str
    content: bytes
    wrong: bool


def toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def document(tables: Mapping[str, Any]) -> bytes:
    """Return a configuration as a file holds it."""
    return "".join(f"{toml_key(key)} = {toml(value)}\n" for key, value in tables.items()).encode()


def toml_key(key: str) -> str:
    """Return a key of TOML, quoted."""
    return json.dumps(key)


def places(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key."""
    for key, value in table.items():
        yield (*path, key)
        if isinstance(value, Mapping):
            yield from places(value, (*path, key))


def changed(
    table: Mapping[str, Any], path: tuple[str, ...], value: Any, key: str | None = None
) -> dict[str, Any]:
    """Return a copy with another value at a path, or with another key; without it for None."""
    copy, (first, *rest) = dict(table), path
    if rest:
        copy[first] = changed(copy.get(first, {}), tuple(rest), value, key)
        return copy
    copy.pop(first, None)
    if value is not None:
        copy[first if key is None else key] = value
    return copy


def mutations(good: Mapping[str, Any]) -> Iterator[Mutation]:
    """Yield every change of a good configuration that is known here."""
    sources = [good]
    sources += [changed(good, (section, key), value) for section, keys in OTHERS.items()
                for key, value in keys.items()]  # fmt: skip
    seen: set[tuple[str, ...]] = set()
    for source in sources:
        for path in places(source):
            if path in seen:
                continue
            seen.add(path)
            name = ".".join(path)
            for literal in WRONG:
                yield Mutation(
                    f"{name} = {literal}", document(changed(source, path, Literal(literal))), True
                )
            for literal in EXTREME:
                content = document(changed(source, path, Literal(literal)))
                yield Mutation(f"{name} = {literal[:40]}", content, False)
            for key in (f"{path[-1]}x", "", "\x1b[2J", "x" * 1000, "a.b"):
                inside = changed(source, path, _at(source, path), key)
                yield Mutation(f"{name} as {key[:10]!a}", document(inside), path[0] != "inputs")
            yield Mutation(f"without {name}", document(changed(source, path, None)), False)


def _at(table: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = table
    for key in path:
        value = value[key]
    return value


def unreadable(good: bytes) -> Iterator[Mutation]:
    """Yield files that are hard to read at all."""
    several = "\n".join(f'c{k} = "a"' for k in range(60_000))
    for name, content in {
        "brackets": b"x = " + b"[" * 100_000,
        "closed brackets": b"x = " + b"[" * 50_000 + b"]" * 50_000,
        "inline tables": b"x = " + b"{a=" * 20_000 + b"1" + b"}" * 20_000,
        "dotted key": b".".join([b"a"] * 5000) + b" = 1",
        "long dotted key": b" . ".join([b"a"] * 100_000) + b" = 1",
        "long key": b"x" * 900_000 + b" = 1",
        "many keys": good + b"\n[nothing]\n" + several.encode(),
        "many tables": b"".join(b"[t%d]\n" % k for k in range(50_000)),
        "bytes": bytes(range(256)) * 100,
        "UTF-16": "a = 1".encode("utf-16"),
        "NUL": good + b"\0",
        "table twice": good + b"\n[run]\n[run]\n",
        "key twice": b"a = 1\na = 1\n",
        "nothing": b"",
        "no end": b'a = """' + b"x" * 100_000,
        "quotes": b'"' * 100_001,
        "large": b"#" * 3_000_000,
        "escape": b"\x1b[2J = 1",
        "number": b"x = " + b"9" * 100_000,
    }.items():
        yield Mutation(name, content, True)


@study("configurations", full=MUTATIONS, quick=QUICK_MUTATIONS)
def refused(number: int) -> Iterator[Row]:
    """Changed configurations, and those that cannot be read."""
    from smcpn.base import units
    from smcpn.cli.config.case import configured_case
    from smcpn.cli.config.document import Document
    from smcpn.cli.config.new import write_new

    # What is read once, the children have.
    units.unit("mm")
    faults: list[str] = []
    with TemporaryDirectory() as folder, chdir(folder):
        write_new(Path("mysystem"))
        path = Path("mysystem/config.toml")
        good = path.read_bytes()
        configured_case(Document.read(path))
        known = list(mutations(tomllib.loads(good.decode())))
        order = np.random.default_rng(17).permutation(len(known))
        chosen = [*unreadable(good), *(known[k] for k in order[:number])]
        accepted = 0
        for one in chosen:
            path.write_bytes(one.content)
            end = ended(lambda: configured_case(Document.read(path)).name)
            accepted += end.kind == "value"
            sentence = end.text.isprintable() and 0 < len(end.text) <= 1000
            if end.kind not in ("value", "refused") or (end.kind == "refused" and not sentence):
                faults.append(f"{one.name}: {end.kind} {end.text[-200:]}")
            elif end.kind == "value" and one.wrong:
                faults.append(f"{one.name}: accepted")
    yield Row("configurations tried", len(chosen), note=f"{accepted} accepted, as their values may")
    yield at_most("not refused in one sentence", len(faults), 0, "; ".join(faults)[:2000])
