"""Where the states live among the processes, and which processes share a covariance.

A process is an integrated Wiener process with order + 1 entries. In first-order form every state
has its own; in chain form x and v = x' are entries 0 and 1 of one. The ODE speaks of one entry of
each process, its *top*: the first derivative, or the second where x'' is given.

Processes form blocks of equal size whose covariance is a dense factor of its own. There is one
block for all (a full Jacobian couples them), one each (EKF0 or a diagonal Jacobian), or one that
all processes share as Sigma x Gamma, the Kronecker form: EKF0 moves them all by the same gain.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.model.ode import ODE
from smcpn.pn.iwp import process_noise_factor
from smcpn.solver import EKF0, EKF1

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Layout(NamedTuple):
    """Sizes and places, as compiled code reads them.

    Attributes
    ----------
    order : int
        Order nu of the processes.
    top : ndarray of int, (d,)
        Entry of each process that the ODE gives.
    process, derivative : ndarray of int, (n,)
        Process and entry of each state.
    scale : ndarray, (n,)
        Factors k! that turn entry k, times h^-k, into the state it holds.
    n_blocks, width : int
        Number of covariance blocks, and processes in each.
    block, place : ndarray of int, (d,)
        Block of each process and its place there.
    row : ndarray of int, (order + 1, d)
        Row of an entry in the array to be triangularised: the tops come first.
    noise_factor : ndarray, (order + 1, order + 1)
        Lower factor of the process noise of a step of length one.
    diagonal : bool
        Whether the diffusion has one value per process.
    coupled : bool
        Whether there is a Jacobian.
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


def make_layout(ode: ODE, solver: EKF0 | EKF1) -> Layout:
    """Arrange the states of an ODE for a solver.

    Raises
    ------
    InputError
        If the order is too small for the chains of the model.
    """
    heads = _chains(ode) if solver.form == "chain" else [[state] for state in ode.states]
    places = {state: (p, k) for p, chain in enumerate(heads) for k, state in enumerate(chain)}
    top = np.array([len(chain) for chain in heads])
    if top.max() > solver.order:
        raise InputError(
            f"order is {solver.order}: form 'chain' puts the derivative {top.max()} of "
            f"'{heads[int(top.argmax())][0]}' into one process: give order {top.max()} or more"
        )
    d, size = len(heads), solver.order + 1
    full = isinstance(solver, EKF1) and solver.jacobian == "full"
    diagonal = solver.diffusion in ("fixed-diagonal", "dynamic-diagonal")
    shared = isinstance(solver, EKF0) and len(set(top)) == 1
    shared = shared and solver.diffusion != "dynamic-diagonal"
    width = d if full else 1
    block = np.zeros(d, dtype=int) if full or shared else np.arange(d)
    place = np.arange(d) if full else np.zeros(d, dtype=int)
    derivative = [places[state][1] for state in ode.states]
    return Layout(
        order=solver.order,
        top=top,
        process=np.array([places[state][0] for state in ode.states]),
        derivative=np.array(derivative),
        scale=np.array([float(factorial(k)) for k in derivative]),
        n_blocks=int(block.max()) + 1,
        width=width,
        block=block,
        place=place,
        row=_rows(size, top, place, width),
        noise_factor=process_noise_factor(solver.order),
        diagonal=diagonal,
        coupled=isinstance(solver, EKF1),
    )


def _chains(ode: ODE) -> list[list[str]]:
    """Follow x -> x' as far as it goes; where it runs in a circle, the last link is cut."""
    following: dict[str, str] = {}
    for state, derivative in ode.chains.items():
        end = derivative
        while end in following:
            end = following[end]
        if end != state and derivative not in following.values():
            following[state] = derivative
    chains = [[state] for state in ode.states if state not in following.values()]
    for chain in chains:
        while chain[-1] in following:
            chain.append(following[chain[-1]])
    return chains


def _rows(size: int, top: Indices, place: Indices, width: int) -> Indices:
    rows = np.empty((size, len(top)), dtype=int)
    for p, (first, s) in enumerate(zip(top, place, strict=True)):
        below = [j for j in range(size) if j != first]
        rows[first, p] = s
        for number, j in enumerate(below):
            rows[j, p] = width + number * width + s
    return rows
