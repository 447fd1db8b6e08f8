"""One object that says whether a posterior is to be believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smcpn.errors import InputError
from smcpn.problem import check_record
from smcpn.record import Record
from smcpn.validation.correlation import ParameterPair, worst_pair
from smcpn.validation.frequency import FrequencyResponse, frequency_response
from smcpn.validation.halving import StepHalving, step_halving
from smcpn.validation.innovations import Innovations, innovations
from smcpn.validation.text import validation_text
from smcpn.validation.whiteness import Whiteness, whiteness

if TYPE_CHECKING:
    from smcpn.posterior import Posterior


@dataclass(frozen=True)
class Validation:
    """What speaks for and against a posterior; ``str()`` renders it as text.

    Attributes
    ----------
    model : str
        Name of the ODE.
    innovations : tuple of Innovations
        One per record, at the posterior mean in the sampler's coordinates. (On a curved ridge of
        parameters the mean of the values themselves lies beside the ridge.)
    outputs : tuple of Whiteness
        Tests of the innovations, one per output.
    responses : tuple of FrequencyResponse
        One per record and output; none where a record has not one input, or is too short.
    solver_share : float
        Mean share of solver error in the innovation variance, of the worst output.
    largest_solver_share : float
        The largest at any sample.
    halving : StepHalving or None
        Always on the records that the posterior was learned from. None where the step cannot be
        halved.
    pair : ParameterPair or None
        The worst-correlated pair of parameters.
    """

    model: str
    innovations: tuple[Innovations, ...]
    outputs: tuple[Whiteness, ...]
    responses: tuple[FrequencyResponse, ...]
    solver_share: float
    largest_solver_share: float
    halving: StepHalving | None
    pair: ParameterPair | None

    def __str__(self) -> str:
        return validation_text(self)


def validate(posterior: Posterior, record: Record | None = None) -> Validation:
    """Validate a posterior on the records it was learned from, or on another.

    Raises
    ------
    InputError
        If the record does not have the inputs and outputs of the problem, or nothing is measured.
    """
    problem = posterior.problem
    if record is not None:
        check_record(record, problem.ode, len(problem.observe))
    centre = problem.prior.natural((posterior.weights @ posterior.theta)[None, :])[0]
    parts = innovations(problem, posterior.solver, centre, record, posterior.likelihood)
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
            problem,
            posterior.solver,
            posterior.values,
            posterior.log_weights,
            posterior.log_likelihood,
            posterior.likelihood,
        ),
        pair=worst_pair(posterior.names, posterior.theta, posterior.weights),
    )


def _responses(part: Innovations) -> list[FrequencyResponse]:
    """None is no fault: not every record has a frequency response."""
    try:
        outputs = range(part.record.n_outputs)
        return [frequency_response(part.record, part.mean, j) for j in outputs]
    except InputError:
        return []
