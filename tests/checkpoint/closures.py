"""A problem with vectors and an unknown function, for tests of files."""

import numpy as np
from scipy import stats

import smcpn

FRICTION = smcpn.spline("v", knots=5, within=(-1, 1), odd=True)


@smcpn.ode(sizes={"x": 2, "v": 2, "k": 3})
def rubbing(x, v, u, *, k, friction=FRICTION):
    """Two masses between walls that rub."""
    force = np.diff(k * np.diff(np.concatenate([[0.0], x, [0.0]])))
    return v, force + u - friction(v)


def closure_problem() -> smcpn.Problem:
    rng = np.random.default_rng(0)
    record = smcpn.Record(u=np.sin(np.arange(40.0)), y=0.1 * rng.normal(size=(40, 2)), dt=0.1)
    return smcpn.Problem(
        rubbing,
        record,
        observe="x",
        noise=0.1,
        prior={"k": stats.lognorm(0.3), "k[1]": 2.0, "friction": {"scale": stats.lognorm(0.5)}},
        initial={"x": stats.norm(0.0, 0.1)},
    )
