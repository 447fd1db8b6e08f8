"""What the arrays of a file may hold: types, shapes by common sizes, and bounds of their values.

Sizes have names: ``N`` particles, ``d`` parameters, ``k`` numbers of a solver's state, ``T``
samples, ``B`` keys of an estimated likelihood. One that is not known before is that of the first
array which has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.checkpoint.container import DAMAGED, DamagedFileError
from smcpn.io.plain import Array
from smcpn.smc.estimation import MOST_STATE_PARTICLES
from smcpn.smc.rejuvenation import Rejuvenation

Sizes = dict[str, int]

LARGEST = np.finfo(float).max
MOST_COUNT = 1 << 53
"""Of what is counted: a float can hold it too."""
HIGHEST_LOG_DENSITY = 1e15
HIGHEST_R_HAT = 1e200
"""More than populations have of which each is a single point."""
PROPOSAL_BYTES = 32


@dataclass(frozen=True)
class Values:
    """Numbers of a type, a shape and a range.

    Attributes
    ----------
    dtype : str
    shape : tuple of int or str
        Lengths, or names of sizes.
    least : float
    most : float or str
        Bounds, both allowed: numbers, or the name of a size.
    below : str
        Name of a size that is greater than all; empty for none.
    missing : bool
        Whether NaN is allowed.
    rising : bool
        Whether each is greater than the one before.
    """

    dtype: str = "f8"
    shape: tuple[int | str, ...] = ()
    least: float = -LARGEST
    most: float | str = LARGEST
    below: str = ""
    missing: bool = False
    rising: bool = False

    def check(self, name: str, values: NDArray[Any], sizes: Sizes) -> None:
        """Refuse other values; put lengths that were not known before among the sizes.

        Raises
        ------
        DamagedFileError
        """
        if values.dtype != np.dtype(self.dtype) or values.ndim != len(self.shape):
            raise _refused(name, f"has {values.dtype} and the shape {values.shape}")
        for length, side in zip(values.shape, self.shape, strict=True):
            known = sizes.setdefault(side, length) if isinstance(side, str) else side
            if length != known:
                raise _refused(name, f"has the shape {values.shape}, where {side} is {known}")
        most = sizes[self.most] if isinstance(self.most, str) else self.most
        most = sizes[self.below] - 1 if self.below else most
        # Sums of weights exceed what they are by rounding.
        slack = 1e-9 * max(1.0, abs(most)) if values.dtype.kind == "f" and most < LARGEST else 0.0
        inside = (values >= self.least - slack) & (values <= most + slack)
        if self.missing:
            inside |= np.isnan(values)
        if not inside.all():
            raise _refused(name, f"holds {values[~inside].flat[0]}")
        if self.rising and not (np.diff(values, axis=0) > 0).all():
            raise _refused(name, "does not rise")


def _refused(name: str, reason: str) -> DamagedFileError:
    return DamagedFileError(f"'{name}' {reason}: {DAMAGED}")


def counts(*shape: str | int, most: float | str = MOST_COUNT) -> Values:
    """Whole numbers from 0."""
    return Values("i8", shape, 0, most)


def indices(*shape: str | int, of: str) -> Values:
    """Whole numbers from 0, less than a size."""
    return Values("i8", shape, 0, below=of)


def finite(*shape: str | int, **bounds: Any) -> Values:
    """Finite numbers."""
    return Values("f8", shape, **bounds)


def log_densities(*shape: str | int) -> Values:
    """Logarithms of densities, which may be zero but not infinite."""
    return Values("f8", shape, -np.inf, HIGHEST_LOG_DENSITY)


def log_evidences(*shape: str | int) -> Values:
    """Logarithms of evidences, NaN where there is none."""
    return finite(*shape, least=-HIGHEST_LOG_DENSITY, most=HIGHEST_LOG_DENSITY, missing=True)


ANY: dict[str, Any] = {"least": -np.inf, "most": np.inf, "missing": True}
"""Bounds that hold no number back."""
SHARE: dict[str, Any] = {"least": 0.0, "most": 1.0}

POPULATION: dict[str, Values] = {
    "sample": counts(most="T"),
    "refining": counts(most=1),
    "exponent": finite(**SHARE, missing=True),
    "ess_before": finite(least=0.0, most="N", missing=True),
    "log_evidence_at_resampling": finite(),
    "variance_at_start": finite(least=0.0),
    "unrelated_at_start": finite(**SHARE),
    "pareto_k": finite(**ANY),
    "state_particles": counts(most=MOST_STATE_PARTICLES),
    "look_ahead": counts(most=1),
    "log_floor": finite(missing=True),
    "estimate_variance": finite(least=0.0, most=np.inf, missing=True),
}
"""Attributes of a population, but for the state of its random generator."""
PARTICLES: dict[str, Values] = {
    "theta": finite("N", "d"),
    "values": finite("N", "d", **ANY),
    "log_weights": log_densities("N"),
    "log_prior": log_densities("N"),
    "log_likelihood": log_densities("N"),
    "log_increment": log_densities("N"),
    "state": finite("k", "N", **ANY),
    "ancestor": indices("N", of="N"),
    "lineage": indices("N", of="N"),
    "keys": Values("u8", ("N", "B"), 0),
}
HISTORY: dict[str, Values] = {
    "kept": finite("kept", 2, missing=True),
    "last": finite(2, missing=True),
    "log_pair_ratios": finite("resamplings"),
    "factors": finite("factors", least=1.0, most=1e12),
}
PATH: dict[str, Values] = {
    "length": counts(most="T"),
    "stride": Values("i8", (), 1, MOST_COUNT),
    "first": counts(most="T"),
}
"""Attributes of the history."""
REJUVENATIONS: dict[str, Values] = {
    "sample": counts("rows", most="T"),
    "exponent": finite("rows", **SHARE),
    "ess": finite("rows", least=0.0, most="N"),
    "acceptance": finite("rows", **SHARE),
    "moves": counts("rows"),
    "evaluations": counts("rows"),
    "seconds": finite("rows", least=0.0),
    "ess_after": finite("rows", least=0.0, most="N", missing=True),
    "accepted": counts("rows"),
    "increments": counts("rows"),
    "diverged": counts("rows"),
    "log_pair_ratio": finite("rows"),
    "ancestors": counts("rows", most="N"),
    "lineages": counts("rows", most="N"),
    "unmoved": finite("rows", **SHARE),
    "state_particles": counts("rows", most=MOST_STATE_PARTICLES),
    "gradients": counts("rows"),
    "step": finite("rows", least=0.0),
    "time": finite("rows", least=0.0),
    "chains": counts("rows", most="N"),
    "start_correlation": finite("rows", **SHARE),
    "efficiency": finite("rows", least=0.0, missing=True),
    "missed": finite("rows", **ANY),
    "evidence_log": finite("rows", least=-np.inf, missing=True),
    "evidence_variance": finite("rows", least=0.0, most=np.inf),
}
"""Columns of the table of rejuvenations, but for the names of their proposals."""
STREAM: dict[str, Values] = {
    "t": finite("T", rising=True),
    "u": finite("T", "n"),
    "y": finite("T", "q", missing=True),
    "held": finite("n"),
    "innovation": finite("q", **ANY),
    "prediction": finite(2, "q", **ANY),
    "start": finite(2, "begun"),
}
"""Arrays of a stream; ``begun`` is 0 for the first window, and the number of states later."""
FORGETTING: dict[str, Values] = {
    "noted": Values("i8", ("noted",), 0, MOST_COUNT, rising=True),
    "states": finite("noted", "states"),
}
"""Further arrays of a stream that forgets."""

NESTED: dict[str, Values] = {
    "theta": finite("N", "d"),
    "log_weights": log_densities("N"),
    "filters": finite("filters", "size", **ANY),
    "last": finite("last", "row", missing=True),
    "held": finite("n"),
}
"""Arrays of a nested filter: ``filters`` is N, and ``last`` one, once there was a sample."""

DRAWS: dict[str, Values] = {
    "theta": finite("N", "d"),
    "log_weights": log_densities("N"),
    "log_likelihood": log_densities("N"),
    "ancestor": counts("ancestral"),
    "replicate": counts("replicated", most="N"),
    "log_evidences": log_evidences("R"),
    "path_samples": Values("i8", ("K",), 0, most="T", rising=True),
    "ess_path": finite("K", least=0.0, most="N", missing=True),
    "log_evidence_path": log_evidences("K"),
    "r_hat": finite("d", least=0.0, most=HIGHEST_R_HAT, missing=True),
}
"""Arrays of a posterior beside its rejuvenations."""
CHAINS: dict[str, Values] = {
    "divergent": counts("C", "D", most=1),
    "depth": counts("C", "D"),
    "steps": counts("C", "D"),
    "at_greatest_depth": counts("C", "D", most=1),
    "step_size": finite("C", "D", least=0.0),
    "energy": finite("C", "D", **ANY),
    "log_density": finite("C", "D", **ANY),
    "ess_bulk": finite("d", least=0.0, missing=True),
    "ess_tail": finite("d", least=0.0, missing=True),
}
"""Further arrays of the draws of Markov chains."""

COLUMNS = [field for field in fields(Rejuvenation) if field.name != "evidence"]
_FORMATS = {"int": "i8", "float": "f8", "str": f"S{PROPOSAL_BYTES}"}
TABLE = np.dtype(
    [(field.name, _FORMATS[str(field.type)]) for field in COLUMNS]
    + [("evidence_log", "f8"), ("evidence_variance", "f8")]
)
"""Type of the table of rejuvenations."""
TABLE_OF_4 = np.dtype([(name, TABLE[name]) for name in TABLE.names or () if name != "missed"])
"""The same in a result of format 4; what it lacks has the default of `Rejuvenation`."""


def checked(
    kind: str, found: Mapping[str, Any], wanted: Mapping[str, Values], sizes: Sizes
) -> dict[str, NDArray[Any]]:
    """Return values by name, exactly those that are wanted.

    Parameters
    ----------
    kind : str
        What they belong to, for messages.
    found : mapping of str to Array, ndarray or number
    wanted : mapping of str to Values
    sizes : dict of str to int
        Those that are known; others are added.

    Raises
    ------
    DamagedFileError
        Names the first that is absent, unknown, or not as it should be.
    """
    for name in sorted(found.keys() ^ wanted.keys()):
        reason = "is absent" if name in wanted else "is not known"
        raise _refused(f"{kind}/{name}", reason)
    values = {
        name: np.asarray(one.values if isinstance(one, Array) else one)
        for name, one in found.items()
    }
    for name, one in wanted.items():
        one.check(f"{kind}/{name}", values[name], sizes)
    return values
