"""Coefficients beside those that other packages find in the same records with the same terms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.tables import Column, Table, table_text, words
from smcpn.discovery.equations.constraints import coefficient_name
from smcpn.discovery.results.models import WeightedModels
from smcpn.discovery.results.notation import as_probability, with_uncertainty
from smcpn.discovery.results.printed import LEAST_INCLUSION
from smcpn.errors import InputError, listed
from smcpn.model.ode import TIME
from smcpn.model.record import Record

Array = NDArray[np.float64]

LEAST_PIECE = 12
"""Samples in a row without a missing one: a smoother of 11 needs more."""


@dataclass(frozen=True, eq=False)
class PeerTable:
    """Coefficients of one discovery and of other methods; printed as a table.

    names: Of the coefficients that any of them has.
    own: Of the discovery, with uncertainty and probability.
    others: By method, zero where it has none.
    """

    names: tuple[str, ...]
    own: tuple[str, ...]
    others: Mapping[str, Array]

    def __str__(self) -> str:
        values = [[value or None for value in one.tolist()] for one in self.others.values()]
        columns = words(), Column("smcpn"), *(Column(name, ".4g") for name in self.others)
        return table_text(Table(columns, list(zip(self.names, self.own, *values, strict=True))))


def pysindy_table(found: WeightedModels) -> PeerTable:
    """Compare with the optimizers of pysindy.

    Each equation is regressed on the terms it may have, less what is known of it; a constraint
    between coefficients is not kept.

    Raises `InputError` if pysindy is not installed, or a state is not measured.
    """
    if found.delay or any(record.doses for record in found.records):
        raise InputError(
            "pysindy knows no dead times of inputs and no doses: compare a discovery without them"
        )
    try:
        import pysindy
    except ImportError:
        raise InputError("pysindy is not installed: pip install pysindy") from None
    hidden = [
        state
        for state, column in zip(found.system.candidates.states, found.observe.T, strict=True)
        if not column.any()
    ]
    if hidden:
        raise InputError(
            f"pysindy needs every state measured, and {listed(hidden)} is hidden: compare a "
            "discovery whose records measure all states"
        )
    smoothed = pysindy.SmoothedFiniteDifference()
    ensemble = lambda: pysindy.EnsembleOptimizer(pysindy.STLSQ(), bagging=True)  # noqa: E731
    methods = {
        "STLSQ": (pysindy.FiniteDifference(), pysindy.STLSQ),
        "STLSQ, smoothed": (smoothed, pysindy.STLSQ),
        "ensemble, smoothed": (smoothed, ensemble),
    }
    return _table(found, {name: _fitted(found, *how) for name, how in methods.items()})


PEERS: dict[str, Callable[[WeightedModels], PeerTable]] = {"pysindy": pysindy_table}
"""Packages to compare with."""


def _fitted(found: WeightedModels, differentiation: Any, optimizer: Callable[[], Any]) -> Array:
    """Coefficients (n, p) by regression of slopes."""
    candidates = found.system.candidates
    parts = [_regression(found, *piece, differentiation) for piece in _pieces(found)]
    terms, slopes = (np.concatenate(several) for several in zip(*parts, strict=True))
    result = np.zeros(candidates.allowed.shape)
    state = np.random.get_state()  # noqa: NPY002
    # What pysindy draws comes from numpy's global generator.
    np.random.seed(0)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i, allowed in enumerate(candidates.allowed):
                if allowed.any():
                    one = optimizer().fit(terms[:, allowed], slopes[:, [i]])
                    result[i, allowed] = np.ravel(one.coef_)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    return result


def _pieces(found: WeightedModels) -> Iterator[tuple[Array, Array, Array]]:
    """Times, inputs and states of all samples in a row of which none is missing."""
    inverse = np.linalg.pinv(found.observe)
    some = False
    for record in found.records:
        for begin, end in _complete(record):
            some = True
            part = slice(begin, end)
            yield record.t[part], record.u[part], record.y[part] @ inverse.T
    if not some:
        raise InputError(
            f"pysindy needs {LEAST_PIECE} samples in a row without a missing one, and no record "
            "has them"
        )


def _complete(record: Record) -> Iterator[tuple[int, int]]:
    known = np.isfinite(record.y).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(int)))
    for begin, end in edges.reshape(-1, 2).tolist():
        if end - begin >= LEAST_PIECE:
            yield begin, end


def _regression(
    found: WeightedModels, t: Array, u: Array, x: Array, differentiation: Any
) -> tuple[Array, Array]:
    """Terms (T, p), and slopes (T, n) less what is known of them."""
    system = found.system
    slopes = np.asarray(differentiation(x, t))
    smooth = np.asarray(getattr(differentiation, "smoothed_x_", x))
    n, m = len(system.candidates.states), len(system.candidates.inputs)
    x_, u_, t_ = ca.SX.sym("x", n), ca.SX.sym("u", m), ca.SX.sym(TIME)
    parameters = ca.SX([system.known.defaults[name] for name in system.known.parameters])
    rate = ca.Function("known", [x_, u_, t_], [system.known_rate(x_, u_, t_, parameters)])
    known = np.array(rate(smooth.T, u.T, t[None])).reshape(n, -1).T
    return system.candidates.values(smooth, u, t), slopes - known


def _table(found: WeightedModels, others: Mapping[str, Array]) -> PeerTable:
    candidates, coefficients = found.system.candidates, found.coefficients
    names, own, places = [], [], []
    for i, j in np.argwhere(candidates.allowed).tolist():
        name = coefficient_name(candidates.states[i], candidates.names[j])
        known = coefficients.get(name)
        probable = known is not None and known.inclusion >= LEAST_INCLUSION
        if not probable and not any(one[i, j] for one in others.values()):
            continue
        names.append(name)
        places.append((i, j))
        own.append(
            f"{with_uncertainty(known.mean, known.sd)} [{as_probability(known.inclusion)}]"
            if known is not None and probable
            else ""
        )
    rows, columns = np.array(places, dtype=int).reshape(-1, 2).T
    return PeerTable(
        tuple(names), tuple(own), {name: one[rows, columns] for name, one in others.items()}
    )
