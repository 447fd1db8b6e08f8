"""Files of runs, records and streams, changed by one who knows the format, with a right checksum.

Every change is opened by `inspect`, `load` and `resume`, or by `Online.load`, in a process of its
own. What is accepted must be the posterior that the file's own content justifies: all particles
are few enough to be verified.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np

import smcpn
from benchmarks.attack.child import SECONDS, Ended, ended
from benchmarks.attack.code import with_header
from benchmarks.bytes.digest import digest
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.checkpoint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.codec import TEXT, decoded
from smcpn.checkpoint.container import HEADER_BYTES, KINDS
from smcpn.checkpoint.inspection import inspect
from smcpn.checkpoint.run import Header, read_records
from smcpn.io.hdf5_subset import read_plain
from smcpn.likelihood.registry import build_likelihood
from smcpn.run.resume import load, resume
from tests.checkpoint.closures import closure_problem
from tests.models import oscillator_problem, oscillator_record

MUTATIONS, QUICK_MUTATIONS = 10_000, 50
PARTICLES = 30
"""So few that all of them are verified."""
MOST_READ = 1_000_000
AGREEMENT = 1e-6
"""Of a log-likelihood in a file with the one that is computed."""


@dataclass(frozen=True)
class Seed:
    """Files as they were written, by name, and the one to change.

    opened: The run or stream that is opened.
    """

    files: Mapping[str, bytes]
    target: str
    opened: str

    @property
    def kind(self) -> str:
        """First line of the file to change."""
        return self.files[self.target].split(b"\n")[0].decode()

    @property
    def body(self) -> bytes:
        """HDF5 of the file to change."""
        return self.files[self.target][HEADER_BYTES:]


# Files to change


def _saved(folder: Path) -> None:
    """Save a posterior, as its user does, whose run left no checkpoint."""
    problem = oscillator_problem(oscillator_record(samples=40))
    options: dict[str, Any] = {"solver": smcpn.RK4(steps=1), "particles": PARTICLES, "seed": 1}
    posterior = smcpn.identify(problem, progress=False, **options)
    posterior.save(folder / "run.h5")


def _run(folder: Path, **options: Any) -> None:
    stop, path = options.pop("stop", 0), folder / "run.h5"
    parts = 0

    def progress(_: Any) -> None:
        nonlocal parts
        parts += 1
        if parts == stop:
            raise KeyboardInterrupt

    samples = options.pop("samples", 40)
    problem = options.pop("problem", None) or oscillator_problem(oscillator_record(samples=samples))
    options.setdefault("solver", smcpn.RK4(steps=1))
    options |= {"particles": PARTICLES, "seed": 1, "checkpoint": path, "progress": progress}
    with suppress(KeyboardInterrupt):
        smcpn.identify(problem, **options)


def _stream(folder: Path, **options: Any) -> None:
    record = oscillator_record(samples=60)
    live = smcpn.Online(
        oscillator_problem(record),
        solver=smcpn.RK4(steps=1),
        particles=PARTICLES,
        seed=1,
        **options,
    )
    for u, y in zip(record.u[:40], record.y[:40], strict=True):
        live.update(u, y)
    live.save(folder / "live.h5")


def _discovery(folder: Path, stage: str, **options: Any) -> None:
    """Discover the equations of a decay, and stop at the beginning of a stage."""

    def progress(now: Any) -> None:
        if now.stage == stage:
            raise KeyboardInterrupt

    t = 0.1 * np.arange(40)
    y = np.exp(-t) + 0.01 * np.random.default_rng(0).normal(size=40)
    with suppress(KeyboardInterrupt):
        smcpn.discover(
            smcpn.Record(y=y, t=t), library="poly(2)", states=["x"],
            checkpoint=folder / "run.h5", progress=progress, **options,
        )  # fmt: skip


def _started(folder: Path) -> None:
    problem = oscillator_problem(oscillator_record(samples=40))
    start = smcpn.laplace(problem, solver=smcpn.RK4(steps=1), seed=1)
    _run(folder, start=start, stop=2)


FILES: dict[str, Callable[[Path], None]] = {
    "ibis": lambda folder: _run(folder),
    "interrupted": lambda folder: _run(folder, stop=9),
    "tempering": lambda folder: _run(folder, method="tempering", stop=2),
    "replicates": lambda folder: _run(folder, replicates=2, solver=smcpn.EKF0(order=2)),
    "stream": lambda folder: _stream(folder),
    "forgetting": lambda folder: _stream(folder, forget=0.5),
    "adaptive": lambda folder: _run(folder, solver=smcpn.AdaptiveEKF1(order=2, tolerance=1e-3)),
    "start": _started,
    "closure": lambda folder: _run(folder, problem=closure_problem(), method="tempering"),
    "posterior": _saved,
    "search": lambda folder: _discovery(folder, "maxima"),
    "draws": lambda folder: _discovery(folder, "", prior="laplace", particles=PARTICLES),
}
"""Functions that write a run or a stream to a folder."""
QUICK_FILES = (
    "ibis",
    "interrupted",
    "replicates",
    "stream",
    "closure",
    "posterior",
    "search",
    "draws",
)


def seeds(names: tuple[str, ...]) -> list[Seed]:
    """Write runs and streams, and return their files, and one of records, as what to change."""
    found: list[Seed] = []
    for name in names:
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            FILES[name](Path(folder))
            files = {p.name: p.read_bytes() for p in Path(folder).glob("*.h5")}
        opened = "live.h5" if "live.h5" in files else "run.h5"
        found += [Seed(files, target, opened) for target in files]
    return found


# Changes

File = Any
"""An `h5py.File`, of whose members h5py does not tell the type."""
Change = Callable[[np.random.Generator, File], str]
NUMBERS = (
    0, -1, 1, 2, 3, 41, 2**31, -(2**31), 2**53, 2**63 - 1, 0.5, -0.5, 1e-320, 1e15, 1e300, -1e300,
    1e308, np.nan, np.inf, -np.inf,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *(n for n in NUMBERS), None, True, False, "", "x", "\x1b[31m", "../x", "/etc/passwd", "nan",
    "x" * 10_000, [], {}, [[]], [1, 2], [None], {"a": 1}, {"kind": "RK4"}, 10**30, 10**400,
    -(10**30),
    "PCG64", "MT19937", "test", "inf", "finished", "norm", "particles.distributions",
)  # fmt: skip


def _pick(rng: np.random.Generator, options: Any) -> Any:
    options = list(options)
    return options[int(rng.integers(len(options)))]


def _datasets(file: File, text: bool | None = None) -> list[str]:
    names: list[str] = []

    def visit(name: str, item: Any) -> None:
        # What a change before this one has declared is not read.
        if not isinstance(item, h5py.Dataset) or item.size is None or item.size > MOST_READ:
            return
        is_text = item.shape == () and item.dtype.kind == "S"
        if text in (None, is_text):
            names.append(name)

    file.visititems(visit)
    return names


def _objects(file: File) -> list[str]:
    names = ["/"]
    file.visit(names.append)
    return names


def a_number(rng: np.random.Generator, file: File) -> str:
    """Change some numbers of an array in place."""
    name = _pick(rng, _datasets(file, text=False))
    array, value = file[name][()], _pick(rng, NUMBERS)
    column = array
    if array.dtype.names:
        label = _pick(rng, array.dtype.names)
        column, name = array[label], f"{name}.{label}"
    if column.dtype.kind == "S":
        value = _pick(rng, [b"\xff\x1b", b"", b"add", b"input", b"x" * 40])
    count = _pick(rng, [1, 1, 3, array.size])
    if not array.size:
        return f"{name} is empty"
    flat = column.reshape(-1)
    places = rng.integers(array.size, size=count)
    if column.dtype.kind == "i":
        value = int(np.clip(np.nan_to_num(value), -(2.0**62), 2.0**62))
    if rng.random() < 0.2 and column.dtype.kind in "if":
        value = flat[places] + column.dtype.type(_pick(rng, [1, -1]))
    flat[places] = value
    column[...] = flat.reshape(column.shape)
    file[name.split(".")[0]][...] = array
    return f"{name}[{places[:3]}] = {value}"


def an_array(rng: np.random.Generator, file: File) -> str:
    """Put another array in the place of one."""
    name = _pick(rng, _datasets(file))
    array = np.asarray(file[name][()])
    kinds: dict[str, Callable[[], Any]] = {
        "transposed": lambda: array.T,
        "flat": lambda: array.reshape(-1),
        "shorter": lambda: array[:-1] if array.ndim else np.zeros(3),
        "longer": lambda: np.concatenate([array, array]) if array.ndim else np.zeros(3),
        "empty": lambda: array[:0] if array.ndim else np.zeros(0),
        "scalar": lambda: 3.0,
        "text": lambda: np.bytes_(b"{}"),
        "float32": lambda: np.zeros(array.shape, "f4"),
        "int32": lambda: np.zeros(array.shape, "i4"),
        "uint": lambda: np.zeros(array.shape, "u8"),
        "complex": lambda: np.zeros(array.shape, "c16"),
        "bool": lambda: np.zeros(array.shape, "?"),
        "big-endian": lambda: np.zeros(array.shape, ">f8"),
        "three": lambda: np.zeros((2, 2, 2)),
        "vlen": lambda: ["of", "any", "length"],
        "table": lambda: np.zeros(3, [("a", "i8"), ("b", "f8")]),
        "table of tables": lambda: np.zeros(3, [("a", [("b", "f8")])]),
    }
    kind = _pick(rng, kinds)
    changed = kinds[kind]()
    kept = dict(file[name].attrs)
    del file[name]
    file[name] = changed
    for label, value in kept.items():
        file[name].attrs[label] = value
    return f"{name} {kind}"


def an_attribute(rng: np.random.Generator, file: File) -> str:
    """Change, remove or add an attribute."""
    owners = [name for name in _objects(file) if len(file[name].attrs)]
    item = file[_pick(rng, owners)]
    name, value = _pick(rng, item.attrs), _pick(rng, VALUES)
    if rng.random() < 0.1:
        del item.attrs[name]
        return f"{item.name} without {name}"
    if rng.random() < 0.1:
        name = "further"
    if isinstance(item.attrs.get(name), bytes) and rng.random() < 0.8:
        text = _changed_json(rng, item.attrs[name])
        item.attrs[name] = np.bytes_(text)
        return f"{item.name}@{name} = {text[:60]!r}"
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(2**70)
    if isinstance(value, str):
        value = np.bytes_(value.encode()) if value else np.bytes_(b"\0")
    if value is None or isinstance(value, dict):
        value = h5py.Empty("f8")
    if isinstance(value, list):
        value = np.array(value, dtype="f8")
    item.attrs[name] = value
    return f"{item.name}@{name} = {value!r:.60}"


def a_document(rng: np.random.Generator, file: File) -> str:
    """Change an entry of a document."""
    name = _pick(rng, _datasets(file, text=True))
    text = _changed_json(rng, file[name][()])
    del file[name]
    file[name] = np.bytes_(text)
    return f"{name}: {_CHANGED[-1]}"


_CHANGED = [""]


def _changed_json(rng: np.random.Generator, content: bytes) -> bytes:
    try:
        document = json.loads(content)
    except ValueError:
        return bytes(_pick(rng, [b"{", b"[]", b"null", b"\xff\xfe", b"smcpn stream", b"x"]))
    odd = rng.random()
    if odd < 0.05:
        _CHANGED[-1] = "odd JSON"
        return bytes(
            _pick(
                rng,
                [
                    b"[" * 5000, b'{"a":' * 3000 + b"1" + b"}" * 3000, b"", b"null", b"1" * 5000,
                    content[: len(content) // 2], content + b"}", content.replace(b'"', b"'"),
                    content[:-1] + b"," + content[1:], b"\xff" + content, b"Infinity",
                ],
            )
        )  # fmt: skip
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            places.append((value, key))
            if isinstance(inner, (dict, list)):
                visit(inner)

    if isinstance(document, (dict, list)):
        visit(document)
    if not places:
        return b"[]"
    owner, key = _pick(rng, places)
    _CHANGED[-1] = f"{key} of {owner!r:.50}"
    if odd < 0.12:
        del owner[key]
    elif odd < 0.17 and isinstance(owner, dict):
        owner["further"] = _pick(rng, VALUES)
    elif odd < 0.22 and isinstance(owner, list):
        owner += owner
    elif odd < 0.35 and isinstance(owner[key], (int, float)) and not isinstance(owner[key], bool):
        owner[key] = type(owner[key])(owner[key] + _pick(rng, [1, -1, 0.1, 100]))
    else:
        owner[key] = _pick(rng, VALUES)
        _CHANGED[-1] += f" = {owner[key]!r:.40}"
    return json.dumps(document).encode()


def a_structure(rng: np.random.Generator, file: File) -> str:
    """Links, foreign storage, filters, absent and further objects."""
    name = _pick(rng, _datasets(file) if rng.random() < 0.7 else _objects(file)[1:])
    shape = getattr(file[name], "shape", ())
    other = _pick(rng, [n for n in _objects(file) if n not in (name, "/")])
    kind = _pick(
        rng,
        ["gone", "moved", "further", "soft", "hard", "external link", "storage", "virtual",
         "chunks", "huge", "huge chunks", "gzip", "group", "cycle", "many", "reference", "named"],
    )  # fmt: skip
    if kind == "further":
        file[f"{_pick(rng, _objects(file))}/further"] = np.zeros(3)
        return kind
    if kind == "many":
        for number in range(2000):
            file[f"many/{number}"] = 0.0 if number == 0 else file["many/0"]
        return kind
    if kind == "cycle":
        group = _pick(rng, [n for n in _objects(file) if isinstance(file[n], h5py.Group)])
        file[f"{group}/cycle"] = file[_pick(rng, ["/", group])]
        return f"{group} cycle"
    kept = file[name]
    del file[name]
    if kind == "moved":
        file[f"{name}x"] = kept
    elif kind == "soft":
        file[name] = h5py.SoftLink(f"/{other}")
    elif kind == "hard" and not name.startswith(other) and other in file:
        file[name] = file[other]
    elif kind == "external link":
        file[name] = h5py.ExternalLink(_pick(rng, ["secret.h5", "pipe", "/dev/zero"]), "/x")
    elif kind == "storage":
        size = 8 * max(1, int(np.prod(shape)))
        file.create_dataset(name, shape or (1,), "f8", external=[("secret.h5", 0, size)])
    elif kind == "virtual":
        layout = h5py.VirtualLayout(shape or (1,), "f8")
        layout[...] = h5py.VirtualSource("secret.h5", "x", shape or (1,))
        file.create_virtual_dataset(name, layout)
    elif kind == "chunks":
        file.create_dataset(name, data=np.zeros((8, 2)), chunks=(4, 2))
    elif kind == "huge":
        file.create_dataset(name, (1 << 33, 2), "f8")
    elif kind == "huge chunks":
        file.create_dataset(name, (1 << 30, 2), "f8", chunks=(1024, 2), fillvalue=1.0)
    elif kind == "gzip":
        file.create_dataset(name, data=np.zeros((1000, 100)), compression="gzip")
    elif kind == "group":
        file.create_group(name)
    elif kind == "reference":
        file[name] = np.array([file.ref], dtype=h5py.ref_dtype)
    elif kind == "named":
        file[name] = np.dtype("f8")
    return f"{name} {kind}"


CHANGES: tuple[tuple[float, Change], ...] = (
    (0.3, a_number), (0.1, an_array), (0.1, an_attribute), (0.3, a_document), (0.1, a_structure)
)  # fmt: skip


def mutated(rng: np.random.Generator, seed: Seed) -> tuple[bytes, str]:
    """Return a changed file with its checksum, and what was changed."""
    if rng.random() < 0.1:
        return _raw(rng, seed)
    shares, changes = zip(*CHANGES, strict=True)
    what, body = [], io.BytesIO(seed.body)
    file: File
    with h5py.File(body, "r+", libver="earliest") as file:
        for _ in range(_pick(rng, [1, 1, 1, 1, 2, 3])):
            change = changes[int(rng.choice(len(changes), p=np.array(shares) / sum(shares)))]
            try:
                what.append(f"{change.__name__}: {change(rng, file)}")
            except Exception as error:
                # h5py refuses some of them, in its own words.
                what.append(f"{change.__name__} failed: {error}")
    return with_header(seed.kind, body.getvalue()), "; ".join(what)


def _raw(rng: np.random.Generator, seed: Seed) -> tuple[bytes, str]:
    """Change bytes, or the header."""
    body, kind = (
        bytearray(seed.body),
        _pick(rng, ["bytes", "bytes", "bytes", "cut", "kind", "size"]),
    )
    if kind == "bytes":
        places = rng.integers(len(body), size=_pick(rng, [1, 4, 16]))
        for place in places:
            body[place] = _pick(rng, [0, 255, int(rng.integers(256))])
        return with_header(seed.kind, bytes(body)), f"bytes {places[:4]}"
    if kind == "cut":
        end = int(rng.integers(len(body)))
        return with_header(seed.kind, bytes(body[:end])), f"cut at {end}"
    if kind == "kind":
        other = _pick(rng, [*KINDS, "smcpn", ""])
        return with_header(other, bytes(body)), f"kind {other}"
    content = with_header(seed.kind, bytes(body))
    return content.replace(f"bytes {len(body)}".encode(), b"bytes 999999999999"), "size"


def _forge(folder: Path) -> None:
    """Make the fingerprints and the name of the records those of the changed content."""
    path = folder / "run.h5"
    content = path.read_bytes()
    read = read_plain(content[HEADER_BYTES:])
    header = json.loads(read.group("header").texts[TEXT])
    kept = folder / header["data_file"]
    records = read_records(kept)
    problem = decoded(read, "header", Header).problem
    assert problem is not None
    header["model_fingerprint"] = model_fingerprint(problem.restored(records))
    header["data_fingerprint"] = data_fingerprint(records, header["n_samples"])
    header["data_file"] = f"run.h5.data-{header['data_fingerprint'][:8]}.h5"
    kept.rename(folder / header["data_file"])
    body = io.BytesIO(content[HEADER_BYTES:])
    file: File
    with h5py.File(body, "r+", libver="earliest") as file:
        del file[f"header/{TEXT}"]
        file[f"header/{TEXT}"] = np.bytes_(json.dumps(header).encode())
    path.write_bytes(with_header(KINDS[0], body.getvalue()))


# Opening


def opened(path: Path) -> dict[str, str]:
    """Open a file in every way; return how each ended: refused, or a digest of what was read."""
    found: dict[str, str] = {}
    ways: dict[str, Callable[[], Any]] = {
        "inspect": lambda: _printable(inspect(path)),
        "load": lambda: _digest(load(path)),
        "resume": lambda: _digest(resume(path, progress=False)),
    }
    if path.name == "live.h5":
        ways = {"online": lambda: _continued(path)}
    for name, way in ways.items():
        try:
            found[name] = way()
        except smcpn.InputError as error:
            found[name] = "refused" if "\n" not in str(error) else f"traceback {error}"
    return found


def _printable(text: str) -> str:
    return "control characters" if not text.replace("\n", "").isprintable() else "inspected"


def _digest(found: smcpn.Posterior | smcpn.Discovery) -> str:
    """Digest of a result; ``"unjustified"`` where what it says does not follow from its data."""
    return _of_discovery(found) if isinstance(found, smcpn.Discovery) else _of_posterior(found)


def _of_discovery(found: smcpn.Discovery) -> str:
    """Digest of a discovery, whose models must have probabilities and moments."""
    numbers = [one.probability for one in found.models] + found.probabilities.tolist()
    moments = [part for one in found.models for part in (one.mean, one.covariance)]
    known = all(0.0 <= one <= 1.0 for one in numbers)
    if not known or not all(np.isfinite(part).all() for part in moments):
        return "unjustified"
    return digest([numbers, *moments, found.noise, found.path])


def _of_posterior(posterior: smcpn.Posterior) -> str:
    """Digest of a posterior, whose particles must have the likelihood that it says."""
    likelihood = build_likelihood(
        posterior.problem, posterior.solver, 1, likelihood=posterior.likelihood
    )
    with np.errstate(all="ignore"):
        _, again = likelihood.evaluate(posterior.values, likelihood.n_samples)
        alive = np.isfinite(posterior.log_weights)
        apart = np.abs(again - posterior.log_likelihood) > AGREEMENT * (1 + np.abs(again))
    if not np.isfinite(posterior.theta).all() or (apart & alive).any() or not alive.any():
        return "unjustified"
    return digest([posterior.theta, posterior.log_weights, posterior.log_likelihood])


def _continued(path: Path) -> str:
    """Go on with a stream; digest of its posterior."""
    live, record = smcpn.Online.load(path), oscillator_record(samples=60)
    for u, y in zip(record.u[40:50], record.y[40:50], strict=True):
        live.update(u, y)
    return _digest(live.posterior())


def _attempt(seed: Seed, content: bytes, forged: bool = False) -> Ended:
    with TemporaryDirectory() as folder:
        for name, original in seed.files.items():
            (Path(folder) / name).write_bytes(content if name == seed.target else original)
        with h5py.File(Path(folder) / "secret.h5", "w") as file:
            file["x"] = np.zeros(100)

        def call() -> dict[str, str]:
            warnings.simplefilter("ignore")
            if forged:
                with suppress(Exception):
                    _forge(Path(folder))
            return opened(Path(folder) / seed.opened)

        return ended(call, seconds=round(SECONDS * _waiting()))


def _waiting() -> float:
    """Processes for each processor, at least one: a kernel compiles as many times as long."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@study("files")
def campaign(quick: bool) -> Iterator[Row]:
    """Change files, open them, and count how that ends."""
    names = QUICK_FILES if quick else tuple(FILES)
    count = QUICK_MUTATIONS if quick else MUTATIONS
    files, rng, outcomes = seeds(names), np.random.default_rng(0), Counter[str]()
    whole = [_attempt(seed, seed.files[seed.target]).value for seed in files]
    worst = 0.0
    for number in range(count):
        k = number % len(files)
        content, what = mutated(rng, files[k])
        end = _attempt(files[k], content, bool(rng.integers(2)))
        worst = max(worst, end.megabytes)
        for outcome in _judged(end, whole[k]):
            outcomes[outcome] += 1
            if outcome in BAD:
                print(
                    f"{number} {files[k].opened}: {what}: {outcome} {end.text[-900:]} {end.value}",
                    file=sys.stderr,
                )
    note = ", ".join(f"{n} {name}" for name, n in outcomes.most_common())
    opened_whole = sum(value is not None for value in whole)
    yield at_least("files opened unchanged", opened_whole, len(files))
    for name in BAD:
        yield at_most(name, outcomes[name], 0, note if name == BAD[0] else "")
    yield Row("most growth, MB", worst)
    yield at_least("changes", count, count)


BAD = ("crash", "hang", "growth", "traceback", "control characters", "unjustified")


def _judged(end: Ended, whole: Mapping[str, str]) -> Iterator[str]:
    if end.kind != "value":
        yield end.kind
        return
    for way, found in end.value.items():
        if found.startswith("traceback") or found in BAD or found == "refused":
            yield found.split()[0] if found.startswith("traceback") else found
        elif way == "inspect":
            yield "inspected"
        else:
            yield "same posterior" if found == whole.get(way) else "other, as the file says"
