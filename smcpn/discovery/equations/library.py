"""Libraries of the terms that an unknown equation may have.

A library is a rule, without names of states: `Library.candidates` applies it to a system's states
and inputs.

On the command line one is written as text, ``"poly(3) + sin + u*cos(x)"``.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Annotated, Any

import numpy as np

from smcpn.base.arguments import Count, Positive, checked, whole
from smcpn.discovery.equations.candidates import MOST_TERMS, Candidates, Factor, Term, Variables
from smcpn.errors import InputError, listed, nearest, shown
from smcpn.model.ode import TIME
from smcpn.model.trace import argument_names, function_name

MOST_DEGREE = 20
SHORT_NAMES = {"absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}


@checked
class Library:
    """Terms that an equation may have; ``+`` unites two libraries, ``*`` multiplies their terms.

    Made by `polynomials`, `fourier` and `terms`.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> library = smcpn.polynomials(degree=2) + smcpn.terms(np.sin)
    >>> library.candidates(["x"], inputs=["u"]).names
    ('1', 'x', 'u', 'x^2', 'x u', 'u^2', 'sin(x)', 'sin(u)')
    """

    def __add__(self, other: Library) -> Library:
        return Sum(self, _other_library(other))

    def __mul__(self, other: Library) -> Library:
        return Product(self, _other_library(other))

    def resolved(self, variables: Variables) -> list[Term]:
        """Terms over these variables, some perhaps twice."""
        raise NotImplementedError

    def candidates(self, states: Sequence[str], inputs: Sequence[str] = ()) -> Candidates:
        """Return the terms over these states and inputs, each allowed in every equation.

        A term that is a multiple of a monomial, or of a term before it, is left out.

        Raises
        ------
        InputError
            If names are given twice, a function cannot be traced, or there are more than
            `MOST_TERMS` terms.
        """
        return candidates_of(self, states, inputs)


@dataclass(frozen=True)
class Sum(Library):
    """Terms of both libraries."""

    first: Library
    second: Library

    @checked
    def resolved(self, variables: Variables) -> list[Term]:
        """Terms of the first, then those of the second."""
        return self.first.resolved(variables) + self.second.resolved(variables)


@dataclass(frozen=True)
class Product(Library):
    """Products of each term of one library with each of another."""

    first: Library
    second: Library

    @checked
    def resolved(self, variables: Variables) -> list[Term]:
        """Products, the terms of the second varying fastest."""
        first, second = self.first.resolved(variables), self.second.resolved(variables)
        _check_number(len(first) * len(second))
        return [one * other for one in first for other in second]


@dataclass(frozen=True)
class Polynomials(Library):
    """Monomials to a degree."""

    degree: int
    variables: tuple[str, ...] | None
    constant: bool

    @checked
    def resolved(self, variables: Variables) -> list[Term]:
        """Monomials by degree, and in each as x^2, x y, y^2."""
        chosen = [Term(((Factor(name, (name,)), 1),)) for name in variables.chosen(self.variables)]
        _check_number(math.comb(len(chosen) + self.degree, self.degree))
        return [
            math.prod(factors, start=Term())
            for degree in range(0 if self.constant else 1, self.degree + 1)
            for factors in combinations_with_replacement(chosen, degree)
        ]


@dataclass(frozen=True)
class Fourier(Library):
    """Sines and cosines of each variable."""

    harmonics: int
    frequency: float
    variables: tuple[str, ...] | None

    @checked
    def resolved(self, variables: Variables) -> list[Term]:
        """Of each variable sin(w x), cos(w x), sin(2 w x), ..."""
        chosen = variables.chosen(self.variables)
        _check_number(2 * self.harmonics * len(chosen))
        return [
            Term(((self._factor(function, name, k), 1),))
            for name in chosen
            for k in range(1, self.harmonics + 1)
            for function in (np.sin, np.cos)
        ]

    def _factor(self, function: Callable[..., Any], variable: str, k: int) -> Factor:
        rate = k * self.frequency
        written = variable if rate == 1 else f"{rate:.12g} {variable}"
        name = f"{function.__name__}({written})"
        return Factor(name, (variable,), lambda x: function(rate * x), degree=k)


@dataclass(frozen=True)
class Functions(Library):
    """Functions of one variable applied to each, and functions of several by their names.

    functions: Name, function, and the names of its arguments where they say which variables are
        meant.
    """

    functions: tuple[tuple[str, Callable[..., Any], tuple[str, ...] | None], ...]
    variables: tuple[str, ...] | None

    @checked
    def resolved(self, variables: Variables) -> list[Term]:
        """Every function with its arguments: ``sin(x)``, ``drag(x, v)``."""
        found: list[Term] = []
        for name, function, arguments in self.functions:
            if arguments is None or (len(arguments) == 1 and arguments[0] != TIME):
                applied = [(one,) for one in variables.chosen(self.variables)]
            else:
                applied = [self._named(name, arguments, variables)]
            found += [
                Term(((Factor(f"{name}({', '.join(names)})", names, function), 1),))
                for names in applied
            ]
        return found

    def _named(
        self, function: str, arguments: tuple[str, ...], variables: Variables
    ) -> tuple[str, ...]:
        for name in arguments:
            if name not in variables.timed:
                raise InputError(
                    f"library function '{function}' takes '{name}', which is no state or input "
                    f"({listed(variables.names)}): name its arguments as the states and inputs "
                    "that it is a function of",
                    argument="library",
                )
        return arguments


@checked
def polynomials(
    degree: Annotated[int, whole(0, MOST_DEGREE)] = 3,
    *,
    variables: Sequence[str] | None = None,
    constant: bool = True,
) -> Library:
    """Return all monomials up to a degree: 1, x, y, x^2, x y, y^2, ...

    Parameters
    ----------
    degree : int
        The highest total degree, at most 20.
    variables : sequence of str, optional
        States and inputs, or ``"t"``; all states and inputs by default.
    constant : bool
        Whether the term 1 is there.

    Examples
    --------
    >>> import smcpn
    >>> smcpn.polynomials(degree=2).candidates(["x", "y"]).names
    ('1', 'x', 'y', 'x^2', 'x y', 'y^2')
    """
    return Polynomials(degree, _names(variables), constant)


@checked
def fourier(
    harmonics: Count = 1, *, frequency: Positive = 1.0, variables: Sequence[str] | None = None
) -> Library:
    """Return sin(k w x) and cos(k w x) of each variable, k = 1 to ``harmonics``.

    Parameters
    ----------
    harmonics : int
        Number of multiples of the frequency. The k-th has degree k.
    frequency : float
        w, in radians per unit of the variable.
    variables : sequence of str, optional
        States and inputs, or ``"t"``; all states and inputs by default.

    Examples
    --------
    >>> import smcpn
    >>> smcpn.fourier(2).candidates(["x"]).names
    ('sin(x)', 'cos(x)', 'sin(2 x)', 'cos(2 x)')
    """
    return Fourier(harmonics, frequency, _names(variables))


@checked
def terms(
    *functions: Callable[..., Any],
    variables: Sequence[str] | None = None,
    **named: Callable[..., Any],
) -> Library:
    """Return terms by functions: of one argument applied to each variable, of several by names.

    Parameters
    ----------
    *functions : callable
        With names of their own (``np.sin``, or by ``def``). What numpy functions they call must be
        those that a model may call.
    variables : sequence of str, optional
        To which functions of one argument are applied; all states and inputs by default. One whose
        argument is called ``t`` is a function of time.
    **named : callable
        Functions by the name that they are printed with.

    Raises
    ------
    InputError
        If a function has no name, parameters, or arguments that cannot be known.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> smcpn.terms(np.sin, drag=lambda v, u: (v - u) * abs(v - u)).candidates(["v"], ["u"]).names
    ('sin(v)', 'sin(u)', 'drag(v, u)')
    """
    given = [(_own_name(function), function) for function in functions] + list(named.items())
    if not given:
        raise InputError("terms is empty: give a function, as smcpn.terms(np.sin)")
    names = [name for name, _ in given]
    for name in names:
        if not name.isidentifier():
            raise InputError(
                f"terms names a function {shown(name)}: give it a name of letters, digits and '_'"
            )
        if names.count(name) > 1:
            raise InputError(f"terms has two functions '{name}': give one another name")
    entries = [(name, function, _arguments(name, function)) for name, function in given]
    return Functions(tuple(entries), _names(variables))


def _other_library(given: Any) -> Library:
    if not isinstance(given, Library):
        raise InputError(
            f"a library is added to or multiplied by {shown(given)}: give a library, as "
            "smcpn.terms(np.sin)"
        )
    return given


def _own_name(function: Any) -> str:
    if not callable(function):
        raise InputError(f"terms has {shown(function)}: give functions, as smcpn.terms(np.sin)")
    name = function_name(function)
    if not name.isidentifier():
        raise InputError(
            f"a function of terms is called {shown(name)}: give it a name, as "
            "smcpn.terms(drag=lambda v: v * abs(v))"
        )
    return SHORT_NAMES.get(name, name)


def _arguments(name: str, function: Any) -> tuple[str, ...] | None:
    """Names of the arguments; None where they are of no meaning, as those of numpy's functions."""
    if not callable(function):
        raise InputError(f"function '{name}' of terms is {shown(function)}: give a function")
    if isinstance(function, np.ufunc):
        if function.nin == 1:
            return None
        raise InputError(
            f"function '{name}' of terms takes {function.nin} arguments without names: write "
            f"smcpn.terms({name}=lambda x, y: np.{function.__name__}(x, y)) with your names"
        )
    if inspect.isbuiltin(function) or function.__class__.__module__.startswith("casadi"):
        return None
    if getattr(function, "__module__", "").startswith(("casadi", "numpy")):
        return None
    positional, keyword = argument_names(function)
    if keyword or not positional:
        lacks = f"the parameter '{next(iter(keyword))}'" if keyword else "no argument"
        raise InputError(
            f"function '{name}' of terms has {lacks}: terms are functions of states, inputs and "
            "time only"
        )
    return tuple(positional)


def _names(variables: Sequence[str] | None) -> tuple[str, ...] | None:
    if variables is None:
        return None
    if isinstance(variables, str) or not variables:
        raise InputError(
            f'variables is {shown(variables)}: give a list of names, as ["x"]',
            argument="variables",
        )
    return tuple(variables)


def _check_number(number: int) -> None:
    if number > MOST_TERMS:
        raise InputError(
            f"the library has {number} terms, and the most is {MOST_TERMS}: lower its degree, or "
            "restrict its variables",
            argument="library",
        )


def candidates_of(
    library: Library | Mapping[str, Library], states: Sequence[str], inputs: Sequence[str] = ()
) -> Candidates:
    """Apply a library to states and inputs, or one of its own to the equation of each state.

    Raises `InputError` as `Library.candidates`, and if there is a library for what is no state.
    """
    variables = _variables(states, inputs)
    each = _library_of_each(library, variables)
    terms = {equations: one.resolved(variables) for equations, one in each.items()}
    return Candidates.of(terms, variables)


def _variables(states: Sequence[str], inputs: Sequence[str]) -> Variables:
    for what, names in (("states", states), ("inputs", inputs)):
        several = isinstance(names, Iterable) and not isinstance(names, str)
        if not (several and all(isinstance(one, str) for one in names)):
            raise InputError(
                f'{what} is {shown(names)}: give a list of names, as ["x", "v"]', argument=what
            )
    names = [*states, *inputs]
    if not states:
        raise InputError("states is empty: name the states of the system", argument="states")
    for name in names:
        if not name.isidentifier() or name == TIME:
            raise InputError(
                f"a state or input is called {shown(name)}: give it a name of letters, digits "
                f"and '_', and not '{TIME}', which is the time",
                argument="states",
            )
        if names.count(name) > 1:
            raise InputError(
                f"'{name}' is twice among states and inputs: give each a name of its own",
                argument="states",
            )
    return Variables(tuple(states), tuple(inputs))


def _library_of_each(
    library: Library | Mapping[str, Library], variables: Variables
) -> dict[tuple[int, ...], Library]:
    """Libraries by the equations that have their terms."""
    states = variables.states
    if isinstance(library, Library):
        return {tuple(range(len(states))): library}
    if not isinstance(library, Mapping) or not library:
        raise InputError(
            f"library is {shown(library)}: give one, as smcpn.polynomials(degree=3), or one for "
            'each state whose equation is not known, as {"v": smcpn.polynomials(degree=3)}',
            argument="library",
        )
    for state, one in library.items():
        if state not in states:
            raise InputError(
                f"library names {shown(state)}, which is no state: {nearest(str(state), states)}",
                argument="library",
            )
        if not isinstance(one, Library):
            raise InputError(
                f"library['{state}'] is {shown(one)}: give one, as smcpn.polynomials(degree=3)",
                argument="library",
            )
    return {(states.index(state),): one for state, one in library.items()}


MOST_CHARACTERS = 1000
FUNCTIONS: dict[str, Any] = {
    "abs": np.abs, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "cos": np.cos,
    "cosh": np.cosh, "exp": np.exp, "log": np.log, "sign": np.sign, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
MAKERS = ("poly", "polynomials", "fourier")


def read_library(text: str) -> Library:
    """Return the library that a text describes.

    ``poly(3)`` and ``fourier(2, 0.5)`` are `polynomials` and `fourier` of all variables, or of
    those named behind the numbers, ``poly(2, x, v)``. ``sin`` is that of each variable, ``sin(x)``
    of one; ``x`` is a variable itself. ``+`` and ``*`` are those of `Library`.

    Raises `InputError` if it is none; names of variables are checked when the library is applied.

    Examples
    --------
    >>> read_library("poly(2) + sin(x)").candidates(["x"]).names
    ('1', 'x', 'x^2', 'sin(x)')
    """
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError
        return _library(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise _unread(text) from None


def _library(node: ast.expr, text: str) -> Library:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        first, second = _library(node.left, text), _library(node.right, text)
        return first + second if isinstance(node.op, ast.Add) else first * second
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = node.right.value if isinstance(node.right, ast.Constant) else None
        if type(power) is int and 1 <= power <= 20:
            return math.prod(
                [_library(node.left, text)] * (power - 1), start=_library(node.left, text)
            )
    if isinstance(node, ast.Name):
        if node.id in MAKERS:
            raise InputError(
                f"library names {node.id} without a number: write {node.id}(3)", argument="library"
            )
        if node.id in FUNCTIONS:
            return terms(**{node.id: FUNCTIONS[node.id]})
        return polynomials(1, variables=[node.id], constant=False)
    if isinstance(node, ast.Constant) and node.value == 1:
        return polynomials(0)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, node.args, text)
    raise _unread(text)


def _called(name: str, arguments: list[ast.expr], text: str) -> Library:
    numbers = [one.value for one in arguments if isinstance(one, ast.Constant)]
    variables = [one.id for one in arguments if isinstance(one, ast.Name)]
    if len(numbers) + len(variables) < len(arguments) or not arguments:
        raise _unread(text)
    if name in FUNCTIONS:
        if numbers:
            raise _unread(text)
        return terms(variables=variables, **{name: FUNCTIONS[name]})
    if name not in MAKERS:
        raise InputError(
            f"library {shown(text)} has the function '{name}', which is not known here: "
            f"{nearest(name, (*MAKERS, *FUNCTIONS))}",
            argument="library",
        )
    most = 2 if name == "fourier" else 1
    if not 1 <= len(numbers) <= most:
        raise _unread(text)
    chosen = variables or None
    if name != "fourier":
        return polynomials(numbers[0], variables=chosen)  # pyright: ignore[reportArgumentType]
    frequency = numbers[1] if len(numbers) > 1 else 1.0
    return fourier(numbers[0], frequency=frequency, variables=chosen)  # pyright: ignore[reportArgumentType]


def _unread(text: str) -> InputError:
    return InputError(
        f'library {shown(text)} cannot be read: write for example "poly(3) + sin(x) * u"',
        argument="library",
    )
