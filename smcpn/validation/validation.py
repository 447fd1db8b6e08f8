"""`validate`: tests of whether a posterior is to be believed, as one object and as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.columns import align
from smcpn.errors import InputError
from smcpn.model.problem import Problem, check_record
from smcpn.model.record import Record
from smcpn.smc.particles import normalise
from smcpn.solver import Solver
from smcpn.validation.correlation import ParameterPair, worst_pair
from smcpn.validation.frequency import FrequencyResponse, frequency_response
from smcpn.validation.innovations import LAGS, Innovations, Whiteness, innovations, whiteness
from smcpn.validation.reweighting import Reweighted, step_halving

Array = NDArray[np.float64]

NOTABLE_SHIFT = 0.5
"""Posterior standard deviations that a mean may move, when the step is halved, unremarked."""


@dataclass(frozen=True)
class Validation:
    """Innovations, frequency responses, error budget and correlations; ``str()`` is their text.

    Attributes
    ----------
    model : str
        Name of the ODE.
    innovations : tuple of Innovations
        One per record, at the posterior mean in the sampler's coordinates. (On a curved ridge of
        parameters the mean of the values themselves lies off the ridge.)
    outputs : tuple of Whiteness
        Tests of the innovations, one per output.
    responses : tuple of FrequencyResponse
        One per record and output; none where a record has not one input, or is too short.
    solver_share : float
        Mean share of solver error in the innovation variance, of the worst output.
    largest_solver_share : float
        The largest at any sample.
    halving : Reweighted or None
        The posterior at half the step, on the records that it was learned from; None where the
        step cannot be halved.
    pair : ParameterPair or None
        The worst-correlated pair of parameters.
    """

    model: str
    innovations: tuple[Innovations, ...]
    outputs: tuple[Whiteness, ...]
    responses: tuple[FrequencyResponse, ...]
    solver_share: float
    largest_solver_share: float
    halving: Reweighted | None
    pair: ParameterPair | None

    def __str__(self) -> str:
        return validation_text(self)


def validate(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    theta: Array,
    log_weights: Array,
    log_likelihood: Array,
    record: Record | None = None,
) -> Validation:
    """Validate a posterior on the records it was learned from, or on another.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        As it ran, its steps a number.
    likelihood : str or None
        As of `smcpn.likelihood.registry.build_likelihood`.
    theta : ndarray, (N, d)
        Unconstrained coordinates of the particles.
    log_weights, log_likelihood : ndarray, (N,)
    record : Record, optional
        Measured as the problem observes; by default the records learned from.

    Raises
    ------
    InputError
        If the record does not have the inputs and outputs of the problem, or nothing is measured.
    """
    weights = normalise(log_weights)
    if record is not None:
        check_record(record, problem.ode, len(problem.observe))
    centre = problem.prior.natural((weights @ theta)[None, :])[0]
    parts = innovations(problem, solver, centre, record, likelihood)
    diverged = next((p for p in parts if not np.isfinite(p.variance).all()), None)
    if diverged is not None:
        raise InputError(
            f"{diverged.record.name}: the solution at the posterior mean diverges: "
            "raise steps, or check the model on this record"
        )
    for part in parts:
        if not np.isfinite(part.normalised).any():
            raise InputError(f"{part.record.name}: every y is NaN: there is nothing to validate on")
    shares = np.concatenate([part.solver_share for part in parts])
    inputs = [part.record.u for part in parts]
    return Validation(
        model=problem.ode.name,
        innovations=parts,
        outputs=tuple(
            whiteness([part.normalised[:, j] for part in parts], inputs)
            for j in range(len(problem.observe))
        ),
        responses=tuple(r for part in parts for r in _responses(part)),
        solver_share=float(shares.mean(axis=0).max()),
        largest_solver_share=float(shares.max()),
        halving=step_halving(
            problem, solver, problem.prior.natural(theta), log_weights, log_likelihood, likelihood
        ),
        pair=worst_pair(problem.names, theta, weights),
    )


def _responses(part: Innovations) -> list[FrequencyResponse]:
    """Return those there are: not every record has a frequency response."""
    try:
        outputs = range(part.record.n_outputs)
        return [frequency_response(part.record, part.mean, j) for j in outputs]
    except InputError:
        return []


def validation_text(validation: Validation) -> str:
    """Render a validation: each figure, what was expected of it, what a deviation means."""
    records = ", ".join(part.record.name for part in validation.innovations)
    lines = [f"validation of {validation.model} on {records}, at the posterior mean", ""]
    for number, output in enumerate(validation.outputs):
        label = "" if len(validation.outputs) == 1 else f", output {number + 1}"
        lines += [f"normalised innovations{label}", *_innovation_lines(output), ""]
    lines += ["error budget", *_budget_lines(validation), ""]
    if validation.responses:
        lines += ["frequency response (H1), simulation against data"]
        lines += [
            f"  {one.name}: error {one.error:.2%} rms over {one.frequency[0]:.3g} to "
            f"{one.frequency[-1]:.3g} Hz, lowest coherence {one.coherence.min():.3f}"
            for one in validation.responses
        ]
        lines.append("")
    pair = validation.pair
    if pair is not None:
        lines.append(
            f"worst-correlated pair: {pair.first} and {pair.second}, {pair.correlation:+.3f}"
            + (": a combination of the two is known better than each" if pair.ridge else "")
        )
    return "\n".join(lines).rstrip()


def _innovation_lines(output: Whiteness) -> list[str]:
    rows = [
        ["  mean", f"{output.mean:+.3f}", "expected 0"],
        ["  variance", f"{output.variance:.4g}", "expected 1"],
        ["  chi^2", f"{output.chi2:.5g}", f"of {output.samples} samples, {_p(output.chi2_p)}"],
        ["  whiteness", "", f"Ljung-Box, {LAGS} lags, {_p(output.whiteness_p)}"],
    ]
    if output.cross_correlation.size:
        remark = f"worst of all lags, {_p(output.independence_p)}"
        rows.append(["  independence of u", "", remark])
    table = align(rows, left=(0, 2)).splitlines()
    return [*table, *(f"  - {remark}" for remark in _verdicts(output))]


def _verdicts(output: Whiteness) -> list[str]:
    """Explain the tests that failed."""
    remarks = []
    if not output.calibrated:
        size = "larger than" if output.variance > 1 else "smaller than"
        remarks.append(f"the errors are {size} the noise and the solver explain")
    if not output.white:
        remarks.append("not white: model error, or noise that is not white")
    if not output.independent:
        remarks.append("depends on the input: the model misses something the input does")
    return remarks or ["no test fails at 1 %"]


def _budget_lines(validation: Validation) -> list[str]:
    lines = [
        f"  solver error in the innovation variance: {validation.solver_share:.3%} in the mean, "
        f"{validation.largest_solver_share:.3%} at most"
    ]
    halving = validation.halving
    if halving is None:
        return [*lines, "  the step cannot be halved further"]
    name, shift = halving.largest_shift
    step = f"  halving the step ({halving.steps} per sample)"
    if halving.reliable:
        lines.append(f"{step} moves no posterior mean by more than {shift:.2g} sd ({name})")
    else:
        lines.append(
            f"{step} moves {name} by at least {shift:.2g} sd; "
            f"weight is left on {halving.ess:.0f} particles only"
        )
    if not halving.reliable or shift > NOTABLE_SHIFT:
        lines.append(f"  - the step matters: identify again with steps={halving.steps}")
    return lines


def _p(value: float) -> str:
    return "p < 1e-6" if value < 1e-6 else f"p = {value:.2g}"
