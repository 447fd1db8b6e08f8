"""SHA-256 of a problem, and of the data that a run has used so far."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.checkpoint.problem import stored_distribution, stored_function
from smcpn.errors import InputError, NotStorableError
from smcpn.model.delay import Delay, inputs_before
from smcpn.model.distribution import Distribution
from smcpn.model.functions.unknown import UnknownFunction
from smcpn.model.problem import Problem
from smcpn.model.record import BESIDE, CONTEXT, Record
from smcpn.model.signal import RecordSamples


def model_fingerprint(problem: Problem) -> str:
    """SHA-256 of the equations, the priors and the known numbers, as hexadecimal digits.

    What only tables show does not count: the name of the model, its text, how an observed
    function is called. Of a prior that cannot be stored the class counts, not its numbers.
    """
    ode, prior = problem.ode, problem.prior
    digest = _Digest()
    delay = {"delay": problem.delay} if problem.delay else {}
    algebraic = {"algebraic": ode.algebraic} if ode.algebraic else {}
    accumulators = {"accumulators": ode.accumulators} if ode.accumulators else {}
    digest.document(
        {
            **delay,
            **accumulators,
            **algebraic,
            "names": [ode.states, ode.inputs, ode.parameters],
            "priors": [[name, _identity(name, d)] for name, d in prior.distributions.items()],
            "coordinates": [coordinate.name for coordinate in prior.maps],
            "scales": dict(prior.scales),
            "fixed": dict(problem.fixed),
            "sizes": dict(ode.sizes),
            "functions": [_function(name, one.function) for name, one in ode.functions.items()],
        }
    )
    for owner, table in (("model", problem.model.table()), ("ode", ode.table())):
        for name, values in sorted(table.arrays().items()):
            digest.array(f"{owner}/{name}", values)
    digest.array("constants", np.array(problem.model.constant_values, dtype=float))
    return digest.hexadecimal()


def data_fingerprint(records: Sequence[Record], n_samples: int, delay: Delay | None = None) -> str:
    """SHA-256 of the first ``n_samples`` samples, counted through the records in order.

    All that the likelihood of these samples reads: records may become longer at the end, or more,
    and the fingerprint stays. The band-limited input near the last sample depends on the
    `CONTEXT` samples after it, so these count as well where that is the hold, and with a ``delay``
    of inputs those before the first sample.

    Raises `InputError` if there are not so many samples.
    """
    digest, left = _Digest(), n_samples
    for number, record in enumerate(records):
        used = min(left, len(record))
        if used <= 0:
            break
        _add_record(digest, number, record, used)
        if delay is not None:
            number_before = max(span.most for span in delay.spans([record]))
            digest.array("before", inputs_before(record, number_before)[:, list(delay.inputs)])
        left -= used
    if left:
        raise InputError(
            f"the records have {n_samples - left} samples, {n_samples} were used: "
            "give the same data, which may be longer"
        )
    return digest.hexadecimal()


def digest_of(document: Any, arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of values for JSON and of arrays by name, as hexadecimal digits."""
    digest = _Digest()
    digest.document(document)
    for name, values in arrays.items():
        digest.array(name, values)
    return digest.hexadecimal()


def _add_record(digest: _Digest, number: int, record: Record, used: int) -> None:
    known = record.u_function is not None
    digest.document({"record": number, "hold": "function" if known else record.hold})
    u = record.u[:used]
    if record.hold == "bandlimited" and not known:
        # The interpolation of whole periods reads all of them.
        around = RecordSamples(record).columns(-CONTEXT, used + CONTEXT)
        u = record.u if record.periodic else around[:, 1 : 1 + record.n_inputs]
    digest.array("u", u)
    digest.array("y", record.y[:used])
    digest.array("t", record.t[:used])
    for name in BESIDE:
        if getattr(record, name) is not None:
            digest.array(name, getattr(record, name)[:used])


def _identity(name: str, distribution: Distribution) -> dict[str, Any]:
    try:
        return asdict(stored_distribution(name, distribution))
    except NotStorableError:
        kind = type(distribution)
        return {"class": f"{kind.__module__}.{kind.__qualname__}"}


def _function(name: str, function: UnknownFunction) -> dict[str, Any]:
    try:
        return asdict(stored_function(name, function))
    except NotStorableError:
        return {"name": name, "class": type(function).__qualname__}


class _Digest:
    """A hash of documents and arrays that is the same on every machine and Python."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def document(self, document: Any) -> None:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        self._add(text.encode())

    def array(self, name: str, values: NDArray[Any]) -> None:
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        if little.dtype.kind == "f":
            # A missing sample has more than one bit pattern.
            little = np.where(np.isnan(little), np.nan, little).astype(little.dtype)
        self._add(f"{name} {little.dtype.str} {little.shape}".encode())
        self._add(little.tobytes())

    def hexadecimal(self) -> str:
        return self._hash.hexdigest()

    def _add(self, data: bytes) -> None:
        self._hash.update(len(data).to_bytes(8, "little"))
        self._hash.update(data)
