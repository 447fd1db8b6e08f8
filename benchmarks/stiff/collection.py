"""Published problems of parameter estimation, as the benchmark collection of PEtab has them.

The equations are written by hand, the tables are read from ``SMCPN_DATA/petab``.
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

    optimum: (d,), nominal values of the collection, by the names of the problem.
    log_likelihood: At the optimum, by the collection.
    """

    problem: smcpn.Problem
    optimum: Array
    log_likelihood: float


def read_table(name: str, kind: str) -> list[dict[str, str]]:
    """Rows of a table of a problem, by the names of its columns."""
    path = require_file(f"petab/{name}", f"{kind}_{name}.tsv", f"from {SOURCE}")
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _parameters(name: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Nominal values and log-uniform priors in the box of the parameters to be estimated."""
    rows = [row for row in read_table(name, "parameters") if row["estimate"] == "1"]
    nominal = {row["parameterId"]: float(row["nominalValue"]) for row in rows}
    prior = {
        row["parameterId"]: stats.loguniform(float(row["lowerBound"]), float(row["upperBound"]))
        for row in rows
    }
    return nominal, prior


def _published(
    problem: smcpn.Problem, nominal: dict[str, float], log_likelihood: float
) -> Published:
    optimum = np.array([nominal[name] for name in problem.names])
    return Published(problem, optimum, log_likelihood)


@dataclass(frozen=True)
class Values:
    """Measured values of one condition, (T, q), NaN where there are none, and their scatter."""

    t: Array
    y: Array
    sd: Array


def _values(name: str, observables: Sequence[str], condition: str | None = None) -> Values:
    """Values with a standard deviation each, from time zero."""
    rows = [
        row for row in read_table(name, "measurementData")
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
    N, E, L, M, P,
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
        crauste, smcpn.Record(t=values.t, y=values.y, y_sd=values.sd), prior=prior,
        observe=["N", "E", "L", "M"], initial={"N": 8090.0, "P": 1.0},
    )  # fmt: skip
    return _published(problem, nominal, -190.965)


@smcpn.ode
def bruno(
    bcar, bcry, b10, bio, ohb10, ohbio, zea, on5, on1, on2, onc1, onc2, onc4, other,
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
    records, initial = [], []
    for number, (substrate, parameter, runs, other) in enumerate(ASSAYS, start=1):
        values = _values(name, observables, f"model1_data{number}")
        u = np.tile([*runs, float(other)], (len(values.t), 1))
        records.append(smcpn.Record(t=values.t, y=values.y, y_sd=values.sd, u=u, hold="zoh"))
        initial.append({substrate: parameter})
    problem = smcpn.Problem(
        bruno, records, prior=prior, initial=initial,
        observe=["b10", "bcar", "bcry", "ohb10", "zea"],
    )  # fmt: skip
    return _published(problem, nominal, 46.688)


@smcpn.ode
def elowitz(
    X, Y, Z, GFP, mX, mY, mZ, mGFP,
    *, KM, eff, eff_GFP, n_Hill, tau_mRNA, tau_mRNA_GFP, tau_prot, tau_prot_GFP, tps_active,
    tps_repr,
):  # fmt: skip
    """Repressilator of three genes, and a fluorescent protein beside it."""

    def transcribed(repressor):
        """Rate by the amount of the repressor."""
        bound = KM**n_Hill / (KM**n_Hill + repressor**n_Hill)
        return 60 * (tps_repr - bound * (tps_repr - tps_active))

    lost, degraded = np.log(2) / tau_mRNA, np.log(2) / tau_prot
    translated = eff / tau_mRNA
    return (
        translated * mX - degraded * X,
        translated * mY - degraded * Y,
        translated * mZ - degraded * Z,
        eff_GFP / tau_mRNA_GFP * mGFP + transcribed(X) - np.log(2) / tau_prot_GFP * GFP,
        transcribed(Z) - lost * mX,
        transcribed(X) - lost * mY,
        transcribed(Y) - lost * mZ,
        -np.log(2) / tau_mRNA_GFP * mGFP,
    )


def elowitz_problem() -> Published:
    """Elowitz et al. (2000): 8 states, 21 parameters, 58 values with log10-normal noise."""
    name = "Elowitz_Nature2000"
    nominal, prior = _parameters(name)
    values = _values(name, ["fluorescence"])
    starts = {"X": "X_protein", "Y": "Y_protein", "Z": "Z_protein", "GFP": "GFP"}
    starts |= {f"m{gene}": f"{gene}_mRNA" for gene in ("X", "Y", "Z", "GFP")}
    problem = smcpn.Problem(
        elowitz, smcpn.Record(t=values.t, y=values.y, t_unit="min"),
        observe=lambda GFP, *, background, scale: background + scale * GFP,
        noise=smcpn.LogNormal("sigma", base=10), prior=prior,
        initial={state: f"init_{one}" for state, one in starts.items()},
    )  # fmt: skip
    return _published(problem, nominal, 63.203)


@smcpn.ode
def borghans(
    Z, Y, A,
    *, K2, K_par, Ka, Kd, Kf, Kp, Ky, Kz, Vd, Vm2, Vm3, Vp, beta_par, epsilon_par, n_par, v0, v1,
):  # fmt: skip
    """Calcium of a cell, in its stores, and the messenger that releases it."""
    stored = Vm2 * Z**2 / (K2**2 + Z**2)
    released = Vm3 * A**4 / (Ka**4 + A**4) * Y**2 / (Ky**2 + Y**2) * Z**4 / (Kz**4 + Z**4)
    broken = Vd * A**2 / (Kp**2 + A**2) * Z**n_par / (Kd**n_par + Z**n_par)
    return (
        v0 + v1 * beta_par - stored + released + Kf * Y - K_par * Z,
        stored - released - Kf * Y,
        Vp * beta_par - broken - epsilon_par * A,
    )


def borghans_problem() -> Published:
    """Borghans et al. (1997): 3 states, 23 parameters, 111 values with log10-normal noise."""
    name = "Borghans_BiophysChem1997"
    nominal, prior = _parameters(name)
    prior |= {f"init_{state}_state": stats.uniform() for state in "ZYA"}
    values = _values(name, ["Ca"])
    problem = smcpn.Problem(
        borghans, smcpn.Record(t=values.t, y=values.y),
        observe=lambda Z, *, offset, scale: offset + scale * Z,
        noise=smcpn.LogNormal("sigma", base=10), prior=prior,
        initial={state: f"init_{state}_state" for state in "ZYA"},
    )  # fmt: skip
    return _published(problem, nominal, 83.324)


@smcpn.ode
def perelson(infected, V, Vin, Vni, *, NN, T0, c, delta, K0):
    """Virus in the blood under a drug after which new virus does not infect."""
    made = delta * NN * infected
    return K0 * T0 * Vin - delta * infected, made - c * V, -c * Vin, made - c * Vni


def perelson_problem() -> Published:
    """Perelson et al. (1996): 4 states, 3 parameters, 16 values with log10-normal noise."""
    name = "Perelson_Science1996"
    nominal, prior = _parameters(name)
    known = {
        row["parameterId"]: float(row["nominalValue"])
        for row in read_table(name, "parameters") if row["parameterId"] not in prior
    }  # fmt: skip
    values = _values(name, ["task0_model0_perelson1_V"])
    problem = smcpn.Problem(
        perelson, smcpn.Record(t=values.t, y=values.y, t_unit="day"), observe="V",
        noise=smcpn.LogNormal("sd_task0_model0_perelson1_V", base=10), prior=known | prior,
        initial={"infected": 15061.32075, "V": 1.86e6, "Vin": 1.86e6},
    )  # fmt: skip
    return _published(problem, nominal, -432.0385)


PUBLISHED = {
    "Boehm": boehm_problem, "Crauste": crauste_problem, "Bruno": bruno_problem,
    "Elowitz": elowitz_problem, "Borghans": borghans_problem, "Perelson": perelson_problem,
}  # fmt: skip
