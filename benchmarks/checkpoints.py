"""Kill a run, damage its checkpoint and fill its disk, and count what is lost.

Figures and targets are those of the issue: kills with SIGKILL at random moments, damage to the
file, the time and share of writing, its size, and a disk without room.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.bytes.digest import of_posterior
from benchmarks.clock import seconds
from benchmarks.killing import killed_runs
from benchmarks.rows import Row, absent, at_most, reached, told, unjudged
from benchmarks.study import command, study
from smcpn.checkpoint.container import publish
from smcpn.checkpoint.run import StoredRun, header_image, read_run, run_image
from smcpn.run.restore import checkpoint_of, stored_settings, written_run
from smcpn.run.run import Run
from smcpn.run.stages import identified

KILLS, FLIPS = 200, 1000
QUICK_KILLS, QUICK_FLIPS = 4, 100
TRUTH = (4.0, 0.4, 0.1, 0.1, 0.1, 0.5, 0.1, 1.0, 0.1, 0.1)


@smcpn.ode
def polynomial(x, v, u, *, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9):
    """Oscillator with all second-order and some third-order terms: ten parameters."""
    force = p0 * x + p1 * v + p2 * x**2 + p3 * x * v + p4 * v**2 + p5 * x**3 + p6 * v**3
    return v, p7 * u + p8 - force + p9 * x**2 * v


def ten_parameters(samples: int, free: int = 10) -> smcpn.Problem:
    """A record of the polynomial oscillator, with ``free`` unknown parameters."""
    values = dict(zip(polynomial.parameters, TRUTH, strict=True))
    rng = np.random.default_rng(1)
    silent = smcpn.Record(u=np.repeat(rng.normal(size=samples // 4), 4), dt=0.1)
    y = smcpn.simulate(polynomial, silent, values, observe="x", steps=8)[:, 0]
    record = smcpn.Record(u=silent.u, y=y + 0.02 * rng.normal(size=samples), dt=0.1)
    prior: dict[str, Any] = {
        name: stats.norm(value, 0.3) if k < free else value
        for k, (name, value) in enumerate(values.items())
    }
    return smcpn.Problem(polynomial, record, observe="x", noise=0.02, prior=prior)


@study("kills", full=KILLS, quick=QUICK_KILLS)
def kills(count: int) -> Iterator[Row]:
    """SIGKILL at random moments of a Silverbox run, at rejuvenations and while writing."""
    outcomes = Counter(killed_runs(count))
    same = outcomes["same bytes"]
    yield Row("runs that end in the same bytes", same, f"{count}", same == count, _listed(outcomes))


@study("corruption", full=FLIPS, quick=QUICK_FLIPS)
def corruption(flips: int) -> Iterator[Row]:
    """Truncations, flipped bytes, an empty file, a text file, with and without a previous one."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        expected = of_posterior(_small_run(path))
        whole, records = path.read_bytes(), next(Path(folder).glob("run.h5.data-*.h5"))
        previous = path.with_name("run.h5.previous")
        data = records.read_bytes()
        counts: dict[str, Counter[str]] = {"alone": Counter(), "with previous": Counter()}
        for damaged in _damaged(whole, flips, rng):
            path.write_bytes(damaged)
            previous.unlink(missing_ok=True)
            counts["alone"][_outcome(path, expected)] += 1
            if rng.uniform() < 0.1:
                previous.write_bytes(whole)
                counts["with previous"][_outcome(path, expected)] += 1
        path.write_bytes(whole)
        counts["records"] = Counter()
        for damaged in _damaged(data, flips // 4, rng):
            records.write_bytes(damaged)
            counts["records"][_outcome(path, expected)] += 1
    for kind, count in counts.items():
        wrong = count["wrong"] + count["traceback"]
        yield at_most(f"{kind}, wrong posteriors and tracebacks", wrong, 0, _listed(count))


def _listed(outcomes: Counter[str]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())


def _damaged(content: bytes, flips: int, rng: np.random.Generator) -> Iterator[bytes]:
    for percent in range(100):
        yield content[: len(content) * percent // 100]
    yield b""
    yield b"This is a text file.\n" * 100
    for _ in range(flips):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        yield bytes(damaged)


def _outcome(path: Path, expected: str) -> str:
    """Return how loading ends: refused in a sentence, previous version used, unharmed, or wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            posterior = smcpn.load(path)
        except smcpn.InputError as error:
            return "refused" if "\n" not in str(error) else "traceback"
        except Exception:
            return "traceback"
    if of_posterior(posterior) != expected:
        return "wrong"
    said = any(issubclass(w.category, smcpn.CheckpointWarning) for w in caught)
    return "previous used" if said else "unharmed"


@study("writing")
def writing(quick: bool) -> Iterator[Row]:
    """Time of a write at N = 1000 and 8 parameters, and what keeping a run costs it."""
    problem = ten_parameters(400 if quick else 4000, free=8)
    options: dict[str, Any] = {"solver": smcpn.EKF0(order=2, steps=4), "seed": 1}
    with tempfile.TemporaryDirectory() as folder, _silent():
        path = Path(folder) / "run.h5"
        smcpn.identify(problem, checkpoint=path, **options)
        stored = read_run(path)
        times = [_write_time(path, stored, problem.prior) for _ in range(50)]
        pairs = [
            (
                seconds(lambda: smcpn.identify(problem, **options)),
                seconds(
                    lambda: smcpn.identify(
                        problem, checkpoint=path, existing="overwrite", **options
                    )
                ),
            )
            for _ in range(2 if quick else 7)
        ]
        blocked = _blocked_share(path, problem)
    plain, kept = np.array(pairs).T
    write = at_most("median write, ms of the processor", 1e3 * float(np.median(times)), 5.0)
    yield reached(write, 15.0)
    share = at_most("share of the run", blocked, 0.02)
    yield unjudged(share, "the run takes a tenth of the time") if quick else share
    figures = {
        "run, s": float(np.median(plain)),
        "extra share of wall time": float(np.median(kept - plain) / np.median(plain)),
    }
    yield from told(figures)


def _write_time(path: Path, stored: StoredRun, prior: smcpn.Prior) -> float:
    header = header_image(stored.header)
    return seconds(
        lambda: publish(path, run_image(stored.state, stored.version.status, header, prior)),
        time.process_time,
    )


def _blocked_share(path: Path, problem: smcpn.Problem) -> float:
    """Share of a run that the driver spends on handing snapshots over and closing the file."""
    settings = stored_settings(read_run(path).header, path)
    checkpoint_of(path, problem, settings, "overwrite")
    _, writer = written_run(path, problem, settings, None, 60.0, None)
    spent = 0.0

    def timed(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            nonlocal spent
            begin = time.perf_counter()
            function(*arguments)
            spent += time.perf_counter() - begin

        return call

    writer.offer, writer.close = timed(writer.offer), timed(writer.close)
    begin = time.perf_counter()
    identified(lambda: Run(problem, settings), False, writer)
    return spent / (time.perf_counter() - begin)


@study("size", full=(400, 20000), quick=(400, 2000))
def size(lengths: tuple[int, int]) -> Iterator[Row]:
    """Size of the file per 1000 particles and 10 parameters, for short and long records."""
    with tempfile.TemporaryDirectory() as folder, _silent():
        for samples in lengths:
            path = Path(folder) / f"{samples}.h5"
            smcpn.identify(
                ten_parameters(samples),
                solver=smcpn.RK4(steps=1),
                method="ibis",
                seed=1,
                checkpoint=path,
            )
            yield at_most(f"{samples} samples, MB", path.stat().st_size / 1e6, 1.0)


@study("no_room")
def no_room(quick: bool) -> Iterator[Row]:
    """A full disk and a read-only one, on a small file system made for the purpose."""
    expected = of_posterior(_small_run(None))
    for name, size, change in (("full", "60k", None), ("read-only", "10m", "remount,ro")):
        with tempfile.TemporaryDirectory() as folder:
            mounted = _mount("-t", "tmpfs", "-o", f"size={size}", "smcpn", folder)
            if not mounted:
                yield absent(name, "this process may not mount a file system")
                continue
            try:
                if change is not None:
                    _mount("-o", change, folder)
                yield _starved(name, Path(folder) / "run.h5", expected)
            finally:
                subprocess.run(["umount", folder], check=False)


def _starved(name: str, path: Path, expected: str) -> Row:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = _small_run(path, quiet=False)
    kinds = Counter(w.category.__name__ for w in caught)
    same, notes = (
        of_posterior(posterior) == expected,
        sum("checkpoint" in w for w in posterior.warnings),
    )
    target = "same bytes, one warning, one note in the result"
    met = same and kinds["CheckpointWarning"] == notes == 1
    note = f"{kinds['CheckpointWarning']} warnings, {notes} notes"
    return Row(name, "same bytes" if same else "other bytes", target, met, note)


def _mount(*arguments: str) -> bool:
    if os.geteuid() != 0:
        return False
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


def _small_run(path: Path | None, quiet: bool = True) -> smcpn.Posterior:
    with _silent() if quiet else warnings.catch_warnings():
        return smcpn.identify(
            ten_parameters(200),
            solver=smcpn.RK4(steps=1),
            particles=200,
            seed=1,
            checkpoint=path,
        )


@contextmanager
def _silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


if __name__ == "__main__":
    sys.exit(command(__name__))
