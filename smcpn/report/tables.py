"""Tables of a report, as text in cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from smcpn.posterior import Posterior
    from smcpn.simulation.particles import Simulation
    from smcpn.validation.comparison import ComparedLikelihood


@dataclass(frozen=True)
class Table:
    """Column heads and rows of cells."""

    columns: list[str]
    rows: list[list[str]]


def summary_facts(posterior: Posterior) -> list[tuple[str, str]]:
    """The figures a reader looks for first, as (name, value)."""
    timing = posterior.timing
    return [
        ("samples", f"{posterior.problem.n_samples}"),
        ("particles", f"{len(posterior.theta)}"),
        ("log-evidence", f"{posterior.log_evidence:.2f}"),
        ("rejuvenations", f"{len(posterior.rejuvenations)}"),
        ("proposals accepted", _percent(posterior.acceptance)),
        ("solver / noise variance", f"{posterior.budget.share:.2g}"),
        ("time", f"{timing.wall:.2f} s"),
    ]


def parameter_table(posterior: Posterior, truth: Mapping[str, float]) -> Table:
    """Posterior of each parameter beside its prior, and beside the truth where it is known."""
    columns = ["parameter", "mean", "sd", "sd %", "2.5 %", "97.5 %"]
    rows = [
        [
            row.name,
            *row.figures,
            *([f"{truth[row.name]:.5g}" if row.name in truth else ""] if truth else []),
            row.flag,
            row.prior,
        ]
        for row in posterior.table()
    ]
    return Table([*columns, *(["truth"] if truth else []), "", "prior"], rows)


def likelihood_table(rows: Sequence[ComparedLikelihood]) -> Table:
    """How other likelihoods see the posterior."""
    columns = ["likelihood", "solver", "log-likelihood", "particles kept", "largest shift", ""]
    return Table(
        columns,
        [
            [
                row.name,
                str(row.solver),
                f"{row.log_likelihood:.2f}",
                _percent(row.kept),
                f"{row.shift:.2g} sd",
                row.parameter,
            ]
            for row in rows
        ],
    )


def score_table(
    posterior: Posterior, simulations: Mapping[str, Simulation], published: Mapping[str, Any]
) -> Table:
    """RMSE of free simulations over the particles, with what others have published below."""
    columns = ["test", "unit", "RMSE min", "mean", "max", "of the mean", "fit %", "in 95 % band"]
    rows = []
    for name, simulation in simulations.items():
        for j in range(simulation.rmse.shape[1]):
            rmse = simulation.rmse[:, j]
            figures = [rmse.min(), posterior.weights @ rmse, rmse.max(), simulation.rmse_of_mean[j]]
            label = name if simulation.rmse.shape[1] == 1 else f"{name}, output {j + 1}"
            rows.append(
                [
                    label,
                    simulation.record.y_unit,
                    *(_number(value) for value in figures),
                    f"{simulation.fit[j]:.2f}" if np.isfinite(simulation.fit[j]) else "",
                    _percent(simulation.coverage[j]),
                ]
            )
        if name in published:
            other = published[name]
            figures = [other.rmse_min, other.rmse_mean, other.rmse_max]
            rows.append(["- published", "", *(_number(value) for value in figures), "", "", ""])
    return Table(columns, rows)


def _number(value: Any) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "not measured"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else ""
