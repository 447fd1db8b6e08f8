"""The equation of a pendulum, found in measurements of its angle alone.

python examples/discovery.py FOLDER   (its figures and report)
"""

import sys
from pathlib import Path

import numpy as np

import smcpn


@smcpn.ode
def pendulum(angle, rate, torque):
    """What is to be found."""
    return rate, torque - 0.4 * rate - 9.0 * np.sin(angle)


def experiment(seed: int) -> smcpn.Record:
    """Measure the angle for 20 seconds, with an error of two degrees."""
    rng = np.random.default_rng(seed)
    torque = np.repeat(3.0 * rng.normal(size=40), 10)
    silent = smcpn.Record(u=torque, dt=0.05, hold="zoh")
    angle = smcpn.simulate(pendulum, silent, {}, observe="angle", steps=10)
    angle += np.radians(2.0) * rng.normal(size=angle.shape)
    return smcpn.Record(u=torque, y=angle, dt=0.05, hold="zoh", y_unit="rad", name=f"run {seed}")


def main(folder: Path) -> None:
    """Find the equation, look at it, and try it on another record."""
    folder.mkdir(parents=True, exist_ok=True)
    train, test = experiment(1), experiment(2)
    found = smcpn.discover(
        train,
        library=smcpn.polynomials(degree=3) + smcpn.terms(np.sin, np.cos),
        known={"angle": "rate"},
        inputs=["torque"],
        seed=1,
    )
    print(found)
    found.plot_inclusion().savefig(folder / "inclusion.png", dpi=150)
    run = found.simulate(test)
    print(f"test: RMSE {run.rmse_of_mean[0]:.4f} rad, {run.coverage[0]:.0%} in the 95 % band")
    run.plot().savefig(folder / "test.png", dpi=150)
    found.report(folder / "report.html", {"test": run})


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "discovery_figures"))
