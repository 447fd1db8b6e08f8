"""The question of a discovery, made of the arguments of `smcpn.discover`, which are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from smcpn.base.stored import Line, Name, Stored, number
from smcpn.discovery.equations.known import Known
from smcpn.discovery.equations.library import Library, read_library
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.notation import output_names
from smcpn.discovery.search.arrivals import Arrivals
from smcpn.discovery.shrinkage.priors import (
    SHRINKAGE,
    HorseshoePrior,
    LaplacePrior,
    Shrinkage,
    shrinkage,
)
from smcpn.errors import InputError, listed, nearest, one_of, shown
from smcpn.model.delay import Delay
from smcpn.model.measured import Y_SD
from smcpn.model.ode import ODE
from smcpn.model.record import Record, beside, stated_outputs
from smcpn.model.solver import Solver, check_solver

Array = NDArray[np.float64]

MOST_PARTICLES, MOST_REPLICATES = 10**8, 100_000
METHODS = ("search",)
SPIKE_AND_SLAB = "spike-and-slab"


@dataclass(frozen=True)
class DiscoverySettings(Stored):
    """Options of a discovery, checked.

    prior: None for spike and slab, and in a file for a prior of one's own.
    noise: "unknown", "relative", "y_sd", or the standard deviation of each output.
    delay: Dead times of inputs.
    """

    method: str
    prior: LaplacePrior | HorseshoePrior | None
    noise: Literal["unknown", "relative", "y_sd"] | tuple[Annotated[float, number(0.0)], ...]
    slabs: tuple[Annotated[float, number(0.0)], ...]
    constraints: tuple[Line, ...]
    solver: Solver | None
    likelihood: Line | None
    particles: Annotated[int, Field(ge=10, le=MOST_PARTICLES)] | None
    replicates: Annotated[int, Field(ge=1, le=MOST_REPLICATES)] | None
    seed: Annotated[int, Field(ge=0)]
    delay: Mapping[Name, Annotated[float, number(0.0)]] = field(default_factory=dict[str, float])

    @property
    def known_noise(self) -> Array | None:
        """Standard deviations (q,); None where they are to be learned."""
        return None if isinstance(self.noise, str) else np.array(self.noise, dtype=float)


@dataclass(frozen=True)
class Question:
    """The question of a discovery: records, what may stand in their equations, and options.

    observe: (q, n), outputs are ``observe @ x`` and noise.
    """

    records: tuple[Record, ...]
    system: CandidateSystem
    observe: Array
    settings: DiscoverySettings

    @property
    def outputs(self) -> tuple[str, ...]:
        """State that each output measures."""
        return output_names(self.observe, self.system.candidates.states)

    @cached_property
    def arrivals(self) -> Arrivals:
        """The records with samples where inputs and doses arrive."""
        return Arrivals.of(self.records, self.system, self.settings.delay)


def question_of(
    records: Record | Sequence[Record],
    *,
    library: Library | Mapping[str, Library] | str,
    states: Sequence[str] | None,
    inputs: Sequence[str] | None,
    known: Known | None,
    constraints: Sequence[str],
    observe: Sequence[str] | None,
    noise: str | Sequence[float],
    method: str,
    prior: str | Shrinkage,
    slabs: Sequence[float],
    delay: Any,
    seed: int,
    drawing: Mapping[str, Any],
) -> Question:
    """Return the question that the arguments of `discover` ask.

    ``drawing`` are those of trajectories of draws, as far as they are given.
    """
    _check_method(method)
    shrinks = _shrinkage(prior)
    _check_drawing(drawing, noise, shrinks)
    every = [records] if isinstance(records, Record) else list(records)
    check_alike(every)
    _check_beside(every, noise)
    _check_doses(every)
    terms = read_library(library) if isinstance(library, str) else library
    states = _states(states, known, every[0].n_outputs)
    inputs = _inputs(inputs, known, every[0].n_inputs)
    system = CandidateSystem.of(terms, states, inputs, known=known, constraints=constraints)
    settings = DiscoverySettings(
        method=method,
        prior=cast(Any, shrinks),
        noise=_noise(noise, every[0].n_outputs),
        slabs=tuple(slabs),
        constraints=tuple(constraints),
        solver=None if drawing.get("solver") == "auto" else drawing.get("solver"),
        likelihood=drawing.get("likelihood"),
        particles=drawing.get("particles"),
        replicates=drawing.get("replicates"),
        seed=seed,
        delay=_delays(delay, system),
    )
    _check_shrinking(every, settings.prior)
    matrix = _observation(observe, system.candidates.states, every[0].n_outputs)
    return Question(tuple(every), system, matrix, settings)


def _check_method(method: str) -> None:
    if method == "smc":
        raise InputError(
            "method is 'smc': leave it out, for supports are searched, and priors that shrink are "
            "sampled without it",
            argument="method",
        )
    one_of("method", method, METHODS)


def _check_drawing(drawing: Mapping[str, Any], noise: Any, shrinks: Shrinkage | None) -> None:
    """Refuse what is of draws where there is none, and the contrary."""
    if shrinks is not None and isinstance(noise, str) and noise == "relative":
        raise InputError(
            f"noise is 'relative' and prior '{shrinks.name}': give prior='{SPIKE_AND_SLAB}'",
            argument="noise",
        )
    for name, value in drawing.items() if shrinks is None else ():
        raise InputError(
            f"{name} is {shown(value)}, but prior '{SPIKE_AND_SLAB}' draws no trajectories: leave "
            f"{name} out, or give a prior that shrinks, as prior='{next(iter(SHRINKAGE))}'",
            argument=name,
        )
    if drawing.get("solver", "auto") != "auto":
        check_solver(drawing["solver"])


def _shrinkage(prior: str | Shrinkage) -> Shrinkage | None:
    """Return the shrinkage prior that is asked for; None for spike and slab."""
    if not isinstance(prior, Shrinkage):
        one_of("prior", prior, [SPIKE_AND_SLAB, *SHRINKAGE])
    return None if prior == SPIKE_AND_SLAB else shrinkage(prior)


def _noise(noise: str | Sequence[float], n_outputs: int) -> Any:
    """Standard deviations of all outputs, or a word where they are to be learned."""
    if isinstance(noise, str):
        return one_of("noise", noise, ("unknown", "relative", Y_SD))
    if len(noise) != n_outputs:
        raise InputError(
            f"noise has {len(noise)} numbers, but the records have {n_outputs} outputs: give one "
            "for each",
            argument="noise",
        )
    return tuple(map(float, noise))


def check_alike(records: Sequence[Record]) -> None:
    """Refuse records that are not of one system, or none."""
    if not records:
        raise InputError("records is empty: give at least one Record", argument="records")
    for record in records:
        if record.n_outputs == 0:
            raise InputError(
                f"records: '{record.name}' has no outputs: give y, the measured states",
                argument="records",
            )
        shape, first = (record.n_inputs, record.n_outputs), records[0]
        if shape != (first.n_inputs, first.n_outputs):
            raise InputError(
                f"records: '{record.name}' has {shape[0]} inputs and {shape[1]} outputs, the first "
                f"one {first.n_inputs} and {first.n_outputs}: give trajectories of one system",
                argument="records",
            )
        if record.t_unit != first.t_unit:
            raise InputError(
                f"records: '{record.name}' counts time in {record.t_unit}, the first one in "
                f"{first.t_unit}: convert one of them (t_unit)",
                argument="records",
            )


def _check_beside(records: Sequence[Record], noise: Any) -> None:
    """Refuse standard deviations of values that would be passed over, or are not there."""
    taken = isinstance(noise, str) and noise == Y_SD
    has_sd = stated_outputs(records)
    for record in records:
        if (record.y_sd is not None) != taken:
            has, remedy = ("has no", "give it to smcpn.Record") if taken else (
                "has", f"give noise='{Y_SD}', or leave it out"
            )  # fmt: skip
            raise InputError(
                f"noise is {shown(noise)}, and record '{record.name}' {has} {Y_SD}: {remedy}",
                argument="noise",
            )
        lacking = record.told & has_sd & ~np.isfinite(beside(record, Y_SD))
        if lacking.any():
            raise InputError(
                f"record '{record.name}' has no {Y_SD} of a value, where others of the output have "
                "one: give one, of a value known by its limits that near the limit",
                argument="noise",
            )
        if isinstance(noise, str) and noise == "relative":
            _check_relative(record)


def _check_relative(record: Record) -> None:
    """Refuse what does not go with noise that multiplies.

    Outputs are smooth between doses, and their logarithms are not; a path below a limit has any.
    """
    given = ["doses"] * bool(record.doses) + ["limits"] * record.limits
    if given:
        raise InputError(
            f"noise is 'relative', and record '{record.name}' has {listed(given)}: give "
            "noise='unknown', or its standard deviations by y_sd",
            argument="noise",
        )


def _delays(given: Any, system: CandidateSystem) -> dict[str, float]:
    """Dead times by their inputs; one that is a parameter is refused."""
    if isinstance(given, Mapping) and not given:
        return {}
    for name, time in given.items() if isinstance(given, Mapping) else ():
        if isinstance(time, str):
            raise InputError(
                f"delay of {shown(name)} is {shown(time)}, and a discovery learns no dead time: "
                "give a number, as of smcpn.estimate_delay: with a wrong one a warning says that "
                "trajectories miss the data",
                argument="delay",
            )
    late = Delay.of(given, system.equation(), {}, {})
    inputs = system.candidates.inputs
    return {} if late is None else dict(
        zip([inputs[k] for k in late.inputs], map(float, late.sources), strict=True)
    )  # fmt: skip


def _check_doses(records: Sequence[Record]) -> None:
    """Refuse lags and fractions that are parameters, which a search does not learn."""
    for record in records:
        for dose in record.doses:
            if isinstance(dose.lag, str) or isinstance(dose.fraction, str):
                raise InputError(
                    f"{record.name}: a dose has lag {shown(dose.lag)} and fraction "
                    f"{shown(dose.fraction)}, and a discovery learns neither: give numbers",
                    argument="records",
                )


def _check_shrinking(records: Sequence[Record], prior: Shrinkage | None) -> None:
    """Refuse values known by limits, of which no Gaussian is drawn under a prior that shrinks."""
    if prior is not None and any(record.limits for record in records):
        raise InputError(
            f"prior is '{prior.name}', whose draws do not know limits (y_lower, y_upper): give "
            f"prior='{SPIKE_AND_SLAB}'",
            argument="prior",
        )


def _states(states: Sequence[str] | None, known: Any, n_outputs: int) -> Sequence[str]:
    if states is not None:
        return states
    if isinstance(known, ODE):
        return known.states
    if isinstance(known, Mapping) and known:
        names = [*known, *(one for one in known.values() if isinstance(one, str))]
        return list(dict.fromkeys(names))
    return [f"x{k}" for k in range(n_outputs)]


def _inputs(inputs: Sequence[str] | None, known: Any, n_inputs: int) -> Sequence[str]:
    if inputs is None and isinstance(known, ODE) and known.inputs:
        inputs = known.inputs
    if inputs is None:
        return ["u"] if n_inputs == 1 else [f"u{k}" for k in range(n_inputs)]
    if len(inputs) != n_inputs:
        raise InputError(
            f"inputs names {len(inputs)} ({listed(inputs)}), but the records have {n_inputs}: "
            "name each column of u",
            argument="inputs",
        )
    return inputs


def _observation(observe: Sequence[str] | None, states: tuple[str, ...], n_outputs: int) -> Array:
    """Matrix (q, n) of the outputs."""
    names = list(states[:n_outputs]) if observe is None else list(observe)
    if len(names) != n_outputs:
        remedy = "name the states, or give observe" if observe is None else "name a state for each"
        raise InputError(
            f"the records have {n_outputs} outputs, but observe names {len(names)} of the states "
            f"{listed(states)}: {remedy}",
            argument="observe",
        )
    matrix = np.zeros((n_outputs, len(states)))
    for row, name in enumerate(names):
        if name not in states:
            raise InputError(
                f"observe names {shown(name)}, which is no state: {nearest(name, states)}",
                argument="observe",
            )
        matrix[row, states.index(name)] = 1.0
    return matrix
