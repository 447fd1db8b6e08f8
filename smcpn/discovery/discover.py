"""`smcpn.discover`: which terms stand in the equations of measured records, with probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import ANYTHING, Count, Positive, Seed, checked
from smcpn.discovery.equations.known import Known
from smcpn.discovery.equations.library import Library, read_library
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import DiscoveredModel
from smcpn.discovery.results.residuals import lacking, omitting, remarks
from smcpn.discovery.search.search import SearchResult, search
from smcpn.discovery.search.supports import SLABS
from smcpn.discovery.shrinkage.entry import PARTICLES, shrunk_posterior
from smcpn.discovery.shrinkage.priors import SHRINKAGE, Shrinkage, shrinkage
from smcpn.distributed.engines import checked_executor
from smcpn.distributed.workers import workers_of
from smcpn.errors import InputError, listed, nearest, one_of, shown
from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.smc.diagnosis import SamplerWarning
from smcpn.solver import Solver, check_solver
from smcpn.status import status

Array = NDArray[np.float64]

METHODS = ("search",)
DISTURBED = (
    "trajectories of these equations miss the data by more than the noise, as where a system is "
    "disturbed, or a solver was loose: the data leave them a little at every sample"
)
SPIKE_AND_SLAB = "spike-and-slab"


@checked
def discover(
    records: Record | Sequence[Record],
    *,
    library: Library | Mapping[str, Library] | str,
    states: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    known: Known | None = None,
    constraints: Sequence[str] = (),
    observe: Sequence[str] | None = None,
    noise: str | Sequence[Positive] = "unknown",
    method: str = METHODS[0],
    prior: Annotated[str | Shrinkage, ANYTHING] = SPIKE_AND_SLAB,
    slabs: Sequence[Positive] = SLABS,
    solver: Annotated[Solver | str | None, ANYTHING] = None,
    likelihood: str | None = None,
    particles: Count | None = None,
    replicates: Count | None = None,
    seed: Seed = 0,
    threads: Count | None = None,
    executor: Annotated[Executor | str | None, ANYTHING] = None,
    progress: bool | None = None,
) -> Discovery:
    """Return the equations that records obey, as probabilities of the terms of a library.

    Parameters
    ----------
    records : Record or sequence of Record
        Trajectories of one system, of any lengths and initial states; NaN where a sample is
        missing.
    library : Library, mapping of str to Library, or str
        Terms that the equations may have, of each equation or by state. A text is read as by the
        command line: ``"poly(3) + sin"``.
    states : sequence of str, optional
        Names. By default those of ``known``, or ``x0``, ``x1``, ... as many as there are outputs.
    inputs : sequence of str, optional
        Names; ``u``, or ``u0``, ``u1``, ... by default.
    known : mapping or ODE, optional
        What is known of the equations: ``{"x": "v"}`` for x' = v, see `CandidateSystem.of`.
    constraints : sequence of str
        Relations between coefficients: ``"x'[y] = -y'[x]"``, ``"v'[v] < 0"``.
    observe : sequence of str, optional
        State that each output measures; the first ones by default. The others are hidden.
    noise : {"unknown", "relative"} or sequence of float
        Its standard deviation for each output, where it is known. ``"relative"`` noise multiplies
        the outputs, all positive, by exp(e), with prior ``"spike-and-slab"``; what comes back is
        its standard deviation at their root mean square.
    method : {"search"}
        How equations are looked for: a search for probable supports, each of which has its evidence
        by Laplace's method at its own maximum.
    prior : {"spike-and-slab", "laplace", "horseshoe"}, LaplacePrior or HorseshoePrior
        Of the coefficients, of which some are zero, or all are shrunk. With the first a term stands
        in an equation or not. With the others no coefficient is zero and most are small: where
        others have the probability of a term, these have the level of the widest credible interval
        of its coefficient that leaves out zero. Their posterior is sampled by sequential Monte
        Carlo with the likelihood of whole trajectories, from the best model of the search.
    slabs : sequence of float
        Prior standard deviations of a coefficient that is not zero, in units of
        rms(dx/dt) / rms(term); the evidence is averaged over them.
    solver, likelihood : optional
        Of the trajectories of draws, as of `identify`, with a prior that shrinks.
    particles : int, optional
        Draws from the posterior of a prior that shrinks, 1000 by default.
    replicates : int, optional
        Independent runs with a prior that shrinks, which are pooled.
    seed : int
        The same seed gives the same bytes, for any ``threads``.
    threads : int, optional
        Threads of the kernels of trajectories, with a prior that shrinks; all processors by
        default.
    executor : concurrent.futures.Executor or str, optional
        Who evaluates large batches of trajectories, with a prior that shrinks; the result does not
        depend on it. As of `identify`.
    progress : bool, optional
        A line of status on standard error, as of `maximise`.

    Returns
    -------
    Discovery

    Raises
    ------
    InputError
        One sentence that names the argument, its value and the remedy.

    Warns
    -----
    SamplerWarning
        If draws are few or far from Gaussian, with a prior that shrinks; kept in ``warnings``.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> t = np.linspace(0.0, 5.0, 200)
    >>> record = smcpn.Record(y=np.exp(-t) + 0.01 * np.random.default_rng(0).normal(size=200), t=t)
    >>> smcpn.discover(record, library=smcpn.polynomials(2), states=["x"]).models[0].names
    ("x'[x]",)
    """
    _check_method(method)
    shrinks = _shrinkage(prior)
    every_option: dict[str, Any] = {
        "solver": solver, "likelihood": likelihood, "particles": particles,
        "replicates": replicates, "threads": threads, "executor": executor,
    }  # fmt: skip
    drawing: dict[str, Any] = {
        name: value for name, value in every_option.items() if value is not None
    }
    _check_drawing(drawing, noise, shrinks)
    every = [records] if isinstance(records, Record) else list(records)
    _check_alike(every)
    terms = read_library(library) if isinstance(library, str) else library
    states = _states(states, known, every[0].n_outputs)
    inputs = _inputs(inputs, known, every[0].n_inputs)
    system = CandidateSystem.of(terms, states, inputs, known=known, constraints=constraints)
    matrix = _observation(observe, system.candidates.states, every[0].n_outputs)
    known_noise = _known_noise(noise, every[0].n_outputs)
    with status(progress), workers_of(drawing.pop("executor", None)) as workers:
        found = search(
            every,
            system,
            observe=matrix,
            noise=known_noise,
            relative=noise == "relative",
            slabs=tuple(slabs),
            seed=seed,
        )
        if noise == "relative":
            sizes = np.sqrt(np.mean((found.path @ matrix.T) ** 2, axis=0))
            found = replace(found, noise=found.noise * sizes)
        result = _discovery(tuple(every), system, matrix, found)
        if shrinks is not None:
            posterior = shrunk_posterior(
                system, every, result.outputs, found, shrinks, noise=known_noise, seed=seed,
                workers=workers, **drawing,
            )  # fmt: skip
            result = result.with_posterior(posterior)
            for doubt in dict.fromkeys(result.warnings):
                warnings.warn(doubt, SamplerWarning, stacklevel=3)
    settings: dict[str, Any] = {"method": method, "prior": str(shrinks or prior), "seed": seed}
    settings |= {} if shrinks else {"slabs": listed(f"{c:g}" for c in slabs)}
    settings |= {} if noise == "unknown" else {"noise": shown(noise)}
    settings |= {"constraints": listed(constraints)} if constraints else {}
    if result.posterior is not None:
        settings |= {"solver": repr(result.posterior.solver), "particles": particles or PARTICLES}
    told = (*lacking(result, found.lack), *omitting(result, found.omitted), *remarks(result))
    result = replace(result, settings=settings, warnings=(*result.warnings, *told))
    doubts = [one.adequacy for one in (found.lack, found.omitted) if one is not None]
    return result if shrinks else result.with_doubt(min(doubts, default=1.0))


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
    checked_executor(drawing.get("executor"))
    if drawing.get("solver", "auto") != "auto":
        check_solver(drawing["solver"])


def _discovery(
    records: tuple[Record, ...], system: CandidateSystem, observe: Array, found: SearchResult
) -> Discovery:
    models = tuple(
        DiscoveredModel(
            names=tuple(np.array(system.coefficients)[model.support].tolist()),
            support=model.support,
            mean=model.coefficients[model.support],
            covariance=model.covariance,
            initial=model.initial,
            log_evidence=model.log_evidence,
            log_prior=model.log_prior,
            probability=model.probability,
        )
        for model in found.models
    )
    return Discovery(
        system=system,
        records=records,
        observe=observe,
        models=models,
        probabilities=found.inclusion,
        noise=found.noise,
        path=found.path,
        warnings=(DISTURBED,) if found.error >= 1.0 else (),
    )


def _shrinkage(prior: str | Shrinkage) -> Shrinkage | None:
    """Return the shrinkage prior that is asked for; None for spike and slab."""
    if not isinstance(prior, Shrinkage):
        one_of("prior", prior, [SPIKE_AND_SLAB, *SHRINKAGE])
    return None if prior == SPIKE_AND_SLAB else shrinkage(prior)


def _known_noise(noise: str | Sequence[float], n_outputs: int) -> Array | None:
    """Standard deviations (q,); None where they are to be learned."""
    if isinstance(noise, str):
        one_of("noise", noise, ("unknown", "relative"))
        return None
    if len(noise) != n_outputs:
        raise InputError(
            f"noise has {len(noise)} numbers, but the records have {n_outputs} outputs: give one "
            "for each",
            argument="noise",
        )
    return np.array(noise, dtype=float)


def _check_alike(records: list[Record]) -> None:
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
