"""Priors and noise, written as TOML tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from scipy import stats

from smcpn.checkpoint.problem import FAMILIES
from smcpn.cli.config.document import Section, text
from smcpn.errors import InputError, nearest, real_number, shown
from smcpn.model.distribution import Distribution
from smcpn.model.gaussian_noise import AR1
from smcpn.model.noise import Bernoulli, LogNormal, NegativeBinomial, Normal, Poisson, StudentT

FAMILY, COORDINATE = "dist", "coordinate"


@dataclass(frozen=True)
class Form:
    """A prior given by its median and spread, mean and sd, or bounds.

    make: Makes the distribution of them.
    """

    arguments: tuple[str, ...]
    make: Callable[..., Distribution]


def _lognormal(median: float, spread: float) -> Any:
    if not median > 0 or not spread > 1:
        raise InputError(
            f"lognormal has median {median:g} and spread {spread:g}: give a median above 0 and a "
            "spread above 1, the factor either way that holds 68 %"
        )
    return stats.lognorm(math.log(spread), scale=median)


def _normal(mean: float, sd: float) -> Any:
    return stats.norm(mean, _positive("normal", "sd", sd))


def _half_normal(sd: float) -> Any:
    return stats.halfnorm(scale=_positive("halfnormal", "sd", sd))


def _uniform(low: float, high: float) -> Any:
    if not low < high:
        raise InputError(f"uniform has low {low:g} and high {high:g}: low must be below high")
    return stats.uniform(low, high - low)


def _log_uniform(low: float, high: float) -> Any:
    if not 0 < low < high:
        raise InputError(
            f"loguniform has low {low:g} and high {high:g}: give low above 0 and below high"
        )
    return stats.loguniform(low, high)


FORMS = {
    "lognormal": Form(("median", "spread"), _lognormal),
    "normal": Form(("mean", "sd"), _normal),
    "halfnormal": Form(("sd",), _half_normal),
    "uniform": Form(("low", "high"), _uniform),
    "loguniform": Form(("low", "high"), _log_uniform),
}
"""Priors by name; ``{dist = "..."}`` takes any continuous family of `scipy.stats`."""
NOISES: dict[str, type[Any]] = {
    "normal": Normal,
    "poisson": Poisson,
    "negativebinomial": NegativeBinomial,
    "bernoulli": Bernoulli,
    "studentt": StudentT,
    "lognormal": LogNormal,
    "ar1": AR1,
}
"""Noise that is more than a standard deviation, by name."""
_PRIOR_REMEDY = (
    "give a number to fix it, or a distribution as {lognormal = {median = 1.0, spread = 2.0}} or "
    '{dist = "lognorm", s = 0.7, scale = 1.0}'
)


def prior_of(section: Section, name: str) -> Distribution | float:
    """Return the prior of a parameter, or the number it is fixed to.

    Raises `ConfigurationError` for anything else; the line and the key are named.
    """
    value = section.table[name]
    if not isinstance(value, dict):
        return section.read(name, lambda key, given: real_number(key, given, _PRIOR_REMEDY))
    entry = section.section(name)
    if FAMILY in entry:
        return _family(entry)
    forms = [key for key in entry.table if key != COORDINATE]
    if len(forms) != 1:
        raise entry.error(None, f"it holds {shown(value)}: {_PRIOR_REMEDY}")
    if forms[0] not in FORMS:
        reason = f"'{forms[0]}' is no form of prior: {nearest(forms[0], FORMS)}"
        raise entry.error(forms[0], f'{reason} (or {{dist = "..."}} of scipy.stats)')
    form, arguments = FORMS[forms[0]], entry.section(forms[0])
    arguments.refuse_others(form.arguments)
    numbers = {key: arguments.read(key, real_number) for key in form.arguments}
    with arguments.blame(None):
        return form.make(**numbers)


def coordinate_of(section: Section, name: str) -> str | None:
    """Return the coordinate that the sampler is to use for a parameter, where one is named."""
    if not isinstance(section.table[name], dict):
        return None
    return section.section(name).optional(COORDINATE, text)


def noise_of(section: Section, key: str, functions: ModuleType) -> Any:
    """Return what `smcpn.Problem` takes as the noise of an output.

    A number is a standard deviation, a text the name of a parameter or of a log density in the
    model file, a table names another noise: ``{studentt = {scale = 0.02}}``,
    ``{ar1 = {sd = "sigma", rho = "rho"}}``, ``{normal = {sd = "spread"}}``. In it a text may name
    a function of the model file, which is a formula.

    Raises `ConfigurationError` for anything else.
    """
    value = section.table.get(key)
    if isinstance(value, str) and callable(getattr(functions, value, None)):
        return getattr(functions, value)
    if not isinstance(value, dict):
        return section.read(key, _noise)
    entry = section.section(key)
    if len(value) != 1:
        raise section.error(key, f"it holds {shown(value)}: name one of {', '.join(NOISES)}")
    name = next(iter(value))
    if name not in NOISES:
        raise entry.error(name, f"'{name}' is no noise: {nearest(name, NOISES)}")
    arguments = entry.section(name)
    arguments.refuse_others(NOISES[name].__dataclass_fields__)
    with arguments.blame(None):
        try:
            return NOISES[name](**{k: formula(v, functions) for k, v in arguments.table.items()})
        except TypeError as error:
            raise InputError(f"{name} {shown(dict(arguments.table))}: {error}") from error


def formula(value: Any, functions: ModuleType) -> Any:
    """Return the function of the model file that a text names, and any other value as it is."""
    named = getattr(functions, value, None) if isinstance(value, str) else None
    return named if callable(named) else value


def _noise(key: str, value: Any) -> float | str:
    if isinstance(value, str) and value:
        return value
    remedy = "give a standard deviation, in the unit of the output, or the name of a parameter"
    number = real_number(key, value, remedy)
    if not number > 0:
        raise InputError(f"{key} is {number:g}: give a standard deviation above 0")
    return number


def _family(entry: Section) -> Any:
    """Make ``{dist = "lognorm", s = 1.0, scale = 0.3}``."""
    name = entry.read(FAMILY, text)
    family = FAMILIES.get(name)
    if family is None:
        close = nearest(name, FAMILIES)
        remedy = close if close.startswith("did") else "give a continuous one, as lognorm or norm"
        raise entry.error(FAMILY, f"'{name}' is no family of scipy.stats: {remedy}")
    shapes = tuple(part.strip() for part in (family.shapes or "").split(",") if part.strip())
    entry.refuse_others((FAMILY, COORDINATE, *shapes, "loc", "scale"))
    missing = [shape for shape in shapes if shape not in entry]
    if missing:
        raise entry.error(None, f"{name} needs '{missing[0]}': add {missing[0]} = ...")
    numbers = {
        key: entry.read(key, real_number) for key in (*shapes, "loc", "scale") if key in entry
    }
    return family(**numbers)


def _positive(form: str, argument: str, value: float) -> float:
    if not value > 0:
        raise InputError(f"{argument} of {form} is {value:g}: give a number above 0")
    return value
