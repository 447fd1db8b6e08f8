"""pysindy's libraries: its features in its order and by its names, as terms of `smcpn.discover`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product
from typing import Annotated, Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, checked, whole
from smcpn.discovery.equations.candidates import MOST_TERMS, Factor, Term, Variables
from smcpn.discovery.equations.library import MOST_DEGREE, Library, read_library
from smcpn.errors import InputError, counted, shown
from smcpn.sindy.parameters import Parameters
from smcpn.sindy.trajectories import matrix

Array = NDArray[np.float64]


class Input(NamedTuple):
    """A state or control: its name in equations, and as it is printed."""

    name: str
    label: str


class Feature(NamedTuple):
    """A function of states and controls, and as it is printed."""

    label: str
    term: Term


ONE = Feature("1", Term())


@dataclass(frozen=True)
class Terms(Library):
    """A library of terms that are given, over variables with these names."""

    every: tuple[Term, ...]

    def resolved(self, variables: Variables) -> list[Term]:
        """The terms."""
        return list(self.every)


class FeatureLibrary(Parameters):
    """Features of states and controls; ``+`` unites two libraries, ``*`` multiplies them.

    Attributes
    ----------
    n_features_in_, n_output_features_ : int
        Once it is fitted, which counts columns and learns nothing.
    """

    n_features_in_: int
    n_output_features_: int

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Features of these states and controls, some perhaps twice."""
        raise NotImplementedError

    def fit(self, x: Any, y: Any = None) -> FeatureLibrary:
        """Count the features of samples x, (T, n) or a list of such."""
        samples = x[0] if isinstance(x, list | tuple) else x
        return self.fitted(numbered(matrix("x", samples).shape[1]))

    def fitted(self, inputs: Sequence[Input]) -> FeatureLibrary:
        """Count the features of these states and controls."""
        count = len(self.features(inputs))
        if not 0 < count <= MOST_TERMS:
            raise InputError(
                f"feature_library has {count} features: give one with 1 to {MOST_TERMS}",
                argument="feature_library",
            )
        self.n_features_in_, self.n_output_features_ = len(inputs), count
        self._inputs = list(inputs)
        return self

    def transform(self, x: Any) -> Any:
        """Return the features (T, p) of samples (T, n), or a list of these."""
        if isinstance(x, list | tuple):
            return [self.transform(one) for one in x]
        inputs, samples = self._fitted_to(), matrix("x", x)
        if samples.shape[1] != len(inputs):
            raise InputError(
                f"x has {counted(samples.shape[1], 'column')}, and the library was fitted to "
                f"{len(inputs)}: give as many",
                argument="x",
            )
        return _values(self.features(inputs), inputs, samples)

    def fit_transform(self, x: Any, y: Any = None) -> Any:
        """Count the features of samples and return them, see `transform`."""
        return self.fit(x).transform(x)

    def get_feature_names(self, input_features: Sequence[str] | None = None) -> list[str]:
        """Return the features as they are printed: ``"1"``, ``"x0"``, ``"x0 x1"``."""
        inputs = self._fitted_to()
        if input_features is not None:
            inputs = [
                Input(one.name, str(label))
                for one, label in zip(inputs, input_features, strict=True)
            ]
        return [feature.label for feature in self.features(inputs)]

    def _fitted_to(self) -> list[Input]:
        if not hasattr(self, "n_features_in_"):
            raise InputError(f"{self!r} is not fitted: call fit first")
        return self._inputs

    def __add__(self, other: Any) -> ConcatLibrary:
        return ConcatLibrary([self, other])

    def __mul__(self, other: Any) -> TensoredLibrary:
        return TensoredLibrary([self, other])


@checked
class PolynomialLibrary(FeatureLibrary):
    """Monomials: 1, x0, x1, x0^2, x0 x1, x1^2, ...

    Parameters
    ----------
    degree : int
        Highest total degree.
    include_interaction : bool
        Whether products of different variables are there.
    interaction_only : bool
        Whether a variable has the power 1 at most.
    include_bias : bool
        Whether 1 is there.
    order : str
        Not used.
    """

    def __init__(
        self,
        degree: Annotated[int, whole(0, MOST_DEGREE)] = 2,
        include_interaction: bool = True,
        interaction_only: bool = False,
        include_bias: bool = True,
        order: str = "C",
    ) -> None:
        if interaction_only and not include_interaction:
            raise InputError(
                "interaction_only=True leaves nothing where include_interaction=False: give one",
                argument="interaction_only",
            )
        self.degree, self.include_interaction = degree, include_interaction
        self.interaction_only, self.include_bias = interaction_only, include_bias
        self.order = order

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Monomials by degree."""
        _check_number(math.comb(len(inputs) + self.degree, self.degree))
        found = [ONE] if self.include_bias else []
        for degree in range(1, self.degree + 1):
            if not self.include_interaction:
                chosen: Iterable[tuple[Input, ...]] = (degree * (one,) for one in inputs)
            elif self.interaction_only:
                chosen = combinations(inputs, degree)
            else:
                chosen = combinations_with_replacement(inputs, degree)
            found += [_monomial(one) for one in chosen]
        return found


def IdentityLibrary() -> PolynomialLibrary:  # noqa: N802
    """Return a library of the states and controls themselves."""
    return PolynomialLibrary(degree=1, include_bias=False)


@checked
class FourierLibrary(FeatureLibrary):
    """Sines and cosines: sin(1 x0), cos(1 x0), sin(1 x1), ..., sin(2 x0), ...

    Parameters
    ----------
    n_frequencies : int
        Number of multiples of each variable.
    include_sin, include_cos : bool
        Which of both are there.
    """

    def __init__(
        self, n_frequencies: Count = 1, include_sin: bool = True, include_cos: bool = True
    ) -> None:
        if not (include_sin or include_cos):
            raise InputError(
                "include_sin and include_cos are False: set one of them", argument="include_sin"
            )
        self.n_frequencies = n_frequencies
        self.include_sin, self.include_cos = include_sin, include_cos

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Sines and cosines by frequency, and in each by variable."""
        _check_number(2 * self.n_frequencies * len(inputs))
        functions = [np.sin] * self.include_sin + [np.cos] * self.include_cos
        return [
            _harmonic(function, k, one)
            for k in range(1, self.n_frequencies + 1)
            for one in inputs
            for function in functions
        ]


@checked
class CustomLibrary(FeatureLibrary):
    """Functions of one or more variables, applied to all combinations of as many.

    Parameters
    ----------
    library_functions : sequence of callable
        Functions that `smcpn.terms` could take: of numbers, by numpy.
    function_names : sequence of callable, optional
        From the names of the variables to that of the function of them; ``f0(x0,x1)`` by default.
    interaction_only : bool
        Whether a variable is no more than one argument of a function.
    include_bias : bool
        Whether 1 is there.
    """

    def __init__(
        self,
        library_functions: Sequence[Callable[..., Any]],
        function_names: Sequence[Callable[..., str]] | None = None,
        interaction_only: bool = True,
        include_bias: bool = False,
    ) -> None:
        if function_names is not None and len(function_names) != len(library_functions):
            raise InputError(
                f"function_names has {len(function_names)} entries and library_functions "
                f"{len(library_functions)}: give a name for each",
                argument="function_names",
            )
        self.library_functions, self.function_names = library_functions, function_names
        self.interaction_only, self.include_bias = interaction_only, include_bias

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Functions in their order, each of all combinations of variables."""
        chosen = combinations if self.interaction_only else combinations_with_replacement
        found = [ONE] if self.include_bias else []
        for number, function in enumerate(self.library_functions):
            found += [
                self._feature(number, function, one)
                for one in chosen(inputs, _number_of_arguments(function))
            ]
            _check_number(len(found))
        return found

    def _feature(
        self, number: int, function: Callable[..., Any], inputs: tuple[Input, ...]
    ) -> Feature:
        names = tuple(one.name for one in inputs)
        own = self._written(number, names)
        # A name of a variable is that of the variable itself.
        name = f"f{number}({', '.join(names)})" if own in names else own
        factor = Factor(name, names, function)
        return Feature(self._written(number, [one.label for one in inputs]), Term(((factor, 1),)))

    def _written(self, number: int, names: Sequence[str]) -> str:
        if self.function_names is None:
            return f"f{number}({','.join(names)})"
        return str(self.function_names[number](*names))


class _Several(FeatureLibrary):
    """A library made of libraries."""

    libraries: Sequence[Any]

    def _parts(self) -> list[FeatureLibrary]:
        # That module imports this one for the libraries that it translates to.
        if isinstance(self.libraries, str) or not self.libraries:
            raise InputError(
                f"libraries is {shown(self.libraries)}: give a list of libraries",
                argument="libraries",
            )
        return [translated(one) for one in self.libraries]


@checked
class ConcatLibrary(_Several):
    """Features of one library after those of another.

    Parameters
    ----------
    libraries : sequence of libraries
    """

    def __init__(self, libraries: Sequence[Any]) -> None:
        self.libraries = libraries

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Features of each library, one library after the other."""
        return [feature for part in self._parts() for feature in part.features(inputs)]


@checked
class TensoredLibrary(_Several):
    """Products of a feature of each library.

    Parameters
    ----------
    libraries : sequence of libraries
    inputs_per_library : sequence of sequences of int, optional
        Numbers of the states and controls that each is applied to; all by default.
    """

    def __init__(self, libraries: Sequence[Any], inputs_per_library: Any = None) -> None:
        self.libraries, self.inputs_per_library = libraries, inputs_per_library

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Products, the features of the last library varying fastest."""
        parts = self._parts()
        each = [
            part.features(own)
            for part, own in zip(parts, _chosen(self, inputs, len(parts)), strict=True)
        ]
        _check_number(math.prod(map(len, each)))
        return [_product(factors) for factors in product(*each)]


@checked
class GeneralizedLibrary(_Several):
    """Features of several libraries, each of variables of its own, and products of some.

    Parameters
    ----------
    libraries : sequence of libraries
    tensor_array : array_like of bool, (k, number of libraries), optional
        A row for each product, 1 for its libraries.
    inputs_per_library : sequence of sequences of int, optional
        Numbers of the states and controls that each is applied to; all by default.
    exclude_libraries : sequence of int
        Libraries of which only the products are there.
    """

    def __init__(
        self,
        libraries: Sequence[Any],
        tensor_array: Any = None,
        inputs_per_library: Any = None,
        exclude_libraries: Sequence[int] = (),
    ) -> None:
        self.libraries, self.tensor_array = libraries, tensor_array
        self.inputs_per_library, self.exclude_libraries = inputs_per_library, exclude_libraries

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Features of each library, then their products."""
        parts = self._parts()
        chosen = _chosen(self, inputs, len(parts))
        each = [part.features(own) for part, own in zip(parts, chosen, strict=True)]
        found = [
            feature
            for k, features in enumerate(each)
            if k not in self.exclude_libraries
            for feature in features
        ]
        rows = np.zeros((0, len(parts))) if self.tensor_array is None else self.tensor_array
        array = np.asarray(rows)
        if array.ndim != 2 or array.shape[1] != len(parts):
            raise InputError(
                f"tensor_array has the shape {array.shape}: give a row of {len(parts)} numbers, "
                "one for each library, for every product",
                argument="tensor_array",
            )
        for row in array:
            factors = [each[k] for k in np.flatnonzero(row)]
            _check_number(math.prod(map(len, factors)))
            found += [_product(one) for one in product(*factors)]
        return found


def numbered(count: int) -> list[Input]:
    """Return inputs called x0, x1, ..."""
    return [Input(f"x{k}", f"x{k}") for k in range(count)]


def _values(features: Sequence[Feature], inputs: Sequence[Input], samples: Array) -> Array:
    """Features (T, p) of samples (T, n)."""
    x = ca.SX.sym("x", len(inputs))
    symbols = dict(zip([one.name for one in inputs], ca.vertsplit(x), strict=True))
    columns = [
        math.prod(
            (factor.graph(symbols) ** power for factor, power in feature.term.powers),
            start=ca.SX(1),
        )
        for feature in features
    ]
    function = ca.Function("features", [x], [ca.densify(ca.vertcat(*columns))])
    return np.array(function(samples.T)).T


def _monomial(inputs: tuple[Input, ...]) -> Feature:
    powers = {one: inputs.count(one) for one in inputs}
    label = " ".join(one.label + (f"^{n}" if n > 1 else "") for one, n in powers.items())
    factors = [(Factor(one.name, (one.name,)), n) for one, n in powers.items()]
    return Feature(label, Term(tuple(factors)))


def _harmonic(function: Callable[..., Any], k: int, one: Input) -> Feature:
    written = one.name if k == 1 else f"{k} {one.name}"
    name = f"{function.__name__}({written})"
    factor = Factor(name, (one.name,), lambda x: function(k * x), degree=k)
    return Feature(f"{function.__name__}({k} {one.label})", Term(((factor, 1),)))


def _product(features: Sequence[Feature]) -> Feature:
    label = " ".join(one.label for one in features)
    return Feature(label, math.prod((one.term for one in features), start=Term()))


def _number_of_arguments(function: Any) -> int:
    if isinstance(function, np.ufunc):
        return function.nin
    if not callable(function):
        raise InputError(
            f"library_functions has {shown(function)}: give functions",
            argument="library_functions",
        )
    try:
        return len(inspect.signature(function).parameters)
    except ValueError:
        raise InputError(
            f"library_functions has {shown(function)}, whose arguments are not known: write "
            "lambda x: ... about it",
            argument="library_functions",
        ) from None


def _chosen(library: Any, inputs: Sequence[Input], count: int) -> list[list[Input]]:
    """Inputs of each of the libraries."""
    given = library.inputs_per_library
    if given is None:
        return [list(inputs)] * count
    if len(given) != count:
        raise InputError(
            f"inputs_per_library has {len(given)} entries for {count} libraries: give the inputs "
            "of each",
            argument="inputs_per_library",
        )
    chosen: list[list[Input]] = []
    for numbers in given:
        own = list(dict.fromkeys(int(k) for k in numbers))
        if not own or not all(0 <= k < len(inputs) for k in own):
            raise InputError(
                f"inputs_per_library has {shown(numbers)}: give numbers from 0 to "
                f"{len(inputs) - 1}",
                argument="inputs_per_library",
            )
        chosen.append([inputs[k] for k in own])
    return chosen


def _check_number(count: int) -> None:
    if count > MOST_TERMS:
        raise InputError(
            f"feature_library has {count} features, and the most is {MOST_TERMS}: lower its "
            "degree, or give it fewer inputs",
            argument="feature_library",
        )


class DescribedLibrary(FeatureLibrary):
    """Features of a library made by `smcpn.polynomials`, `smcpn.fourier` and `smcpn.terms`."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def features(self, inputs: Sequence[Input]) -> list[Feature]:
        """Its terms, which are functions of variables by name."""
        found = self.library.resolved(Variables(tuple(one.name for one in inputs)))
        return [Feature(term.name, term) for term in found]


TRANSLATED: dict[type[FeatureLibrary], tuple[str, ...]] = {
    PolynomialLibrary: (
        "degree", "include_interaction", "interaction_only", "include_bias",
    ),
    FourierLibrary: ("n_frequencies", "include_sin", "include_cos"),
    CustomLibrary: ("library_functions", "function_names", "interaction_only", "include_bias"),
    ConcatLibrary: ("libraries",),
    TensoredLibrary: ("libraries", "inputs_per_library"),
    GeneralizedLibrary: (
        "libraries", "tensor_array", "inputs_per_library", "exclude_libraries",
    ),
}  # fmt: skip
"""Libraries as pysindy has them, with the parameters that they are made from here."""
RENAMED = {"library_functions": "functions"}
"""Attributes of pysindy's libraries that are not called as the parameter."""


def translated(library: Any) -> FeatureLibrary:
    """Return a library of `smcpn.sindy` with the features of the one given.

    Raises `InputError` if it is none that can be translated.
    """
    if isinstance(library, FeatureLibrary):
        return library
    if isinstance(library, str):
        library = read_library(library)
    if isinstance(library, Library):
        return DescribedLibrary(library)
    name = type(library).__name__
    of_pysindy = type(library).__module__.split(".")[0] == "pysindy"
    kind = next((one for one in TRANSLATED if of_pysindy and one.__name__ == name), None)
    if kind is not None:
        return kind(**{one: getattr(library, RENAMED.get(one, one)) for one in TRANSLATED[kind]})
    raise InputError(
        f"feature_library is {shown(library)}: give a library of smcpn.sindy, such as "
        "PolynomialLibrary(degree=3)",
        argument="feature_library",
    )
