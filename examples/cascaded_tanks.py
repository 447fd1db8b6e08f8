"""The cascaded tanks of the benchmark, with process noise in the level of the lower tank.

python examples/cascaded_tanks.py FOLDER   (needs dataBenchmark.csv: see `smcpn data check`)
"""

import sys
from pathlib import Path

import numpy as np
from scipy import stats

import smcpn


def main(folder: Path) -> None:
    """Identify, print the table, and write the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    data = smcpn.datasets.cascaded_tanks()
    # A saturated sensor says only that the level was not lower.
    train, test = (
        record.with_outputs(np.where(record.y < 10.0, record.y, np.nan))
        for record in (data.train, data.test)
    )
    problem = smcpn.Problem(
        smcpn.models.cascaded_tanks,
        train,
        observe="h2",
        noise="sigma",
        prior={
            "pump": stats.lognorm(1.0, scale=0.03),
            "out1": stats.lognorm(1.0, scale=0.1),
            "out2": stats.lognorm(1.0, scale=0.2),
            "ratio": stats.lognorm(1.0, scale=1.0),
            "share": stats.beta(2.0, 2.0),
            "zero": stats.uniform(0.0, 2.5),
            "power": stats.lognorm(0.5, scale=0.5),
            "sigma": stats.lognorm(0.5, scale=0.02),
            "q2": stats.lognorm(1.0, scale=0.02),
        },
        initial={"h1": stats.uniform(0.0, 10.0), "h2": stats.norm(5.0, 0.5)},
        process_noise={"h2": "q2"},
    )
    posterior = smcpn.identify(problem, solver=smcpn.RK4(steps=6), particles=1000, seed=1)
    print(posterior.summary())
    posterior.plot_parameters().savefig(folder / "parameters.svg")
    posterior.states(draws=5).plot().savefig(folder / "states.png", dpi=150)
    runs = {"free": posterior.simulate(data.test), "one_step": posterior.predict(test)}
    for name, run in runs.items():
        run.plot().savefig(folder / f"{name}.png", dpi=150)
        inside = 100 * run.coverage[0]
        print(f"{name}: RMSE {run.rmse_of_mean[0]:.3f} V, {inside:.1f} % in the 95 % band")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "cascaded_tanks_figures"))
