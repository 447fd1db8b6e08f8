"""The posterior of supports on the likelihood of trajectories."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.search import search
from smcpn.discovery.supports.pieces import cut, pieces
from smcpn.discovery.supports.sampling import sample_posterior
from smcpn.errors import InputError

GROWTH = {"x'[x]": 0.8, "x'[x^2]": -0.5}


def lorenz(t, x):
    return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]


@pytest.fixture(scope="module")
def logistic():
    """x' = .8 x - .5 x^2, with noise, in two records."""
    rng = np.random.default_rng(3)
    records = []
    for x0, samples in ((0.1, 60), (3.0, 30)):
        t = np.linspace(0.0, 8.0, samples)
        x = 1.6 / (1.0 + (1.6 / x0 - 1.0) * np.exp(-0.8 * t))
        records.append(smcpn.Record(y=x + 0.05 * rng.normal(size=samples), t=t))
    system = CandidateSystem.of(smcpn.polynomials(3), ["x"])
    return system, records, search(records, system)


@pytest.fixture(scope="module")
def sampled(logistic):
    system, records, found = logistic
    return sample_posterior(system, records, ["x"], found, particles=800, seed=2, threads=1)


def test_probabilities_and_models_are_those_of_the_draws(logistic, sampled):
    _, _, found = logistic
    assert sampled.weights.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(sampled.coefficients != 0.0, sampled.supports)
    np.testing.assert_allclose(sampled.inclusion, sampled.weights @ sampled.supports)
    np.testing.assert_allclose(sampled.sensitivity[1.0], sampled.inclusion)
    assert sum(model.probability for model in sampled.models) == pytest.approx(1.0, abs=2e-3)
    assert sampled.ess > 200
    together = [model.log_evidence + model.log_prior for model in sampled.models]
    assert np.logaddexp.reduce(together) == pytest.approx(sampled.log_evidence, abs=2e-3)
    best = sampled.models[0]
    assert best.names == tuple(GROWTH)
    assert np.all(np.abs(best.mean - list(GROWTH.values())) < 4 * best.sd)
    # Laplace's method on the lifted trajectory is near, with its own units of the data.
    ratio = np.exp(sampled.models[1].log_evidence - best.log_evidence)
    other = {model.support.tobytes(): model for model in found.models}
    same = other[sampled.models[1].support.tobytes()]
    assert np.log(ratio) == pytest.approx(same.log_evidence - found.models[0].log_evidence, abs=1.0)
    assert sampled.weights @ sampled.noise == pytest.approx([0.05], rel=0.3)
    assert sampled.initial.shape == (800, 2, 1)
    means = np.tensordot(sampled.weights, sampled.initial, axes=1)
    np.testing.assert_allclose(means, [[0.1], [3.0]], atol=0.1)


def test_threads_do_not_matter_and_replicates_tell_the_error(logistic, sampled):
    system, records, found = logistic
    again = sample_posterior(system, records, ["x"], found, particles=800, seed=2, threads=2)
    np.testing.assert_array_equal(again.coefficients, sampled.coefficients)
    np.testing.assert_array_equal(again.weights, sampled.weights)
    both = sample_posterior(
        system, records, ["x"], found, particles=400, replicates=4, seed=5, threads=1
    )
    assert set(both.replicate) == {0, 1, 2, 3}
    error = np.hypot(both.log_evidence_se, sampled.log_evidence_se)
    assert abs(both.log_evidence - sampled.log_evidence) < 5 * error
    inclusion = np.abs(both.inclusion - sampled.inclusion)
    assert np.all(inclusion < 5 * np.hypot(both.inclusion_se, sampled.inclusion_se) + 1e-3)


def test_a_known_noise_has_no_coordinate(logistic):
    system, records, found = logistic
    known = sample_posterior(
        system, records, ["x"], found, noise=np.array([0.05]), particles=200, seed=1
    )
    np.testing.assert_array_equal(known.noise, 0.05)
    assert known.models[0].names == tuple(GROWTH)


def test_a_sign_is_kept(logistic):
    _, records, _ = logistic
    system = CandidateSystem.of(smcpn.polynomials(3), ["x"], constraints=["x'[x^3] < 0"])
    drawn = smcpn.discover(
        records, library=smcpn.polynomials(3), states=["x"], constraints=["x'[x^3] < 0"],
        particles=300,
    )  # fmt: skip
    column = system.coefficients.index("x'[x^3]")
    assert drawn.draws(500)[:, column].max() <= 0.0


def test_what_is_no_solver_is_told(logistic):
    _, records, _ = logistic
    with pytest.raises(InputError, match="solver"):
        smcpn.discover(records, library=smcpn.polynomials(2), solver="fast")
    with pytest.raises(InputError, match="likelihood"):
        smcpn.discover(records, library=smcpn.polynomials(2), likelihood="best")


def test_only_chaos_is_cut():
    t = np.arange(0.0, 8.0, 0.01)
    system = CandidateSystem.of(smcpn.polynomials(2), ["x", "y", "z"])
    path = solve_ivp(lorenz, (0.0, 8.0), [-8.0, 7.0, 27.0], t_eval=t, rtol=1e-8).y.T
    values = {"x'[x]": -10, "x'[y]": 10, "y'[x]": 28, "y'[y]": -1, "y'[x z]": -1}
    values |= {"z'[z]": -8 / 3, "z'[x y]": 1}
    coefficients = np.array([values.get(name, 0.0) for name in system.coefficients])
    records = [smcpn.Record(y=path[:300], t=t[:300]), smcpn.Record(y=path[300:], t=t[300:])]
    begins = cut(system, records, path, coefficients)
    assert all(2 <= len(own) <= 5 for own in begins)
    parts, samples, first = pieces(records, begins)
    assert first.tolist() == [0, len(begins[0])]
    assert sum(len(part) for part in parts) == len(path)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), path)
    np.testing.assert_array_equal([part.y[0] for part in parts], path[samples])
    oscillator = CandidateSystem.of(smcpn.polynomials(2), ["x", "y"])
    t = np.linspace(0.0, 25.0, 500)
    lotka = lambda t, x: [x[0] - 0.1 * x[0] * x[1], -1.5 * x[1] + 0.75 * x[0] * x[1]]  # noqa: E731
    path = solve_ivp(lotka, (0.0, 25.0), [5.0, 5.0], t_eval=t, rtol=1e-8).y.T
    values = {"x'[x]": 1.0, "x'[x y]": -0.1, "y'[y]": -1.5, "y'[x y]": 0.75}
    coefficients = np.array([values.get(name, 0.0) for name in oscillator.coefficients])
    begins = cut(oscillator, [smcpn.Record(y=path, t=t)], path, coefficients)
    assert begins[0].tolist() == [0]
