"""The checkpoint of a discovery: its question as plain data, and its state.

The terms of the library and what is known of the equations are graphs, as tables of operations;
constraints are texts, read again as they were given. Records are a file beside, as those of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

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
from smcpn.errors import InputError, NotStorableError
from smcpn.io.hdf5_subset import Group
from smcpn.model.expression import ExpressionTable
from smcpn.values.stored import Name, Names, Number, Stored, Whole, counts, finite, truths

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StoredKnown(Stored):
    """The known part of the equations, see `KnownPart`."""

    rhs: ExpressionTable
    parameters: Names
    defaults: dict[Name, Number]
    complete: Annotated[NDArray[np.bool_], truths("n")]
    diffusion: ExpressionTable | None


@dataclass(frozen=True)
class StoredSystem(Stored):
    """A `CandidateSystem` but for its constraints, with p terms for n states and m inputs."""

    states: Names
    inputs: Names
    names: Names
    degrees: tuple[Whole, ...]
    allowed: Annotated[NDArray[np.bool_], truths("n", "p")]
    powers: Annotated[NDArray[np.int64], counts("p", None)]
    terms: ExpressionTable
    known: StoredKnown

    @classmethod
    def of(cls, system: CandidateSystem) -> Self:
        """Return a system as plain data.

        Raises
        ------
        NotStorableError
            If a term or the known part is no graph of elementary operations.
        """
        candidates, known = system.candidates, system.known
        try:
            diffusion = None if known.diffusion is None else ExpressionTable.of(known.diffusion)
            return cls(
                states=candidates.states,
                inputs=candidates.inputs,
                names=candidates.names,
                degrees=candidates.degrees,
                allowed=candidates.allowed,
                powers=candidates.powers,
                terms=candidates.table,
                known=StoredKnown(
                    rhs=ExpressionTable.of(known.rhs),
                    parameters=known.parameters,
                    defaults=dict(known.defaults),
                    complete=known.complete,
                    diffusion=diffusion,
                ),
            )
        except InputError as error:
            raise NotStorableError(f"the equations cannot be stored ({error})") from error

    def restored(self, constraints: tuple[str, ...]) -> CandidateSystem:
        """Return the system under constraints.

        Raises
        ------
        InputError
            If the parts do not fit each other.
        """
        self._require_whole()
        n, m = len(self.states), len(self.inputs)
        candidates = Candidates.restored(
            names=self.names,
            degrees=self.degrees,
            allowed=self.allowed,
            states=self.states,
            inputs=self.inputs,
            scale=np.ones(n + m),
            powers=self.powers,
            table=self.terms,
        )
        known, table = self.known, self.known.diffusion
        part = KnownPart(
            rhs=known.rhs.function("rhs"),
            parameters=known.parameters,
            defaults=known.defaults,
            complete=known.complete,
            diffusion=None if table is None else table.function("diffusion"),
        )
        return CandidateSystem(candidates, part, Freedom.of(candidates, constraints, part))

    def _require_whole(self) -> None:
        n, m, p, known = len(self.states), len(self.inputs), len(self.names), self.known
        own = [[n, 1], [m, 1], [1, 1], [len(known.parameters), 1]]
        tables = [(known.rhs, own, [[n, 1]])]
        tables += [(self.terms, [[n, 1], [m, 1], [1, 1], [n, 1], [m, 1]], [[p, 1]])]
        fits = (
            self.allowed.shape == (n, p)
            and self.powers.shape == (p, n + m)
            and len(self.degrees) == p
            and known.complete.shape == (n,)
            and not self.allowed[known.complete].any()
            and bool(self.allowed.any())
            and set(known.defaults) <= set(known.parameters)
            and all(
                table.input_shapes.tolist() == arguments and table.output_shapes.tolist() == results
                for table, arguments, results in tables
            )
        )
        if known.diffusion is not None:
            shapes = known.diffusion.output_shapes
            fits = fits and known.diffusion.input_shapes.tolist() == own
            fits = fits and len(shapes) == 1 and int(shapes[0, 0]) == n
        if not fits:
            raise DamagedFileError(f"the stored equations do not fit each other: {DAMAGED}")


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

    Attributes
    ----------
    settings : DiscoverySettings
    observe : ndarray, (q, n)
        Outputs are ``observe @ x`` and noise.
    coefficients : int
        Free coefficients of the system, K.
    system : StoredSystem or None
        None where it cannot be stored.
    """

    settings: DiscoverySettings
    observe: Annotated[Array, finite("q", "n")]
    coefficients: Whole
    system: StoredSystem | None

    @override
    def require_whole(self) -> None:
        super().require_whole()
        n = self.observe.shape[1]
        if self.system is not None and len(self.system.states) != n:
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
