"""What is in a checkpoint, as text; neither the model nor the records are needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from smcpn.checkpoint.codec import FORMAT_VERSION, Contents
from smcpn.checkpoint.problem import restored_prior
from smcpn.checkpoint.stored_run import stored_contents
from smcpn.columns import align
from smcpn.errors import InputError
from smcpn.model.prior import Prior
from smcpn.smc.sampler import Snapshot


def inspect(path: Path) -> str:
    """Describe a checkpoint.

    Raises
    ------
    InputError
        If there is none that is whole.
    """
    contents = stored_contents(path)
    begun = contents.begun
    lines = [
        f"{path}: {contents.status}, format {FORMAT_VERSION}, {path_size(path)}",
        f"begun {begun.created}, written {contents.written}, "
        + ", ".join(f"{name} {version}" for name, version in begun.versions.items()),
        _model_line(contents),
        _records_line(contents, path),
        "asked for   "
        + ", ".join(f"{k} {v}" for k, v in begun.configuration.items() if k not in _UNSHOWN),
        f"solver      {contents.snapshot.solver}",
    ]
    if begun.not_stored:
        lines.append(f"not stored  {begun.not_stored}")
    for number, sampler in enumerate(contents.snapshot.samplers):
        lines += ["", *_population_lines(contents, number, sampler)]
    return "\n".join(lines)


_UNSHOWN = ("solver", "entropy", "moves", "block", "start")


def path_size(path: Path) -> str:
    """Size of a file in kilobytes."""
    return f"{path.stat().st_size / 1e3:.0f} kB" if path.exists() else "absent"


def _model_line(contents: Contents) -> str:
    ode = contents.begun.problem.get("ode")
    names = ", ".join(contents.begun.names)
    if ode is None:
        return f"parameters  {names}"
    arguments = ", ".join([*ode["states"], *ode["inputs"]])
    return f"model       {ode['name']}({arguments}), unknown {names}"


def _records_line(contents: Contents, path: Path) -> str:
    begun = contents.begun
    where = path.with_name(begun.data_file)
    state = path_size(where) if begun.data_file else "not stored"
    return f"records     {begun.n_samples} samples in {begun.data_file or 'no file'} ({state})"


def _population_lines(contents: Contents, number: int, sampler: Snapshot) -> list[str]:
    system, total = sampler.system, contents.begun.configuration["replicates"]
    bridge = "" if sampler.exponent is None else f" and {sampler.exponent:.2g} of the next"
    evidence = sampler.trace.log_evidence
    known = f", log-evidence {evidence[-1]:.2f}" if len(evidence) else ""
    head = (
        f"population {number + 1} of {total}: {len(system)} particles, ESS {system.ess:.0f}, "
        f"{sampler.sample} of {contents.begun.n_samples} samples{bridge}, "
        f"{len(sampler.rejuvenations)} rejuvenations{known}"
    )
    return [head, *_parameter_lines(contents, sampler)]


def _parameter_lines(contents: Contents, sampler: Snapshot) -> list[str]:
    try:
        prior = Prior(
            {
                entry["name"]: restored_prior(entry["name"], entry["distribution"])
                for entry in contents.begun.problem["priors"]
            },
            contents.begun.problem["coordinates"],
        )
    except (KeyError, InputError):
        return []
    values, weights = prior.natural(sampler.system.theta), sampler.system.weights
    mean = weights @ values
    sd = np.sqrt(weights @ np.square(values - mean))
    rows = [["parameter", "mean", "sd"]]
    rows += [
        [name, f"{m:.5g}", f"{s:.2g}"]
        for name, m, s in zip(contents.begun.names, mean, sd, strict=True)
    ]
    return [align(rows, left=(0,))]
