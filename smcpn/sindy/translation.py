"""Libraries of pysindy and of smcpn as those of `smcpn.sindy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smcpn.discovery.equations.library import Library, Variables
from smcpn.discovery.equations.text import read_library
from smcpn.errors import InputError, shown
from smcpn.sindy import feature_library as libraries
from smcpn.sindy.feature_library import Feature, FeatureLibrary, Input

TRANSLATED = {
    "PolynomialLibrary": (
        "degree", "include_interaction", "interaction_only", "include_bias",
    ),
    "FourierLibrary": ("n_frequencies", "include_sin", "include_cos"),
    "CustomLibrary": ("library_functions", "function_names", "interaction_only", "include_bias"),
    "ConcatLibrary": ("libraries",),
    "TensoredLibrary": ("libraries", "inputs_per_library"),
    "GeneralizedLibrary": (
        "libraries", "tensor_array", "inputs_per_library", "exclude_libraries",
    ),
}  # fmt: skip
"""Libraries of pysindy by name, with the parameters that they are made from here."""
RENAMED = {"library_functions": "functions"}
"""Attributes of pysindy's libraries that are not called as the parameter."""


class Described(FeatureLibrary):
    """Features of a library made by `smcpn.polynomials`, `smcpn.fourier` and `smcpn.terms`."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Its terms, which are functions of variables by name."""
        found = self.library.resolved(Variables(tuple(one.name for one in inputs)))
        return [Feature(term.name, term) for term in found]


def translated(library: Any) -> FeatureLibrary:
    """Return a library of `smcpn.sindy` with the features of the one given.

    Raises
    ------
    InputError
        If it is none that can be translated.
    """
    if isinstance(library, FeatureLibrary):
        return library
    if isinstance(library, str):
        library = read_library(library)
    if isinstance(library, Library):
        return Described(library)
    name = type(library).__name__
    of_pysindy = type(library).__module__.split(".")[0] == "pysindy"
    if of_pysindy and name in TRANSLATED:
        given = {one: getattr(library, RENAMED.get(one, one)) for one in TRANSLATED[name]}
        return getattr(libraries, name)(**given)
    raise InputError(
        f"feature_library is {shown(library)}: give a library of smcpn.sindy, such as "
        "PolynomialLibrary(degree=3)",
        argument="feature_library",
    )
