"""Read files, find their equations, and print them: ``smcpn discover`` at work."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import smcpn
from smcpn.base.tables import table_text
from smcpn.cli.options import SEED
from smcpn.cli.outcome import peak_memory_mb
from smcpn.cli.records import Source, check_measured
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import DiscoveredModel
from smcpn.discovery.results.peers import PeerTable
from smcpn.discovery.results.printed import scores_of_tests
from smcpn.errors import InputError, listed
from smcpn.io.files import ColumnError
from smcpn.model.record import Record
from smcpn.results.simulation.simulation import Simulation
from smcpn.smc.replicates import SamplerWarning


def records_of(source: Source, files: Iterable[Path], every_state: bool) -> list[Record]:
    """Read files.

    With ``every_state`` all states are taken for measured, where the user names none.
    """
    outputs = source.outputs
    try:
        return [
            check_measured(record, list(outputs))
            for file in files
            for record in source.records(file)
        ]
    except ColumnError as error:
        if every_state and error.argument in outputs.values():
            state = next(one for one, name in outputs.items() if name == error.argument)
            raise InputError(
                f"{error}: name its column, --states {state}=COLUMN, or leave the state out of "
                "--observe, where it is not measured"
            ) from error
        raise


@dataclass(frozen=True)
class Outcome:
    """Equations found, simulations of the test files, peers beside, and seconds that it took."""

    found: Discovery
    tests: Mapping[str, Simulation]
    peers: PeerTable | None
    search_s: float
    wall_s: float


def discovered(
    source: Source,
    files: Iterable[Path],
    test: Iterable[Path],
    arguments: Mapping[str, Any],
    compare: bool,
) -> Outcome:
    """Find the equations of the files by `smcpn.discover`, and simulate the tests."""
    begin, every_state = time.perf_counter(), arguments["observe"] is None
    records, tests = (records_of(source, some, every_state) for some in (files, test))
    began = time.perf_counter()
    settings: dict[str, Any] = {"seed": SEED, **arguments}
    with warnings.catch_warnings():
        # The printed summary has the warnings.
        warnings.simplefilter("ignore", SamplerWarning)
        found = smcpn.discover(records, **settings)
    search = time.perf_counter() - began
    simulations = {test.name: found.simulate(test) for test in tests}
    peers = found.compare("pysindy") if compare else None
    return Outcome(found, simulations, peers, search, time.perf_counter() - begin)


def written(
    outcome: Outcome, report: Path | None, picture: Path | None
) -> Iterator[tuple[str, Path]]:
    """Write the requested files, and yield the kind and path of each."""
    if picture is not None:
        from smcpn.report.style import save_picture

        save_picture(outcome.found.plot(), picture)
        yield "picture", picture
    if report is not None:
        names = listed(record.name for record in outcome.found.records)
        title = f"Equations of {names}"
        yield "report", outcome.found.report(report, outcome.tests, title=title)


def as_text(outcome: Outcome) -> str:
    """Return what is printed for a person."""
    samples = sum(len(record) for record in outcome.found.records)
    lines = [str(outcome.found)]
    if outcome.peers is not None:
        lines += ["", str(outcome.peers)]
    if outcome.tests:
        lines += ["", table_text(scores_of_tests(outcome.found, outcome.tests))]
    return "\n".join([*lines, "", f"{samples} samples in {outcome.search_s:.1f} s"])


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the fields that ``--json`` prints."""
    found = outcome.found
    return {
        **document_of(found),
        "search_s": outcome.search_s,
        "wall_s": outcome.wall_s,
        "peak_memory_mb": peak_memory_mb(),
        "tests": {name: _of_test(one, found.outputs) for name, one in outcome.tests.items()},
        **({} if outcome.peers is None else {"pysindy": _of_peers(outcome.peers)}),
    }


def document_of(found: Discovery) -> dict[str, Any]:
    """Return the fields that ``--json`` prints of what was found."""
    return {
        "records": [record.name for record in found.records],
        "samples": sum(len(record) for record in found.records),
        **found.settings,
        "equations": found.equations(),
        "noise": dict(zip(found.outputs, found.noise.tolist(), strict=True)),
        "coefficients": {name: vars(one) for name, one in found.coefficients.items()},
        "models": [_of_model(model) for model in found.models],
        "warnings": list(found.warnings),
    }


def _of_model(model: DiscoveredModel) -> dict[str, Any]:
    moments = zip(model.names, model.mean.tolist(), model.sd.tolist(), strict=True)
    return {
        "probability": model.probability,
        "log_evidence": model.log_evidence,
        "log_prior": model.log_prior,
        "coefficients": {name: {"mean": mean, "sd": sd} for name, mean, sd in moments},
    }


def _of_test(one: Simulation, outputs: Sequence[str]) -> dict[str, Any]:
    scores: dict[str, Any] = {
        output: {
            "rmse": float(one.rmse_of_mean[j]),
            "fit": float(one.fit[j]),
            "coverage": float(one.coverage[j]),
        }
        for j, output in enumerate(outputs)
    }
    return scores | {"left_out": one.diverged}


def _of_peers(peers: PeerTable) -> dict[str, Any]:
    return {
        method: dict(zip(peers.names, values.tolist(), strict=True))
        for method, values in peers.others.items()
    }
