"""Public calls with arguments that no one should give: an `InputError` of one sentence, every time.

Every parameter of everything that `smcpn` exports, and of the public methods of its classes, is
found by introspection. A call has values of random kinds of `HOSTILE` in the place of some good
ones, mostly of one. It may accept only what the annotations of the parameters declare, and raise a
`TypeError` only where Python refuses the names of arguments. Run it as a user without privileges:
files by hostile names are written.
"""

from __future__ import annotations

import atexit
import datetime
import decimal
import fractions
import inspect
import shutil
import time
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import pandas
from scipy import stats

import smcpn
from benchmarks.attack.child import ended
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.errors import LONGEST, InputError
from smcpn.estimate.nuts.sampler import nutpie
from smcpn.results.maximum import StartResult
from smcpn.results.nuts import ChainStatistics

SEED = 17
CALLS, QUICK_CALLS = 10_000, 150
MOST_MISSED = 10
"""Of these calls, in proportion of fewer."""
HOSTILE_SHARES = (0.7, 0.2, 0.1)
"""Of calls with one hostile argument, two and three."""
UNKNOWN = "no_such_argument"
ANSWERED = 60
"""Seconds that a report may take on a machine that is busy."""
HANG_SECONDS = 2.0
"""Processor time from which a refusal hangs."""
TOGETHER = 50
"""Calls of one child."""


class Unprintable:
    """An object whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class NoArray:
    """An object that refuses to be an array, a number and an index."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    __float__ = __index__ = __len__ = __iter__ = __array__


class Text(str):
    """A text that says another thing."""

    def __repr__(self) -> str:
        return "\x1b[2Jtext"


class Whole(int):
    """A whole number that says another thing."""

    def __repr__(self) -> str:
        return "\x1b[2J3\n"


def circular() -> list[Any]:
    """Return a list that holds itself."""
    inside: list[Any] = [1.0]
    inside.append(inside)
    return inside


def recursive() -> dict[str, Any]:
    """Return a mapping that holds itself."""
    inside: dict[str, Any] = {}
    inside["x"] = inside
    return inside


def nested(depth: int) -> list[Any]:
    """Return lists in lists."""
    inside: list[Any] = [1.0]
    for _ in range(depth):
        inside = [inside]
    return inside


HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "-1": lambda: -1,
    "-0.5": lambda: -0.5,
    "0": lambda: 0,
    "0.0": lambda: 0.0,
    "1e308": lambda: 1e308,
    "5e-324": lambda: 5e-324,
    "True": lambda: True,
    "False": lambda: False,
    "numpy bool": lambda: np.True_,
    "10**30": lambda: 10**30,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "10**5000": lambda: 10**5000,
    "int64": lambda: np.int64(3),
    "float32": lambda: np.float32(0.3),
    "float64 nan": lambda: np.float64("nan"),
    "whole": lambda: Whole(3),
    "decimal": lambda: decimal.Decimal("0.5"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "complex": lambda: 1 + 2j,
    "0-d": lambda: np.array(3),
    "0-d object": lambda: np.array(None, dtype=object),
    "objects": lambda: np.array([None, object()], dtype=object),
    "texts": lambda: np.array(["a", "b"]),
    "dates": lambda: np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]"),
    "3-d": lambda: np.zeros((2, 3, 4)),
    "empty array": lambda: np.zeros(0),
    "no columns": lambda: np.zeros((5, 0)),
    "nan array": lambda: np.full(5, np.nan),
    "complex array": lambda: np.zeros(5, dtype=complex),
    "records": lambda: np.zeros(3, dtype=[("a", float), ("b", "S3")]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "float16": lambda: np.full(3, 6e4, dtype=np.float16),
    "text": lambda: "nothing",
    "empty text": lambda: "",
    "NUL": lambda: "a\0b",
    "escapes": lambda: "\x1b[2J\x1b]0;gone\x07\r\n",
    "surrogate": lambda: "\udcff",
    "backwards": lambda: "\u202egnp.exe",
    "long text": lambda: "x" * 1_000_000,
    "text of its own": lambda: Text("x"),
    "bytes": lambda: b"bytes\0",
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abc"),
    "date": lambda: datetime.date(2026, 1, 1),
    "datetime": lambda: datetime.datetime(2026, 1, 1),
    "timedelta": lambda: datetime.timedelta(seconds=1),
    "datetime64": lambda: np.datetime64("2026-01-01"),
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({"x"}),
    "unhashable in a set's place": lambda: [[1], {2: 3}],
    "dict": lambda: {"nothing": 1.0},
    "empty dict": dict,
    "dict of numbers": lambda: {1: 2, None: 3},
    "recursive dict": recursive,
    "empty list": list,
    "empty tuple": tuple,
    "list": lambda: [1.0, 2.0],
    "texts in a list": lambda: ["x", "x"],
    "None in a list": lambda: [None, None],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "circular": circular,
    "nested": lambda: nested(100),
    "deeply nested": lambda: nested(100_000),
    "long list": lambda: ["\x1b"] * 100_000,
    "huge in a list": lambda: [10**400, 1.0],
    "unsorted": lambda: [3.0, 1.0, 2.0],
    "repeated": lambda: [1.0, 1.0, 1.0],
    "range": lambda: range(3),
    "backward range": lambda: range(3, 0, -1),
    "slice": lambda: slice(None, None, -1),
    "...": lambda: ...,
    "generator": lambda: (number for number in (1.0, 2.0)),
    "function": lambda: lambda: None,
    "function of everything": lambda: lambda *a, **k: None,
    "builtin": lambda: len,
    "class": lambda: int,
    "object": object,
    "no text": Unprintable,
    "no array": NoArray,
    "module": lambda: np,
    "path": lambda: Path("/nowhere/at/all.h5"),
    "folder": lambda: Path("/"),
    "device": lambda: "/dev/null",
    "not implemented": lambda: NotImplemented,
    "exception": lambda: ValueError("\x1b[2J"),
    "distribution": lambda: stats.norm(0.0, 1.0),
    "discrete": lambda: stats.poisson(3.0),
    "improper": lambda: stats.norm(0.0, -1.0),
    "solver class": lambda: smcpn.EKF0,
    "coarse solver": lambda: smcpn.RK4(steps=1),
    "record": lambda: smcpn.Record(y=[1.0, 2.0], dt=0.1),
}
"""One value of every kind, by name; made anew for every call."""


@smcpn.ode
def decay(x, u, *, rate, gain=1.0):
    """A decay with an input."""
    return gain * u - rate * x


def falling() -> smcpn.Record:
    """Return a record of a decay, without input."""
    k = np.arange(30)
    return smcpn.Record(y=np.exp(-k / 10.0) + 0.01 * np.cos(3.0 * k), dt=0.1)


@dataclass(frozen=True)
class Target:
    """A public callable, and good arguments for it.

    good: Arguments that make a good call, as far as they have no default.
    """

    name: str
    call: Callable[..., Any]
    good: Mapping[str, Any]

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield what it takes."""
        for parameter in inspect.signature(self.call).parameters.values():
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                yield parameter

    def with_values(self, values: Mapping[str, Any]) -> Any:
        """Call it with some arguments replaced, or with those that it does not know."""
        positional, named = self._arguments(values)
        return self.call(*positional, **named)

    def takes(self, values: Mapping[str, Any]) -> bool:
        """Whether Python takes the names of the arguments of such a call."""
        positional, named = self._arguments(values)
        try:
            inspect.signature(self.call).bind(*positional, **named)
        except TypeError:
            return False
        return True

    def _arguments(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        named = {**self.good, **values}
        positional = [
            named.pop(one.name)
            for one in self.parameters()
            if one.kind is one.POSITIONAL_ONLY and one.name in named
        ]
        return positional, named


CONTRACTS = frozenset(
    [
        "AR1.check", "AR1.correlation", "AdaptiveEKF1.in_words",
        "Bernoulli.log_density", "EKF0.in_words", "EKF1.in_words", "RK4.in_words",
        "Rosenbrock.in_words",
        "Bernoulli.misfit", "HamiltonianMonteCarlo.document", "HamiltonianMonteCarlo.of",
        "HamiltonianMonteCarlo.rejuvenate", "HamiltonianMonteCarlo.check",
        "IndependentMetropolis.document", "IndependentMetropolis.of",
        "IndependentMetropolis.rejuvenate", "IndependentMetropolis.check",
        "LangevinMetropolis.document", "LangevinMetropolis.of", "LangevinMetropolis.check",
        "LangevinMetropolis.rejuvenate", "MeasuredMoves.check", "MeasuredMoves.document",
        "MeasuredMoves.of", "MeasuredMoves.rejuvenate", "RandomWalkMetropolis.check",
        "WasteFree.check", "LogNormal.log_density", "LogNormal.misfit", "LogNormal.log_probability",
        "NegativeBinomial.log_density", "NegativeBinomial.misfit", "Normal.log_density",
        "Normal.log_probability", "Normal.misfit", "Normal.variance", "SteadyState.inputs",
        "SteadyState.of",
        "Poisson.log_density", "Poisson.misfit",
        "RK4.step", "RandomWalkMetropolis.document",
        "RandomWalkMetropolis.of", "RandomWalkMetropolis.rejuvenate", "StudentT.log_density",
        "StudentT.misfit", "WasteFree.document", "WasteFree.kernel", "WasteFree.of",
        "WasteFree.rejuvenate",
    ]
)  # fmt: skip
"""Methods by which parts of the package call each other with graphs and particles."""


@cache
def world() -> dict[str, Any]:
    """Return one object of every public class, all of one small problem, by name of the class.

    Results that take long to compute are made of their fields.
    """
    u = np.sin(np.arange(30) / 3.0)
    record = smcpn.Record(u=u, y=np.cos(np.arange(30) / 5.0), dt=0.1, hold="zoh")
    prior: dict[str, Any] = {"rate": stats.lognorm(0.5)}
    problem = smcpn.Problem(decay, record, observe="x", noise=0.3, prior=prior)
    rk4: Any = smcpn.RK4(steps=1)
    posterior = smcpn.identify(
        problem, solver=rk4, method="ibis", particles=20, seed=1, threads=1, progress=False
    )
    start = StartResult(np.ones(1), np.ones(1), 0.0, "", True, 1, np.ones((1, 1)), np.zeros(1))
    maximum = smcpn.Maximum(
        problem, rk4, "classical", "posterior", "l-bfgs-b", np.zeros(1), 0.0, 0.0, (start,)
    )
    laplace = smcpn.Laplace(maximum, np.eye(1), 0.0)
    one = {"rate": 1.0}
    robust = smcpn.Robust(("rate",), one, one, one, np.eye(1), (), 1.0, 0.5, 1.0, 30, posterior, ())
    validation = smcpn.Validation(
        "decay", (), (), (), 0.0, 0.0, 0.0, None, None, np.ones(1), ("rate",)
    )
    live = smcpn.Online(problem, solver=rk4, particles=20, seed=1, threads=1)
    live.update(0.0, 1.0)
    disturbed = smcpn.Problem(
        decay, record, observe="x", noise=0.3, process_noise={"x": 0.1}, prior=prior
    )
    nested = smcpn.NestedFilter(disturbed, solver=rk4, particles=20, seed=1, threads=1)
    filtered = smcpn.identify(disturbed, solver=rk4, particles=20, seed=1, progress=False)
    ten, half = np.zeros((2, 10)), np.ones((2, 10), dtype=int)
    made = ChainStatistics(ten > 1, half, half, ten > 1, ten, ten, ten, tune=5, tune_steps=10)
    chained = smcpn.NutsPosterior(
        **vars(posterior), statistics=made, ess_bulk=np.ones(1), ess_tail=np.ones(1)
    )
    library = smcpn.polynomials(1)
    found = smcpn.discover(falling(), library=library)
    objects = [
        smcpn.AR1(0.1, 0.5), smcpn.AdaptiveEKF1(), smcpn.Bernoulli(), smcpn.EKF0(steps=1),
        smcpn.EKF1(steps=1), smcpn.IndependentMetropolis(), laplace, maximum.function,
        smcpn.HamiltonianMonteCarlo(), smcpn.LangevinMetropolis(), smcpn.MeasuredMoves(),
        smcpn.LogNormal(0.1), maximum, smcpn.compare({"one": posterior}), smcpn.MoveSettings(),
        decay, live, smcpn.Poisson(), posterior, problem.prior, problem, rk4,
        smcpn.simulate(problem, draws=40, steps=1),
        smcpn.RandomWalkMetropolis(), record, robust, posterior.simulate(record, steps=1),
        smcpn.Rosenbrock(), smcpn.NegativeBinomial(1.0), smcpn.Normal("y_sd"), smcpn.SteadyState(),
        smcpn.Dose(0.0, "x", 1.0),
        smcpn.solve(decay, record, {"rate": 1.0}, solver=smcpn.EKF1(order=2, steps=1)),
        smcpn.solve(decay, record, {"rate": 1.0}, solver=smcpn.Rosenbrock()),
        smcpn.StateFilter(0.1, (0.1,), (0.1,)), smcpn.StudentT(0.1), validation, smcpn.WasteFree(),
        nested, filtered.states(parameters=5), found, chained, posterior.linearise(draws=2),
        smcpn.IdentifiedFunction("f", ("v",), np.zeros(2), np.zeros((3, 2)), np.zeros((4, 1))),
        smcpn.estimate_delay(record), smcpn.profile(smcpn.maximise(problem, solver=rk4, starts=1)),
    ]  # fmt: skip
    named = {"generator": np.random.default_rng(1), "Library": library}
    return {type(one).__name__: one for one in objects} | named


@cache
def measured() -> str:
    """Write a file of measurements that lasts as long as the process, and return its name."""
    folder = mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "measured.csv"
    path.write_text("t [s],x [mm],run\n0,1,1\n1,2,1\n0,3,2\n1,2,2\n", "utf-8")
    return str(path)


def good_arguments() -> dict[str, dict[str, Any]]:
    """Return good arguments by name, for every call in ``""`` and for some by the name of these."""
    known = world()
    record, theta = known["Record"], np.zeros((1, 1))
    some = {
        "problem": known["Problem"], "ode": decay, "record": record, "records": record,
        "observe": "x", "noise": 0.3, "prior": {"rate": stats.lognorm(0.5)},
        "parameters": {"rate": 1.0}, "over": record, "models": {"one": known["Posterior"]},
        "function": lambda x, *, rate: -rate * x, "path": "/nowhere/at/all.h5", "name": "rate",
        "values": np.ones((1, 1)), "directions": np.ones((1, 1)), "theta": theta, "z": np.zeros(1),
        "j": 0, "rng": known["generator"], "size": 3, "q": 0.5, "u": 0.1, "y": 0.2, "t": 0.3,
        "horizon": 2, "filter": known["StateFilter"], "posterior": known["Posterior"],
        "figure": "log_evidence", "variance": np.ones(1), "reference": np.zeros((30, 1)),
        "more": record, "index": slice(0, 5), "a": 1, "b": 2, "n_outputs": 1, "hold": "zoh",
        "times": 2, "interval": 0.1, "steps": 2, "u_function": None, "solver": known["RK4"],
        "sd": 0.1, "rho": 0.5, "scale": 0.1, "library": known["Library"], "draws": 3,
        "folder": "made",
    }  # fmt: skip
    return {
        "": some,
        "Solution.__call__": {"t": np.array([0.5])},
        "NumericalSolution.__call__": {"t": np.array([0.5])},
        "Solution.sample": {"t": np.array([0.5])},
        "Solution.chi2": {"t": np.array([0.5]), "reference": np.zeros((1, 1))},
        "Online.predict": {"u": np.zeros(3), "t": None},
        "Dose": {"time": 0.0, "state": "x", "amount": 1.0},
        "Record": {"u": None, "y": [1.0, 2.0], "t": None, "dt": 0.1},
        "Record.from_dataframe": {
            "df": pandas.DataFrame({"x": [1.0, 2.0]}), "outputs": "x", "inputs": (), "time": None,
            "dt": 0.1,
        },
        "read_record": {
            "path": measured(), "outputs": "x", "inputs": (), "time": None, "dt": 0.1, "to": None,
            "name": "rig", "header": None,
        },
        "read_records": {
            "paths": measured(), "outputs": "x", "inputs": (), "time": "t", "dt": None, "to": None,
            "header": None, "experiment": "run", "experiments": None,
        },
        "discover": {"method": "search", "records": falling()},
        "Library.candidates": {"states": ["x"], "inputs": ["u"]},
        "Problem.with_records": {"records": [record]},
        "LogLikelihood.with_records": {"records": [record]},
        "ModelComparison.__getitem__": {"name": "one"},
        "event": {"when": lambda x: x, "then": lambda x: -x, "direction": "either"},
        "solve": {"solver": known["EKF1"]},
        "EKF1": {"steps": 1}, "EKF0": {"steps": 1},
        "spline": {"argument": "v", "within": (-1.0, 1.0)},
        "gaussian_process": {"within": (-1.0, 1.0)},
        "profile": {"result": known["Maximum"], "names": "rate"},
    }  # fmt: skip


def targets() -> Iterator[Target]:
    """Yield every public callable with good arguments."""
    good = good_arguments()
    for name in smcpn.__all__:
        public = getattr(smcpn, name)
        if inspect.ismodule(public):
            for inner, function in vars(public).items():
                if inspect.isfunction(function) and not inner.startswith("_"):
                    known = {f"{name}.{inner}": good.get(inner, {})} | good
                    yield _target(f"{name}.{inner}", function, known)
        elif not inspect.isclass(public):
            yield _target(name, public, good)
        elif not issubclass(public, Exception):
            yield from _of_class(name, public, good)


def _of_class(name: str, kind: type[Any], good: dict[str, dict[str, Any]]) -> Iterator[Target]:
    instance = world()[name]
    fields: dict[str, Any] = {
        key: getattr(instance, key)
        for key, field in getattr(kind, "__dataclass_fields__", {}).items()
        if field.init
    }
    yield _target(name, kind, {**good, name: fields | good.get(name, {})})
    for inner in dir(kind):
        public = inner in ("__call__", "__getitem__") or not inner.startswith("_")
        written = inspect.getattr_static(kind, inner)
        callable_ = inspect.isfunction(written) or isinstance(written, (classmethod, staticmethod))
        if public and callable_ and f"{name}.{inner}" not in CONTRACTS:
            yield _target(f"{name}.{inner}", getattr(instance, inner), good)


def _target(name: str, call: Callable[..., Any], good: dict[str, dict[str, Any]]) -> Target:
    known = good[""] | good.get(name, {})
    own = good.get(name, {})
    needed = {
        key: known[key]
        for key, parameter in inspect.signature(call).parameters.items()
        if (key in own or parameter.default is parameter.empty) and key in known
    }
    return Target(name, call, needed)


@dataclass(frozen=True)
class Case:
    """One call: a target, and the names of its hostile values by parameter."""

    target: str
    values: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.target}({', '.join(f'{name}={one}' for name, one in self.values.items())})"


@dataclass(frozen=True)
class Verdict:
    """What a call did.

    kind: "refused", "accepted", "wordy", "wrong", "traceback" or "hang".
    seconds: Processor time.
    """

    kind: str
    text: str = ""
    seconds: float = 0.0

    @property
    def met(self) -> bool:
        """Whether it was refused in one sentence, or the value is one that was declared."""
        return self.kind in ("refused", "accepted")


def judged(target: Target, case: Case) -> Verdict:
    """Make a call, and say what it did."""
    if target.name == "nuts":
        # The first call of a process imports a package for some two seconds.
        with suppress(InputError):
            nutpie()
    begin = time.process_time()
    verdict = _judged(target, case)
    seconds = time.process_time() - begin
    hangs = verdict.kind == "refused" and seconds > HANG_SECONDS
    return replace(verdict, seconds=seconds, **({"kind": "hang"} if hangs else {}))


def _judged(target: Target, case: Case) -> Verdict:
    values = {name: HOSTILE[one]() for name, one in case.values.items()}
    try:
        # A path that is accepted is written.
        with TemporaryDirectory() as folder, chdir(folder):
            target.with_values(values)
    except InputError as error:
        sentence = str(error)
        poor = not sentence.isprintable() or len(sentence) > LONGEST or not sentence
        return Verdict("wordy" if poor else "refused", sentence[:300])
    except BaseException as error:
        unknown = UNKNOWN in str(error) or not target.takes(values)
        refused = isinstance(error, TypeError) and unknown
        kind = "refused" if refused else "traceback"
        return Verdict(kind, f"{type(error).__name__}: {error}"[:300])
    fits = all(_fits(target, name, HOSTILE[one]()) for name, one in case.values.items())
    return Verdict("accepted" if fits else "wrong")


def _fits(target: Target, name: str, given: Any) -> bool:
    """Whether a value is one that the annotation of its parameter declares."""
    # A field of a result may be nan or infinite, as an error of one population is.
    field = inspect.isclass(target.call) and isinstance(given, float)
    return name != UNKNOWN and plausible(declared(target, name), 0.5 if field else given)


def declared(target: Target, parameter: str) -> Any:
    """Return the annotation of a parameter, `Any` where there is none."""
    call: Any = target.call
    modules = [getattr(call, "__module__", "")]
    if inspect.isclass(call):
        modules = [one.__module__ for one in call.__mro__]
    annotation: Any = inspect.signature(call).parameters[parameter].annotation
    if not isinstance(annotation, str):
        return annotation
    for module in modules:
        names = vars(__import__(module, fromlist=["_"]))
        try:
            return eval(annotation, dict(names))
        except NameError:
            continue
    return Any


def plausible(annotation: Any, value: Any) -> bool:
    """Whether a value is one that an annotation declares, numpy's numbers as Python's."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return plausible(inside[0], value)
    if origin in (typing.Union, types.UnionType):
        return any(plausible(one, value) for one in inside)
    if annotation in (Any, inspect.Parameter.empty):
        return True
    if annotation is None or annotation is type(None):
        return value is None
    if annotation in (int, float):
        number: Any = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
        kind = (Real, decimal.Decimal) if annotation is float else (int, np.integer)
        whole = isinstance(number, kind) and not isinstance(number, (bool, np.bool_))
        return whole and (annotation is int or bool(abs(typing.cast("float", number)) <= 1e308))
    if annotation is bool:
        return isinstance(value, (bool, np.bool_))
    if origin is Callable:
        return callable(value)
    if "Array" in str(annotation) or "ndarray" in str(annotation):
        return np.asarray(value).dtype.kind in "fiu"
    kind = origin or annotation
    return isinstance(value, kind) if isinstance(kind, type) else True


def cases(number: int) -> list[Case]:
    """Return that many cases, drawn at random, each argument of each target as probable."""
    rng, values = np.random.default_rng(SEED), list(HOSTILE)
    known = [
        (target.name, parameter.name, [one.name for one in target.parameters()])
        for target in targets()
        for parameter in target.parameters()
    ]
    drawn: list[Case] = []
    for _ in range(number):
        name, first, others = known[rng.integers(len(known))]
        count = 1 + rng.choice(len(HOSTILE_SHARES), p=HOSTILE_SHARES)
        more = rng.permutation([*others, UNKNOWN])[: count - 1]
        chosen = {str(one): values[rng.integers(len(values))] for one in (first, *more)}
        drawn.append(Case(name, chosen))
    return drawn


def outcomes(chosen: Sequence[Case]) -> Iterator[tuple[Case, Verdict]]:
    """Make calls in children with limits, many in each; those of one that broke one by one."""
    known = {target.name: target for target in targets()}
    for first in range(0, len(chosen), TOGETHER):
        some = chosen[first : first + TOGETHER]
        end = ended(lambda some=some: [judged(known[one.target], one) for one in some], ANSWERED)
        if end.kind == "value":
            yield from zip(some, end.value, strict=True)
            continue
        for one in some:
            end = ended(lambda one=one: judged(known[one.target], one), ANSWERED)
            yield one, end.value if end.kind == "value" else Verdict(end.kind, end.text)


@study("arguments", full=CALLS, quick=QUICK_CALLS)
def public_calls(number: int) -> Iterator[Row]:
    """Public calls with hostile arguments."""
    chosen = cases(number)
    found = list(outcomes(chosen))
    counts = Counter(verdict.kind for _, verdict in found)
    missed = [
        f"{case}: {verdict.kind} {verdict.text}" for case, verdict in found if not verdict.met
    ]
    note = f"{counts['accepted']} accepted as declared, of {len(list(targets()))} callables"
    yield Row("calls tried", len(chosen), note=note)
    most = MOST_MISSED * len(chosen) // CALLS
    yield at_most("not refused in one sentence", len(missed), most, "; ".join(missed)[:2000])
