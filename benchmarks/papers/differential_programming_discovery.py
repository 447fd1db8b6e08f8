"""Equations found in the paper's data, beside its figures, least squares on pairs, and pysindy."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import smcpn
from benchmarks.papers.differential_programming_pairs import estimate
from benchmarks.papers.differential_programming_problems import Data, Experiment
from benchmarks.papers.differential_programming_published import (
    COEFFICIENTS,
    SINDY,
    coefficients,
    relative_error,
)
from benchmarks.rows import Row, absent
from smcpn import ODE
from smcpn.discovery.equations.system import CandidateSystem

FULL_DICTIONARY = ("spiral", "lorenz")
"""Systems of which the paper estimates all coefficients of the library; of others, those of the
true equation."""
DESIGNS = {
    "pairs, the paper's interval": {"published": True},
    "pairs, the data's interval": {},
    "pairs with latent starts": {"latent": True},
}
THRESHOLD = 0.05
"""Half of the smallest coefficient that is to be found."""
INCLUDED, EXCLUDED = 0.99, 0.05
"""Inclusion that true terms reach, and false ones stay below."""


@dataclass(frozen=True)
class Answer:
    """What was found in one record.

    seconds: Of the processor.
    """

    found: smcpn.Discovery
    experiment: Experiment
    seconds: float

    @property
    def covered(self) -> list[bool]:
        """Whether the 95 % interval of each true coefficient has it."""
        every = self.found.coefficients
        return [
            every[name].lower <= value <= every[name].upper
            for name, value in self.experiment.coefficients.items()
        ]

    @property
    def exact(self) -> bool:
        """Whether the most probable model has the terms of the truth, and no others."""
        return set(self.found.models[0].names) == set(self.experiment.coefficients)

    @property
    def means(self) -> dict[str, float]:
        """Coefficients averaged over models."""
        return {name: one.mean for name, one in self.found.coefficients.items()}

    @property
    def inclusion(self) -> tuple[float, float]:
        """The least probability of a true term, and the highest of a false one."""
        true = self.experiment.coefficients
        every = self.found.inclusion
        return min(every[n] for n in true), max(p for n, p in every.items() if n not in true)


def discovered(data: Data) -> Answer:
    """Discover the equations in the samples of all pairs, as one trajectory."""
    experiment, begin = data.experiment, time.process_time()
    assert experiment.library is not None
    found = smcpn.discover(
        data.record, library=experiment.library, states=experiment.ode.states,
        seed=1,
    )  # fmt: skip
    return Answer(found, experiment, time.process_time() - begin)


def fitted_equation(name: str, experiment: Experiment) -> tuple[ODE, Mapping[str, float]]:
    """Return what the paper fits to pairs, with the true values of its parameters."""
    assert experiment.library is not None
    if not name.startswith(FULL_DICTIONARY):
        support = CandidateSystem.of(experiment.library, experiment.ode.states)
        active = [one in experiment.coefficients for one in support.coefficients]
        ode = support.equation(np.array(active))
    else:
        ode = CandidateSystem.of(experiment.library, experiment.ode.states).equation()
    return ode, {one: experiment.coefficients.get(one, 0.0) for one in ode.parameters}


def by_pairs(name: str, data: Data, design: str) -> dict[str, float]:
    """Least squares on the pairs; the search begins at the truth."""
    ode, truth = fitted_equation(name, data.experiment)
    found = estimate(data, ode, np.array(list(truth.values())), **DESIGNS[design])
    return dict(zip(truth, found.tolist(), strict=True))


def sindy(data: Data) -> dict[str, float]:
    """Coefficients that are not zero, by name, of pysindy on the whole record."""
    import pysindy as ps

    experiment = data.experiment
    library: Any = ps.PolynomialLibrary(_degree(data))
    if any("sin" in name for name in experiment.coefficients):
        functions = [lambda x: np.sin(x), lambda x: np.cos(x)]
        names = [lambda x: f"sin({x})", lambda x: f"cos({x})"]
        library = library + ps.CustomLibrary(functions, function_names=names)
    smooth = ps.SmoothedFiniteDifference if experiment.noise else ps.FiniteDifference
    states = list(experiment.ode.states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ps.SINDy(ps.STLSQ(THRESHOLD), library, smooth())
        model.fit(data.y, t=float(experiment.times[1]), feature_names=states)
    return {
        f"{state}'[{term}]": float(value)
        for state, row in zip(states, model.coefficients(), strict=True)
        for term, value in zip(model.get_feature_names(), row, strict=True)
        if value
    }


def _degree(data: Data) -> int:
    return 2 if data.experiment.ode.name == "lorenz" else 3


def told(found: Mapping[str, float], truth: Mapping[str, float]) -> str:
    """Coefficients of the truth, and the largest other one."""
    text = " ".join(f"{name} {found.get(name, 0.0):.4g}" for name in truth)
    others = {name: value for name, value in found.items() if name not in truth and value}
    if others:
        largest = max(others, key=lambda name: abs(others[name]))
        text += f"; {len(others)} others, the largest {largest} {others[largest]:.2g}"
    return text


def prefix(name: str) -> str:
    """Of the rows of an experiment, which of several of one system it is."""
    variant = name.partition(", ")[2]
    return f"{variant}: " if variant else ""


def compared(name: str, answer: Answer, data: Data, *, designs: bool) -> Iterator[Row]:
    """Relative error of all coefficients by every method, and whether the terms are right."""
    truth, begin = answer.experiment.coefficients, prefix(name)
    published = None
    if name in COEFFICIENTS:
        paper = coefficients(name, truth)
        published = relative_error(paper, truth)
        yield Row(f"{begin}paper", published, note=told(paper, truth))
    for design in DESIGNS if designs else ():
        if answer.experiment.noise or "latent" not in DESIGNS[design]:
            pairs = by_pairs(name, data, design)
            yield Row(f"{begin}{design}", relative_error(pairs, truth), note=told(pairs, truth))
    if name in SINDY:
        theirs = SINDY[name]
        error = relative_error(theirs, truth)
        yield Row(f"{begin}paper's SINDy", error, note=told(theirs, truth))
    if find_spec("pysindy"):
        theirs = sindy(data)
        exact = "exact" if set(theirs) == set(truth) else "wrong"
        error = relative_error(theirs, truth)
        yield Row(f"{begin}pysindy", error, note=f"{exact} terms; {told(theirs, truth)}")
    else:
        yield absent(f"{begin}pysindy", "pysindy is not installed")
    yield _ours(begin, answer, published)


def _ours(begin: str, answer: Answer, published: float | None) -> Row:
    truth, (least, most) = answer.experiment.coefficients, answer.inclusion
    error = relative_error(answer.means, truth)
    right = answer.exact and least >= INCLUDED
    met = right and (published is None or error < published)
    target = "right terms" + ("" if published is None else f", error < {published:.2g}")
    intervals = " ".join(
        f"{name} {one.mean:.5g} +- {one.sd:.1g}"
        for name, one in answer.found.coefficients.items()
        if name in truth
    )
    return Row(
        f"{begin}smcpn", error, target, met,
        f"{'exact' if answer.exact else 'wrong'} terms; {intervals}; inclusion of true terms >= "
        f"{least:.3g}, of false <= {most:.2g}; {sum(answer.covered)} of {len(truth)} in their "
        f"95 % intervals; {answer.seconds:.1f} s",
    )  # fmt: skip
