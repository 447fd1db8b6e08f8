"""The problems of the cases: small, simulated, each with something of its own."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import stats

import smcpn

SAMPLES = 120
STIFFNESS: dict[str, Any] = {"k": stats.lognorm(0.3, scale=2.0)}
OSCILLATOR: dict[str, Any] = {"c": stats.lognorm(0.5, scale=0.4)} | STIFFNESS
TRUTH = {"c": 0.3, "k": 2.0}

drag = smcpn.spline("v", knots=4, within=(-1.5, 1.5), odd=True)
smooth_drag = smcpn.gaussian_process("v", within=(-1.5, 1.5), features=4)
learned_drag = smcpn.network("v", hidden=(3,), within=(-1.5, 1.5))
fine_drag = smcpn.spline("v", knots=24, within=(-1.5, 1.5))


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def with_spline(x, v, u, *, k, drag):
    """Oscillator whose drag is a spline."""
    return v, u - drag(v) - k * x


@smcpn.ode
def with_fine_spline(x, v, u, *, k, fine_drag):
    """Oscillator of so many parameters that moves follow gradients, by reverse passes."""
    return v, u - fine_drag(v) - k * x


@smcpn.ode
def with_process(x, v, u, *, k, smooth_drag):
    """Oscillator whose drag is a Gaussian process."""
    return v, u - smooth_drag(v) - k * x


@smcpn.ode
def with_network(x, v, u, *, k, learned_drag):
    """Oscillator whose drag is a network."""
    return v, u - learned_drag(v) - k * x


@smcpn.ode
def lotka_volterra(x, y, *, a, b, c, d=1.0):
    """Predator and prey."""
    return a * x - b * x * y, -c * y + d * x * y


@smcpn.ode
def van_der_pol(x, v, *, mu):
    """Stiff where mu is large."""
    return v, mu * (1 - x**2) * v - x


@smcpn.sde
def disturbed(x, *, c, s):
    """Decay that noise disturbs."""
    return -c * x, s


@smcpn.sde
def bistable(x, *, c, s):
    """Two wells, between which noise moves the state."""
    return c * (x - x**3), s


@cache
def record(
    samples: int = SAMPLES, hold: str = "foh", delay: float = 0.0, correlation: float = 0.0
) -> smcpn.Record:
    """An input that is no sine, and a response with noise and a missing sample."""
    u = np.sin(0.02 * np.arange(samples) ** 1.2)
    driven = smcpn.Record(u=u, dt=0.1)
    y = smcpn.simulate(
        oscillator, driven, TRUTH, observe="x", delay={"u": delay} if delay else None
    )
    e = np.random.default_rng(0).normal(size=y.shape)
    for k in range(1, samples if correlation else 0):
        e[k] = correlation * e[k - 1] + np.sqrt(1 - correlation**2) * e[k]
    y += 0.02 * e
    y[7] = np.nan
    return smcpn.Record(u=u, y=y, dt=0.1, hold=hold)


def oscillating(
    ode: Any = oscillator, of: smcpn.Record | None = None, **options: Any
) -> smcpn.Problem:
    """The oscillator: stiffness and damping, or a damping that is an unknown function."""
    prior = OSCILLATOR if ode is oscillator else STIFFNESS
    arguments: dict[str, Any] = {"observe": "x", "noise": 0.02, "prior": prior} | options
    return smcpn.Problem(ode, record() if of is None else of, **arguments)


def short(ode: Any = oscillator, **options: Any) -> smcpn.Problem:
    """The oscillator over a few samples."""
    return oscillating(ode, record(40), **options)


def noise_learned() -> smcpn.Problem:
    """Unknown noise, an input that is held."""
    prior: dict[str, Any] = OSCILLATOR | {"s": stats.lognorm(0.5, scale=0.02)}
    return oscillating(of=record(hold="zoh"), noise="s", prior=prior)


def delayed(hold: str = "foh") -> smcpn.Problem:
    """An unknown dead time."""
    prior: dict[str, Any] = OSCILLATOR | {"tau": stats.uniform(0.0, 0.5)}
    return oscillating(of=record(hold=hold, delay=0.137), delay={"u": "tau"}, prior=prior)


def coloured() -> smcpn.Problem:
    """Noise that is correlated from sample to sample."""
    prior: dict[str, Any] = OSCILLATOR | {
        "s": stats.lognorm(0.5, scale=0.02),
        "rho": stats.uniform(0.0, 1.0),
    }
    return oscillating(of=record(correlation=0.7), noise=smcpn.AR1("s", "rho"), prior=prior)


def several_records() -> smcpn.Problem:
    """Records of unequal length, one of them with irregular times, and heavy tails."""
    whole = record()
    kept = np.r_[0:30, 32:50]
    irregular = smcpn.Record(u=whole.u[kept], y=whole.y[kept], t=whole.t[kept], hold="foh")
    return smcpn.Problem(
        oscillator, [whole, irregular], observe="x", noise=smcpn.StudentT(0.02), prior=OSCILLATOR
    )


def driven_by_noise() -> smcpn.Problem:
    """The oscillator with process noise, which is linear: the Kalman likelihood is exact."""
    whole = record(60, hold="zoh")
    prior: dict[str, Any] = OSCILLATOR | {"q": stats.lognorm(0.3, scale=0.1)}
    return smcpn.Problem(
        oscillator, whole, observe="x", noise=0.05, process_noise={"v": "q"}, prior=prior
    )


def walking(ode: Any = disturbed, noise: Any = 0.3) -> smcpn.Problem:
    """A state that noise disturbs, seen through noise."""
    steps = np.random.default_rng(0).normal(size=30)
    y = steps.cumsum() / 5 + 1.0
    if isinstance(noise, smcpn.Poisson):
        y = np.floor(np.abs(y) * 2.0)
    prior: Any = {"c": stats.lognorm(0.5), "s": stats.lognorm(0.5)}
    observed = (lambda x: np.exp(x)) if isinstance(noise, smcpn.Poisson) else "x"
    of = smcpn.Record(y=y, dt=0.2)
    return smcpn.Problem(ode, of, observe=observed, noise=noise, initial={"x": 1.0}, prior=prior)


def counts() -> smcpn.Problem:
    """Irregular times, two outputs of which one is a count, an unknown initial state."""
    rng = np.random.default_rng(3)
    t = np.cumsum(rng.uniform(0.02, 0.08, 40))
    y = np.column_stack([rng.uniform(0.5, 3.0, 40), rng.poisson(2.0, 40)])
    prior: dict[str, Any] = {
        "a": stats.lognorm(0.1, scale=1.5),
        "b": stats.lognorm(0.1),
        "c": stats.lognorm(0.1, scale=2.0),
    }
    return smcpn.Problem(
        lotka_volterra,
        smcpn.Record(y=y, t=t),
        observe=["x", "y"],
        noise=[0.3, smcpn.Poisson()],
        prior=prior,
        initial={"x": stats.uniform(0.5, 1.0), "y": "b"},
    )


def stiff() -> smcpn.Problem:
    """Van der Pol's oscillator at mu = 50."""
    t = np.linspace(0.0, 60.0, 31)
    values, start = {"mu": 50.0}, {"x": 2.0, "v": 0.0}
    solved = smcpn.solve(van_der_pol, t, values, initial=start, solver=smcpn.EKF1(order=3))
    y = solved.mean[:, 0] + 0.05 * np.random.default_rng(0).normal(size=len(t))
    prior: Any = {"mu": stats.lognorm(0.5, scale=40.0)}
    of = smcpn.Record(t=t, y=y)
    return smcpn.Problem(van_der_pol, of, observe="x", noise=0.05, initial=start, prior=prior)


@cache
def swinging() -> smcpn.Record:
    """Position and velocity of a damped pendulum, for a discovery."""

    @smcpn.ode
    def pendulum(x, v):
        return v, -8.91 * np.sin(x) - 0.2 * v

    t = np.linspace(0.0, 6.0, 121)
    whole = smcpn.Record(t=t, y=np.zeros((len(t), 2)))
    start = {"x": -1.193, "v": -3.876}
    y = smcpn.simulate(pendulum, whole, {}, observe=["x", "v"], initial=start)
    return smcpn.Record(t=t, y=y + 0.05 * np.random.default_rng(0).normal(size=y.shape))
