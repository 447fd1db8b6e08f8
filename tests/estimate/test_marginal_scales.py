"""Learned scales: against quadrature where the model is linear, and where data say little."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.estimate import marginal_scales
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.marginal_scales import given_scales, with_marginal_scales
from smcpn.estimate.search import SEARCHES
from smcpn.model.learned_scales import learned_scales
from smcpn.smc.evidence import largest_k, pareto_k
from smcpn.smc.start import MixtureStart

RK4 = smcpn.RK4(steps=1)
OPTIONS: dict[str, Any] = {"solver": RK4, "starts": 2, "search": "shooting"}
NORMAL = stats.norm()
bend = smcpn.spline("u", knots=4, within=(0, 10))
smooth = smcpn.gaussian_process("u", within=(0, 10), features=4)


@smcpn.ode
def driven(x, u, *, bend):
    """Linear in all weights."""
    return -0.5 * x + bend(u)


@smcpn.ode
def driven_smoothly(x, u, *, smooth):
    """Linear in the weights, with a learned length."""
    return -0.5 * x + smooth(u)


def problem_of(noise, seed=0, model=driven, first=NORMAL):
    t = 0.25 * np.arange(41)
    y = np.sin(t) + noise * np.random.default_rng(seed).normal(size=len(t))
    record = smcpn.Record(u=t, y=y, dt=0.25)
    lines: dict[str, Any] = {"bend": {"[0]": first, "[1]": stats.norm()}}
    prior = lines if model is driven else {}
    return smcpn.Problem(model, record, observe="x", noise=noise, initial={"x": 0.0}, prior=prior)


def by_quadrature(problem):
    """Log-evidence, mean and covariance of all coordinates, scales on a fine grid."""
    function, names = smcpn.LogLikelihood(problem, solver=RK4), problem.names
    scale = names.index("bend.scale")
    w = np.delete(np.arange(len(names)), scale)
    value, gradient, information = function.expansion(np.eye(len(names))[[scale]])
    pull, matrix = gradient[0, w], information[0][np.ix_(w, w)]
    scaled = np.array([names[j].removeprefix("bend") in bend.scales for j in w])
    grid = np.linspace(-8.0, 6.0, 1401)
    logs, means, covariances = [], [], []
    for u in grid:
        precision = np.where(scaled, np.exp(-2.0 * u), 1.0)
        covariance = np.linalg.inv(matrix + np.diag(precision))
        mean = covariance @ pull
        volume = np.linalg.slogdet(covariance)[1] + np.log(precision).sum()
        logs.append(value[0] + 0.5 * (pull @ mean + volume) + stats.norm(0.0, 1.5).logpdf(u))
        means.append(np.append(mean, u))
        covariances.append(np.pad(covariance, (0, 1)))
    logs, means, covariances = map(np.array, (logs, means, covariances))
    weights = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weights.sum() * (grid[1] - grid[0]))
    weights /= weights.sum()
    mean, centred = weights @ means, means - weights @ means
    covariance = np.einsum("n,nij", weights, covariances) + centred.T @ (weights[:, None] * centred)
    order = np.argsort(np.append(w, scale))
    return evidence, mean[order], covariance[np.ix_(order, order)], grid[logs.argmax()]


@pytest.fixture(scope="module", params=[pytest.param(0.01, marks=pytest.mark.nightly), 1.0])
def found(request):
    problem = problem_of(request.param)
    return problem, smcpn.laplace(problem, **OPTIONS), by_quadrature(problem)


def test_moments_and_evidence_are_those_of_quadrature(found):
    problem, laplace, (evidence, mean, covariance, top) = found
    sd = np.sqrt(np.diag(covariance))
    assert laplace.log_evidence == pytest.approx(evidence, abs=1e-4)
    np.testing.assert_allclose((laplace.centre - mean) / sd, 0.0, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(np.diag(laplace.covariance)) / sd, 1.0, atol=1e-3)
    assert laplace.mode[problem.names.index("bend.scale")] == pytest.approx(top, abs=0.02)
    columns, theta = learned_scales(problem), laplace.mode[None]
    [given] = given_scales(LogDensity(laplace.maximum.function), columns, theta)
    assert given.moments(theta[0, columns.scales])[2] == pytest.approx(evidence, abs=1e-4)


def test_draws_are_of_these_moments(found):
    _, laplace, (_, mean, covariance, _) = found
    drawn = laplace.draw_theta(4000, seed=1)
    z = (drawn.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / 4000)
    # The Gaussian of the scale is itself an approximation.
    assert np.abs(z).max() < 5.0


@pytest.mark.parametrize(
    ("model", "noise"), [(driven, 0.01), (driven, 1.0), (driven_smoothly, 0.3)]
)
def test_start_is_near_the_posterior(model, noise):
    """Mean weight of 1000 draws against the evidence, 5 standard errors."""
    problem = problem_of(noise, model=model)
    laplace = smcpn.laplace(problem, **OPTIONS)
    start = MixtureStart(problem.prior, laplace.start, learned_scales(problem))
    theta = start.sample(np.random.default_rng(0), 1000)
    weights = smcpn.LogLikelihood(problem, solver=RK4)(problem.prior.natural(theta))
    weights = weights + problem.prior.log_density(theta) - start.log_density(theta)
    assert pareto_k(weights) < 0.5
    relative = np.exp(weights - laplace.log_evidence)
    assert abs(relative.mean() - 1.0) < 5.0 * relative.std() / np.sqrt(1000)
    h, d = 1e-5, theta.shape[1]
    for one in (start, replace(start, width=3.0)):
        shifted = [one.log_density(theta[:4] + h * e) for e in np.vstack([np.eye(d), -np.eye(d)])]
        differences = (np.array(shifted[:d]) - np.array(shifted[d:])).T / (2.0 * h)
        np.testing.assert_allclose(one.gradient(theta[:4]), differences, rtol=1e-4, atol=1e-4)


def test_scale_stays_where_data_say_nothing():
    """Its marginal mode is that of the prior, and the joint mode would be at zero."""
    problem = problem_of(100.0)
    maximum = smcpn.maximise(problem, **OPTIONS)
    assert maximum.success
    assert maximum["bend.scale"] == pytest.approx(1.0, rel=0.05)
    density = LogDensity(maximum.function)
    [given] = given_scales(density, learned_scales(problem), maximum.theta[None])
    _, slope = given.value_and_slope(maximum.theta[None, [problem.names.index("bend.scale")]])
    assert np.abs(slope).max() < 0.01


def test_the_convex_tail_of_a_prior_bounds():
    """Student's t is taken as the normal density of the same slope, where data say nothing."""
    tails, place = 3.0, 6.0
    problem = problem_of(1e6, first=stats.t(tails))
    theta = np.zeros((1, len(problem.names)))
    theta[0, 0] = place
    density = LogDensity(smcpn.LogLikelihood(problem, solver=RK4))
    [given] = given_scales(density, learned_scales(problem), theta)
    slope, centre = (tails + 1) * place / (tails + place**2), density.centre[0]
    assert given.information[0, 0] == pytest.approx(slope / (place - centre), rel=1e-6)
    assert given.pull[0] == pytest.approx(given.information[0, 0] * centre, rel=1e-2)


def test_an_expansion_that_leads_astray_is_left_for_expected_information(monkeypatch):
    """As that of a monotone spline, whose likelihood has slopes without curvature."""

    def astray(maximum, density, columns, curvature=None):
        found = marginal_scales.averaged_over_scales(maximum, density, columns, curvature)
        if curvature is None:
            return found
        scaled = found.given_scales
        return replace(found, given_scales=replace(scaled, centre=scaled.centre + 1e4))

    right = smcpn.laplace(problem_of(0.1), **OPTIONS)
    monkeypatch.setattr("smcpn.estimate.laplace.averaged_over_scales", astray)
    found = smcpn.laplace(problem_of(0.1), **OPTIONS)
    assert not right.gauss_newton
    assert found.gauss_newton == ("every direction",)
    assert found.log_evidence == pytest.approx(right.log_evidence, abs=0.1)


def test_scales_stay_where_no_precision_is_positive_definite(monkeypatch):
    """As where rounding has made information of a wide spectrum indefinite."""
    problem = problem_of(0.1)
    density = LogDensity(smcpn.LogLikelihood(problem, solver=RK4))
    search = with_marginal_scales(SEARCHES["levenberg-marquardt"](), density)

    def indefinite(*arguments):
        return [replace(one, information=-one.information) for one in given_scales(*arguments)]

    start = density.centre[None, :] + 0.3
    monkeypatch.setattr(marginal_scales, "given_scales", indefinite)
    [found] = search(density, start, [range(len(problem.names))], 50)
    scale = problem.names.index("bend.scale")
    assert np.isfinite(found.log_density)
    assert found.theta[scale] == start[0, scale]


def test_normal_priors_keep_their_curvature_next_to_the_centre_of_draws():
    problem = problem_of(100.0)
    density = LogDensity(smcpn.LogLikelihood(problem, solver=RK4))
    line, columns = problem.names.index("bend[1]"), learned_scales(problem)
    near = density.centre.copy()
    near[line] *= 1.0 + 1e-3
    [given] = given_scales(density, columns, near[None])
    *_, information, _ = density.of_likelihood(near[None])
    place = columns.others.tolist().index(line)
    own = given.information[place, place] - information[0, line, line]
    assert own == pytest.approx(1.0, rel=1e-6)


@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
@pytest.mark.parametrize(("model", "width"), [(driven, 3.0), (driven_smoothly, 1.0)])
def test_a_start_of_few_effective_draws_is_widened_for_scales(model, width, monkeypatch):
    """Here nearly all are asked to be; evidence within 5 standard errors of the Gaussians'."""
    problem = problem_of(0.3, model=model)
    laplace = smcpn.laplace(problem, **OPTIONS)
    options = {"start": laplace, "particles": 100, "ess": 0.2, "seed": 1, "progress": False}
    assert smcpn.identify(problem, **options).method.width == 1.0
    monkeypatch.setattr("smcpn.run.sample.OF_SCALES", 0.99)
    posterior = smcpn.identify(problem, **options)
    assert posterior.method.width == width
    assert posterior.method.pareto_k < largest_k(100)
    error = posterior.log_evidence_se
    assert abs(posterior.log_evidence - laplace.log_evidence) < 5.0 * error + 0.1
