"""Peers that are installed, and a sentence for each that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Built = TypeVar("Built")


def skipped(package: str) -> str:
    """The text in place of figures that could not be measured."""
    return f"skipped: the package {package} is not installed"


def installed(
    candidates: Iterable[tuple[str, str, Callable[[], Built]]],
) -> dict[str, Built | str]:
    """Build what can be built.

    candidates: (name, package, build), ``build()`` raises `ImportError` where the package is
        absent.
    """
    found: dict[str, Built | str] = {}
    for name, package, build in candidates:
        try:
            found[name] = build()
        except ImportError:
            found[name] = skipped(package)
    return found
