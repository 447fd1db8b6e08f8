"""Functions of several numbers as operations of expression graphs, as one that numba has compiled.

Loops cannot be traced. In a graph the k-th result of a function that has some is one operation,
`CalledFunction.graph`, of a number k and of all arguments; kernels call code for it, all particles
of a vector together. Another one is `smcpn.model.implicit_function`.

Derivatives of a right-hand side f(x, u, t, p, out) of numba are central differences,
(f(z + h d) - f(z - h d)) / 2 h, of a relative error of some 1e-8 where f is smooth. Where f has a
jump or a kink between the two points, they are its mean slope there.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError

Array = NDArray[np.float64]

CALL = "call:"
"""What the name of the operation begins with; a digest of the function follows."""
STEP = np.finfo(float).eps ** (1 / 4)
"""Of a difference, relative to the argument: rounding and curvature of a second one weigh alike."""
INTERVAL_STEP = 1e-3
"""Of a difference in time, relative to the interval."""
LEAST = 1e-6
"""Magnitude that an argument counts as at least, in its unit."""
PROBES = 8
"""Points at which a function is tried when it becomes a model."""

KNOWN: dict[str, CalledFunction] = {}
"""Every such function of this process by the name of its operation."""


def is_compiled(function: Any) -> bool:
    """True for a function that numba has compiled (``numba.njit``)."""
    return hasattr(function, "py_func") and hasattr(function, "targetoptions")


class CalledFunction(ABC):
    """A function of which graphs have the results as one operation each.

    operation: Its name: the same for the same function in every process.
    n_arguments, n_results: Numbers that it takes and returns.
    first: Argument from which on results depend on them.
    """

    first: int = 0
    operation: str
    n_arguments: int
    n_results: int

    def graph(self, k: ca.SX | int, interval: ca.SX | float, arguments: ca.SX) -> ca.SX:
        """Graph of the k-th result at arguments (m, 1).

        interval: Time in which the solution changes little, by which differences in time are taken.
        """
        # A graph does not keep its operations alive: those of the function known by the name live.
        nodes, known = KNOWN[self.operation]._nodes, ca.SX(k)
        number = int(known) if known.is_constant() else None
        if number not in nodes:
            nodes[number] = _Operation(self, number)
        return nodes[number](k, interval, ca.densify(arguments))

    def slopes(self, k: ca.SX, interval: ca.SX, arguments: ca.SX) -> list[ca.SX]:
        """Derivatives of the k-th result by each argument."""
        unit = ca.SX.eye(self.n_arguments)
        return [self.along(k, interval, arguments, unit[:, j]) for j in range(self.n_arguments)]

    @abstractmethod
    def along(self, k: ca.SX, interval: ca.SX, arguments: ca.SX, direction: ca.SX) -> ca.SX:
        """Derivative of the k-th result where the arguments move in a direction (m, 1)."""

    @abstractmethod
    def __call__(self, arguments: Array) -> Array:
        """Results (n, N) at arguments (m, N); NaN where there are none."""

    @cached_property
    def _nodes(self) -> dict[int | None, ca.Function]:
        return {}


@dataclass(frozen=True, eq=False)
class CompiledFunction(CalledFunction):
    """A function ``f(x, u, t, p, out)`` of numba and the numbers of its arguments.

    function: numba.core.registry.CPUDispatcher, it writes the derivatives of the states to ``out``.
    """

    function: Any
    n_states: int
    n_inputs: int
    n_parameters: int

    def __post_init__(self) -> None:
        KNOWN.setdefault(self.operation, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, tuple(getattr(self, one.name) for one in fields(self))

    @property
    def name(self) -> str:
        """Name of the Python function."""
        return self.function.py_func.__name__

    @cached_property
    def operation(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the operation."""
        sizes = f"{self.n_states},{self.n_inputs},{self.n_parameters}"
        digest = hashlib.sha256(f"{sizes}|{_identity(self.function)}".encode()).hexdigest()
        return CALL + digest[:10]

    @property
    def n_arguments(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Numbers that it takes: states, inputs, time, parameters."""
        return self.n_states + self.n_inputs + 1 + self.n_parameters

    @property
    def n_results(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Derivatives that it writes."""
        return self.n_states

    def along(self, k: ca.SX, interval: ca.SX, arguments: ca.SX, direction: ca.SX) -> ca.SX:
        """Derivative of the k-th derivative where the arguments move in a direction (m, 1).

        Where time moves, which it does along a solution, the step is one of time; else no argument
        moves by more than a `STEP` of its own magnitude, which for a state is at least what it
        changes by in the interval: it may pass through zero, and be small in its unit.
        """
        moving = [j for j in range(self.n_arguments) if not direction[j].is_zero()]
        time = direction[self.n_states + self.n_inputs]
        speeds = [ca.fabs(direction[j]) / self._size(j, interval, arguments) for j in moving]
        # Seeds of CasADi's derivatives are symbols, of which only the value tells.
        step = ca.if_else(
            time == 0.0, STEP / reduce(ca.fmax, speeds, ca.SX(1e-300)), INTERVAL_STEP * interval
        )
        ends = ca.SX(arguments), ca.SX(arguments)
        for j in moving:
            moved = step * direction[j]
            ends[0][j], ends[1][j] = arguments[j] + moved, arguments[j] - moved
        upper, lower = (self.graph(k, interval, end) for end in ends)
        return (upper - lower) / (2.0 * step)

    def _size(self, j: int, interval: ca.SX, arguments: ca.SX) -> ca.SX:
        """Magnitude of an argument."""
        size = ca.fmax(ca.fabs(arguments[j]), LEAST)
        if j >= self.n_states:
            return size
        return ca.fmax(size, ca.fabs(interval * self.graph(j, interval, arguments)))

    def __call__(self, arguments: Array) -> Array:
        """Derivatives (n, N) at arguments (m, N); NaN where the function raises."""
        rates = np.empty((self.n_states, arguments.shape[1]))
        for lane in range(arguments.shape[1]):
            try:
                self._at(self._plain, arguments[:, lane], rates[:, lane])
            except Exception:
                rates[:, lane] = np.nan
        return rates

    def _at(self, function: Any, arguments: Array, out: Array) -> None:
        """Have a function write the derivatives at one point (m,) to ``out`` (n,)."""
        x, u, t, p = np.split(arguments, np.cumsum([self.n_states, self.n_inputs, 1]))
        function(x, u, float(t[0]), p, out)

    def check(self) -> None:
        """Try it at some points."""
        import numba

        njit: Any = numba.njit
        bounded = njit(boundscheck=True)(self.function.py_func)
        rng = np.random.default_rng(0)
        points = [np.zeros(self.n_arguments), np.ones(self.n_arguments)]
        points += [rng.normal(size=self.n_arguments) for _ in range(PROBES - 2)]
        errors: list[Exception] = []
        for point in points:
            outs = np.zeros(self.n_states), np.ones(self.n_states)
            try:
                for out in outs:
                    self._at(bounded, point, out)
            except Exception as error:
                errors.append(error)
                continue
            unwritten = np.flatnonzero((outs[0] == 0.0) & (outs[1] == 1.0))
            if len(unwritten):
                raise InputError(
                    f"model '{self.name}' does not write out[{unwritten[0]}]: write the derivative "
                    f"of each of the {self.n_states} states"
                )
        if len(errors) == len(points):
            raise InputError(
                f"model '{self.name}' fails ({_reason(errors[0])}): it is called as "
                f"f(x, u, t, p, out) with {self.n_states} states, {self.n_inputs} inputs, the "
                f"time, {self.n_parameters} parameters, and writes the derivatives to out"
            ) from errors[0]

    def check_chain(self, state: int, rate: int) -> None:
        """Try whether the derivative of a state is another state."""
        points = np.random.default_rng(0).normal(size=(self.n_arguments, PROBES))
        if not np.array_equal(self(points)[state], points[rate]):
            raise InputError(
                f"chains says that the derivative of state {state} is state {rate}, and "
                f"'{self.name}' writes something else to out[{state}]: leave it out",
                argument="chains",
            )

    @cached_property
    def _plain(self) -> Any:
        """The function as Python calls it, without signatures that its author fixed."""
        import numba

        njit: Any = numba.njit
        return njit(error_model="numpy")(self.function.py_func)

    @cached_property
    def lanes(self) -> Any:
        """Compiled function of arguments (m, L), rates (n, L) and a range of lanes."""
        import numba
        from numba import types

        a, b = self.n_states, self.n_states + self.n_inputs
        c = b + 1
        numbers = types.Array(types.float64, 2, "C")
        signature = types.void(numbers, numbers, types.intp, types.intp)
        given = {k: v for k, v in self.function.targetoptions.items() if k == "fastmath"}
        # A division by zero is infinite, and no exception that would keep the loop from vectors.
        # Without counted references the same holds; functions that make arrays need them.
        for counted in ({"_nrt": False}, {}):
            compiled: Any = numba.njit
            options = {"error_model": "numpy", **given, **counted}
            f = compiled(**options)(self.function.py_func)

            try:
                return compiled(signature, **options)(_over_lanes(f, a, b, c))
            except numba.TypingError:
                if not counted:
                    raise
        raise AssertionError

    @cached_property
    def code(self) -> tuple[str, str]:
        """Symbol of `lanes` by numba's calling convention, and LLVM text of all it needs."""
        made = self.lanes.overloads[self.lanes.signatures[0]]
        return made.fndesc.mangled_name, made.library.get_llvm_str()


def _over_lanes(f: Any, a: int, b: int, c: int) -> Callable[..., None]:
    """Loop over lanes; the function and the places of its arguments are constants of it."""

    def run(z: Array, out: Array, first: int, last: int) -> None:
        for lane in range(first, last):
            f(z[:a, lane], z[a:b, lane], z[b, lane], z[c:, lane], out[:, lane])

    return run


def compiled_function(operation: str) -> CalledFunction:
    """Function of an operation."""
    if operation not in KNOWN:
        raise InputError(
            f"the model calls a compiled function ({operation.removeprefix(CALL)}) that is not "
            "known here, since files hold no code: define the same model with @smcpn.ode first, "
            "or in a terminal name its system, smcpn identify SYSTEM --checkpoint FILE"
        )
    return KNOWN[operation]


class _Operation(ca.Callback):
    """Operation of graphs by a function, of what `CalledFunction.graph` takes.

    number: Of the result, where it is known: derivatives are then those of this one.
    """

    def __init__(self, of: CalledFunction, number: int | None) -> None:
        super().__init__()
        self._of, self._number = of, number
        self.construct(of.operation.replace(":", "_"))

    def get_n_in(self) -> int:
        return 3

    def get_n_out(self) -> int:
        return 1

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense((1, 1, self._of.n_arguments)[i], 1)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return ca.Sparsity.dense(1, 1)

    def has_jac_sparsity(self, oind: int, iind: int) -> bool:
        return True

    def get_jac_sparsity(self, oind: int, iind: int, symmetric: bool) -> ca.Sparsity:
        read = range(self._of.first, self._of.n_arguments) if iind == 2 else []
        return ca.Sparsity.triplet(1, self.size1_in(iind), [0] * len(read), [*read])

    def eval(self, arguments: Sequence[Any]) -> list[Any]:
        k, point = int(arguments[0]), np.array(arguments[2])
        return [self._of(point)[k, 0]]

    def has_forward(self, nfwd: int) -> bool:
        return nfwd == 1

    def get_forward(self, nfwd: int, name: str, inames: Any, onames: Any, opts: Any) -> ca.Function:
        (k, interval, z), seeds = self._symbols("z"), self._symbols("d")
        made = [self._of.along(self._which(k), interval, z, seeds[-1])]
        given = [k, interval, z, ca.SX.sym("value"), *seeds]
        return ca.Function(name, given, made, inames, onames, opts)

    def has_reverse(self, nadj: int) -> bool:
        return nadj == 1

    def get_reverse(self, nadj: int, name: str, inames: Any, onames: Any, opts: Any) -> ca.Function:
        k, interval, z = self._symbols("z")
        value, weight = ca.SX.sym("value"), ca.SX.sym("weight")
        products = weight * ca.vertcat(*self._of.slopes(self._which(k), interval, z))
        made = [ca.SX(1, 1), ca.SX(1, 1), ca.densify(products)]
        return ca.Function(name, [k, interval, z, value, weight], made, inames, onames, opts)

    def _symbols(self, name: str) -> list[ca.SX]:
        sizes = {"k": 1, "interval": 1, "z": self._of.n_arguments}
        return [ca.SX.sym(f"{name}_{one}", size) for one, size in sizes.items()]

    def _which(self, k: ca.SX) -> ca.SX:
        return k if self._number is None else ca.SX(self._number)


def _identity(function: Any) -> str:
    """Text that tells functions apart: source, options, and the numbers and functions it uses."""
    plain = function.py_func
    try:
        text = inspect.getsource(plain)
    except (OSError, TypeError):
        text = plain.__code__.co_code.hex() + repr(plain.__code__.co_consts)
    used = inspect.getclosurevars(plain)
    parts = [plain.__qualname__, text, repr(sorted(function.targetoptions.items(), key=str))]
    for name, value in sorted({**used.globals, **used.nonlocals}.items()):
        parts.append(f"{name}={_content(value)}")
    return "|".join(parts)


def _content(value: Any) -> str:
    if is_compiled(value):
        return _identity(value)
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype}{value.shape}{digest}"
    return repr(value) if isinstance(value, (int, float, str, tuple, bool)) else str(type(value))


def _reason(error: Exception) -> str:
    """Say in one line why numba could not compile or run a function."""
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    # The first line of numba's says in which of its passes it failed.
    telling = [line for line in lines if not line.startswith(("Failed in", "During"))]
    return f"{type(error).__name__}: {(telling or lines or ['no message'])[0]}"


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
