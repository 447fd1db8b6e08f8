"""Identify an oscillator while the data come; its stiffness changes on the way."""

from __future__ import annotations

import numpy as np
from scipy import stats

import smcpn

DT, CHANGE = 0.1, 60.0


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def changing(x, v, u, t, *, c, k):
    """The same, 20 % stiffer after `CHANGE`."""
    return v, u - c * v - k * (1 + 0.2 * np.heaviside(t - CHANGE, 1.0)) * x


def main() -> None:
    """Simulate, follow, print."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.normal(size=300), 4)
    silent = smcpn.Record(u=u, dt=DT, hold="zoh")
    y = smcpn.simulate(changing, silent, {"c": 0.4, "k": 4.0}, observe="x", steps=16)[:, 0]
    y += 0.02 * rng.standard_normal(len(y))

    problem = smcpn.Problem(
        oscillator,
        smcpn.Record(u=u[:2], y=y[:2], dt=DT, hold="zoh"),
        observe="x",
        noise=0.02,
        prior={"c": stats.lognorm(0.5, scale=0.5), "k": stats.lognorm(0.5, scale=5.0)},
    )
    live = smcpn.Online(problem, solver=smcpn.RK4(steps=4), seed=1, forget="20 s")
    for sample in zip(u, y, strict=True):
        state = live.update(*sample)
        if state.alarm is not None:
            print(f"alarm at {state.alarm.t:.1f} s, changed since {state.alarm.since:.1f} s")
        if state.sample % 100 == 0:
            print(f"{state.t:6.1f} s   k = {state.mean['k']:.3f} +- {state.sd['k']:.3f}")
    ahead = live.predict(np.zeros(20))
    print(f"two seconds ahead: {ahead.mean[-1, 0]:.3f} +- {ahead.sd[-1, 0]:.3f}")


if __name__ == "__main__":
    main()
