"""Gaussian noise of an output: its variance, and its correlation from one sample to the next.

The noise e of a sample has mean 0. It is white, or a stationary Markov process whose value a time
``gap`` later is correlated by phi(gap) with the present one,

    e(t + gap) = phi(gap) e(t) + sigma sqrt(1 - phi(gap)^2) w,    w ~ N(0, 1),

so that variance and correlation say all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca

from smcpn.base.units import duration
from smcpn.errors import InputError, real_number, shown
from smcpn.model.distribution import Distribution, support
from smcpn.model.noise import Normal, Symbols, as_density
from smcpn.model.record import Record

SAME_INTERVAL = 1e-6
"""Relative difference up to which two sampling intervals count as the same."""


@dataclass(frozen=True)
class AR1:
    """Coloured noise: a stationary autoregressive process of first order.

    The measured value is y_k = g_k + e_k with an output g_k of the model, and

        e_k = rho e_{k-1} + sd sqrt(1 - rho^2) w_k,    w_k ~ N(0, 1) independent,

    so that ``sd`` is the standard deviation of e_k itself, whatever rho. Each record starts from
    the stationary distribution, e_0 ~ N(0, sd^2). It is the simplest model of a discrepancy: what a
    model that is a little wrong leaves over is correlated, and counts for fewer samples than white
    noise (Ljung 1999, System Identification, section 4.2).

    Between samples a time d apart the correlation is rho^(d / interval), that of an
    Ornstein-Uhlenbeck process, so that missing samples and unequal spacing are exact. A negative
    rho has no such process: it needs records that are all sampled at ``interval``.

    Parameters
    ----------
    sd : float or str
        In the unit of the output, or the name of the parameter that holds it.
    rho : float or str
        Correlation of two samples ``interval`` apart, between -1 and 1, or the name of the
        parameter that holds it.
    interval : float, optional
        In the unit of time; by default the (median) sampling interval of the problem's first
        record.

    Raises
    ------
    InputError
        If a number is out of bounds.

    Examples
    --------
    >>> from scipy import stats
    >>> noise = AR1("sigma", "rho")
    >>> prior = dict(sigma=stats.lognorm(1.0, scale=0.1), rho=stats.uniform(0.0, 1.0))
    """

    sd: float | str
    rho: float | str
    interval: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.sd, str):
            remedy = "give a positive number or a parameter's name"
            real_number("sd of AR1", self.sd, remedy, argument="noise", above=0.0)
        if not isinstance(self.rho, str):
            _check_correlation(f"rho of AR1 is {shown(self.rho)}", self.rho)
        if self.interval is not None:
            remedy = "give a time above 0, or leave it out"
            real_number("interval of AR1", self.interval, remedy, argument="noise", above=0.0)

    def correlation(self, gap: ca.SX, interval: float, symbols: Symbols) -> ca.SX:
        """Correlation with the noise a time ``gap`` earlier, rho^(gap / interval), (1, 1)."""
        rho = symbols.number(self.rho, f"rho={self.rho!r}")
        if rho.is_zero():
            return rho
        unit = float(interval if self.interval is None else self.interval)
        intervals = gap / symbols.constant(unit, f"interval={unit!r}")
        # Where samples are equally spaced rho itself, which may be negative.
        equal = ca.fabs(intervals - 1.0) < SAME_INTERVAL
        return ca.if_else(equal, rho, rho**intervals)

    def check(
        self,
        records: Iterable[Record],
        interval: float,
        fixed: Mapping[str, float],
        free: Mapping[str, Distribution],
    ) -> None:
        """Refuse a rho outside of (-1, 1), or below 0 at other spacings."""
        lower, upper, what = self._bounds(fixed, free)
        if not -1.0 <= lower <= upper <= 1.0:
            raise InputError(
                f"{what}: a correlation is between -1 and 1, give rho a prior such as "
                "scipy.stats.uniform(0, 1) or beta",
                argument="noise",
            )
        unit = interval if self.interval is None else self.interval
        if lower < 0.0:
            for record in records:
                if not record.uniform or abs(record.interval / unit - 1.0) > SAME_INTERVAL:
                    raise InputError(
                        f"{what}: a negative correlation needs samples "
                        f"{duration(unit, record.t_unit)} apart, which "
                        f"those of {record.name} are not: give rho from 0 to 1",
                        argument="noise",
                    )

    def _bounds(
        self, fixed: Mapping[str, float], free: Mapping[str, Distribution]
    ) -> tuple[float, float, str]:
        """Bounds of rho, and what they are of."""
        if not isinstance(self.rho, str):
            return self.rho, self.rho, f"rho of AR1 is {self.rho:g}"
        if self.rho in free:
            lower, upper = support(free[self.rho])
            return lower, upper, f"the prior of '{self.rho}' reaches from {lower:g} to {upper:g}"
        value = fixed.get(self.rho, 0.0)
        _check_correlation(f"rho of AR1, '{self.rho}', is fixed to {value:g}", value)
        return value, value, f"rho of AR1, '{self.rho}', is fixed to {value:g}"


def as_gaussian(value: Any) -> Normal | AR1 | None:
    """The Gaussian noise that an entry of ``noise`` is or names; None for any other density."""
    if as_density(value) is not None:
        return None
    if isinstance(value, (Normal, AR1)):
        return value
    if isinstance(value, str):
        return Normal(value)
    remedy = (
        "give a positive standard deviation, a parameter's name, smcpn.AR1, or a density such as "
        "smcpn.Poisson()"
    )
    return Normal(real_number("noise", value, remedy, above=0.0))


@dataclass(frozen=True)
class NoiseGraphs:
    """Variance and correlation of the noise of each output.

    variance: (q, 1), infinite where a density takes its place.
    correlation: (q, 1), with the noise a time ``gap`` earlier.
    """

    variance: ca.SX
    correlation: ca.SX
    gap: ca.SX


def noise_graphs(
    noise: Sequence[Normal | AR1 | None], interval: float, symbols: Symbols
) -> NoiseGraphs:
    """Put the noise of all outputs together.

    noise: None where a density takes its place.
    interval: Sampling interval of the first record.
    """
    gap = ca.SX.sym("gap")
    variances = [
        ca.SX(float("inf")) if one is None else symbols.number(one.sd, f"noise[{number}]") ** 2
        for number, one in enumerate(noise)
    ]
    correlations = [
        one.correlation(gap, interval, symbols) if isinstance(one, AR1) else ca.SX(0.0)
        for one in noise
    ]
    return NoiseGraphs(ca.vertcat(*variances), ca.vertcat(*correlations), gap)


def _check_correlation(sentence: str, rho: Any) -> None:
    remedy = "give a number between -1 and 1, or a parameter's name"
    if not -1.0 < real_number("rho of AR1", rho, remedy, argument="noise") < 1.0:
        raise InputError(f"{sentence}: {remedy}", argument="noise")
