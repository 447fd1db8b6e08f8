"""What a result gives to other tools: its model linearised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from smcpn.arguments import Count, Numbers, checked
from smcpn.simulation.linearise import OperatingPoint, linearised
from smcpn.simulation.state_space import StateSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smcpn.results.posterior import Posterior

DRAWS = 400
"""Draws of a linear model, by default."""


@checked
class HandedOver(ABC):
    """A result whose model other tools take over."""

    @abstractmethod
    def _particles(self) -> Posterior:
        """The posterior that all of this is done with."""

    def linearise(
        self,
        input: Any = 0.0,
        state: Any = None,
        *,
        near: Any = None,
        time: float = 0.0,
        draws: Count = DRAWS,
    ) -> StateSpace:
        """Return the linear state-space model at an operating point, with draws of it.

        A, B, C and D are those at the posterior mean of the parameters; every draw of the
        posterior has its own, at an operating point of its own where that is an equilibrium.

        Parameters
        ----------
        input : number, mapping of str to float, or sequence
            The constant input of the operating point; an input that a mapping leaves out is 0.
        state : number, mapping or sequence, optional
            The state of the operating point. By default the equilibrium at this input.
        near : number, mapping or sequence, optional
            State from which the equilibrium is searched for; by default the initial state of the
            first record.
        time : float
            Seconds; only a model that depends on time depends on it.
        draws : int
            Of equal weight.

        Raises
        ------
        InputError
            If a value does not fit the model, or there is no equilibrium for the mean or a draw.

        Examples
        --------
        >>> linear = posterior.linearise(input=0.5)  # doctest: +SKIP
        >>> linear.A, linear.poles(), linear.to_scipy()  # doctest: +SKIP
        """
        posterior = self._particles()
        problem = posterior.problem
        mean = posterior.weights @ posterior.values
        if near is None:
            near = problem.model.initial_states(mean[None, :])[0]
        at = OperatingPoint.of(problem.ode, input, state, near, time)
        return linearised(
            problem.ode, problem.model, problem.observe, mean, posterior.equal_draws(draws), at
        )

    def plot_bode(
        self,
        input: Any = 0.0,
        state: Any = None,
        *,
        near: Any = None,
        time: float = 0.0,
        draws: Count = DRAWS,
        frequencies: Numbers | None = None,
    ) -> Figure:
        """Plot the frequency response at an operating point, with the 95 % band of the draws.

        Arguments are those of `linearise`; ``frequencies`` are in Hz, by default from a tenth of
        the slowest pole to ten times the fastest.

        Raises
        ------
        InputError
            As `linearise`; if the model has no input, or a frequency is not above 0.
        """
        linear = self.linearise(input, state, near=near, time=time, draws=draws)
        return linear.plot_bode(frequencies)
