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
DRAWS = 1000
"""Independent draws that the sizes below are worth, about."""
Run = Callable[[int, int], tuple[Array, Array]]
"""From a seed and a size to log-parameters (N, 4) and weights (N,)."""


@dataclass(frozen=True)
class Method:
    """One way to the posterior.

    sampler: Module with `identify`.
    likelihood: Module of the log-likelihood; for this package the solver.
    size: Particles, or draws: as many as are worth about `DRAWS` independent draws.
    seeds: Runs after the first.
    """

    sampler: str
    likelihood: str
    size: int
    seeds: int

    @property
    def own(self) -> bool:
        """Whether it is of this package."""
        return self.sampler.startswith("smcpn")

    def prepared(self, path: Path) -> Run:
        """Import what it needs and read its data.

        Raises `ImportError` if its package is not installed.
        """
        identify = import_module(f"{HERE}.{self.sampler}").identify
        if self.own:
            return _own(identify, SOLVERS[self.likelihood], len(Data.load(path).y) + 1)
        data, arguments = Data.load(path), {}
        if self.likelihood != "diffrax_likelihood":
            arguments["log_likelihood"] = import_module(f"{HERE}.{self.likelihood}").log_likelihood
        return lambda seed, size: identify(data, seed=seed, size=size, **arguments)

    @property
    def hand_vectorised(self) -> bool:
        """Whether its likelihood is written by an expert, as this package generates its own."""
        return self.likelihood == "numba_lanes"

    @property
    def same_likelihood(self) -> bool:
        """Whether its likelihood is the one all share."""
        return not self.likelihood.startswith("EKF")

    @property
    def lines(self) -> int:
        """Lines of code that its user writes."""
        modules = [self.sampler, "smcpn_problem" if self.own else self.likelihood]
        return sum(lines_of_code(Path(__file__).with_name(f"{name}.py")) for name in modules)


def _own(identify: Callable[..., Any], solver: tuple[str, dict[str, int]], samples: int) -> Run:
    smcpn, datasets = import_module("smcpn"), import_module("smcpn.datasets")
    name, options = solver
    record = datasets.silverbox().paper_train[:samples]

    def run(seed: int, size: int) -> tuple[Array, Array]:
        posterior = identify(record, seed, getattr(smcpn, name)(**options), size)
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


SOLVERS = {
    "RK4(4)": ("RK4", {"steps": 4}),
    "EKF0(3, 8)": ("EKF0", {"order": 3, "steps": 8}),
}
METHODS = {
    "smcpn": Method("smcpn_default", "RK4(4)", 1200, 16),
    "smcpn IBIS": Method("smcpn_ibis", "RK4(4)", 1500, 16),
    "smcpn tempering": Method("smcpn_tempering", "RK4(4)", 1000, 16),
    "smcpn from Laplace": Method("smcpn_laplace", "RK4(4)", 1000, 16),
    "smcpn IBIS, EKF0 marginal": Method("smcpn_ibis", "EKF0(3, 8)", 1500, 16),
    "particles IBIS, numba": Method("particles_ibis", "numba_scalar", 1750, 2),
    "particles IBIS, numba lanes": Method("particles_ibis", "numba_lanes", 1750, 16),
    "particles tempering, numba": Method("particles_tempering", "numba_scalar", 1500, 2),
    "particles tempering, numba lanes": Method("particles_tempering", "numba_lanes", 1500, 16),
    "emcee, numba": Method("emcee_stretch", "numba_scalar", 25_600, 1),
    "emcee, numba lanes": Method("emcee_stretch", "numba_lanes", 25_600, 16),
    "blackjax tempering, diffrax": Method("blackjax_tempering", "diffrax_likelihood", 1000, 1),
    "blackjax NUTS, diffrax": Method("blackjax_nuts", "diffrax_likelihood", 448, 1),
}
"""By name."""
