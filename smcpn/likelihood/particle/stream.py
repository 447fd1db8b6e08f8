"""Particle filters of a stream: each call takes them from one sample to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.errors import InputError
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.growing import StreamSamples
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.kernel import Piece
from smcpn.likelihood.particle.likelihood import Particle, checked_number
from smcpn.likelihood.registry import suitable_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.signal import Samples
from smcpn.solver import Solver

Array = NDArray[np.float64]


class RecentSamples(StreamSamples):
    """The last samples of a stream, (m, 1 + n + q), as if there were no others."""

    def __init__(self, template: Record, columns: Array) -> None:
        Samples.__init__(self, template, columns.shape[1] - 1 - template.n_inputs)
        self._columns = columns

    @override
    def __len__(self) -> int:
        return len(self._columns)

    @override
    def _known(self, a: int, b: int) -> Array:
        return self._columns[a:b]


class ParticleStream:
    """Bootstrap filters of N parameter vectors over samples that come one by one.

    Parameters
    ----------
    problem : Problem
        Its first record tells how the stream is sampled.
    solver : Solver
        With a number of steps.
    state_particles : int
        Of each filter, a multiple of 32.
    threads : int, optional

    Raises
    ------
    InputError
        If the input is band-limited, so that it depends on samples to come.
    """

    def __init__(
        self, problem: Problem, solver: Solver, state_particles: int, threads: int | None = None
    ) -> None:
        template = problem.records[0]
        if template.n_inputs and template.hold == "bandlimited" and template.u_function is None:
            raise InputError(
                "hold is 'bandlimited', so that an input is known only 64 samples later: give the "
                "record hold='zoh' or 'foh' to filter its stream without delay"
            )
        kind = cast(type[Particle], suitable_likelihood(problem, solver, Particle.name))
        recursion = kind.traced(problem, solver, Grid.of([template], problem.model.delay))
        self._filters, self._threads = recursion.filters, threads
        self._constants = np.array(recursion.constant_values(solver))
        self._inputs = recursion.particle_inputs(template, solver)
        self._template = template
        self.state_particles = checked_number(state_particles)

    @property
    def state_size(self) -> int:
        """Numbers that a filter holds between samples."""
        return self._filters.state_size(self.state_particles)

    def advance(
        self, values: Array, keys: Keys, state: Array | None, samples: Array
    ) -> tuple[Array, Array]:
        """State (N, k) after a sample, and log increments (N,) of the estimate.

        Parameters
        ----------
        values : ndarray, (N, d)
        keys : ndarray of uint64, (N, 1)
            New for every sample.
        state : ndarray, (N, k), or None
            At the sample before; None at the first one.
        samples : ndarray, (2, 1 + n + q), or (1, 1 + n + q) at the first one
            Time, inputs and outputs of the sample before and of this one.
        """
        inputs, recent = self._inputs, RecentSamples(self._template, samples)
        rows, _ = inputs.rows(recent, 0, len(samples), inputs.memory)
        here = len(samples) - 1
        piece = Piece(replace(rows, start=inputs.start(recent)), here, here + 1, 0, 0)
        constants = np.broadcast_to(self._constants, (len(values), len(self._constants)))
        state, increments, _ = self._filters.run(
            np.hstack([values, constants]), keys, piece, self.state_particles,
            fresh=state is None, look_ahead=False,
            state=None if state is None else state.copy(), threads=self._threads,
        )  # fmt: skip
        return state, increments[0]

    def moments(self, state: Array) -> tuple[Array, Array]:
        """Means and variances (n, N) of the states that filters (N, k) hold."""
        particles = state[:, :-1].reshape(len(state), -1, self.state_particles)
        log_weights = particles[:, -1]
        weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mean = np.einsum("nip,np->in", particles[:, :-1], weights)
        away = particles[:, :-1] - mean.T[:, :, None]
        return mean, np.einsum("nip,np->in", np.square(away), weights)
