"""All cases by name, and their digests: what runs in this tree, and in that of another commit."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.bytes.digest import digest
from benchmarks.bytes.estimates import ESTIMATES
from benchmarks.bytes.outputs import OUTPUTS
from benchmarks.bytes.runs import RUNS
from benchmarks.bytes.streams import STREAMS

CASES: Mapping[str, Callable[[], list[Any]]] = {**RUNS, **STREAMS, **ESTIMATES, **OUTPUTS}

FAILED = "not run"


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
