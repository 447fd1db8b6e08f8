"""Prior distributions as names and numbers."""

from __future__ import annotations

import importlib
import inspect
import math
from typing import Any

import numpy as np
from scipy import stats

from smcpn.arguments import shown
from smcpn.checkpoint.document import entry
from smcpn.errors import InputError, NotStorableError
from smcpn.prior import Distribution

FAMILIES = {
    name: family
    for name, family in vars(stats).items()
    if isinstance(family, stats.rv_continuous)
    and family.name == name
    # Its parameterization is an attribute beside its arguments.
    and name != "levy_stable"
}
"""The continuous distributions of `scipy.stats` by name; a file can name no other."""

PARTICLES = "particles.distributions"
_FROZEN = type(stats.norm())

_MEND = (
    "give a frozen scipy.stats distribution with plain numbers to be able to resume from the file "
    "alone; otherwise resume from the script"
)


def prior_document(name: str, distribution: Distribution) -> dict[str, Any]:
    """Write the prior of parameter ``name`` as its family and numbers.

    Raises
    ------
    NotStorableError
        If it is neither a family of `scipy.stats` nor a simple one of `particles.distributions`,
        or an argument is not a plain number.
    """
    # A subclass may compute something else.
    if type(distribution) is _FROZEN:
        return _scipy_document(name, distribution)
    if type(distribution).__module__ == PARTICLES:
        return _particles_document(name, distribution)
    raise _not_storable(name, f"is an object of class {type(distribution).__qualname__}")


def restored_prior(name: str, document: Any) -> Distribution:
    """Make the prior again that `prior_document` wrote.

    Raises
    ------
    InputError
        If the family is not known here, or does not take these numbers.
    """
    library, family = entry(document, "library", str), entry(document, "family", str)
    args = [_read(value) for value in entry(document, "args", list)]
    kwds = {key: _read(value) for key, value in entry(document, "kwds", dict).items()}
    make: Any = None
    if library == "scipy.stats":
        make = FAMILIES.get(family)
    elif library == PARTICLES:
        make = _particles_family(family)
    if make is None:
        raise InputError(
            f"stored prior of '{name}' is {shown(family)} of {shown(library)}, which is not known "
            "here: resume from the script, or with the versions that wrote the file"
        )
    try:
        return make(*args, **kwds)
    except Exception as error:
        raise InputError(
            f"stored prior of '{name}' cannot be made again: {family} does not take "
            f"{shown(args)}, {shown(kwds)} ({type(error).__name__})"
        ) from error


def _scipy_document(name: str, frozen: Any) -> dict[str, Any]:
    family = FAMILIES.get(getattr(frozen.dist, "name", ""))
    # A class of the user's may bear the name of a family, or change its support.
    same = family is not None and (type(family), family.a, family.b) == (
        type(frozen.dist), frozen.dist.a, frozen.dist.b
    )  # fmt: skip
    if not same:
        raise _not_storable(
            name, f"is of the family {type(frozen.dist).__name__}, which scipy.stats does not name"
        )
    return {
        "library": "scipy.stats",
        "family": frozen.dist.name,
        "args": [_written(name, value) for value in frozen.args],
        "kwds": {key: _written(name, value) for key, value in frozen.kwds.items()},
    }


def _particles_document(name: str, distribution: Any) -> dict[str, Any]:
    family = type(distribution)
    try:
        if _particles_family(family.__name__) is not family:
            raise InputError("another class of that name")
        arguments = {
            key: getattr(distribution, key) for key in inspect.signature(family).parameters
        }
        again = family(**arguments)
        same = vars(again) == vars(distribution)
    except Exception as error:
        raise _not_storable(name, f"({family.__name__}) does not tell its arguments") from error
    if not same:
        raise _not_storable(name, f"({family.__name__}) was changed after it was made")
    return {
        "library": PARTICLES,
        "family": family.__name__,
        "args": [],
        "kwds": {key: _written(name, value) for key, value in arguments.items()},
    }


def _particles_family(name: str) -> Any:
    """Find a class that `particles.distributions` itself defines, and makes draws with."""
    try:
        module = importlib.import_module(PARTICLES)
    except ImportError as error:
        raise InputError(
            f"a stored prior is {name} of the package particles, which is not installed: install it"
        ) from error
    family = vars(module).get(name)
    if (
        not isinstance(family, type)
        or not issubclass(family, module.ProbDist)
        or family.__module__ != PARTICLES
    ):
        raise InputError(f"a stored prior is {shown(name)}, which is no distribution of particles")
    return family


def _not_storable(name: str, reason: str) -> NotStorableError:
    return NotStorableError(f"prior of '{name}' {reason} and cannot be stored in a file: {_MEND}")


def _written(name: str, value: Any) -> int | float | str:
    """A number as JSON has it, which knows no infinity."""
    array = np.asarray(value)
    # A number of another width would be computed with differently after it was read.
    exact = array.dtype in (np.float64, np.int64)
    if array.shape != () or not exact or (array.dtype == np.float64 and np.isnan(array)):
        raise _not_storable(name, f"has the argument {shown(value)}, which is no plain number,")
    number = array.item()
    return number if math.isfinite(number) else str(number)


def _read(value: Any) -> int | float:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"a stored prior has the argument {shown(value)}: the file is damaged")
    return value
