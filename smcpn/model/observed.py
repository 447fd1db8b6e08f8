"""The argument ``observe`` of a problem, an output for each entry of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from smcpn.errors import InputError, listed
from smcpn.model.entries import check_part
from smcpn.model.ode import ODE


def scalar_outputs(observe: Any, ode: ODE) -> list[Any]:
    """Outputs as a list, in which no name is that of a vector.

    Raises
    ------
    InputError
        If there is none, or a name is that of an entry which a vector does not have.
    """
    if isinstance(observe, np.ndarray):
        observe = np.atleast_1d(observe)
    given = list(observe) if isinstance(observe, (list, tuple, np.ndarray)) else [observe]
    if not given:
        raise InputError(
            f"observe is empty: name a state of model '{ode.name}' ({listed(ode.states)}), or give "
            "a function",
            argument="observe",
        )
    return [output for what in given for output in _of_vector(what, ode)]


def _of_vector(what: Any, ode: ODE) -> list[Any]:
    """Outputs of a vector or of its derivative; what else it is stays."""
    if not isinstance(what, str):
        return [what]
    name = what.removesuffix("'")
    check_part(name, ode, "observe")
    entries = [one for one in ode.wholes.get(name, ()) if one in ode.states]
    return [f"{entry}{what[len(name) :]}" for entry in entries] or [what]
