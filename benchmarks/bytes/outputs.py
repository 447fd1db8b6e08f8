"""Cases of what leaves the package: states, simulations, texts, reports, files, C and FMU."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.bytes import problems
from benchmarks.bytes.runs import arrays_of, found

SAVED = Path(__file__).parents[2] / "tests" / "data"
TIME = re.compile(r"\d[\d.]* ?(?:ms|s|min|MB)\b|\b(?:seconds|time|wall)\b.*|on \d+-\d+-\d+ .*UTC")
"""Seconds and memory, which are of the machine, and the date."""
FILTER = smcpn.StateFilter(sensor=0.02, disturbance=(0.01, 0.01), initial=(0.1, 0.1))


@cache
def identified() -> smcpn.Posterior:
    """The posterior that is written."""
    return found(solver=smcpn.RK4(steps=2), method="ibis")


def without_times(text: str) -> str:
    """Leave out what depends on how fast the machine was."""
    return "\n".join(TIME.sub("", line) for line in text.splitlines())


class Words(HTMLParser):
    """The words of a page, without its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self._of = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Remember where the following text stands."""
        self._of = tag

    def handle_data(self, data: str) -> None:
        """Keep text that is read."""
        if self._of not in ("script", "style") and data.strip():
            self.text.append(data.strip())


def written(write: Callable[[Path], Any]) -> list[Any]:
    """Names and contents of what a function writes into a folder."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        files = sorted(path for path in Path(name).rglob("*") if path.is_file())
        return [(path.name, path.read_bytes()) for path in files]


def report(result: Callable[[], Any], **options: Any) -> list[Any]:
    """Words of an HTML report."""
    pages = written(lambda folder: result().report(folder / "report.html", **options))
    return [without_times("\n".join(Words(page.decode()).text)) for _, page in pages]


def saved() -> list[Any]:
    """Bytes of a saved posterior whose times are none, and what is read of it."""
    of = identified()
    timeless = replace(
        of,
        timing=replace(of.timing, wall=0.0, compile=0.0, kernel=0.0),
        rejuvenations=tuple(replace(one, seconds=0.0) for one in of.rejuvenations),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = timeless.save(Path(folder) / "posterior.h5")
        return [path.read_bytes(), *arrays_of(smcpn.load(path))]


def of_release() -> list[Any]:
    """Posteriors that version 0.2.0 saved."""
    read = [smcpn.load(path) for path in sorted(SAVED.glob("*-0.2.0.h5"))]
    return [(one.theta, one.log_weights, without_times(one.summary())) for one in read]


def states() -> list[Any]:
    """Filtered and smoothed states of a disturbed system, with draws."""
    of = found(problems.driven_by_noise, method="ibis")
    result = of.states(draws=2, parameters=10)
    return [result.mean, result.sd, result.filtered_mean, result.filtered_sd, result.draws]


def states_of_particles() -> list[Any]:
    """The same by particles."""
    of = found(problems.walking, likelihood="particle", solver=smcpn.RK4(1), particles=64)
    result = of.states(draws=2, parameters=5)
    return [result.mean, result.sd, result.draws]


def simulations() -> list[Any]:
    """Simulation and prediction of a record, with their moments."""
    of, record = identified(), problems.record()
    ahead, behind = of.predict(record, 3, FILTER), of.simulate(record)
    return [behind.mean, behind.sd, ahead.mean, ahead.sd]


def simulated() -> list[Any]:
    """Known parameters with a delay and with process noise, and draws of the prior."""
    record = problems.record()
    late = smcpn.simulate(
        problems.oscillator, record, problems.TRUTH, observe="x", delay={"u": 0.137}, steps=2
    )
    noisy = smcpn.simulate(
        problems.oscillator, record, problems.TRUTH, observe="x", process_noise={"v": 0.1}, seed=1
    )
    prior = smcpn.simulate(problems.short(), draws=40, seed=1)
    return [late, noisy, without_times(str(prior))]


def linear() -> list[Any]:
    """State-space model, poles, Bode diagram and step response."""
    made = smcpn.linearise(problems.oscillator, problems.TRUTH, observe="x")
    bode, step = made.bode(), made.step()
    return [
        made.A,
        made.B,
        made.C,
        made.D,
        bode.magnitude,
        bode.phase,
        step.response,
        made.summary(),
    ]


def validated() -> list[Any]:
    """Tests of a posterior, robust intervals and the sandwich."""
    of = identified()
    return [without_times(str(of.validate())), without_times(of.robust().summary())]


def compared() -> list[Any]:
    """Two models ranked by evidence."""
    other = found(partial(problems.oscillating, noise=0.03), solver=smcpn.RK4(steps=2))
    return [without_times(smcpn.compare({"one": identified(), "other": other}).summary())]


def fmu() -> list[Any]:
    """Sources and description in an FMU; its binary is of the compiler."""
    ((_, made),) = written(lambda folder: identified().to_fmu(folder / "model.fmu", steps=2))
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "model.fmu"
        file.write_bytes(made)
        with zipfile.ZipFile(file) as archive:
            texts = [
                one for one in sorted(archive.namelist()) if one.endswith((".c", ".h", ".xml"))
            ]
            return [(one, archive.read(one)) for one in texts]


def discovery() -> smcpn.Discovery:
    """A discovery to report on."""
    library = smcpn.polynomials(1) + smcpn.terms(np.sin)
    return smcpn.discover(problems.swinging(), library=library, known={"x": "v"}, progress=False)


OUTPUTS: Mapping[str, Callable[[], list[Any]]] = {
    "states kalman": states,
    "states particle": states_of_particles,
    "simulation": simulations,
    "simulation known": simulated,
    "linear": linear,
    "validation": validated,
    "comparison": compared,
    "saved": saved,
    "saved 0.2.0": of_release,
    "summary posterior": lambda: [without_times(identified().summary())],
    "summary laplace": lambda: [without_times(smcpn.laplace(problems.oscillating()).summary())],
    "summary maximum": lambda: [without_times(smcpn.maximise(problems.oscillating()).summary())],
    "report": partial(report, identified),
    "report discovery": partial(report, discovery),
    "table": lambda: [
        identified().to_latex(),
        *written(lambda f: identified().to_csv(f / "t.csv")),
    ],
    "export c": lambda: written(lambda folder: identified().to_c(folder, steps=2)),
    "export fmu": fmu,
}
