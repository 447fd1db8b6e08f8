"""A discovery as text: its equations with probabilities, noise, models and what is doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.tables import Column, Table, fact_lines, words
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.models import WeightedModels
from smcpn.discovery.results.notation import WrittenTerm, as_probability, equation_text
from smcpn.model.ode import TIME
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation.verdict import Verdict

Array = NDArray[np.float64]

LEAST_INCLUSION = 0.02
"""Terms that are less probable are not printed."""
LEAST = {"probability": 0.5, "level": 0.95}
"""Least value of a printed term, by the measure behind it (`Discovery.measure`)."""
FEW = 4
"""Terms of an equation, at most, that are printed although they are less probable than not."""
LONGEST_KNOWN = 60
"""Characters of what is known of an equation; a longer expression is not printed."""
WIDTH = 100


def summary(found: WeightedModels, verdict: Verdict) -> str:
    """Return the text that ``print`` shows."""
    noise = [f"{name} {sd:.3g}" for name, sd in zip(found.outputs, found.noise, strict=True)]
    facts, models = [("noise sd", ", ".join(noise))], list[str]()
    if (posterior := found.posterior) is not None:
        evidence = f"{posterior.log_evidence:.2f} +- {posterior.log_evidence_se:.2g}"
        facts += [("prior", _shrinkage(posterior.shrinkage)), ("log-evidence", evidence)]
    else:
        best, count = as_probability(found.models[0].probability), len(found.models)
        told = "one found" if count == 1 else f"{count} found, the best with probability {best}"
        facts.append(("models", told))
        models = ["", str(found.models), ""]
    lines = fact_lines(facts, found.warnings, WIDTH)
    return "\n".join([*equation_lines(found), "", *lines, *models, *verdict.lines])


def _shrinkage(shares: Array) -> str:
    """Say what stands behind the terms under a shrinkage prior, (K,) shares of it that are left."""
    return (
        "shrinks all coefficients, of which none is zero: behind each stands the level of the "
        f"widest credible interval without zero; the data decide {np.sum(1.0 - shares):.1f} of "
        f"{len(shares)}"
    )


def equation_lines(found: WeightedModels) -> list[str]:
    """Write the equations, and say what they leave out."""
    return [*averaged_equations(found), *_left_out(found)]


def _left_out(found: WeightedModels) -> list[str]:
    """Say how many terms the printed equations lack."""
    every = averaged_terms(found)
    shown = [printed_terms(one, LEAST[found.measure]) for one in every]
    pairs = list(zip(every, shown, strict=True))
    hidden = [term.inclusion for one, own in pairs for term in one if term not in own]
    count = len(found.system.freedom.places) - sum(map(len, shown))
    if not count:
        return []
    most = max(hidden, default=0.0)
    bound = f"at most {as_probability(most)}" if most >= 0.005 else "less than .01"
    return [f"({count} other term{'s' if count > 1 else ''}, {found.measure} {bound})"]


def averaged_equations(found: WeightedModels) -> list[str]:
    """Write the equations with coefficients averaged over all models, and probabilities."""
    least = LEAST[found.measure]
    return _equations(found.system, [printed_terms(one, least) for one in averaged_terms(found)])


def equations_of_model(found: WeightedModels, rank: int) -> list[str]:
    """Write the equations of one model."""
    system, model = found.system, found.models[rank]
    free, covariance = np.zeros(len(model.support)), np.zeros((len(model.support),) * 2)
    free[model.support] = model.mean
    covariance[np.ix_(model.support, model.support)] = model.covariance
    mean, sd = _of_all(system, free, covariance)
    return _equations(
        system, _by_state(system, mean, sd, _have(system, model.support)), probability=False
    )


def averaged_terms(found: WeightedModels) -> list[list[WrittenTerm]]:
    """All terms that each equation may have, those the most probable first."""
    system = found.system
    mean, sd = _of_all(system, *found.moments)
    total = sum(model.probability for model in found.models)
    inclusion = np.asarray(
        sum(model.probability / total * _have(system, model.support) for model in found.models)
    )
    # That of a free coefficient may be known better than by these models.
    own = {tuple(place): k for k, place in enumerate(system.places.tolist())}
    for row, place in enumerate(map(tuple, system.freedom.places.tolist())):
        if place in own:
            inclusion[row] = found.probabilities[own[place]]
    every = _by_state(system, mean, sd, inclusion)
    return [sorted(terms, key=lambda term: -round(term.inclusion, 2)) for terms in every]


def _of_all(system: CandidateSystem, free: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every coefficient, those that others determine included."""
    basis = system.freedom.basis
    variance = np.asarray((basis @ (basis @ covariance).T).diagonal())
    return basis @ free + system.freedom.offset, np.sqrt(np.maximum(variance, 0.0))


def _have(system: CandidateSystem, support: NDArray[np.bool_]) -> Array:
    """1 for each coefficient that is not zero with a support, else 0."""
    freedom = system.freedom
    return ((abs(freedom.basis) @ support > 0) | (freedom.offset != 0)).astype(float)


def printed_terms(terms: Sequence[WrittenTerm], least: float = 0.5) -> list[WrittenTerm]:
    """Return the probable terms, and a few of those that are less so."""
    probable = [term for term in terms if term.inclusion >= least]
    others = [term for term in terms if LEAST_INCLUSION <= term.inclusion < least]
    return probable + others[:FEW]


def _by_state(
    system: CandidateSystem, mean: Array, sd: Array, inclusion: Array
) -> list[list[WrittenTerm]]:
    """Terms that are possible in the equation of each state."""
    every: list[list[WrittenTerm]] = [[] for _ in system.candidates.states]
    columns = zip(system.freedom.places.tolist(), mean, sd, inclusion, strict=True)
    for (i, j), m, s, p in columns:
        if p > 0:
            term = WrittenTerm(system.candidates.names[j], float(m), float(s), float(p))
            every[i].append(term)
    return every


def _equations(
    system: CandidateSystem, terms: Sequence[Sequence[WrittenTerm]], probability: bool = True
) -> list[str]:
    lines = []
    columns = zip(
        system.candidates.states, known_texts(system), system.known.complete, terms, strict=True
    )
    for state, known, complete, own in columns:
        if complete:
            lines.append(f"{state}' = {known or '0'}  (known)")
        else:
            lines.append(equation_text(state, known, own, probability=probability, width=WIDTH))
    return lines


def known_texts(system: CandidateSystem) -> Iterator[str]:
    """Yield what is known of the equation of each state, "" for nothing."""
    candidates, known = system.candidates, system.known
    x, u, p = (
        ca.vertcat(*[ca.SX.sym(name) for name in names]) if names else ca.SX(0, 1)
        for names in (candidates.states, candidates.inputs, known.parameters)
    )
    graph = ca.densify(known.rhs(x, u, ca.SX.sym(TIME), p))
    for i in range(len(candidates.states)):
        if graph[i].is_zero():
            yield ""
            continue
        text = str(graph[i])
        if "@" in text or len(text) > LONGEST_KNOWN:
            text = "(known part)"
        yield text[1:-1] if _is_in_brackets(text) and "known" not in text else text


def _is_in_brackets(text: str) -> bool:
    """True if the first bracket of a text closes at its end."""
    depth = 0
    for place, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if depth == 0:
            return text[0] == "(" and place == len(text) - 1
    return False


def scores_of_tests(found: WeightedModels, tests: Mapping[str, Simulation]) -> Table:
    """Return the scores of simulations, one row for each record and output."""
    columns = (
        words("record"), words("output"), Column("RMSE", ".4g"), Column("fit", ".2f", "%"),
        Column("inside the 95 % band", ".1f", "%"), Column("draws left out", ".0f", "%"),
    )  # fmt: skip
    rows = [
        [name, output, one.rmse_of_mean[j], one.fit[j], 100 * one.coverage[j], 100 * one.diverged]
        for name, one in tests.items()
        for j, output in enumerate(found.outputs)
    ]
    return Table(columns, rows)
