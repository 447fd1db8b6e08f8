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

from smcpn.codegen.kernel import LaneKernel
from smcpn.likelihood.classical import outputs_at, runge_kutta_program, step_inputs
from smcpn.likelihood.delayed import DelayLine, consecutive
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.likelihood.transition import Transition
from smcpn.model.graphs import Model
from smcpn.model.record import Record
from smcpn.model.signal import Signal
from smcpn.simulation.chunks import CHUNK
from smcpn.simulation.simulator import Simulator
from smcpn.solver import RK4

Array = NDArray[np.float64]

STEPS = 16
"""Solver steps of a call of the kernel, which has the normals of all of them, or of an interval."""


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
    """

    def __init__(self, model: Model, record: Record, steps: int | str, seed: int | None) -> None:
        super().__init__(model, record, steps)
        self._entropy: Any = np.random.SeedSequence(seed).entropy

    def _paths(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)), every solver step with normals of its own."""
        inputs = step_inputs(self._signal, self._model, self._record, steps, line=self._line)
        block = max(1, STEPS // inputs.steps)
        kernel = disturbed_kernel(self._model, self._signal, self._line, block * inputs.steps)
        n, rows = theta.shape[1], inputs.whole(self._record)
        rng = np.random.default_rng(self._entropy)
        own = kernel.program.theta.numel() - len(theta)
        given = np.vstack([theta, np.zeros((own, n))])
        state = kernel.start(given, rows)
        chunk = block * max(1, CHUNK // (n * self._model.outputs.numel() * block))
        for begin in range(1 - block, len(rows), chunk):
            parts, end = list[Array](), min(begin + chunk, len(rows))
            for first in range(begin, end, block):
                rng.standard_normal(out=given[len(theta) :])
                state, emitted, _ = kernel.advance(
                    given, state, rows, max(first, 0), min(first + block, end), store=True
                )
                parts.append(emitted)
            yield max(begin, 0), end, np.concatenate(parts)


def disturbed_kernel(
    model: Model, signal: Signal, line: DelayLine | None, steps: int
) -> LaneKernel:
    """Kernel of Runge-Kutta steps with noise that emit the outputs.

    Theta ends with the normals of so many ``steps``, which those of an interval divide.
    """
    sample, transition = SampleSymbols.of(model, line), Transition.of(model, RK4(), line)
    outputs, factor = outputs_at(model, model.x, sample), transition.factor
    plain = runge_kutta_program(model, signal, sample, outputs, transition.step, line)
    normals, number = ca.SX.sym("normals", factor.shape[1], steps), ca.SX.sym("number")
    own = [consecutive(ca.horzsplit(row), number, 1, steps - 1)[0] for row in ca.vertsplit(normals)]
    taken = signal.number * signal.count + signal.step
    shared = plain.shared
    assert shared is not None
    n = model.x.numel()
    program = replace(
        plain,
        theta=ca.vertcat(model.theta, ca.vec(normals)),
        step_row=ca.vertcat(plain.step_row, number),
        shared=replace(
            shared, step=ca.vertcat(shared.step, taken - steps * ca.floor(taken / steps))
        ),
        step=ca.vertcat(transition.following + factor @ ca.vertcat(*own), plain.step[n:, :]),
    )
    return LaneKernel(program)
