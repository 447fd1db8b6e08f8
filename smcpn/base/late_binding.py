"""Methods whose bodies stand in a higher layer: those that draw a result, write it or read it.

A class has the signature and the docstring of such a method; a table in ``smcpn/__init__.py`` names
the function that is called in its place, and whose module is imported then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

FUNCTIONS: dict[str, str] = {}
"""Function, as ``module:name``, by the method that it is called for, as ``Posterior.report``."""


def late_bound(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method that calls the function which `FUNCTIONS` names, with all its arguments."""

    @wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        module, _, name = FUNCTIONS[method.__qualname__].partition(":")
        bound = inspect.signature(method).bind(*arguments, **named)
        bound.apply_defaults()
        return getattr(import_module(module), name)(*bound.args, **bound.kwargs)

    return call
