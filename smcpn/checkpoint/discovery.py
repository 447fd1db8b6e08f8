"""The checkpoint of a discovery: its question as plain data, and its state.

The terms of the library and what is known of the equations are graphs, as tables of operations;
constraints are texts, read again as they were given. Records are a file beside, as those of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.stored import Stored, Whole, finite
from smcpn.checkpoint.codec import decoded, encoded, require_parts
from smcpn.checkpoint.container import DAMAGED, DISCOVERY, DamagedFileError, read
from smcpn.checkpoint.fingerprint import digest_of
from smcpn.checkpoint.run import FileHeader, Status, Version, now, require_population
from smcpn.discovery.equations.candidates import Candidates
from smcpn.discovery.equations.constraints import Freedom
from smcpn.discovery.equations.known import KnownPart
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.question import DiscoverySettings
from smcpn.discovery.stages import PARTICLES, DiscoveryState
from smcpn.io.hdf5_subset import Group
from smcpn.model.expression import ExpressionTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StoredSystem(Stored):
    """A `CandidateSystem` but for its constraints, with p terms for n states and m inputs."""

    candidates: Candidates
    known: KnownPart

    def restored(self, constraints: tuple[str, ...]) -> CandidateSystem:
        """Return the system under constraints.

        Raises `InputError` if the parts do not fit each other.
        """
        self._require_whole()
        free = Freedom.of(self.candidates, constraints, self.known)
        return CandidateSystem(self.candidates, self.known, free)

    def _require_whole(self) -> None:
        terms, known = self.candidates, self.known
        n, m, p = len(terms.states), len(terms.inputs), len(terms.names)
        own = [n, m, 1, len(known.parameters)]
        fits = (
            terms.allowed.shape == (n, p)
            and terms.powers.shape == (p, n + m)
            and np.array_equal(terms.scale, np.ones(n + m))
            and len(terms.degrees) == p
            and known.complete.shape == (n,)
            and not terms.allowed[known.complete].any()
            and bool(terms.allowed.any())
            and set(known.defaults) <= set(known.parameters)
            and _is_of(terms.terms, [n, m, 1, n, m], p)
            and _is_of(known.rhs, own, n)
            and (known.diffusion is None or _is_of(known.diffusion, own, n, None))
        )
        if not fits:
            raise DamagedFileError(f"the stored equations do not fit each other: {DAMAGED}")


def _is_of(function: ca.Function, arguments: list[int], rows: int, columns: int | None = 1) -> bool:
    """True if a function takes columns of these lengths and returns one matrix of this size."""
    taken = [function.size_in(k) for k in range(function.n_in())]
    if taken != [(length, 1) for length in arguments] or function.n_out() != 1:
        return False
    shape = function.size_out(0)
    return shape[0] == rows and columns in (None, shape[1])


def system_fingerprint(system: CandidateSystem) -> str:
    """SHA-256 of the terms, the known part, and what constraints leave free."""
    candidates, known, freedom = system.candidates, system.known, system.freedom
    tables = {"terms": candidates.table, "known": ExpressionTable.of(known.rhs)}
    if known.diffusion is not None:
        tables["diffusion"] = ExpressionTable.of(known.diffusion)
    document = {
        "names": [candidates.states, candidates.inputs, candidates.names],
        "known": [known.parameters, dict(known.defaults)],
        "free": [freedom.names, freedom.signs.tolist()],
    }
    arrays = {"basis": freedom.basis.toarray(), "offset": freedom.offset}
    arrays |= {
        f"{owner}/{name}": values
        for owner, table in tables.items()
        for name, values in sorted(table.arrays().items())
    }
    return digest_of(document, arrays)


@dataclass(frozen=True, kw_only=True)
class DiscoveryHeader(FileHeader):
    """The part of a discovery's checkpoint that stays the same while it goes on.

    observe: (q, n), outputs are ``observe @ x`` and noise.
    coefficients: Free coefficients of the system, K.
    """

    settings: DiscoverySettings
    observe: Annotated[Array, finite("q", "n")]
    coefficients: Whole
    system: StoredSystem

    @override
    def require_whole(self) -> None:
        super().require_whole()
        n = self.observe.shape[1]
        if len(self.system.candidates.states) != n:
            raise DamagedFileError(f"the outputs are of other states: {DAMAGED}")
        known = self.settings.known_noise
        if known is not None and len(known) != len(self.observe):
            raise DamagedFileError(f"the noise is of other outputs: {DAMAGED}")


@dataclass(frozen=True)
class StoredDiscovery:
    """A checkpoint of a discovery, read."""

    header: DiscoveryHeader
    version: Version
    state: DiscoveryState


def discovery_image(state: DiscoveryState, status: Status, header: bytes) -> bytes:
    """Return the bytes of a discovery's checkpoint, onto those of its header."""
    return encoded(DISCOVERY, {"version": Version(status, now()), "discovery": state}, header)


def read_discovery(path: Path) -> StoredDiscovery:
    """Read the checkpoint of a discovery; see `smcpn.checkpoint.container.read`."""
    return read(path, DISCOVERY, discovery_in)


def discovery_in(file: Group) -> StoredDiscovery:
    """Return the discovery of a file, of which all parts fit each other."""
    require_parts(file, "header", "version", "discovery")
    header, version = decoded(file, "header", DiscoveryHeader), decoded(file, "version", Version)
    header.require_whole()
    settings, (q, n) = header.settings, header.observe.shape
    particles = settings.particles or PARTICLES
    sizes = {"N": particles, "T": header.n_samples, "K": header.coefficients, "q": q, "n": n}
    state = decoded(file, "discovery", DiscoveryState, sizes)
    try:
        state.search.require_whole()
    except ValueError as error:
        raise DamagedFileError(f"of a search {error}: {DAMAGED}") from None
    if state.shrinkage is not None:
        for one in state.shrinkage.populations:
            require_population(one)
        drawn = settings.prior is not None and state.search.stage == "end"
        if not drawn or len(state.shrinkage.populations) > (settings.replicates or 1):
            raise DamagedFileError(f"its populations are of no moment of a run: {DAMAGED}")
    return StoredDiscovery(header, version, state)
