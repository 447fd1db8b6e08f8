"""Records whose initial states are known, as many as there may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.model.ode import ODE
from smcpn.model.record import Record

Array = NDArray[np.float64]


def relative_to_start(
    ode: ODE, records: Sequence[Record], outputs: Sequence[str], initial: Array
) -> tuple[ODE, list[Record]]:
    """Return equation and records of x - x(0), with x(0) as constant inputs.

    All of them begin at zero: initial states that differ from record to record would each be an
    expression of the model, a thousand of which cost more than a short record itself. The first
    samples are no data then and left out.

    Parameters
    ----------
    outputs : sequence of str
        State that each output measures.
    initial : ndarray, (R, n)
        x(0) of each record.

    Raises
    ------
    InputError
        If the input of a record is a function.
    """
    n, m = len(ode.states), len(ode.inputs)
    x, u, t = ca.SX.sym("x", n), ca.SX.sym("u", m + n), ca.SX.sym("t")
    p = ca.SX.sym("p", len(ode.parameters))
    rate = ca.Function("rhs", [x, u, t, p], [ode.rhs(x + u[m:], u[:m], t, p)])
    names = tuple(f"{state}(0)" for state in ode.states)
    places = [ode.states.index(name) for name in outputs]
    moved: list[Record] = []
    for record, begin in zip(records, initial, strict=True):
        if record.u_function is not None:
            raise InputError(
                f"{record.name}: u is a function: give its samples where initial states are known",
                argument="u",
            )
        y = record.y - begin[places]
        y[0] = np.nan
        before, u_own, after = (
            None if one is None else np.hstack([one, np.tile(begin, (len(one), 1))])
            for one in (record.u_before, record.u, record.u_after)
        )
        moved.append(replace(record, y=y, u=u_own, dt=None, u_before=before, u_after=after))
    return replace(ode, inputs=ode.inputs + names, rhs=rate, chains={}), moved
