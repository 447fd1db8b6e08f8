"""Which states share an integrated Wiener process, and which processes share a covariance.

In first-order form every state has a process of its own. In chain form x and v = x' are the
derivatives 0 and 1 of one process. The ODE determines one derivative of each process: the first,
or the second where x'' is given, and so on.

Processes that the linearised ODE or an output ties together form a block, whose covariance is
dense. `Layout` is read where graphs are written, `CompiledLayout` is the same as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import factorial
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.model.ode import derivative_states
from smcpn.model.solver import AdaptiveEKF1, ProbabilisticSolver
from smcpn.pn.iwp import process_noise_factor

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Entry = tuple[int, int]
"""A process and the number of one of its derivatives."""


@dataclass(frozen=True)
class Process:
    """One integrated Wiener process; its first derivatives are states of the model.

    states: The model's states that are the process and its derivatives, lowest first: one state, or
        a chain x, v = x', ... in which each is the derivative of the one before.
    """

    states: tuple[int, ...]

    @property
    def rate(self) -> int:
        """The derivative that the ODE determines: one more than the last state."""
        return len(self.states)


@dataclass(frozen=True)
class Block:
    """Processes that share a covariance, and the order of its rows.

    rates, values, higher: Derivatives that the ODE determines, those that are states, and those
        beyond.
    noise: Coloured noise of outputs of these states, numbered as if each were one more process.
    """

    processes: tuple[int, ...]
    rates: tuple[Entry, ...]
    values: tuple[Entry, ...]
    higher: tuple[Entry, ...]
    noise: tuple[Entry, ...] = ()

    @property
    def seen(self) -> tuple[Entry, ...]:
        """Entries that outputs may depend on, values first."""
        return (*self.values, *self.noise)


@dataclass(frozen=True)
class Layout:
    """The processes behind a model's states under a solver, in Nordsieck coordinates.

    Coordinate i of a process is h^i / i! times its i-th derivative.

    jacobian: {"none", "diagonal", "full"}, what the linearisation of the ODE keeps; ``"diagonal"``:
        what a process does to itself.
    noise: Outputs whose noise is coloured, and where it stands.
    """

    order: int
    processes: tuple[Process, ...]
    blocks: tuple[Block, ...]
    jacobian: str
    noise: tuple[tuple[int, Entry], ...] = ()

    @classmethod
    def connected(
        cls,
        x: ca.SX,
        rhs: ca.SX,
        solver: ProbabilisticSolver | AdaptiveEKF1,
        outputs: ca.SX | None = None,
        coloured: Sequence[int] = (),
    ) -> Layout:
        """Lay out states in blocks as small as the graphs allow.

        x, rhs: (n, 1), states and their derivatives.
        outputs: Outputs that are measured: one that sees several processes couples them.
        coloured: Those of them whose noise is carried beside the states.
        """
        processes = _processes(x, rhs, solver)
        owner = {state: k for k, process in enumerate(processes) for state in process.states}
        ties = [] if outputs is None else [np.flatnonzero(row) for row in _pattern(outputs, x)]
        tied = [{owner[int(state)] for state in states} for states in ties]
        if solver.jacobian == "full":
            pattern = _pattern(rhs, x)
            for k, process in enumerate(processes):
                states = np.flatnonzero(pattern[process.states[-1]])
                tied.append({k, *(owner[int(state)] for state in states)})
        groups = _merged(len(processes), tied)
        plain = cls._of_groups(processes, groups, solver)
        noise = [(j, (len(processes) + place, 0)) for place, j in enumerate(coloured)]
        # The noise of an output that sees no state goes with the first ones.
        block_of = {j: min(tied[j], default=0) for j, _ in noise}
        blocks = [
            replace(block, noise=tuple(own for j, own in noise if block_of[j] in block.processes))
            for block in plain.blocks
        ]
        return replace(plain, blocks=tuple(blocks), noise=tuple(noise))

    @classmethod
    def uniform(cls, x: ca.SX, rhs: ca.SX, solver: ProbabilisticSolver) -> Layout:
        """Lay out states in equal blocks: one for all under a full Jacobian, or one each."""
        processes = _processes(x, rhs, solver)
        everything = range(len(processes))
        groups = [tuple(everything)] if solver.jacobian == "full" else [(k,) for k in everything]
        return cls._of_groups(processes, groups, solver)

    @classmethod
    def _of_groups(
        cls,
        processes: tuple[Process, ...],
        groups: Iterable[tuple[int, ...]],
        solver: ProbabilisticSolver | AdaptiveEKF1,
    ) -> Layout:
        blocks = tuple(_block(group, processes, solver.order) for group in groups)
        return cls(solver.order, processes, blocks, solver.jacobian)

    def place(self, state: int) -> Entry:
        """Process and derivative of a state."""
        for k, process in enumerate(self.processes):
            if state in process.states:
                return k, process.states.index(state)
        raise KeyError(state)

    def scale(self, derivative: int, h: ca.SX) -> ca.SX:
        """Factor h^i / i! from a derivative to its coordinate."""
        return h**derivative / factorial(derivative)

    def keeps(self, of: int, by: int) -> bool:
        """True if the linearisation keeps the effect of process ``by`` on the rate of ``of``."""
        return self.jacobian == "full" or (self.jacobian == "diagonal" and of == by)


class CompiledLayout(NamedTuple):
    """A layout with blocks of equal size as arrays, for compiled code.

    Where processes move by the same gain, as under EKF0, they share one covariance: that of all is
    Sigma x Gamma, the Kronecker form.

    order: Order nu of the processes.
    top: (d,), derivative of each process that the ODE determines.
    process, derivative: (n,), process and derivative of each state.
    scale: (n,), factors k! that turn entry k, times h^-k, into the state it holds.
    n_blocks, width: Number of covariance blocks, and processes in each.
    block, place: (d,), block of each process and its place there.
    row: (order + 1, d), row of an entry in the array to be triangularised: the tops come first.
    noise_factor: (order + 1, order + 1), lower factor of the process noise of a step of length one.
    diagonal: Whether the diffusion has one value per process.
    coupled: Whether there is a Jacobian.
    """

    order: int
    top: Indices
    process: Indices
    derivative: Indices
    scale: Array
    n_blocks: int
    width: int
    block: Indices
    place: Indices
    row: Indices
    noise_factor: Array
    diagonal: bool
    coupled: bool

    @classmethod
    def of(cls, layout: Layout, diffusion: float | str) -> CompiledLayout:
        """Arrays of a `Layout.uniform` under the diffusion of its solver."""
        top = np.array([process.rate for process in layout.processes])
        coupled = layout.jacobian != "none"
        shared = not coupled and len(set(top)) == 1 and diffusion != "dynamic-diagonal"
        block, place = np.zeros_like(top), np.zeros_like(top)
        for number, members in enumerate(layout.blocks):
            block[list(members.processes)] = 0 if shared else number
            place[list(members.processes)] = np.arange(len(members.processes))
        places = [layout.place(s) for s in range(sum(len(p.states) for p in layout.processes))]
        derivative = np.array([k for _, k in places])
        width = len(layout.blocks[0].processes)
        return cls(
            order=layout.order,
            top=top,
            process=np.array([p for p, _ in places]),
            derivative=derivative,
            scale=np.array([float(factorial(k)) for k in derivative]),
            n_blocks=int(block.max()) + 1,
            width=width,
            block=block,
            place=place,
            row=_rows(layout.order + 1, top, place, width),
            noise_factor=np.ascontiguousarray(process_noise_factor(layout.order)),
            diagonal=diffusion in ("fixed-diagonal", "dynamic-diagonal"),
            coupled=coupled,
        )


def _processes(
    x: ca.SX, rhs: ca.SX, solver: ProbabilisticSolver | AdaptiveEKF1
) -> tuple[Process, ...]:
    if solver.form == "first":
        return tuple(Process((state,)) for state in range(x.numel()))
    processes = tuple(Process(tuple(chain)) for chain in _chains(x, rhs))
    longest = max(process.rate for process in processes)
    if solver.order < longest:
        raise InputError(
            f"order is {solver.order}: form 'chain' joins {longest} states in one process, "
            f"which needs order {longest} or more"
        )
    return processes


def _chains(x: ca.SX, rhs: ca.SX) -> list[list[int]]:
    """Follow x -> x' as far as it goes; where it runs in a circle, the last link is cut."""
    following: dict[int, int] = {}
    for state, derivative in derivative_states(ca.vertsplit(x), ca.vertsplit(rhs)).items():
        end = derivative
        while end in following:
            end = following[end]
        if end != state and derivative not in following.values():
            following[state] = derivative
    chains = [[state] for state in range(x.numel()) if state not in following.values()]
    for chain in chains:
        while chain[-1] in following:
            chain.append(following[chain[-1]])
    return chains


def _pattern(expression: ca.SX, symbols: ca.SX) -> NDArray[np.bool_]:
    return np.array(ca.DM(ca.jacobian_sparsity(expression, symbols), 1.0).full() != 0)


def _merged(number: int, tied: list[set[int]]) -> list[tuple[int, ...]]:
    """Group numbers that are in one of the sets together, directly or through others."""
    label = list(range(number))
    for members in tied:
        labels = {label[k] for k in members}
        label = [min(labels) if value in labels else value for value in label]
    return [tuple(k for k, v in enumerate(label) if v == value) for value in sorted(set(label))]


def _block(group: tuple[int, ...], processes: tuple[Process, ...], order: int) -> Block:
    rates = tuple((k, processes[k].rate) for k in group)
    values = tuple((k, i) for k in group for i in range(processes[k].rate))
    higher = tuple((k, i) for i in range(order + 1) for k in group if i > processes[k].rate)
    return Block(group, rates, values, higher)


def _rows(size: int, top: Indices, place: Indices, width: int) -> Indices:
    rows = np.empty((size, len(top)), dtype=int)
    for p, (first, s) in enumerate(zip(top, place, strict=True)):
        below = [j for j in range(size) if j != first]
        rows[first, p] = s
        for number, j in enumerate(below):
            rows[j, p] = width + number * width + s
    return rows
