"""The cache of compiled code: poisoned, damaged, and used for the first time by many at once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.attack.child import Ended, ended
from benchmarks.bytes.digest import of_posterior
from benchmarks.rows import Row, absent, at_least, at_most
from benchmarks.study import study
from smcpn.codegen import store
from smcpn.likelihood.registry import build_likelihood

NOBODY = 65534
SECONDS = 120
"""Kernels are compiled, on a machine that may be busy."""
THREADS, PROCESSES = 8, 3


@smcpn.ode
def decay(x, *, k):
    """A decay, that nothing else in this process compiles."""
    return -k * x


@smcpn.ode
def growth(x, *, k):
    """An equation whose code has the arguments of that of `decay`."""
    return k * x


def _problem(equation: smcpn.ODE = decay) -> smcpn.Problem:
    t = 0.1 * np.arange(30)
    y = np.exp(-t) + 0.05 * np.cos(50.0 * t)
    prior: dict[str, Any] = {"k": stats.lognorm(0.5)}
    return smcpn.Problem(
        equation, smcpn.Record(y=y, dt=0.1), observe="x", noise=0.05, prior=prior, initial=[1.0]
    )


def _values(equation: smcpn.ODE = decay) -> str:
    """Log-likelihoods, every digit of them."""
    likelihood = build_likelihood(_problem(equation), smcpn.RK4(1))
    return likelihood.evaluate(np.linspace(0.5, 2.0, 10)[:, None], 30)[1].tobytes().hex()


def _posterior() -> str:
    """The posterior of a small run, every digit of it."""
    options: dict[str, Any] = {"solver": smcpn.RK4(1), "particles": 50, "seed": 1}
    posterior = smcpn.identify(_problem(), method="ibis", progress=False, **options)
    return of_posterior(posterior)


def _in_cache(cache: Path, call: Callable[[], Any] = _values, user: int = 0) -> Callable[[], Any]:
    """The call with a cache of its own; in a child, for it is remembered."""

    def run() -> Any:
        warnings.simplefilter("ignore")
        os.environ["SMCPN_CACHE"] = str(cache)
        store.folder.cache_clear()
        if user:
            os.setgid(user)
            os.setuid(user)
        return call()

    return run


def _entries(cache: Path) -> list[Path]:
    return sorted(p for p in (cache / "kernels").glob("kernel_*") if p.suffix != ".lock")


def _poisoned(cache: Path, other: Path, secret: bytes | None) -> None:
    """Put the code of another cache in place of every entry, digests by a secret where known."""
    (body,) = (path.read_bytes()[store.DIGEST_BYTES :] for path in _entries(other))
    for path in _entries(cache):
        named = path.name.encode() + b"\0" + body
        digest = bytes(store.DIGEST_BYTES)
        if secret is not None:
            digest = hmac.digest(secret, named, hashlib.sha256)
        path.write_bytes(digest + body)


def _whole(root: Path, call: Callable[[], Any] = _values) -> tuple[Path, Ended]:
    """A cache that has the kernels, and what they compute."""
    os.chmod(root, 0o755)
    done = ended(_in_cache(root / "whole", call), SECONDS)
    assert done.kind == "value", done.text
    assert _entries(root / "whole")
    return root / "whole", done


@study("poisoned-cache")
def poisoned(quick: bool) -> Iterator[Row]:
    """Other code in a cache of another user, in one that others may write, and in one's own."""
    if os.geteuid() != 0:
        yield absent("", "only root can make a folder of another user")
        return
    with TemporaryDirectory() as parent:
        root = Path(parent)
        whole, expected = _whole(root)
        other = ended(_in_cache(root / "other", partial(_values, growth)), SECONDS)

        def attempt(name: str, known: bool, owner: int, mode: int, user: int = 0) -> Ended:
            place = root / name
            shutil.copytree(whole, place)
            secret = (place / "kernels" / "secret").read_bytes() if known else None
            _poisoned(place, root / "other", secret)
            for path in (place, *place.rglob("*")):
                os.chown(path, owner, owner)
            os.chmod(place / "kernels", mode)
            return ended(_in_cache(place, user=user), SECONDS)

        def row(name: str, *how: Any) -> Row:
            done = attempt(name, *how)
            same = done.kind == "value" and done.value == expected.value
            note = "same bytes" if same else f"other results: {done.text[-200:]}"
            return at_most(f"code run from a cache {name}", float(not same), 0, note)

        believed = attempt("of one's own, by its secret", True, 0, 0o700)
        ran = believed.kind == "value" and believed.value == other.value != expected.value
        yield at_least("other code is run by the secret", float(ran), 1)
        yield row("of another user", True, NOBODY, 0o700)
        yield row("of one's own, without the secret", False, 0, 0o700)
        if not quick:
            yield row("that others may write", True, 0, 0o777)
            yield row("of root, for another user", True, 0, 0o755, NOBODY)


@study("damaged-cache")
def damaged(quick: bool) -> Iterator[Row]:
    """All entries cut at every tenth of their length, or with a bit flipped."""
    rng, bad, notes = np.random.default_rng(17), 0, set[str]()
    cuts = (0, 7) if quick else range(10)
    with TemporaryDirectory() as parent:
        whole, expected = _whole(Path(parent))

        def tried(name: str, damage: Callable[[bytes], bytes]) -> int:
            place = Path(parent) / name
            shutil.copytree(whole, place)
            for path in _entries(place):
                path.write_bytes(damage(path.read_bytes()))
            starts = [ended(_in_cache(place), SECONDS) for _ in range(1 if quick else 2)]
            notes.update(start.text[-100:] for start in starts if start.kind != "value")
            return sum(s.kind != "value" or s.value != expected.value for s in starts)

        for tenth in cuts:
            bad += tried(f"cut {tenth}", lambda c, tenth=tenth: c[: len(c) * tenth // 10])
        flips = 1 if quick else 20
        for number in range(flips):
            bad += tried(f"flip {number}", lambda content: _flipped(content, rng))
    note = f"{len(cuts)} cuts, {flips} flips {' '.join(notes)}"
    yield at_most("errors or other bytes", bad, 0, note)


def _flipped(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _by_threads() -> list[str]:
    together = threading.Barrier(THREADS)

    def call(_: int) -> str:
        together.wait()
        return _posterior()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(THREADS)))


def _by_asyncio() -> list[str]:
    async def gathered() -> list[str]:
        return list(await asyncio.gather(*(asyncio.to_thread(_posterior) for _ in range(THREADS))))

    return asyncio.run(gathered())


def _by_processes(cache: Path) -> list[Ended]:
    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(
            pool.map(lambda _: ended(_in_cache(cache, _posterior), SECONDS), range(PROCESSES))
        )


@study("first-use")
def first_use(quick: bool) -> Iterator[Row]:
    """Eight threads, asyncio, and three processes, where nothing has been compiled yet."""
    with TemporaryDirectory() as parent:
        _, expected = _whole(Path(parent), _posterior)
        for name, call in {"eight threads": _by_threads, "asyncio": _by_asyncio}.items():
            done = ended(_in_cache(Path(parent) / name, call), SECONDS)
            same = done.kind == "value" and set(done.value) == {expected.value}
            yield at_most(f"{name}, errors or other bytes", float(not same), 0, done.text[-200:])
        several = _by_processes(Path(parent) / "processes")
        bad = sum(done.kind != "value" or done.value != expected.value for done in several)
        yield at_most("three processes, errors or other bytes", bad, 0)
