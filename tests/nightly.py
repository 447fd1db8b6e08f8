"""Cases of a test that every run has, and those that a nightly one adds to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def nightly_but(often: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a test, nightly but for those that stand for them in every run."""

    def marked(case: Any) -> Any:
        values = case if isinstance(case, tuple) else (case,)
        return case if case in often else pytest.param(*values, marks=pytest.mark.nightly)

    return [marked(case) for case in cases]
