"""The Silverbox of the PN-SMC paper (section 4.2), and the same model on the benchmark's split.

python examples/silverbox.py FOLDER   (needs SNLS80mV.mat: see `smcpn data check`)
"""

import sys
from pathlib import Path

from scipy import stats

import smcpn


@smcpn.ode
def duffing(x, v, u, *, m, c, k, k3):
    """Forced Duffing oscillator."""
    return v, (u - c * v - k * x - k3 * x**3) / m


def main(folder: Path) -> None:
    """Identify, print the table, and write the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    silverbox = smcpn.datasets.silverbox()
    problem = smcpn.Problem(
        duffing,
        silverbox.paper_train,
        observe="x",
        noise=1e-3,
        prior={
            "m": stats.lognorm(0.5, scale=5e-6),
            "c": stats.lognorm(0.5, scale=3e-4),
            "k": stats.lognorm(0.3, scale=1.0),
            "k3": stats.lognorm(0.5, scale=3.0),
        },
        initial="rest",
    )
    posterior = smcpn.identify(problem, solver=smcpn.EKF0(order=3, steps=8), particles=1000, seed=1)
    print(posterior.summary())
    posterior.plot_parameters().savefig(folder / "parameters.svg")
    posterior.plot_run().savefig(folder / "run.svg")
    posterior.plot_prediction(silverbox.paper_train).savefig(folder / "training.png", dpi=150)
    arrow = posterior.simulate(silverbox.paper_test)
    arrow.plot().savefig(folder / "arrow.png", dpi=150)
    print(f"arrow: RMSE of the posterior mean {1e3 * arrow.rmse_of_mean[0]:.3f} mV")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "silverbox_figures"))
