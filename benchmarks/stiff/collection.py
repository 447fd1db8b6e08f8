"""Published problems of parameter estimation, as the benchmark collection of PEtab has them.

The equations are written by hand, the tables are read from ``SMCPN_DATA/petab``. Where every value
has a standard deviation of its own, outputs are divided by it: an input holds its inverse at the
samples, and the logarithms are added to the log-likelihood.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from smcpn.datasets.inventory import require_file

Array = NDArray[np.float64]

SOURCE = "github.com/Benchmarking-Initiative/Benchmark-Models-PEtab"


@dataclass(frozen=True)
class Published:
    """A problem with its published optimum.

    Attributes
    ----------
    problem : smcpn.Problem
    optimum : ndarray, (d,)
        Nominal values of the collection, by the names of the problem.
    log_likelihood : float
        At the optimum, by the collection.
    constant : float
        What is added to the log-likelihood of the problem.
    """

    problem: smcpn.Problem
    optimum: Array
    log_likelihood: float
    constant: float = 0.0


def _table(name: str, kind: str) -> list[dict[str, str]]:
    path = require_file(f"petab/{name}", f"{kind}_{name}.tsv", f"from {SOURCE}")
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _parameters(name: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Nominal values and log-uniform priors in the box of the parameters to be estimated."""
    rows = [row for row in _table(name, "parameters") if row["estimate"] == "1"]
    nominal = {row["parameterId"]: float(row["nominalValue"]) for row in rows}
    prior = {
        row["parameterId"]: stats.loguniform(float(row["lowerBound"]), float(row["upperBound"]))
        for row in rows
    }
    return nominal, prior


def _published(
    problem: smcpn.Problem, nominal: dict[str, float], log_likelihood: float, constant: float = 0.0
) -> Published:
    optimum = np.array([nominal[name] for name in problem.names])
    return Published(problem, optimum, log_likelihood, constant)


@dataclass(frozen=True)
class Values:
    """Measured values of one condition, (T, q), NaN where there are none, and their scatter."""

    t: Array
    y: Array
    sd: Array

    @property
    def constant(self) -> float:
        """What dividing the values by their standard deviation adds to the log-likelihood."""
        return -float(np.log(self.sd[np.isfinite(self.y)]).sum())

    def record(self) -> smcpn.Record:
        """Values over standard deviations, whose inverses are the inputs."""
        return smcpn.Record(t=self.t, y=self.y / self.sd, u=1.0 / self.sd, hold="zoh")


def _values(name: str, observables: Sequence[str], condition: str | None = None) -> Values:
    """Values with a standard deviation each, from time zero."""
    rows = [
        row for row in _table(name, "measurementData")
        if condition in (None, row["simulationConditionId"])
    ]  # fmt: skip
    t = np.array(sorted({0.0} | {float(row["time"]) for row in rows}))
    y = np.full((len(t), len(observables)), np.nan)
    sd = np.ones_like(y)
    for row in rows:
        place = np.searchsorted(t, float(row["time"])), observables.index(row["observableId"])
        assert np.isnan(y[place])
        y[place] = float(row["measurement"])
        if row["noiseParameters"].replace(".", "").isdigit():
            sd[place] = float(row["noiseParameters"])
    return Values(t, y, sd)


RATIO, SPECIFIC = 0.693, 0.107


@smcpn.ode
def boehm(
    A, B, pApB, pApA, pBpB, nApA, nApB, nBpB, t,
    *, Epo_degradation_BaF3, k_exp_hetero, k_exp_homo, k_imp_hetero, k_imp_homo, k_phos,
):  # fmt: skip
    """Dimers of STAT5 that are phosphorylated, enter the nucleus and leave it."""
    cyt, nuc = 1.4, 0.45
    epo = 1.25e-7 * np.exp(-Epo_degradation_BaF3 * t) * k_phos
    aa, ab, bb = epo * A**2, epo * A * B, epo * B**2
    into_aa, into_ab, into_bb = k_imp_homo * pApA, k_imp_hetero * pApB, k_imp_homo * pBpB
    out_aa, out_ab, out_bb = k_exp_homo * nApA, k_exp_hetero * nApB, k_exp_homo * nBpB
    out = nuc / cyt
    return (
        -2 * aa - ab + out * (2 * out_aa + out_ab),
        -2 * bb - ab + out * (2 * out_bb + out_ab),
        ab - into_ab,
        aa - into_aa,
        bb - into_bb,
        into_aa / out - out_aa,
        into_ab / out - out_ab,
        into_bb / out - out_bb,
    )


def share_of_a(A, pApB, pApA):
    """Phosphorylated share of STAT5A, per cent."""
    both = pApB + 2 * pApA * SPECIFIC
    return 100 * both / (both + A * SPECIFIC)


def share_of_b(B, pApB, pBpB):
    """Phosphorylated share of STAT5B, per cent."""
    both = pApB + 2 * pBpB * (1 - SPECIFIC)
    return 100 * both / (both + B * (1 - SPECIFIC))


def share_of_all(A, B, pApB, pApA, pBpB):
    """Share of STAT5A in all, per cent."""
    a = pApB + (A + 2 * pApA) * SPECIFIC
    return 100 * a / (a + pApB + (B + 2 * pBpB) * (1 - SPECIFIC))


def boehm_problem() -> Published:
    """Boehm et al. (2014): 8 states, 9 parameters, 48 values."""
    name = "Boehm_JProteomeRes2014"
    nominal, prior = _parameters(name)
    outputs = ["pSTAT5A_rel", "pSTAT5B_rel", "rSTAT5A_rel"]
    values = _values(name, outputs)
    problem = smcpn.Problem(
        boehm, smcpn.Record(t=values.t, y=values.y, t_unit="min"),
        observe=[share_of_a, share_of_b, share_of_all],
        noise=[f"sd_{output}" for output in outputs], prior=prior,
        initial={"A": 207.6 * RATIO, "B": 207.6 * (1 - RATIO)},
    )  # fmt: skip
    return _published(problem, nominal, -138.2220)


@smcpn.ode
def crauste(
    N, E, L, M, P, w0, w1, w2, w3,
    *, delta_EL, delta_LM, delta_NE, mu_EE, mu_LE, mu_LL, mu_N, mu_P, mu_PE, mu_PL, rho_E, rho_P,
):  # fmt: skip
    """T cells that a pathogen calls, their effectors and the memory that is left."""
    return (
        -mu_N * N - delta_NE * N * P,
        delta_NE * N * P + rho_E * E * P - mu_EE * E**2 - delta_EL * E,
        delta_EL * E - mu_LL * L**2 - mu_LE * E * L - delta_LM * L,
        delta_LM * L,
        rho_P * P**2 - mu_PE * E * P - mu_PL * L * P - mu_P * P,
    )


def crauste_problem() -> Published:
    """Crauste et al. (2017): 5 states, 12 parameters, 21 values."""
    name = "Crauste_CellSystems2017"
    nominal, prior = _parameters(name)
    kinds = ("Naive", "EarlyEffector", "LateEffector", "Memory")
    values = _values(name, [f"observable_{kind}" for kind in kinds])
    problem = smcpn.Problem(
        crauste, values.record(), noise=1.0, prior=prior, initial={"N": 8090.0, "P": 1.0},
        observe=[
            lambda N, w0: N * w0, lambda E, w1: E * w1, lambda L, w2: L * w2, lambda M, w3: M * w3,
        ],
    )  # fmt: skip
    return _published(problem, nominal, -190.965, values.constant)


@smcpn.ode
def bruno(
    bcar, bcry, b10, bio, ohb10, ohbio, zea,
    w0, w1, w2, w3, w4, on5, on1, on2, onc1, onc2, onc4, other,
    *, k5, kb1, kb2, kc1, kc2, kc4, szea,
):  # fmt: skip
    """Carotenoids that an enzyme cuts, in assays of which two have another activity."""
    activity = 1 + other * (szea - 1)
    v1, v2, v3 = kb1 * on1 * bcar, kb2 * on2 * b10, kc1 * onc1 * bcry
    v4, v5, v6 = kc2 * onc2 * bcry, kc4 * onc4 * ohb10, k5 * on5 * zea
    rates = -v1, -v3 - v4, v1 - v2 + v3, v1 + v2 + v4, v4 - v5 + v6, v3 + v5 + v6, -v6
    return [activity * rate for rate in rates]


ASSAYS = (
    ("b10", "init_b10_1", (0, 0, 1, 1, 0, 1), 0),
    ("bcar", "init_bcar1", (1, 1, 1, 0, 0, 0), 0),
    ("bcar", "init_bcar2", (1, 1, 1, 1, 1, 1), 1),
    ("bcry", "init_bcry_1", (1, 0, 1, 1, 1, 1), 0),
    ("ohb10", "init_ohb10_1", (0, 0, 1, 0, 0, 1), 0),
    ("zea", "init_zea_1", (1, 0, 0, 0, 0, 1), 1),
)
"""Of each condition: what is there at the beginning, as which parameter, which reactions run (k5,
kb1, kb2, kc1, kc2, kc4), and whether it is of the other activity."""


def bruno_problem() -> Published:
    """Bruno et al. (2016): 7 states, 13 parameters, 77 values of six conditions."""
    name = "Bruno_JExpBot2016"
    nominal, prior = _parameters(name)
    observables = ("ob10", "obcar", "obcry", "oohb10", "ozea")
    records, initial, constant = [], [], 0.0
    for number, (substrate, parameter, runs, other) in enumerate(ASSAYS, start=1):
        values = _values(name, observables, f"model1_data{number}")
        assay = np.broadcast_to([*runs, other], (len(values.t), 7))
        u = np.column_stack([1.0 / values.sd, assay])
        records.append(smcpn.Record(t=values.t, y=values.y / values.sd, u=u, hold="zoh"))
        initial.append({substrate: parameter})
        constant += values.constant
    problem = smcpn.Problem(
        bruno, records, noise=1.0, prior=prior, initial=initial,
        observe=[
            lambda b10, w0: b10 * w0, lambda bcar, w1: bcar * w1, lambda bcry, w2: bcry * w2,
            lambda ohb10, w3: ohb10 * w3, lambda zea, w4: zea * w4,
        ],
    )  # fmt: skip
    return _published(problem, nominal, 46.688, constant)


PUBLISHED = {"Boehm": boehm_problem, "Crauste": crauste_problem, "Bruno": bruno_problem}
