"""Which states share an integrated Wiener process, and which processes share a covariance."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import casadi as ca
import numpy as np

from smcpn.errors import InputError
from smcpn.model.problem import Model
from smcpn.solver import ProbabilisticSolver
from tests.reference.likelihoods import chains

Entry = tuple[int, int]
"""A process and the derivative of it that is meant."""


@dataclass(frozen=True)
class Process:
    """One integrated Wiener process; its first derivatives are states of the model.

    Attributes
    ----------
    states : tuple of int
        The model's states that are the process and its derivatives, lowest first: one state, or a
        chain x, v = x', ... in which each is the derivative of the one before.
    """

    states: tuple[int, ...]

    @property
    def rate(self) -> int:
        """The derivative that the ODE determines: one more than the last state."""
        return len(self.states)


@dataclass(frozen=True)
class Block:
    """Processes that share a covariance, and the order of its rows.

    Attributes
    ----------
    processes : tuple of int
    rates, values, higher : tuple of Entry
        Derivatives that the ODE determines, those that are states, and those beyond.
    """

    processes: tuple[int, ...]
    rates: tuple[Entry, ...]
    values: tuple[Entry, ...]
    higher: tuple[Entry, ...]


@dataclass(frozen=True)
class Layout:
    """The processes behind a model's states under a solver, in Nordsieck coordinates.

    Coordinate i of a process is h^i / i! times its i-th derivative.

    Attributes
    ----------
    order : int
    processes : tuple of Process
    blocks : tuple of Block
    jacobian : {"none", "diagonal", "full"}
        What the linearisation of the ODE keeps; ``"diagonal"``: what a process does to itself.
    """

    order: int
    processes: tuple[Process, ...]
    blocks: tuple[Block, ...]
    jacobian: str

    @classmethod
    def of(cls, model: Model, solver: ProbabilisticSolver, outputs: bool) -> Layout:
        """Lay out a model's states.

        Parameters
        ----------
        outputs : bool
            Whether outputs are measured: one that sees several processes couples them.

        Raises
        ------
        InputError
            If the order is less than the longest chain of states.
        """
        joined = chains(model, solver.form)
        longest = max(map(len, joined))
        if solver.order < longest:
            raise InputError(
                f"order is {solver.order}: form 'chain' joins {longest} states in one process, "
                f"which needs order {longest} or more"
            )
        processes = tuple(Process(tuple(chain)) for chain in joined)
        groups = _connected(model, processes, solver.jacobian, outputs)
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
        """Whether the linearisation keeps what process ``by`` does to the rate of ``of``."""
        return self.jacobian == "full" or (self.jacobian == "diagonal" and of == by)


def _connected(
    model: Model, processes: tuple[Process, ...], jacobian: str, outputs: bool
) -> list[tuple[int, ...]]:
    """Group the processes that an output or the linearised ODE ties together."""
    owner = {state: k for k, process in enumerate(processes) for state in process.states}
    label = list(range(len(processes)))

    def join(members: list[int]) -> None:
        labels = {label[k] for k in members}
        for k, value in enumerate(label):
            if value in labels:
                label[k] = min(labels)

    for row in _pattern(model.outputs, model.x) if outputs else ():
        join([owner[int(state)] for state in np.flatnonzero(row)])
    if jacobian == "full":
        pattern = _pattern(model.rhs, model.x)
        for k, process in enumerate(processes):
            join([k, *(owner[int(s)] for s in np.flatnonzero(pattern[process.states[-1]]))])
    return [tuple(k for k, v in enumerate(label) if v == value) for value in sorted(set(label))]


def _pattern(expression: ca.SX, symbols: ca.SX) -> np.ndarray:
    return np.array(ca.DM(ca.jacobian_sparsity(expression, symbols), 1.0).full() != 0)


def _block(group: tuple[int, ...], processes: tuple[Process, ...], order: int) -> Block:
    rates = tuple((k, processes[k].rate) for k in group)
    values = tuple((k, i) for k in group for i in range(processes[k].rate))
    higher = tuple((k, i) for i in range(order + 1) for k in group if i > processes[k].rate)
    return Block(group, rates, values, higher)
