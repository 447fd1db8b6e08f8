"""The methods, each with the size at which it is as accurate as this package's default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tokenize import COMMENT, DEDENT, ENCODING, INDENT, NEWLINE, NL, STRING, tokenize
from typing import Any

import numpy as np

from benchmarks.side_by_side.data import NAMES, Array, Data

HERE = "benchmarks.side_by_side"
BEGIN, END = "# user code begins", "# user code ends"
Run = Callable[[int], tuple[Array, Array]]
"""From a seed to log-parameters (N, 4) and weights (N,)."""


@dataclass(frozen=True)
class Method:
    """One way to the posterior.

    Attributes
    ----------
    sampler : str
        Module with `identify`.
    likelihood : str
        Module of the log-likelihood; for this package the solver.
    size : int
        Particles, or draws.
    seeds : int
        Runs after the first.
    """

    sampler: str
    likelihood: str
    size: int
    seeds: int

    @property
    def own(self) -> bool:
        """Whether it is of this package."""
        return self.sampler == "smcpn_ibis"

    def prepared(self, path: Path) -> Run:
        """Import what it needs and read its data.

        Raises
        ------
        ImportError
            If its package is not installed.
        """
        identify = import_module(f"{HERE}.{self.sampler}").identify
        if self.own:
            return _own(identify, self)
        data, arguments = Data.load(path), {}
        if self.likelihood != "diffrax_likelihood":
            arguments["log_likelihood"] = import_module(f"{HERE}.{self.likelihood}").log_likelihood
        return lambda seed: identify(data, seed=seed, size=self.size, **arguments)

    @property
    def same_likelihood(self) -> bool:
        """Whether its likelihood is the one all share."""
        return not self.likelihood.startswith("EKF")

    @property
    def lines(self) -> int:
        """Lines of code that its user writes."""
        modules = [self.sampler] if self.own else [self.sampler, self.likelihood]
        return sum(lines_of_code(Path(__file__).with_name(f"{name}.py")) for name in modules)


def _own(identify: Callable[..., Any], method: Method) -> Run:
    smcpn, datasets = import_module("smcpn"), import_module("smcpn.datasets")
    solvers = {"RK4(4)": smcpn.RK4(4), "EKF0(3, 8)": smcpn.EKF0(order=3, steps=8)}
    record = datasets.silverbox().paper_train

    def run(seed: int) -> tuple[Array, Array]:
        posterior = identify(record, seed, solvers[method.likelihood], method.size)
        values = np.column_stack([posterior[name] for name in NAMES])
        return np.log(values), posterior.weights

    return run


def lines_of_code(path: Path) -> int:
    """Lines of the marked part of a module that hold code: no comments, no docstrings."""
    part = path.read_text().split(BEGIN)[1].split(END)[0]
    layout = {COMMENT, NL, NEWLINE, INDENT, DEDENT, ENCODING}
    held, alone = set[int](), True
    for token in tokenize(BytesIO(part.encode()).readline):
        docstring = alone and token.type == STRING
        if token.type not in layout and token.string and not docstring:
            held.update(range(token.start[0], token.end[0] + 1))
        alone = token.type in layout
    return len(held)


METHODS = {
    "smcpn IBIS, RK4": Method("smcpn_ibis", "RK4(4)", 1000, 16),
    "smcpn IBIS, EKF0 marginal": Method("smcpn_ibis", "EKF0(3, 8)", 1000, 16),
    "particles IBIS, numba": Method("particles_ibis", "numba_scalar", 1000, 3),
    "particles IBIS, numba by lanes": Method("particles_ibis", "numba_lanes", 1000, 16),
    "particles tempering, numba": Method("particles_tempering", "numba_scalar", 1000, 4),
    "particles tempering, numba by lanes": Method("particles_tempering", "numba_lanes", 1000, 16),
    "emcee, numba": Method("emcee_stretch", "numba_scalar", 40_000, 4),
    "emcee, numba by lanes": Method("emcee_stretch", "numba_lanes", 40_000, 16),
    "blackjax tempering, diffrax": Method("blackjax_tempering", "diffrax_likelihood", 1000, 1),
    "blackjax NUTS, diffrax": Method("blackjax_nuts", "diffrax_likelihood", 320, 1),
}
