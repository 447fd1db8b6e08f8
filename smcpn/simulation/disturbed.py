"""Paths of a model with process noise, one for each parameter vector.

A path takes the steps of the likelihoods (`smcpn.likelihood.transition`), by Runge-Kutta's method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.errors import InputError
from smcpn.likelihood.classical import outputs_at, runge_kutta_program
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.likelihood.transition import Transition
from smcpn.model.graphs import Model
from smcpn.model.record import Record
from smcpn.model.signal import Signal
from smcpn.simulation.chunks import CHUNK
from smcpn.simulation.explicit import explicit_rows
from smcpn.simulation.simulator import Simulator
from smcpn.solver import RK4

Array = NDArray[np.float64]

STEPS = 16
"""Solver steps of a call of the kernel, which has the normals of all of them."""


class DisturbedSimulator(Simulator):
    """Outputs of a model with process noise over one record, in chunks of time.

    Parameters
    ----------
    model : Model
        With process noise.
    record : Record
    steps : int or "auto"
        As of `Simulator`, which looks at the path without noise.
    seed : int or None
        The same seed, steps and number of particles give the same paths, each time it is called.

    Raises
    ------
    InputError
        For a model with a delay.
    """

    def __init__(self, model: Model, record: Record, steps: int | str, seed: int | None) -> None:
        if model.delay is not None:
            raise InputError(
                "delay does not go with process noise: leave one of them out, or shift the input "
                "of the record by a known dead time",
                argument="delay",
            )
        super().__init__(model, record, steps)
        self._entropy: Any = np.random.SeedSequence(seed).entropy
        self._disturbed, self._n_normals = disturbed_kernel(self._model)

    def _paths(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)), every solver step with normals of its own."""
        rows = explicit_rows(self._record, self._model, steps)
        n, ends = theta.shape[1], rows.begins
        rng, by_step = np.random.default_rng(self._entropy), _one_step_each(rows)
        given = np.vstack([theta, np.zeros((STEPS * self._n_normals, n))])
        normals = given[len(theta) :]
        state = self._disturbed.start(given, by_step)
        chunk = STEPS * max(1, CHUNK // (n * self._model.outputs.numel() * STEPS))
        for begin in range(0, len(by_step), chunk):
            end, parts = min(begin + chunk, len(by_step)), list[Array]()
            for first in range(begin, end, STEPS):
                last = min(first + STEPS, end)
                rng.standard_normal(out=normals)
                state, emitted, _ = self._disturbed.advance(
                    given, state, by_step, first, last, store=True
                )
                parts.append(emitted)
            a, b = (int(k) for k in np.searchsorted(ends, [begin, end]))
            if a < b:
                yield a, b, np.concatenate(parts)[ends[a:b] - begin]


def disturbed_kernel(model: Model) -> tuple[LaneKernel, int]:
    """Kernel of Runge-Kutta steps with noise that emit the outputs, and the normals of a step.

    Theta ends with the normals of `STEPS` steps, a row of a step with its number among these.
    """
    sample, transition = SampleSymbols.of(model), Transition.of(model, RK4())
    outputs, factor = outputs_at(model, model.x, sample), transition.factor
    signal = Signal(model.u.numel(), model.measured)
    program = runge_kutta_program(model, signal, sample, outputs, transition.step)
    normals, number = ca.SX.sym("normals", factor.shape[1], STEPS), ca.SX.sym("number")
    own = sum(
        (ca.if_else(number == k, normals[:, k], 0.0) for k in range(STEPS)),
        ca.SX(factor.shape[1], 1),
    )
    program = replace(
        program,
        shared=None,
        theta=ca.vertcat(model.theta, ca.vec(normals)),
        step_row=ca.vertcat(program.step_row, number),
        step=transition.following + factor @ own,
    )
    return LaneKernel(program), factor.shape[1]


def _one_step_each(rows: Rows) -> Rows:
    """Rows of the same steps, each with a sample at its end, the one that its interval leads to.

    A step is preceded by a sample, so that the first has the number 1.
    """
    counts = np.diff(rows.begins)
    leads_to = np.append(0, 1 + np.repeat(np.arange(len(counts)), counts))
    numbers = np.arange(1, len(leads_to)) % STEPS
    assert rows.inputs is not None
    inputs = np.column_stack([rows.inputs, numbers])
    return replace(rows, inputs=inputs, samples=rows.samples[leads_to], steps=1)
