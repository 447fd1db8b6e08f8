"""The likelihood of the solver that sees the data: the product of p(y_t | y_<t, z_<=t).

Every sample corrects the state, so that errors of the solver do not add up over the record. With
a calibrated diffusion (``"fixed"``, ``"fixed-diagonal"``) a data-free filter runs beside it, whose
residuals give the running quasi-MLE.
"""

from __future__ import annotations

from smcpn.likelihood.conditioned import Scheme
from smcpn.likelihood.conditioned_lanes import Conditioned
from smcpn.likelihood.diffusion import Diffusion, running_diffusion
from smcpn.likelihood.processes import Layout
from smcpn.problem import Problem
from smcpn.solver import EKF0, EKF1


def _diffusion(problem: Problem, solver: EKF0 | EKF1) -> Diffusion:
    processes = len(Layout.of(problem.model, solver, outputs=False).processes)
    return running_diffusion(problem, solver, processes)


filtering = Conditioned(Scheme(joint=False), _diffusion)
"""Builds the sum of log p(y_t | y_<t, z_<=t); a diffusion that changes by step is refused."""
