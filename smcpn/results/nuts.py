"""The result of `smcpn.nuts`: a `Posterior` whose particles are the draws of Markov chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, Seed, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.stored import Stored, Whole, any_number, counts, finite, truths
from smcpn.base.tables import Fact
from smcpn.results.exports.arviz import exported, observed
from smcpn.results.posterior import Posterior, Robust
from smcpn.results.tables import dataframe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

HIGH_R_HAT = 1.01
LEAST_ESS = 100.0
"""Effective draws of a chain, in the bulk and the tails; both limits from Vehtari et al. (2021)."""
OFTEN = 0.01
"""Share of trajectories at the greatest depth from which it is worth a warning."""


@dataclass(frozen=True)
class ChainStatistics(Stored):
    """Statistics of the No-U-Turn sampler for each draw of C chains, (C, D) each.

    divergent: Whether the energy on the trajectory went astray, or the solution diverged.
    depth, steps: Doublings of the trajectory, and steps of it, each with one gradient.
    at_greatest_depth: Whether the trajectory ended since it had been doubled as often as is
        allowed.
    step_size, energy, log_density: The log density is that of the unconstrained coordinates.
    tune, tune_steps: Draws of each chain before these, which adapted step and metric and were
        dropped, and the gradients of all of them.
    """

    divergent: Annotated[NDArray[np.bool_], truths("C", "D")]
    depth: Annotated[NDArray[np.int64], counts("C", "D")]
    steps: Annotated[NDArray[np.int64], counts("C", "D")]
    at_greatest_depth: Annotated[NDArray[np.bool_], truths("C", "D")]
    step_size: Annotated[Array, finite("C", "D", least=0.0)]
    energy: Annotated[Array, any_number("C", "D")]
    log_density: Annotated[Array, any_number("C", "D")]
    tune: Whole
    tune_steps: Whole

    @property
    def gradients(self) -> int:
        """Gradients of all chains, those of tuning included."""
        return int(self.steps.sum()) + self.tune_steps

    def warnings(self) -> tuple[str, ...]:
        """Problems of the trajectories, one sentence each."""
        found, total = [], self.divergent.size
        if count := int(self.divergent.sum()):
            found.append(
                f"{count} of {total} trajectories diverged: the chains may miss where the "
                "posterior is narrow or the solution diverges; narrow the prior, raise steps, or "
                "take smcpn.identify"
            )
        if (share := float(self.at_greatest_depth.mean())) > OFTEN:
            found.append(
                f"{share:.1%} of the trajectories reached the greatest depth: the metric does not "
                "fit, raise tune"
            )
        return tuple(found)


@checked
@dataclass(frozen=True, kw_only=True, repr=False)
class NutsPosterior(Posterior):
    """The posterior of a problem as draws of Markov chains, all of the same weight.

    All of a `Posterior` is here but the evidence, which chains do not give: ``log_evidence`` is
    nan. Draws follow each other in their chain, and the chains follow each other.

    Attributes
    ----------
    statistics : ChainStatistics
    ess_bulk, ess_tail : ndarray, (d,)
        Independent draws that the chains are worth, for the mean and for a 90 % interval.
    r_hat : ndarray, (d,)
        Rank-normalised split R-hat; nan for one chain.
    replicate : ndarray, (N,)
        Chain of each draw.

    References
    ----------
    Vehtari, A., Gelman, A., Simpson, D., Carpenter, B., Buerkner, P.-C. (2021). Rank-normalization,
    folding, and localization: an improved R-hat. Bayesian Analysis 16.
    """

    statistics: ChainStatistics
    ess_bulk: Annotated[Array, finite("d", least=0.0, missing=True)]
    ess_tail: Annotated[Array, finite("d", least=0.0, missing=True)]

    @property
    def ess(self) -> float:
        """Independent draws that the chains are worth: the least of `ess_bulk`."""
        return float(self.ess_bulk.min())

    @property
    def chains(self) -> Array:
        """Parameter values in the order in which they were drawn, (C, D, d)."""
        return self.values.reshape(*self.statistics.divergent.shape, -1)

    @property
    def run_facts(self) -> list[Fact]:
        """Figures of the chains as (name, value)."""
        made = self.statistics
        chains, draws = made.divergent.shape
        return [
            ("chains", f"{chains} of {draws} draws, after {made.tune} for tuning"),
            ("gradients", f"{made.gradients}, {made.steps.mean():.2g} a draw"),
            ("divergences", f"{int(made.divergent.sum())}"),
            ("effective draws", f"{self.ess:.0f}, {self.ess_tail.min():.0f} in the tails"),
            ("R-hat", f"{self.r_hat.max():.4f}"),
        ]

    def _run(self) -> list[Fact]:
        return self.run_facts

    def _computation(self) -> list[Fact]:
        return self.run_facts

    @property
    def run_caption(self) -> str:
        """Caption of `plot_run`, in a sentence."""
        return "The parameter with the fewest effective draws, and its ranks, in each chain."

    @late_bound
    def plot_run(self) -> Figure:
        """Plot the chains of the parameter with the fewest effective draws, and their ranks."""
        ...

    def robust(self, *, seed: Seed = 0, threads: Count | None = None) -> Robust:
        """As `Posterior.robust`; the posterior in it consists of particles, not of chains."""
        return self.particles().robust(seed=seed, threads=threads)

    def particles(self) -> Posterior:
        """The draws as a plain `Posterior`, which knows nothing of chains."""
        return Posterior(**{field.name: getattr(self, field.name) for field in fields(Posterior)})

    def to_dataframe(self, backend: str = "pandas") -> Any:
        """Return the draws as a dataframe, in their order; see `Tabulated.to_dataframe`."""
        chains, draws = self.statistics.divergent.shape
        place = {
            "chain": np.repeat(np.arange(chains), draws),
            "draw": np.tile(np.arange(draws), chains),
        }
        return dataframe(place | dict(zip(self.names, self.values.T, strict=True)), backend)

    def to_arviz(self, seed: Seed = 0) -> Any:
        """Export the chains to ArviZ, draw by draw, with the statistics of the sampler.

        A DataTree by arviz-base, or the InferenceData of ArviZ before 1.0 where that is what is
        installed, as with Python 3.11. ``seed`` is that of other posteriors and has no effect.

        Raises
        ------
        InputError
            If neither is installed.
        """
        made = self.statistics
        stats = {
            "diverging": made.divergent, "tree_depth": made.depth, "n_steps": made.steps,
            "reached_max_treedepth": made.at_greatest_depth, "step_size": made.step_size,
            "energy": made.energy, "lp": made.log_density,
        }  # fmt: skip
        groups = {
            "posterior": {name: self.chains[:, :, j] for j, name in enumerate(self.names)},
            "sample_stats": stats,
            "observed_data": observed(self.problem),
        }
        return exported(groups, {"tuning_steps": made.tune})


def warnings_of_chains(
    names: Sequence[str], r_hat: Array, ess_bulk: Array, ess_tail: Array, chains: int
) -> tuple[str, ...]:
    """Problems of the chains together, one sentence each."""
    found = []
    if np.nanmax(r_hat, initial=0.0) > HIGH_R_HAT:
        j = int(np.nanargmax(r_hat))
        found.append(
            f"the chains disagree on {names[j]} (R-hat {r_hat[j]:.3f}, at most {HIGH_R_HAT} where "
            "they agree): take more draws=; where they stay in different modes, take smcpn.identify"
        )
    for where, ess in (("", ess_bulk), (" for its tails", ess_tail)):
        j = int(np.argmin(ess))
        if ess[j] < LEAST_ESS * chains:
            found.append(
                f"the draws of {names[j]} are worth {ess[j]:.0f} independent ones{where}, fewer "
                f"than {LEAST_ESS:.0f} of each chain: take more draws="
            )
    return tuple(found)
