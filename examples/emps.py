"""The EMPS of the PN-SMC paper (section 4.3), scored by every protocol.

python examples/emps.py FOLDER   (needs DATA_EMPS.mat and DATA_EMPS_PULSES.mat: `smcpn data check`)
"""

import sys
from pathlib import Path

import numpy as np
from scipy import stats

import smcpn
from smcpn.cli.cases import load_case


@smcpn.ode
def emps(q, v, force, *, M, Fv, Fc, offset):
    """Prismatic joint; the sign of the velocity is smoothed over 1 mm/s."""
    friction = Fv * v + Fc * v / np.sqrt(v * v + 1e-6)
    return v, (force - friction - offset) / M


def main(folder: Path) -> None:
    """Identify, print the table, and write the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    train = smcpn.datasets.emps().train.record[:24576]
    velocity = np.polyfit(train.t[:20], train.y[:20, 0], 3)[2]
    problem = smcpn.Problem(
        emps,
        train.hide(0, 20),
        observe="q",
        noise=3e-3,
        prior={
            "M": stats.lognorm(1.0, scale=100.0),
            "Fv": stats.lognorm(1.0, scale=200.0),
            "Fc": stats.lognorm(1.0, scale=20.0),
            "offset": stats.norm(0.0, 10.0),
        },
        initial={"q": train.y[0, 0], "v": velocity},
    )
    posterior = smcpn.identify(problem, solver=smcpn.EKF0(order=2, steps=2), particles=1000, seed=1)
    print(posterior.summary())
    posterior.plot_parameters().savefig(folder / "parameters.svg")
    posterior.plot_run().savefig(folder / "run.svg")
    posterior.plot_prediction(train).savefig(folder / "training.png", dpi=150)
    for name, test in load_case("emps").simulations(posterior).items():
        test.plot().savefig(folder / f"{name}.png", dpi=150)
        print(
            f"{name}: RMSE of the posterior mean {1e3 * test.rmse_of_mean[0]:.4g} mm, "
            f"{100 * test.coverage[0]:.1f} % in the 95 % band"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "emps_figures"))
