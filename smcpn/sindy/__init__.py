"""pysindy's interface to `smcpn.discover`: a script runs with ``import smcpn.sindy as ps``.

Terms have probabilities in place of a threshold: ``coef_std_``, ``inclusion_`` and ``discovery_``
stand beside ``coef_``.
"""

from __future__ import annotations

from typing import Any

from smcpn.sindy import differentiation, feature_library, optimizers
from smcpn.sindy.differentiation import FiniteDifference, SmoothedFiniteDifference
from smcpn.sindy.estimator import SINDy, SINDyWarning
from smcpn.sindy.feature_library import (
    ConcatLibrary,
    CustomLibrary,
    FourierLibrary,
    GeneralizedLibrary,
    IdentityLibrary,
    PolynomialLibrary,
    TensoredLibrary,
)
from smcpn.sindy.optimizers import (
    FROLS,
    MIOSR,
    SBR,
    SR3,
    SSR,
    STLSQ,
    EnsembleOptimizer,
    WrappedOptimizer,
)

_FIELDS = "smcpn identifies ordinary differential equations, not fields"
_IMPLICIT = "the equations of smcpn are explicit, x' = f(x, u)"
_CONSTRAINED = "give constraints to smcpn.discover"
_DERIVATIVES = "trajectories are compared, not derivatives; score takes those of pysindy"
ABSENT = {
    "DiscreteSINDy": "smcpn identifies differential equations, not maps",
    "WeakSINDy": "SINDy compares trajectories, which needs no derivative either",
    "BINDy": "SINDy gives probabilities of terms",
    "PDELibrary": _FIELDS,
    "WeakPDELibrary": _FIELDS,
    "ParameterizedLibrary": "give products of libraries in its place",
    "SINDyPILibrary": _IMPLICIT,
    "SINDyPI": _IMPLICIT,
    "ParallelImplicitSINDy": _IMPLICIT,
    "ConstrainedSR3": _CONSTRAINED,
    "TrappingSR3": _CONSTRAINED,
    "StableLinearSR3": _CONSTRAINED,
    "AxesArray": "give arrays of numpy, (T, n), time along the first axis",
    "SINDyDerivative": _DERIVATIVES,
    "SpectralDerivative": _DERIVATIVES,
}
"""Names of pysindy that are not here, with the reason."""

__all__ = [
    "FROLS",
    "MIOSR",
    "SBR",
    "SR3",
    "SSR",
    "STLSQ",
    "ConcatLibrary",
    "CustomLibrary",
    "EnsembleOptimizer",
    "FiniteDifference",
    "FourierLibrary",
    "GeneralizedLibrary",
    "IdentityLibrary",
    "PolynomialLibrary",
    "SINDy",
    "SINDyWarning",
    "SmoothedFiniteDifference",
    "TensoredLibrary",
    "WrappedOptimizer",
    "differentiation",
    "feature_library",
    "optimizers",
]


def __getattr__(name: str) -> Any:
    if name in ABSENT:
        raise AttributeError(f"smcpn.sindy has no {name}: {ABSENT[name]}")
    raise AttributeError(f"module 'smcpn.sindy' has no attribute '{name}'")
