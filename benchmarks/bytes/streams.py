"""Cases of streams: every likelihood that one has, saved and loaded half way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.bytes import problems
from benchmarks.bytes.runs import EKF0, FEW, PARTICLES, arrays_of


def streamed(
    of: Callable[[], smcpn.Problem] = problems.oscillating,
    kind: type[Any] = smcpn.Online,
    last: Callable[[Any], list[Any]] = lambda live: arrays_of(live.posterior()),
    **options: Any,
) -> list[Any]:
    """Every state of a stream, saved and loaded half way, and what it ends in."""
    whole = of()
    live = kind(whole, **({"particles": PARTICLES, "seed": 1} | options))
    source = whole.records[0]
    states: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stream.h5"
        for sample, (u, y) in enumerate(zip(source.u, source.y, strict=True)):
            if sample == len(source) // 2:
                live.save(file)
                live = kind.load(file)
            states.append(state_of(live.update(u, y)))
    return [states, *last(live)]


def state_of(state: Any) -> list[float]:
    """Moments and evidence after a sample."""
    return [*state.mean.values(), *state.sd.values(), state.log_evidence]


def finished(live: smcpn.Online) -> list[Any]:
    """The posterior once nothing more is awaited."""
    live.finish()
    return arrays_of(live.posterior())


def predicted(live: smcpn.Online) -> list[Any]:
    """A prediction, then the posterior."""
    ahead = live.predict(np.zeros((5, 1)))
    return [ahead.t, ahead.mean, ahead.sd, *arrays_of(live.posterior())]


def states_of_nested(live: smcpn.NestedFilter) -> list[Any]:
    """The state of a nested filter after a further sample."""
    state = live.update(np.empty(0), np.array([1.0]))
    return [state.values, state.weights, list(state.state_mean.values())]


stream = partial(partial, streamed, last=finished)
banded = partial(problems.oscillating, of=problems.record(hold="bandlimited"))

STREAMS: Mapping[str, Callable[[], list[Any]]] = {
    "stream": stream(solver=smcpn.EKF0(order=3, steps=4)),
    "stream bandlimited": stream(banded, solver=smcpn.RK4(steps=4), lookahead=8),
    "stream forgetting": stream(solver=smcpn.EKF0(order=2, steps=4), forget="4 s"),
    "stream prediction": partial(streamed, last=predicted, solver=smcpn.RK4(steps=2)),
    "stream filtering": stream(problems.short, solver=EKF0, likelihood="filtering"),
    "stream dalton": stream(problems.short, solver=EKF0, likelihood="dalton"),
    "stream fenrir": stream(problems.short, solver=EKF0, likelihood="fenrir"),
    "stream coloured": stream(problems.coloured, solver=smcpn.RK4(steps=2)),
    "stream delay": stream(partial(problems.delayed, "zoh"), solver=smcpn.RK4(steps=2)),
    "stream kalman": stream(problems.driven_by_noise),
    "stream particle": stream(
        problems.walking, likelihood="particle", solver=smcpn.RK4(1), particles=FEW
    ),
    "stream nested": partial(
        streamed,
        problems.walking,
        smcpn.NestedFilter,
        states_of_nested,
        solver=smcpn.RK4(1),
        particles=FEW,
    ),
}
