"""Forms of a result for other tools: its model linearised, as C source, as an FMU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcpn.base.arguments import Count, FileName, Numbers, Positive, checked
from smcpn.base.files import file_path, write_output
from smcpn.results.draws import WeightedDraws
from smcpn.results.exports.c_source import ModelSource, write_c
from smcpn.results.exports.fmu import archived
from smcpn.results.simulation.linearise import OperatingPoint, linearised
from smcpn.results.simulation.state_space import StateSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 400
"""Draws of a linear model, by default."""


@checked
class ModelExport(ABC):
    """A result whose model other tools take over."""

    @abstractmethod
    def _particles(self) -> WeightedDraws:
        """The draws that all of this is done with."""

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
            problem.ode, problem.model, problem.observe, mean, posterior.equal_draws(draws), at,
            problem.records[0].t_unit,
        )  # fmt: skip

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

        Arguments are those of `linearise`; ``frequencies`` are in Hz, or cycles a unit of
        time, by default from a tenth of
        the slowest pole to ten times the fastest.

        Raises
        ------
        InputError
            As `linearise`; if the model has no input, or a frequency is not above 0.
        """
        linear = self.linearise(input, state, near=near, time=time, draws=draws)
        return linear.plot_bode(frequencies)

    def plot_step(
        self,
        input: Any = 0.0,
        state: Any = None,
        *,
        near: Any = None,
        time: float = 0.0,
        draws: Count = DRAWS,
        duration: Positive | None = None,
    ) -> Figure:
        """Plot the step response at an operating point, with the 95 % band of the draws.

        Arguments are those of `linearise`; ``duration`` is as of `StateSpace.step`.

        Raises
        ------
        InputError
            As `linearise` and `StateSpace.step`.
        """
        linear = self.linearise(input, state, near=near, time=time, draws=draws)
        return linear.plot_step(duration)

    def to_c(self, folder: FileName, steps: int | str = "auto") -> list[Path]:
        """Write the model with its mean parameters as C99 source, and return the paths.

        There are three files: a header and a source with the right-hand side, the outputs, their
        Jacobian, the parameters and a Runge-Kutta step of fourth order, and a program that
        simulates a CSV of inputs. They need nothing but the mathematical library of C, and allocate
        no memory. Process noise and measurement noise are left out. Inputs with a dead time are
        remembered, of so many samples as are within it. Doses of the records are not in it: one is
        given by a function when it arrives, or as a rate by an input of its own.

        Parameters
        ----------
        folder : str or Path
            Made where there is none; files of these names in it are replaced where smcpn wrote
            them.
        steps : int or "auto"
            Runge-Kutta steps a sampling interval; ``"auto"`` as of `simulate`, but a number where
            the state has events, which are found in steps.

        Raises
        ------
        InputError
            If a file cannot be written or is another's, or the solution diverges.

        Examples
        --------
        >>> posterior.to_c("oscillator")  # doctest: +SKIP
        """
        return write_c(self._source(steps), file_path("folder", folder))

    def to_fmu(self, path: FileName, steps: int | str = "auto") -> Path:
        """Write the model with its mean parameters as an FMU of FMI 3.0, and return its path.

        It has machine code for this computer's kind, made of the C source of `to_c`, which is in it
        for others; no Python is needed where it runs. Parameters can be changed, and before a run
        the initial state, which otherwise follows those that it depends on. It is for
        co-simulation, where the input is held from one communication point to the next, and for
        model exchange, but where inputs have a dead time, doses a lag, or states count between
        samples. Of doses the rate is an input, and the sum of what was given at once.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced; a device, a pipe or the target of a link is written into.
        steps : int or "auto"
            Runge-Kutta steps a sampling interval; ``"auto"`` as of `simulate`.

        Raises
        ------
        InputError
            If there is no C compiler, FMPy is not installed, which has the headers of FMI
            (extra ``fmu``), or the file cannot be written.

        Examples
        --------
        >>> posterior.to_fmu("oscillator.fmu")  # doctest: +SKIP
        """
        file = file_path("path", path)
        write_output(file, archived(self._source(steps)))
        return file

    def _source(self, steps: int | str) -> ModelSource:
        posterior = self._particles()
        return ModelSource.of(posterior.problem, posterior.weights @ posterior.values, steps)
