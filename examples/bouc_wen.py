"""The Bouc-Wen system of the PN-SMC paper (section 4.1), learned from its acceleration.

python examples/bouc_wen.py FOLDER   (needs no files: what is not found is generated)
"""

import sys
from pathlib import Path

import numpy as np

import smcpn
from smcpn.cli.cases import load_case


@smcpn.ode
def bouc_wen(x, v, z, u, *, m, c, k, alpha, beta, gamma, delta):
    """Hysteresis z in parallel with a spring."""
    hysteresis = gamma * np.abs(v) * z + delta * v * np.abs(z)
    return v, (u - c * v - k * x - z) / m, alpha * v - beta * hysteresis


def main(folder: Path) -> None:
    """Identify, print the table, and write the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    data = smcpn.datasets.bouc_wen()
    paper = load_case("bouc-wen")
    problem = smcpn.Problem(
        bouc_wen,
        data.paper_train,
        observe="v'",
        noise=data.noise,
        prior=dict(paper.problem.prior.distributions),
        initial="rest",
    )
    posterior = smcpn.identify(problem, solver=smcpn.EKF0(order=3, steps=2), particles=1000, seed=1)
    print(posterior.summary())
    posterior.plot_parameters(truth=paper.truth).savefig(folder / "parameters.svg")
    posterior.plot_corner(truth=paper.truth).savefig(folder / "corner.png", dpi=100)
    posterior.plot_run().savefig(folder / "run.svg")
    posterior.plot_prediction(data.paper_train).savefig(folder / "training.png", dpi=150)
    for name, record in (("multisine", data.multisine), ("sweep", data.sweep)):
        test = posterior.simulate(record, observe="x")
        test.plot().savefig(folder / f"{name}.png", dpi=150)
        print(f"{name}: RMSE of the posterior mean {1e6 * test.rmse_of_mean[0]:.3f} micrometres")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "bouc_wen_figures"))
