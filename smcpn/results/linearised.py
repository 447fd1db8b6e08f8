"""A Gaussian posterior through which functions and simulations are linear in the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, Seed, checked
from smcpn.errors import InputError
from smcpn.model.problem import Problem, check_record
from smcpn.model.record import Record
from smcpn.results.laplace import Laplace
from smcpn.simulation.particles import Simulation, simulate_particles, starting_like
from smcpn.simulation.simulator import Simulator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

DIFFERENCE = 1e-3
"""Step of the central differences along a draw, as a share of its distance from the mode."""
SIMULATED = 400
"""Draws of a simulation, by default."""


@checked
@dataclass(frozen=True, repr=False)
class LinearisedLaplace(Laplace):
    """A Gaussian posterior by the Gauss-Newton matrix, with what follows linear in the parameters.

    The precision is J' S^-1 J and that of the prior, J being the derivatives of the outputs. It is
    the posterior of the model that is linear in the parameters about the mode; of a draw that model
    has the function f(mode) + df (draw - mode), and so has this. Where many weights make one
    function, as in a network, the data determine the function and leave most weights open: draws of
    these, put into the network itself, would make functions far from the data.

    See `Laplace` for the attributes. Its draws of parameters are those of the Gaussian.

    References
    ----------
    MacKay, D. (1992). A practical Bayesian framework for backpropagation networks. Neural
    Computation 4. Immer, A., Korzepa, M., Bauer, M. (2021). Improving predictions of Bayesian
    neural nets via local linearization. AISTATS.
    """

    def equal_draws(self, size: Count) -> Array:
        """Parameter values at the mode, (1, d), whose trajectories are those of a typical draw."""
        return self.maximum.values[None, :]

    def simulate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        record: Record,
        *,
        observe: Any = None,
        steps: int | str = "auto",
        like: Record | None = None,
        particles: Count = SIMULATED,
    ) -> Simulation:
        """Simulate a record, outputs linear in the parameters; see `Posterior.simulate`.

        Raises
        ------
        InputError
            If the record does not have the inputs of the model, or the mode diverges.
        """
        problem = self.problem
        model = problem.model if observe is None else problem.model_observing(observe)
        check_record(record, problem.ode, model.outputs.numel())
        started = starting_like(problem, model, record if like is None else like)
        simulator = _LinearSimulator(
            Simulator(started, record, steps, self.step_length), self._around(particles).T
        )
        run = simulate_particles(
            problem, record, self.draw(particles), np.full(particles, 1.0 / particles), observe,
            simulator=simulator, like=like,
        )  # fmt: skip
        return replace(run, warnings=self._beyond(record, 0, like))

    def picture(self) -> Figure | None:
        """See `WithCard.picture`."""
        return self.simulate(self.problem.records[0]).picture()

    def to_posterior(self, particles: Count = 1000, seed: Seed = 0) -> NoReturn:
        """Refuse: these draws are no parameters of the model itself.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError(
            "draws of a linearised posterior are no parameters of the model itself: use its own "
            "function, simulate and summary"
        )

    def _values_of(self, name: str, points: Array, draws: int) -> Array:
        function = self.problem.ode.functions[name].function
        return _linear(function.values(points, self._parameters(name, self._around(draws))).T).T

    def _around(self, size: int) -> Array:
        """Parameter values at the mode and close to it on either side, (1 + 2 size, d)."""
        away = DIFFERENCE * (self.draw_theta(size) - self.mode)
        return self.problem.prior.natural(
            np.concatenate([self.mode[None, :], self.mode + away, self.mode - away])
        )


class _LinearSimulator:
    """A `ParticleSimulator` of the draws that points around the mode stand for."""

    def __init__(self, simulator: Simulator, around: Array) -> None:
        self._simulator, self._around = simulator, np.ascontiguousarray(around)

    @property
    def steps(self) -> int | str:
        """See `ParticleSimulator`."""
        return self._simulator.steps

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """See `ParticleSimulator`."""
        for a, b, outputs in self._simulator(self._around):
            yield a, b, _linear(outputs)

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """That of the mode; see `ParticleSimulator`."""
        return self._simulator.process_variance(problem, self._around[:, :1], np.ones(1))

    def halving_change(self, theta: Array) -> Array:
        """That of the mode; see `ParticleSimulator`."""
        return self._simulator.halving_change(self._around[:, :1])


def _linear(around: Array) -> Array:
    """Values (..., n) of draws, of values (..., 1 + 2 n) at the mode and on either side of it."""
    n = around.shape[-1] // 2
    change = (around[..., 1 : n + 1] - around[..., n + 1 :]) / (2.0 * DIFFERENCE)
    return around[..., :1] + change
