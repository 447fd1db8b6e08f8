"""All cases by name, and their digests: what runs in this tree, and in that of another commit."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Number
from typing import Any

import numpy as np

from benchmarks.bytes.estimates import ESTIMATES
from benchmarks.bytes.outputs import OUTPUTS
from benchmarks.bytes.runs import RUNS
from benchmarks.bytes.streams import STREAMS

CASES: Mapping[str, Callable[[], list[Any]]] = {**RUNS, **STREAMS, **ESTIMATES, **OUTPUTS}

FAILED = "not run"


def digest(content: Any) -> str:
    """SHA-256 of arrays as little-endian numbers with their shapes, and of texts."""
    sha = hashlib.sha256()
    for part in _parts(content):
        sha.update(part)
    return sha.hexdigest()


def _parts(content: Any) -> Iterator[bytes]:
    if isinstance(content, (str, bytes)):
        yield content.encode() if isinstance(content, str) else content
    elif isinstance(content, (np.ndarray, Number)):
        array = np.asarray(content)
        yield repr(array.shape).encode()
        yield np.ascontiguousarray(array, "<f8").tobytes()
    else:
        for part in content:
            yield from _parts(part)


def digest_of(name: str) -> str:
    """Digest of a case, or a sentence on what ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few particles, of which a run rightly warns
        try:
            return digest(CASES[name]())
        except Exception as error:
            return f"{FAILED}: {type(error).__name__}: {error}"


def digests(names: Iterable[str]) -> dict[str, str]:
    """Digests of cases by name."""
    return {name: digest_of(name) for name in names}


if __name__ == "__main__":
    print(json.dumps(digests(sys.argv[1:] or CASES)))
