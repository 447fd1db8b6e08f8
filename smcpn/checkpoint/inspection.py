"""Describe a checkpoint as text; neither the model nor the records are needed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from smcpn.base.tables import Column, Fact, Table, fact_lines, table_text, words
from smcpn.base.units import duration
from smcpn.checkpoint.codec import plain
from smcpn.checkpoint.container import DISCOVERY, FORMAT_VERSION, STREAM, kind_of, previous_of
from smcpn.checkpoint.discovery import read_discovery
from smcpn.checkpoint.run import FileHeader, Header, Version, read_run
from smcpn.checkpoint.stream import read_stream
from smcpn.discovery.results.discovery import FEW_MODELS
from smcpn.errors import InputError, visible
from smcpn.model.prior import Prior
from smcpn.smc.state import SamplerState


def inspect(path: Path) -> str:
    """Return what is in the checkpoint of a run, a discovery or a stream, as text.

    Raises `InputError` if there is none that is whole.
    """
    kinds = kind_of(path), kind_of(previous_of(path))
    # Either version says of what it is, where the other is damaged.
    told = [LINES[one] for one in kinds if one in LINES]
    lines = (told[0] if told else _run_lines)(path)
    return visible("\n".join(lines), keep="\n")


def _stream_lines(path: Path) -> list[str]:
    stored = read_stream(path)
    problem, population, axis = stored.problem, stored.state.population, stored.state.axis
    arguments = ", ".join([*problem.ode.states, *problem.ode.inputs])
    unit = problem.records[0].t_unit
    since = f", t = 0 is {axis.epoch}" if axis.epoch else ""
    end = f" to t = {duration(axis.last, unit)}" if axis.count else ""
    options = {name: value for name, value in stored.options.items() if value is not None}
    return [
        f"{path}: stream, format {FORMAT_VERSION}, {path_size(path)}",
        *fact_lines(
            [
                (
                    "model",
                    f"{problem.ode.name}({arguments}), unknown {', '.join(problem.prior.names)}",
                ),
                ("samples", f"{axis.count}{end}{since}"),
                ("solver", str(stored.settings.solver)),
                ("requested", ", ".join(f"{name} {value}" for name, value in options.items())),
            ]
        ),
        "",
        f"{len(population.system)} particles, ESS {population.system.ess:.0f}, "
        f"{population.sample} samples, {len(population.rejuvenations)} rejuvenations",
        *_parameter_lines(problem.prior, population),
    ]


def _run_lines(path: Path) -> list[str]:
    stored = read_run(path)
    header = stored.header
    lines = [
        *_head(path, header, stored.version),
        *fact_lines([
            _model_of(header),
            ("records", _records_of(header, path)),
            ("requested", ", ".join(f"{k} {v}" for k, v in header.settings if k not in _UNSHOWN)),
            ("solver", str(stored.state.solver)),
            *([("not stored", header.not_stored)] if header.not_stored else []),
        ]),
    ]  # fmt: skip
    for number, sampler in enumerate(stored.state.samplers):
        lines += ["", *_population_lines(header, number, sampler)]
    return lines


def _discovery_lines(path: Path) -> list[str]:
    stored = read_discovery(path)
    header, search = stored.header, stored.state.search
    settings = plain(header.settings)
    wanted = {name: one for name, one in settings.items() if one not in (None, [], ())}
    lines = [
        *_head(path, header, stored.version),
        *fact_lines([
            ("terms", f"{header.coefficients} coefficients of {header.observe.shape[1]} equations"),
            ("records", _records_of(header, path)),
            ("requested", ", ".join(f"{name} {value}" for name, value in wanted.items())),
            ("so far", f"{stored.state.place}, which has {search.point.support.sum()} terms"),
            *([("not stored", header.not_stored)] if header.not_stored else []),
        ]),
    ]  # fmt: skip
    if search.counted is None:
        return lines
    columns = Column("model"), Column("terms"), Column("log-evidence", ".2f")
    rows = [
        [k, int(one.point.support.sum()), one.log_evidence]
        for k, one in enumerate(search.counted.maxima[:FEW_MODELS])
    ]
    return [*lines, "", table_text(Table(columns, rows))]


def _head(path: Path, header: FileHeader, version: Version) -> list[str]:
    """Return the lines on a file and what wrote it."""
    return [
        f"{path}: {version.status}, format {FORMAT_VERSION}, {path_size(path)}",
        f"started {header.created}, written {version.written}, "
        + ", ".join(f"{name} {one}" for name, one in header.versions.items()),
    ]


LINES = {STREAM: _stream_lines, DISCOVERY: _discovery_lines}
"""What describes files, by their kind; all others are described as those of runs."""

_UNSHOWN = ("solver", "entropy", "moves", "block", "start")


def path_size(path: Path) -> str:
    """Return the size of a file in kilobytes."""
    return f"{path.stat().st_size / 1e3:.0f} kB" if path.exists() else "absent"


def _model_of(header: Header) -> Fact:
    names = ", ".join(header.names)
    if header.problem is None:
        return "parameters", names
    ode = header.problem.ode
    arguments = ", ".join([*ode.states, *ode.inputs])
    return "model", f"{ode.name}({arguments}), unknown {names}"


def _records_of(header: FileHeader, path: Path) -> str:
    where = path.with_name(header.data_file)
    state = path_size(where) if header.data_file else "not stored"
    return f"{header.n_samples} samples in {header.data_file or 'no file'} ({state})"


def _population_lines(header: Header, number: int, sampler: SamplerState) -> list[str]:
    system, total = sampler.system, header.settings.replicates
    bridge = "" if sampler.exponent is None else f" and {sampler.exponent:.2g} of the next"
    evidence = sampler.trace.log_evidence
    known = f", log-evidence {evidence[-1]:.2f}" if len(evidence) else ""
    head = (
        f"population {number + 1} of {total}: {len(system)} particles, ESS {system.ess:.0f}, "
        f"{sampler.sample} of {header.n_samples} samples{bridge}, "
        f"{len(sampler.rejuvenations)} rejuvenations{known}"
    )
    prior = _prior(header)
    return [head] if prior is None else [head, *_parameter_lines(prior, sampler)]


def _prior(header: Header) -> Prior | None:
    """Prior of a run; None where its model is not stored."""
    with suppress(InputError):
        return None if header.problem is None else header.problem.prior
    return None


def _parameter_lines(prior: Prior, sampler: SamplerState) -> list[str]:
    values, weights = prior.natural(sampler.system.theta), sampler.system.weights
    mean = weights @ values
    sd = np.sqrt(weights @ np.square(values - mean))
    columns = words("parameter"), Column("mean", ".5g"), Column("sd", ".2g")
    return [table_text(Table(columns, list(zip(prior.names, mean, sd, strict=True))))]
