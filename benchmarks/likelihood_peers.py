"""Fenrir and DALTON by rodeo and probdiffeq, where they are installed, on FitzHugh-Nagumo.

Each evaluates a batch of parameters, (N, 3), on the golden problem: 800 steps, 41 observations of
both states, order 2, unit diffusion, started from (x0, f(x0), 0). Both are JAX packages; they are
vectorised over the batch, compiled once and run in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.installed import installed

Array = NDArray[np.float64]
Batch = Callable[[Array], Array]
"""From parameters (N, 3) to log-likelihoods (N,)."""

VARIANCE = 0.005
SAMPLES, STEPS = 41, 20
UNSEEN = 1e6
"""Standard deviation that probdiffeq is given where nothing was measured."""


def peers(y: Array, start: Array) -> dict[str, Batch | str]:
    """Log-likelihoods by name; a sentence instead of one that is not installed.

    y: (41, 2)
    start: (2,)
    """
    return installed(
        (
            ("rodeo fenrir", "rodeo", lambda: rodeo(y, start, "fenrir")),
            ("rodeo dalton", "rodeo", lambda: rodeo(y, start, "dalton")),
            (
                "probdiffeq fenrir EKF0",
                "probdiffeq",
                lambda: probdiffeq(y, start, linearised=False),
            ),
            ("probdiffeq fenrir EKF1", "probdiffeq", lambda: probdiffeq(y, start, linearised=True)),
        )
    )


def rodeo(y: Array, start: Array, method: str) -> Batch:
    """Fenrir or DALTON of rodeo with its blocks, that is, the diagonal of the Jacobian.

    Its square-root filters are the slower ones and its plain ones suffice here.
    """
    likelihood, start = rodeo_likelihood(y, method), np.asarray(start)
    jax = _jax()
    batch = jax.jit(jax.vmap(lambda theta: likelihood(theta, start, VARIANCE, 1.0)))
    return lambda theta: np.asarray(batch(theta))


def rodeo_likelihood(y: Array, method: str) -> Callable[..., Any]:
    """Fenrir or DALTON of rodeo at one theta (3,), for JAX to transform.

    Its further arguments are the initial state (2,), the variance of the noise (one or each
    output's) and the standard deviation of the diffusion.
    """
    _jax()
    numpy = import_module("jax.numpy")
    # The package gives the function the name of its module.
    likelihood = getattr(import_module("rodeo.inference"), method)
    interrogate = import_module("rodeo.interrogate").interrogate_kramer
    integrated = import_module("rodeo.prior").ibm_init
    weight = numpy.array([[[0.0, 1.0, 0.0]]] * 2)
    times = numpy.arange(float(SAMPLES))
    seen = numpy.array([[[[1.0, 0.0, 0.0]]] * 2] * SAMPLES)

    def rate(state: Any, t: Any, theta: Any) -> Any:
        return _field(numpy, state[:, 0], theta)[:, None]

    def one(theta: Any, start: Any, variance: Any, diffusion: Any) -> Any:
        initial = numpy.stack([start, _field(numpy, start, theta), numpy.zeros(2)], axis=1)
        noise = numpy.broadcast_to(numpy.reshape(variance, (-1, 1, 1)), (SAMPLES, 2, 1, 1))
        return likelihood(
            key=None, ode_fun=rate, ode_weight=weight, ode_init=initial,
            t_min=0.0, t_max=SAMPLES - 1.0, n_steps=(SAMPLES - 1) * STEPS,
            interrogate=interrogate,
            prior_pars=integrated(1.0 / STEPS, 3, diffusion * numpy.ones(2)),
            obs_data=numpy.asarray(y)[:, :, None],
            obs_times=times, obs_weight=seen, obs_var=noise, theta=theta,
        )  # fmt: skip

    return one


def probdiffeq(y: Array, start: Array, linearised: bool) -> Batch:
    """Fenrir of probdiffeq on the fixed grid: EKF0 with isotropic covariances, EKF1 with dense.

    Its likelihood takes a value at every grid point, so that those without an observation get a
    standard deviation that says nothing; it does not average, and keeps the diffusion at one.
    """
    jax = _jax()
    numpy = import_module("jax.numpy")
    package = import_module("probdiffeq.probdiffeq")
    solve_fixed_grid = import_module("probdiffeq.ivpsolve").solve_fixed_grid
    factorised = "state_space_model_dense" if linearised else "state_space_model_isotropic"
    space = getattr(package, factorised)()
    points = (SAMPLES - 1) * STEPS + 1
    measured = np.zeros((points, 2))
    measured[::STEPS] = y
    sd = np.full(points, UNSEEN)
    sd[::STEPS] = np.sqrt(VARIANCE)
    unseen = (points - SAMPLES) * 2 * np.log(UNSEEN * np.sqrt(2 * np.pi))
    grid = numpy.linspace(0.0, SAMPLES - 1.0, points)
    loss = package.loss_lml_timeseries(average_pdfs=False)

    def one(theta: Any) -> Any:
        def field(x: Any, /, *, t: Any) -> Any:
            return _field(numpy, x, theta)

        jacobian = package.jacobian_materialize(jacfun=jax.jacfwd)
        ode = package.ode(field, jacobian=jacobian)
        constraint = "constraint_ode_ts1" if linearised else "constraint_ode_ts0"
        solver = package.solver(
            strategy=package.strategy_smoother_fixedinterval(),
            constraint=getattr(space, constraint)(ode),
        )
        first = numpy.asarray(start)
        prior = space.prior_wiener_integrated([first, field(first, t=0.0), numpy.zeros(2)])
        solution = solve_fixed_grid(solver=solver)(prior, grid=grid)
        noise = numpy.asarray(np.tile(sd[:, None], (1, 2)) if linearised else sd)
        return loss(numpy.asarray(measured), posterior=solution.solution_full, std=noise) + unseen

    batch = jax.jit(jax.vmap(one))
    return lambda theta: np.asarray(batch(theta))


def _field(numpy: Any, x: Any, theta: Any) -> Any:
    a, b, c = theta
    return numpy.stack([c * (x[0] - x[0] ** 3 / 3 + x[1]), -(x[0] - a + b * x[1]) / c])


def _jax() -> Any:
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax
