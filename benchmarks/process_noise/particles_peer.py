# type: ignore - written as users write, against a package that need not be installed
"""The same models in the package particles: its plain filter, and its SMC^2."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import particles
from numpy.typing import NDArray
from particles import distributions as dists
from particles import smc_samplers, state_space_models

import smcpn

Array = NDArray[np.float64]


def plain_filter(case, samples: int, number: int) -> Callable[[], None]:
    """Return a call of its bootstrap filter of so many state particles, one step in an interval."""
    (c, k, k3, q), rng = case.values, np.random.default_rng(0)
    h, problem = case.dt, case.simulated(np.random.default_rng(0))
    u, y = problem.records[0].u[:, 0], problem.records[0].y[:samples, 0]
    factor = q * np.linalg.cholesky(np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]]))

    class Moved(dists.ProbDist):
        """States with the noise of a step: all that a bootstrap filter asks for."""

        dim = 2

        def __init__(self, mean: Array) -> None:
            self.mean = mean

        def rvs(self, size: int | None = None) -> Array:
            shape = (len(self.mean) if size is None else size, 2)
            return self.mean + rng.normal(size=shape) @ factor.T

    def rate(x: Array, force: float) -> Array:
        position, velocity = x[:, 0], x[:, 1]
        acceleration = force - c * velocity - k * position - k3 * position**3
        return np.stack([velocity, acceleration], axis=1)

    class Oscillator(state_space_models.StateSpaceModel):
        def PX0(self):  # noqa: N802
            return Moved(np.tile([0.2, 0.0], (number, 1)))

        def PX(self, t: int, xp: Array):  # noqa: N802
            force = u[t - 1]
            k1 = rate(xp, force)
            k2 = rate(xp + h / 2 * k1, force)
            k3_ = rate(xp + h / 2 * k2, force)
            k4 = rate(xp + h * k3_, force)
            return Moved(xp + h / 6 * (k1 + 2 * k2 + 2 * k3_ + k4))

        def PY(self, t: int, xp: Array, x: Array):  # noqa: N802
            return dists.Normal(loc=x[:, 0], scale=case.noise)

    def run() -> None:
        filter_ = state_space_models.Bootstrap(ssm=Oscillator(), data=y)
        particles.SMC(fk=filter_, N=number, resampling="systematic").run()

    return run


def whole_smc2(
    problem: smcpn.Problem,
    model: Callable,
    truth: Mapping[str, float],
    noise: float,
    state_particles: int,
    chains: int,
    length: int,
    seeds: int,
) -> tuple[Array, float]:
    """Return log-evidences by its SMC^2, and seconds of a run.

    ``model`` makes the transition of a sample: ``step`` and ``factor`` of its noise. Moves are
    waste-free, in so many chains of so many states.
    """
    record = problem.records[0]
    inputs, data = record.u[:, 0], list(record.y[:, 0])

    class Disturbed(dists.ProbDist):
        dim, dtype = 2, float

        def __init__(self, loc: Array, factor: Array) -> None:
            self.loc, self.factor = loc, factor

        def rvs(self, size: int | None = None) -> Array:
            # The peer draws from the global generator.
            normal = np.random.standard_normal((size or len(self.loc), 2))  # noqa: NPY002
            return self.loc + normal @ self.factor.T

    class Duffing(state_space_models.StateSpaceModel):
        def PX0(self):  # noqa: N802
            return Disturbed(np.zeros((1, 2)), np.zeros((2, 2)))

        def PX(self, t: int, xp: Array):  # noqa: N802
            moved = model(*(float(np.squeeze(getattr(self, name))) for name in truth))
            return Disturbed(moved.step(xp, inputs[t - 1]), moved.factor)

        def PY(self, t: int, xp: Array, x: Array):  # noqa: N802
            return dists.Normal(loc=x[:, 0], scale=noise)

    prior = dists.StructDist({n: dists.LogNormal(np.log(v), 0.3) for n, v in truth.items()})
    found, begin = [], time.perf_counter()
    for seed in range(seeds):
        np.random.seed(seed)  # noqa: NPY002
        steps = smc_samplers.SMC2(
            ssm_cls=Duffing, prior=prior, data=data, init_Nx=state_particles, len_chain=length
        )
        run = particles.SMC(fk=steps, N=chains, verbose=False)
        run.run()
        found.append(run.logLt)
    return np.array(found), (time.perf_counter() - begin) / seeds
