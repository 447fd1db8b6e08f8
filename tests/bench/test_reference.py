"""The harness that judges posteriors, against answers that are known in closed form."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.reference.chains import chains
from benchmarks.reference.grid_filter import log_likelihood, normal
from benchmarks.reference.importance import pareto_k, sample
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.target import Target
from benchmarks.trust.known import Known, Outcome, Tolerance, calibrated, counted
from tests.reference.linear_gaussian import System, kalman

PRIOR = {"a": stats.norm(0.5, 2.0), "b": stats.norm(-1.0, 0.7)}
DATA = np.array([1.0, 1.2, -0.4])
DESIGN = np.array([[1.0, 0.0], [1.0, 1.0], [0.3, 2.0]])
NOISE = 0.3


@pytest.fixture
def line():
    def density(v):
        z = DATA[:, None] - DESIGN @ np.array([v["a"], v["b"]])
        return stats.norm.logpdf(z, scale=NOISE).sum(axis=0)

    return Target(PRIOR, density)


def exact():
    mean, cov = np.array([0.5, -1.0]), np.diag([4.0, 0.49])
    whole = DESIGN @ cov @ DESIGN.T + NOISE**2 * np.eye(3)
    gain = cov @ DESIGN.T @ np.linalg.inv(whole)
    evidence = stats.multivariate_normal(DESIGN @ mean, whole).logpdf(DATA)
    sd = np.sqrt(np.diag(cov - gain @ DESIGN @ cov))
    return evidence, mean + gain @ (DATA - DESIGN @ mean), sd


def test_quadrature_of_a_gaussian_is_exact(line):
    evidence, mean, sd = exact()
    found = quadrature(line, {"a": (-6, 6, 301), "b": (-6, 6, 301)})
    assert found.log_evidence == pytest.approx(evidence, abs=1e-9)
    np.testing.assert_allclose(list(found.mean.values()), mean, atol=1e-9)
    np.testing.assert_allclose(list(found.sd.values()), sd, rtol=1e-9)


def test_an_importance_sample_states_its_error(line):
    evidence, mean, sd = exact()
    runs = [sample(line, seed=seed) for seed in range(8)]
    z = [(one.log_evidence - evidence) / one.log_evidence_se for one in runs]
    assert np.sqrt(np.mean(np.square(z))) < 1.7
    assert max(one.log_evidence_se for one in runs) < 0.01
    for one in runs:
        np.testing.assert_allclose((list(one.mean.values()) - mean) / sd, 0.0, atol=0.06)


def test_an_importance_sample_has_both_modes():
    def density(v):
        return np.logaddexp(
            np.log(0.2) + stats.norm.logpdf(v["x"], -4, 0.05),
            np.log(0.8) + stats.norm.logpdf(v["x"], 3, 0.01),
        )

    prior = stats.norm(0, 3)
    shares = np.array([0.2 * stats.norm.pdf(-4, 0, np.hypot(3, 0.05)),
                       0.8 * stats.norm.pdf(3, 0, np.hypot(3, 0.01))])  # fmt: skip
    found = sample(Target({"x": prior}, density), seed=1)
    assert found.share(lambda v: v["x"] < 0) == pytest.approx(shares[0] / shares.sum(), abs=0.015)
    assert found.log_evidence == pytest.approx(np.log(shares.sum()), abs=0.03)


@pytest.mark.nightly
def test_emcee_agrees(line):
    pytest.importorskip("emcee")
    _, mean, sd = exact()
    found = chains(line, sample(line), steps=1500)
    np.testing.assert_allclose((list(found.mean.values()) - mean) / sd, 0.0, atol=0.08)
    np.testing.assert_allclose(list(found.sd.values()), sd, rtol=0.08)


def test_pareto_k_of_a_known_tail():
    k = [pareto_k(0.7 * np.random.default_rng(s).exponential(size=40_000)) for s in range(10)]
    assert np.mean(k) == pytest.approx(0.7, abs=0.08)


def test_a_grid_filter_is_a_kalman_filter_where_all_is_linear():
    rng, h, steps, rate, spread, noise = np.random.default_rng(0), 0.1, 4, -0.8, 0.6, 0.3
    y = rng.normal(size=12)
    factor = 1 + rate * h + (rate * h) ** 2 / 2 + (rate * h) ** 3 / 6 + (rate * h) ** 4 / 24
    variance = spread**2 * h * sum(factor ** (2 * k) for k in range(steps))
    system = System(
        F=np.array([[factor**steps]]), Q=np.array([[variance]]), H=np.eye(1),
        R=np.array([[noise**2]]), m0=np.zeros(1), P0=np.eye(1), b=np.zeros((12, 1)),
    )  # fmt: skip
    expected = kalman(system, y[:, None]).increments.sum()
    nodes = np.linspace(-7, 7, 401)
    found = log_likelihood(
        lambda x: rate * x, spread, noise, normal(nodes, 1.0), y, steps * h, steps, nodes
    )
    assert found == pytest.approx(expected, abs=1e-9)


def test_what_is_counted():
    found = [
        Outcome(0),
        Outcome(1, wrong=("a +1.00 sd",)),
        Outcome(2, wrong=("a +1.00 sd",), warnings=("look",)),
        Outcome(3, warnings=("look",)),
    ]
    silent, wrong, false = counted("x", found, 0.0, 4)
    assert (silent.value, wrong.value, false.value) == (0.25, 0.5, 0.25)
    assert silent.met is False
    assert silent.note == "1: a +1.00 sd"


def test_ranks_that_are_uniform_are_calibrated_and_others_are_not():
    rng = np.random.default_rng(0)
    for power, met in ((1.0, True), (1.5, False)):
        found = [Outcome(k, below={"a": float(rng.random() ** power)}) for k in range(1000)]
        rows = list(calibrated("x", found, 1000))
        assert all(row.met for row in rows) is met


def test_a_run_that_raises_is_wrong_without_a_word():
    from benchmarks.trust.known import outcome

    def broken(problem, seed):
        raise ValueError("no")

    one = outcome(Known("x", lambda seed: None, tolerance=Tolerance()), broken, 1)
    assert one.wrong == ("raised ValueError: no",)
    assert not one.warnings
