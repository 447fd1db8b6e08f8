"""`smcpn.discover`: which terms stand in the equations of measured records, with probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import ANYTHING, Count, Positive, Seed, checked
from smcpn.discovery.equations.known import Known
from smcpn.discovery.equations.library import Library
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.equations.text import read_library
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import DiscoveredModel
from smcpn.discovery.results.residuals import remarks
from smcpn.discovery.search.regression import SLABS
from smcpn.discovery.search.search import Found, search
from smcpn.discovery.shrinkage.shrinkage import SHRINKAGE, Shrinkage, shrinkage
from smcpn.discovery.shrinkage.shrinking import shrunk_posterior
from smcpn.discovery.supports.sampling import sample_posterior
from smcpn.discovery.supports.tempering import NoDrawError
from smcpn.distributed.engines import checked_executor
from smcpn.distributed.workers import workers_of
from smcpn.errors import InputError, listed, nearest, one_of, shown
from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.smc.diagnosis import SamplerWarning
from smcpn.solver import Solver, check_solver
from smcpn.status import status

Array = NDArray[np.float64]

METHODS = ("smc", "search")
DISTURBED = (
    "trajectories of these equations miss the data by more than the noise, as where a system is "
    "disturbed, or a solver was loose: the data leave them a little at every sample, which method "
    "'search' counts, and 'smc' does not"
)
NOT_SAMPLED = (
    "no draw near the models of the search has a trajectory near the data: what is shown is the "
    "result of method 'search'; where the data have no noise, or are chaotic, give noise= or "
    "likelihood='filtering'"
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
    method: str = "smc",
    prior: Annotated[str | Shrinkage, ANYTHING] = SPIKE_AND_SLAB,
    slabs: Sequence[Positive] = SLABS,
    solver: Annotated[Solver | str | None, ANYTHING] = None,
    likelihood: str | None = None,
    particles: Count = 1000,
    replicates: Count = 1,
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
        the outputs, all positive, by exp(e), only with ``method="search"``; what comes back is its
        standard deviation at their root mean square.
    method : {"smc", "search"}
        Sequential Monte Carlo over supports, coefficients, initial states and noise with the
        likelihood of whole trajectories, which counts the error of the solver; or, faster,
        posterior probabilities by Laplace's method at the maximum of each model, from which the
        former begins.
    prior : {"spike-and-slab", "laplace", "horseshoe"}, LaplacePrior or HorseshoePrior
        Of the coefficients. With the first a term stands in an equation or not. With the others,
        which ``method="smc"`` takes, no coefficient is zero and most are small: where others have
        the probability of a term, these have the level of the widest credible interval of its
        coefficient that leaves out zero.
    slabs : sequence of float
        Prior standard deviations of a coefficient that is not zero, in units of
        rms(dx/dt) / rms(term); the evidence is averaged over them.
    solver, likelihood : optional
        Of the trajectories, as of `identify`; `EKF0` with as many steps as the best model needs, or
        `AdaptiveEKF1` where it is stiff, by default.
    particles, replicates : int
        Draws of ``method="smc"``, and independent runs of it, which are pooled.
    seed : int
        The same seed gives the same bytes, for any ``threads``.
    threads : int, optional
        Threads of the kernels; all processors by default.
    executor : concurrent.futures.Executor or str, optional
        Who evaluates large batches of trajectories, as of `identify`; the search, which follows
        none, stays here. The result does not depend on it.
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
        If the draws of ``method="smc"`` are few or far from Gaussian; kept in ``warnings``.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> t = np.linspace(0.0, 5.0, 200)
    >>> record = smcpn.Record(y=np.exp(-t) + 0.01 * np.random.default_rng(0).normal(size=200), t=t)
    >>> smcpn.discover(record, library=smcpn.polynomials(2), states=["x"]).models[0].names
    ("x'[x]",)
    """
    one_of("method", method, METHODS)
    checked_executor(executor)
    if solver is not None and not (isinstance(solver, str) and solver == "auto"):
        check_solver(cast(Any, solver))
    shrinks = _shrinkage(prior, method)
    every = [records] if isinstance(records, Record) else list(records)
    _check_alike(every)
    terms = read_library(library) if isinstance(library, str) else library
    states = _states(states, known, every[0].n_outputs)
    inputs = _inputs(inputs, known, every[0].n_inputs)
    system = CandidateSystem.of(terms, states, inputs, known=known, constraints=constraints)
    matrix = _observation(observe, system.candidates.states, every[0].n_outputs)
    known_noise = _known_noise(noise, every[0].n_outputs, method)
    with status(progress), workers_of(executor) as workers:
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
        if method == "smc":
            own = partial(sample_posterior, slabs=tuple(slabs))
            sample = own if shrinks is None else partial(shrunk_posterior, prior=shrinks)
            options: dict[str, Any] = {
                "noise": known_noise, "particles": particles, "replicates": replicates,
                "seed": seed, "solver": solver, "likelihood": likelihood, "threads": threads,
            }  # fmt: skip
            result = _sampled(result, found, partial(sample, **options, workers=workers))
    settings: dict[str, Any] = {"method": method, "prior": str(shrinks or prior), "seed": seed}
    settings |= {} if shrinks else {"slabs": listed(f"{c:g}" for c in slabs)}
    settings |= {} if noise == "unknown" else {"noise": shown(noise)}
    settings |= {"constraints": listed(constraints)} if constraints else {}
    if result.posterior is not None:
        settings |= {"solver": repr(result.posterior.solver), "particles": particles}
    doubts = (*result.warnings, *remarks(result))
    return replace(result, settings=settings, warnings=doubts)


def _sampled(result: Discovery, found: Found, sample: Callable[..., Any]) -> Discovery:
    """Add the posterior by whole trajectories; where it has no draw, say that there is none."""
    try:
        posterior = sample(result.system, result.records, result.outputs, found)
    except NoDrawError:
        result = replace(result, warnings=(*result.warnings, NOT_SAMPLED))
    else:
        result = result.with_posterior(posterior)
    for doubt in dict.fromkeys(result.warnings):
        warnings.warn(doubt, SamplerWarning, stacklevel=4)
    return result


def _discovery(
    records: tuple[Record, ...], system: CandidateSystem, observe: Array, found: Found
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


def _shrinkage(prior: str | Shrinkage, method: str) -> Shrinkage | None:
    """Return the shrinkage prior that is asked for; None for spike and slab."""
    if not isinstance(prior, Shrinkage):
        one_of("prior", prior, [SPIKE_AND_SLAB, *SHRINKAGE])
    if prior == SPIKE_AND_SLAB:
        return None
    found = shrinkage(prior)
    if method != "smc":
        raise InputError(
            f"prior is '{found.name}', whose posterior method='smc' samples: give that, or leave "
            "prior out",
            argument="prior",
        )
    return found


def _known_noise(noise: str | Sequence[float], n_outputs: int, method: str) -> Array | None:
    """Standard deviations (q,); None where they are to be learned."""
    if isinstance(noise, str):
        if one_of("noise", noise, ("unknown", "relative")) == "relative" and method != "search":
            raise InputError(
                f"noise is 'relative' and method '{method}': give method=\"search\"",
                argument="noise",
            )
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
