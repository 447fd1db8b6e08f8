"""A problem as a document of names and numbers, and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import shown
from smcpn.checkpoint.document import DAMAGED, entry, numbers, texts, words
from smcpn.checkpoint.priors import prior_document, restored_prior
from smcpn.errors import InputError, NotStorableError
from smcpn.expression import ExpressionTable
from smcpn.model import Model
from smcpn.ode import ODE
from smcpn.prior import Prior
from smcpn.problem import Problem, check_record
from smcpn.record import Record

Arrays = dict[str, NDArray[Any]]


def problem_document(problem: Problem) -> tuple[dict[str, Any], Arrays]:
    """Write everything of a problem but its records.

    Returns
    -------
    document : dict
        What JSON can hold: names, text, priors as families and numbers, known numbers.
    arrays : dict of str to ndarray
        The expression tables of the ODE and of the model, and the model's constants:
        ``"ode/operation"``, ``"model/operands"``, ...

    Raises
    ------
    NotStorableError
        If a prior or the model cannot be put together again from plain data.
    """
    ode = problem.ode
    document = {
        "ode": {
            "name": ode.name,
            "doc": ode.doc,
            "states": list(ode.states),
            "inputs": list(ode.inputs),
            "parameters": list(ode.parameters),
            "defaults": dict(ode.defaults),
            "chains": dict(ode.chains),
        },
        "priors": [
            {"name": name, "distribution": prior_document(name, distribution)}
            for name, distribution in problem.prior.distributions.items()
        ],
        "coordinates": dict(problem.prior.coordinates),
        "fixed": dict(problem.fixed),
        "diffusion": problem.diffusion or "",
        "given": {
            "observe": problem.observe, "noise": problem.noise, "initial": problem.initial
        },
    }  # fmt: skip
    arrays = table_arrays(problem)
    for name in ("ode", "model"):
        table = _table(arrays, name)
        if not ExpressionTable.of(table.function(name)).same_as(table):
            raise NotStorableError(
                f"model '{ode.name}' would not be the same after it was read from a file: "
                "resume from the script"
            )
    return document, arrays


def table_arrays(problem: Problem) -> Arrays:
    """The expression tables of a problem, and its constants."""
    tables = {"ode": ExpressionTable.of(problem.ode.rhs), "model": problem.model.table()}
    arrays: Arrays = {
        f"{owner}/{name}": values
        for owner, table in tables.items()
        for name, values in table.arrays().items()
    }
    return arrays | {"model/constant_values": np.array(problem.model.constant_values, dtype=float)}


def restored_problem(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], records: Sequence[Record]
) -> Problem:
    """Put a problem together that `problem_document` wrote.

    Parameters
    ----------
    document, arrays
        What was written.
    records : sequence of Record
        See `restored_records`.

    Raises
    ------
    InputError
        If the parts are damaged or do not fit each other.
    """
    ode = _restored_ode(entry(document, "ode", dict), arrays)
    priors = entry(document, "priors", list)
    names = [entry(prior, "name", str) for prior in priors]
    if len(set(names)) < len(names):
        raise InputError(f"stored priors are of {shown(names)}: {DAMAGED}")
    prior = Prior(
        {
            name: restored_prior(name, entry(prior, "distribution", dict))
            for name, prior in zip(names, priors, strict=True)
        },
        words(document, "coordinates"),
    )
    model, given = _restored_model(arrays), entry(document, "given", dict)
    observe, noise = entry(given, "observe", list), entry(given, "noise", list)
    sizes = (ode.rhs.size1_out(0), len(ode.inputs), len(prior), len(observe), len(records))
    own = (*(v.numel() for v in (model.x, model.u, model.theta, model.outputs)), len(model.initial))
    if sizes != own:
        raise InputError(f"stored model has the sizes {own}, its names and records {sizes}")
    for record in records:
        check_record(record, ode, len(observe))
    return Problem.assembled(
        ode=ode,
        records=tuple(records),
        model=model,
        prior=prior,
        fixed=numbers(document, "fixed"),
        observe=observe,
        noise=noise,
        initial=entry(given, "initial", str, list, dict, float),
        diffusion=entry(document, "diffusion", str) or None,
    )


def _restored_ode(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> ODE:
    states, inputs = texts(document, "states"), texts(document, "inputs")
    parameters, table = texts(document, "parameters"), _table(arrays, "ode")
    sizes = [len(states), len(inputs), 1, len(parameters)]
    if table.input_shapes.tolist() != [[n, 1] for n in sizes] or table.output_shapes.tolist() != [
        [len(states), 1]
    ]:
        raise InputError(f"the stored table of the ODE does not fit its names: {DAMAGED}")
    chains = words(document, "chains")
    if not set(states) >= {*chains, *chains.values()}:
        raise InputError(f"stored 'chains' is {shown(chains)}: {DAMAGED}")
    return ODE(
        name=entry(document, "name", str),
        states=states,
        inputs=inputs,
        parameters=parameters,
        defaults=numbers(document, "defaults"),
        rhs=table.function("rhs"),
        chains=chains,
        doc=entry(document, "doc", str),
    )


def _restored_model(arrays: Mapping[str, NDArray[Any]]) -> Model:
    values = np.asarray(arrays.get("model/constant_values"))
    if values.ndim != 1 or values.dtype != np.float64 or not np.isfinite(values).all():
        raise InputError(f"the stored constants of the model are {shown(values)}: {DAMAGED}")
    return Model.from_table(_table(arrays, "model"), values.tolist())


def _table(arrays: Mapping[str, NDArray[Any]], owner: str) -> ExpressionTable:
    prefix = f"{owner}/"
    return ExpressionTable.from_arrays(
        {name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)}
    )
