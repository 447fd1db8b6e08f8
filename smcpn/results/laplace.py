"""The result of `smcpn.laplace`: a Gaussian posterior of the unconstrained coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special
from typing_extensions import override

from smcpn.base.arguments import Count, Probability, Seed, checked
from smcpn.base.tables import Card, Column, Table, WithCard, fact_lines, table_text, words
from smcpn.errors import InputError, listed
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.model.learned_scales import ScaledGaussian
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.by_draws import Analyses
from smcpn.results.exchange import Exchange, Exchanges, exchange_facts, merged, ordering
from smcpn.results.functions import WithFunctions
from smcpn.results.gaussian_check import FINER, SAMPLE, GaussianCheck, gaussian_check
from smcpn.results.maximum import Maximum, equally_weighted
from smcpn.results.modes import PosteriorMode, mode_lines
from smcpn.results.posterior import Posterior
from smcpn.results.summary import bounds_reached, parameter_rows, warned
from smcpn.results.tables import FIGURES, ParameterTable
from smcpn.smc.particles import normalise
from smcpn.smc.start import Mode, Modes, shares_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

NODES = 80
"""Of the Gauss-Hermite rule for the moments of a value."""
JUDGED_DRAWS = 1000
"""From the Gaussian, by which a verdict is."""
NOTABLE = 0.01
"""Share of a further mode from which a summary tells of it."""


def exchanged(maximum: Maximum, places: NDArray[np.intp]) -> Maximum:
    """Return a maximum with the parameter of each of the places (d,) in its place."""
    starts = list(maximum.starts)
    starts[maximum.best] = replace(starts[maximum.best], values=maximum.values[places])
    return replace(maximum, theta=maximum.theta[places], starts=tuple(starts))


@dataclass(frozen=True)
class ComparedParameter:
    """Mean and sd of one parameter, by a posterior and by a Laplace approximation.

    mean, sd: Of the posterior.
    """

    name: str
    mean: float
    sd: float
    laplace_mean: float
    laplace_sd: float

    @property
    def difference(self) -> float:
        """Difference of the means in posterior standard deviations."""
        return (self.laplace_mean - self.mean) / self.sd

    @property
    def sd_ratio(self) -> float:
        """Standard deviation of the approximation over that of the posterior."""
        return self.laplace_sd / self.sd


@dataclass(frozen=True)
class LaplaceComparison:
    """Moments and evidence of a posterior and of a Laplace approximation of it."""

    rows: tuple[ComparedParameter, ...]
    log_evidence: float
    log_evidence_se: float
    laplace_log_evidence: float

    def summary(self) -> str:
        """The table as text."""
        columns = (
            words("parameter"), Column("mean", ".5g"), Column("sd", ".2g"),
            Column("Laplace mean", ".5g"), Column("sd", ".2g"), Column("difference / sd", "+.2f"),
            Column("sd ratio", ".2f"),
        )  # fmt: skip
        rows = [
            [row.name, row.mean, row.sd, row.laplace_mean, row.laplace_sd, row.difference,
             row.sd_ratio]
            for row in self.rows
        ]  # fmt: skip
        evidence = (
            f"{self.log_evidence:.2f} +- {self.log_evidence_se:.2g}, "
            f"Laplace {self.laplace_log_evidence:.2f}"
        )
        facts = fact_lines([("log-evidence", evidence)])
        return "\n".join([table_text(Table(columns, rows)), "", *facts])


@checked
@dataclass(frozen=True, repr=False)
class Laplace(WithCard, Analyses, WithFunctions):
    """A Gaussian posterior of unconstrained coordinates: mode, and inverse of minus the Hessian.

    Attributes
    ----------
    maximum : Maximum
        The mode and how it was found.
    covariance : ndarray, (d, d)
        Of the unconstrained coordinates; nan where there is none.
    log_evidence : float
        log p(y), were the posterior this Gaussian; nan where there is none.
    reason : str
        Why there is no such Gaussian; "" where there is.
    gauss_newton : tuple of str
        Directions in which the Hessian has no use, as at a kink, and the Gauss-Newton matrix is
        the precision: expected curvature, from first derivatives.
    modes : tuple of Mode
        All distinct modes that the searches found, this one among them, the highest first.
    given_scales : ScaledGaussian or None
        Where scales of the prior are learned, the Gaussian of the other parameters given them,
        and one of the scales. Its draws are `draw`; mean, covariance and evidence are integrals
        over the scales, by the second-order likelihood at the mode.

    References
    ----------
    Tierney, L., Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal
    densities. JASA 81. Rue, H., Martino, S., Chopin, N. (2009). Approximate Bayesian inference for
    latent Gaussian models. JRSS B 71, for learned scales.
    """

    maximum: Maximum = field(repr=False)
    covariance: Array
    log_evidence: float
    reason: str = ""
    gauss_newton: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    given_scales: ScaledGaussian | None = None

    @property
    def success(self) -> bool:
        """True if the posterior is concave at the mode, so that the Gaussian exists."""
        return not self.reason

    @property
    def problem(self) -> Problem:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The problem."""
        return self.maximum.problem

    @property
    def solver(self) -> Solver:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The solver, its steps resolved."""
        return self.maximum.solver

    @property
    def likelihood(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the likelihood."""
        return self.maximum.likelihood

    @property
    def shift(self) -> DiscretisationShift | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Shift of the mode when its solver is made twice as fine."""
        return self.maximum.shift

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of draws."""
        return self.maximum.names

    @property
    def mode(self) -> Array:
        """Unconstrained coordinates of the mode, (d,); its values are ``maximum.values``."""
        return self.maximum.theta

    @property
    def centre(self) -> Array:
        """Mean of the unconstrained coordinates, (d,): the mode, but where scales are learned."""
        return self.mode if self.given_scales is None else self.given_scales.centre

    def as_mode(self) -> Mode:
        """Return this Gaussian as one of several."""
        return Mode(self.centre, self.covariance, self.log_evidence, self.given_scales)

    @property
    def factor(self) -> Array:
        """Lower Cholesky factor of the covariance, (d, d).

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        if not self.success:
            raise InputError(f"there is no Laplace approximation: {self.reason}")
        return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)

    @property
    def warnings(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Problems found in the search or with the Gaussian, one sentence each."""
        stopped = () if self.maximum.success else (f"the search stopped: {self.maximum.reason}",)
        coarse = self.shift is not None and self.shift.warnings
        remedy = FINER if coarse else SAMPLE
        far = () if self.check is None else self.check.advising(remedy)
        found = stopped + self._further + self._no_gaussian + self._replaced + far
        return self.maximum.warnings + found

    @cached_property
    def check(self) -> GaussianCheck | None:
        """Distance of the posterior about the mode from the Gaussian, by weighted draws.

        Evaluated when it is first asked for, as by the warnings: a start of `identify` needs none.
        None where draws cannot tell: given learned scales, or in many dimensions.
        """
        if not self.success or self.given_scales is not None:
            return None
        function, gaussian = self.maximum.function, self.gaussian_moments
        return gaussian_check(function, self.as_mode(), self.modes, gaussian)

    @property
    def _replaced(self) -> tuple[str, ...]:
        """A warning if second derivatives had to be replaced."""
        if not self.gauss_newton:
            return ()
        return (
            f"the spread along {'; '.join(self.gauss_newton)} is by first derivatives, the "
            "Gauss-Newton matrix: second ones at the mode are not credible, as at a kink of the "
            "model; smcpn.identify(problem), or smcpn identify, needs neither",
        )

    @property
    def _no_gaussian(self) -> tuple[str, ...]:
        return (self.reason,) if self.reason else ()

    @property
    def _further(self) -> tuple[str, ...]:
        """A warning if modes that the Gaussian leaves out have a share worth knowing."""
        modes = self.several_modes
        left_out = 1.0 - modes[0].weight if modes else 0.0
        if left_out < NOTABLE:
            return ()
        return (
            f"the posterior has {len(modes)} modes, and those left out have {left_out:.2g} of "
            "the evidence: identify(problem, start=laplace) samples all of them",
        )

    @property
    def shares(self) -> Array:
        """Share of each of `modes` in the sum of their evidences."""
        return shares_of(self.modes)

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Parameters with the same prior that may be exchanged without a change of the outputs."""
        theta, log_weights = self._judged_draws()
        tried = Exchanges(self.problem, self.solver, self.likelihood)
        return tried.found(self._weighed, theta, normalise(log_weights))

    @cached_property
    def ordered(self) -> Laplace:
        """The approximation at the mode in which exchangeable parameters ascend.

        The approximation itself where there are none; see `Posterior.ordered`.
        """
        (places,) = ordering(self.mode[None, :], self.exchanges)
        if self.given_scales is not None or np.array_equal(places, np.arange(len(places))):
            return self
        covariance = self.covariance[np.ix_(places, places)]
        return replace(self, maximum=exchanged(self.maximum, places), covariance=covariance)

    @property
    def several_modes(self) -> tuple[PosteriorMode, ...]:
        """The modes where several have a notable share, those by exchanged parameters as one."""
        shown = tuple(mode for mode in self._merged if mode.weight >= NOTABLE)
        return shown if len(shown) > 1 else ()

    @cached_property
    def _merged(self) -> tuple[PosteriorMode, ...]:
        return merged(self._weighed, self.exchanges)

    @cached_property
    def _weighed(self) -> tuple[PosteriorMode, ...]:
        """The modes with their shares, and the moments of their Gaussians."""
        moments = [self._moments_of(mode) for mode in self.modes]
        shares = self.shares.tolist() if self.modes else []
        return tuple(PosteriorMode(w, *m) for w, m in zip(shares, moments, strict=True))

    @property
    def start(self) -> Modes:
        """The modes as `identify` draws from them.

        Raises
        ------
        InputError
            If there is none.
        """
        if not self.modes:
            raise InputError(f"there is no Laplace approximation: {self.reason}")
        return Modes.about(
            self.modes, len(self.maximum.starts), self.maximum.ends, self.maximum.doubt
        )

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each parameter: of the posterior, by the weighted draws of `check`.

        A skewed posterior has it elsewhere than the Gaussian, of which it is where draws do not
        tell, and where there are several modes. So are `sd` and the interval of `table`; `quantile`
        and `draw` are the Gaussian's always.
        """
        return self._moments[0]

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviation of each value; see `mean`."""
        return self._moments[1]

    @property
    def gaussian_moments(self) -> tuple[dict[str, float], dict[str, float]]:
        """Mean and standard deviation of each value, were the posterior the Gaussian."""
        return self._by_name(self._of_gaussian)

    @cached_property
    def _moments(self) -> tuple[dict[str, float], dict[str, float]]:
        gaussian, check = self._of_gaussian, self._telling
        if check is None:
            return self._by_name(gaussian)
        told = np.array([[of[name] for name in self.names] for of in (check.mean, check.sd)])
        return self._by_name(np.where(np.isfinite(told), told, gaussian))

    @property
    def _telling(self) -> GaussianCheck | None:
        """The check if its draws tell moments of the posterior, which no other mode shares."""
        alone = len(self.modes) < 2 or self.shares.max() > 1.0 - NOTABLE
        return self.check if alone and self.check is not None and self.check.tells else None

    def _interval(self, name: str) -> tuple[float, float]:
        """Return the central 95 % of a value, by the weighted draws that `mean` is by."""
        check = self._telling
        if check is not None and np.isfinite([check.low[name], check.high[name]]).all():
            return check.low[name], check.high[name]
        return self.quantile(name, 0.025), self.quantile(name, 0.975)

    def _by_name(self, moments: Array) -> tuple[dict[str, float], dict[str, float]]:
        return self.problem.by_name(moments[0]), self.problem.by_name(moments[1], 0.0)

    @cached_property
    def _of_gaussian(self) -> Array:
        """Means and standard deviations of the values of the Gaussian, (2, d)."""
        return self._moments_of(self.as_mode())

    def quantile(self, name: str, q: Probability) -> float:
        """Quantile of the value of a parameter, exact.

        Raises
        ------
        InputError
            If there is no such parameter.
        """
        if name not in self.names:
            raise InputError(f"no parameter '{name}': choose one of {listed(self.names)}")
        j = self.names.index(name)
        at, slope = self.problem.prior.maps[j], 1.0
        slope = float(np.sign(at.slopes(self.mode[j : j + 1])[0][0]))
        z = self.centre[j] + slope * special.ndtri(q) * np.sqrt(self.covariance[j, j])
        return float(at.natural(np.array([z]))[0])

    def draw(self, size: Count, seed: Seed = 0) -> Array:
        """Draw parameter values, (size, d): the natural values of `draw_theta`.

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        return self.problem.prior.natural(self.draw_theta(size, seed))

    def draw_theta(self, size: Count, seed: Seed = 0) -> Array:
        """Draw unconstrained coordinates, (size, d).

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        factor, rng = self.factor, np.random.default_rng(seed)
        normal = rng.standard_normal((size, len(self.mode)))
        if self.given_scales is not None:
            return self.given_scales.coloured(normal)
        return self.mode + normal @ factor.T

    def equal_draws(self, size: Count) -> Array:
        """Draw parameter values, (size, d), the same at every call; see `draw`."""
        return self.draw(size)

    def table(self) -> ParameterTable:
        """The parameter table as data, of `ordered`, as of a `Posterior`."""
        shown, prior = self.ordered, self.problem.prior
        sd = np.sqrt(np.diag(shown.covariance))
        interval = {name: shown._interval(name) for name in self.names}
        correlation = shown.covariance / np.outer(sd, sd)
        theta, log_weights = shown._judged_draws()
        values, weights = prior.natural(theta), normalise(log_weights)
        rows = parameter_rows(
            prior, shown.mean, shown.sd, interval, correlation,
            bounds_reached(prior, values, weights),
        )  # fmt: skip
        return ParameterTable(rows)

    @override
    def card(self) -> Card:
        notes = [
            f"log-evidence {self.log_evidence:.2f} (Laplace)",
            f"{self.likelihood} likelihood, {self.solver_in_words}",
            *warned(self.warnings), "all of it: print(laplace.summary())",
        ]  # fmt: skip
        table = self._flagged(self.table().as_table(self.problem.ode, mode=self._mode_by_name))
        return Card(
            replace(table.select(*FIGURES), title=self._title, notes=notes), self.verdict.lines
        )

    @property
    def _mode_by_name(self) -> dict[str, float]:
        return dict(zip(self.names, self.ordered.maximum.values.tolist(), strict=True))

    def _flagged(self, table: Table) -> Table:
        """Return a table with the flags of its rows where there is a Gaussian that they tell of."""
        return table if self.success else table.select("parameter", "prior", *FIGURES[1:-1])

    @override
    def picture(self) -> Figure | None:
        return self.posterior.picture() if self.success else None

    def summary(self) -> str:
        """The parameter table, the figures and the verdict, as text."""
        return "\n".join([*self.summary_lines(), *self.verdict.lines])

    def summary_lines(self) -> list[str]:
        """Lines of the summary above the verdict."""
        ode = self.problem.ode
        table = self._flagged(self.table().without_functions(ode, mode=self._mode_by_name))
        facts = [
            *exchange_facts(self.names, self.exchanges),
            ("log-evidence", f"{self.log_evidence:.2f} (Laplace)"),
            *self.maximum.run_facts,
        ]
        return [
            table_text(table),
            *(["", *mode_lines(self.names, self.several_modes)] if self.several_modes else []),
            *self.function_lines(),
            "",
            *fact_lines(facts, self.warnings),
        ]

    def compare(self, posterior: Posterior) -> LaplaceComparison:
        """Compare means and standard deviations of the Gaussian with those of a posterior.

        Raises
        ------
        InputError
            If their parameters differ.
        """
        if self.names != posterior.names:
            raise InputError(
                f"the posterior has the parameters {listed(posterior.names)}, the approximation "
                f"{listed(self.names)}: compare two of the same model; a network that each made "
                "linear about a maximum of its own is compared by function()"
            )
        mean, sd = self.gaussian_moments
        means, sds = (posterior.mean, mean), (posterior.sd, sd)
        return LaplaceComparison(
            rows=tuple(
                ComparedParameter(name, means[0][name], sds[0][name], means[1][name], sds[1][name])
                for name in self.names
            ),
            log_evidence=posterior.log_evidence,
            log_evidence_se=posterior.log_evidence_se,
            laplace_log_evidence=self.log_evidence,
        )

    def _drawn(self) -> Posterior:
        return self.to_posterior() if self.success else self.maximum.posterior

    def to_posterior(self, particles: Count = 1000, seed: Seed = 0) -> Posterior:
        """Return draws as the particles of a `Posterior`, to simulate, validate and report with.

        It is the approximation still; ``smcpn.identify(problem, start=laplace)`` corrects it.

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        theta = self.draw_theta(particles, seed)
        return equally_weighted(self.maximum, theta, self.log_evidence, seed, self.warnings)

    def _judged_draws(self) -> tuple[Array, Array]:
        theta = self.draw_theta(JUDGED_DRAWS) if self.success else self.mode[None, :]
        return theta, np.zeros(len(theta))

    def _moments_of(self, mode: Mode) -> Array:
        """Means and standard deviations of the values of the Gaussian at a mode, (2, d)."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights, sd = weights / weights.sum(), np.sqrt(np.diag(mode.covariance))
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.problem.prior.natural(mode.theta + nodes[:, None] * sd)
            mean = weights @ values
            return np.array([mean, np.sqrt(weights @ np.square(values - mean))])
