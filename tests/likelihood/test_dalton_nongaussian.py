"""DALTON with measurements that are not Gaussian: densities, the plain reference, the kernel."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy import special, stats

import smcpn
from smcpn import (
    EKF0,
    EKF1,
    Bernoulli,
    InputError,
    LogNormal,
    Poisson,
    Problem,
    Record,
    StudentT,
)
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.noise import log_gamma
from tests.models import (
    FITZHUGH_NAGUMO,
    FITZHUGH_NAGUMO_START,
    fitzhugh_nagumo,
    fitzhugh_nagumo_derivatives,
    fitzhugh_nagumo_problem,
    fitzhugh_nagumo_solution,
)
from tests.reference.likelihoods import StateSpace, dalton, forward

pytestmark = pytest.mark.numerics

DIAGONAL = EKF1(2, 10, diffusion=0.1, jacobian="diagonal")


def log_rates():
    def of_v(V):
        return 0.1 + 0.5 * V

    def of_r(R):
        return 0.1 + 0.5 * R

    return [of_v, of_r]


def counts_problem() -> Problem:
    rates = np.exp(0.1 + 0.5 * fitzhugh_nagumo_solution())
    return problem(np.random.default_rng(0).poisson(rates), log_rates(), Poisson())


def problem(y, observe, noise, **changes) -> Problem:
    prior = {name: stats.lognorm(1.0) for name in "abc"} | changes
    return Problem(
        fitzhugh_nagumo,
        Record(y=np.asarray(y, dtype=float), dt=1.0),
        observe=observe,
        noise=noise,
        prior=prior,
        initial=FITZHUGH_NAGUMO_START,
    )


def plain(problem: Problem, theta=FITZHUGH_NAGUMO, solver: EKF0 | EKF1 = DIAGONAL) -> np.ndarray:
    derivatives = fitzhugh_nagumo_derivatives()
    return dalton(
        StateSpace(problem.model, problem.records[0], theta, solver, derivatives=derivatives)
    )


DENSITIES = {
    "poisson": (Poisson(), [0.0, 3.0], 0.7, lambda y, g: stats.poisson.logpmf(y, np.exp(g))),
    "bernoulli": (Bernoulli(), [0.0, 1.0], -1.3, lambda y, g: y * g - np.log1p(np.exp(g))),
    "student": (
        StudentT(0.3, 5.0), [0.1, 4.0], 0.7, lambda y, g: stats.t.logpdf(y, 5.0, g, 0.3)
    ),
    "lognormal": (
        LogNormal(0.2), [0.4, 1.9], 0.7, lambda y, g: stats.lognorm.logpdf(y, 0.2, scale=g)
    ),
    "own": (
        lambda y, g: -np.abs(y - g) - np.log(2.0), [0.1, 2.0], 0.7,
        lambda y, g: stats.laplace.logpdf(y, g),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_are_those_of_scipy(name):
    """Values, and slope and curvature against differences of them."""
    noise, values, at, expected = DENSITIES[name]
    model = problem(np.ones((41, 1)), "V", noise).model.with_numbers()
    assert model.density is not None
    terms = [model.density.log_density, *model.density.expansion()]
    function = ca.Function("density", [model.density.y, model.density.output], terms)
    for y in values:
        log_density, slope, curvature = (float(np.array(v)[0, 0]) for v in function(y, at))
        assert log_density == pytest.approx(expected(y, at), rel=1e-10)
        d = 1e-4
        low, middle, high = (float(expected(y, at + shift)) for shift in (-d, 0.0, d))
        assert slope == pytest.approx((high - low) / (2 * d), rel=1e-5)
        assert curvature == pytest.approx((high - 2 * middle + low) / d**2, rel=1e-3, abs=1e-6)


def test_log_gamma():
    x = ca.SX.sym("x")
    function = ca.Function("log_gamma", [x], [log_gamma(x)])
    for value in (0.5, 1.0, 2.0, 7.3, 41.0, 1e3, 1e6):
        expected = special.gammaln(value)
        assert float(np.array(function(value))[0, 0]) == pytest.approx(
            expected, rel=1e-12, abs=1e-13
        )


def algorithm_two(space: StateSpace) -> float:
    """The ratio as Wu and Lysy print it: log p(X | z) + log p(y | X) - log p(X | y, z).

    X are the smoothed means. All three leave out the directions in which X is known exactly.
    """
    joint, alone = forward(space, data=True), forward(space, data=False)
    total, x = 0.0, joint.filtered[-1].mean
    last = len(space.record) - 1
    total += pseudo_log_density(x - alone.filtered[-1].mean, alone.filtered[-1].factor)
    total -= pseudo_log_density(0.0 * x, joint.filtered[-1].factor)
    for sample in range(last, -1, -1):
        if sample < last:
            kernels = zip(joint.backward[sample], alone.backward[sample], strict=True)
            for own, other in reversed(list(kernels)):
                before = own.matrix @ x + own.offset
                difference = before - (other.matrix @ x + other.offset)
                total += pseudo_log_density(difference, other.factor)
                total -= pseudo_log_density(0.0 * x, own.factor)
                x = before
        seen = space.observation(sample, x)
        assert seen is not None
        for j, output in zip(seen[3], space.record.y[sample] - seen[1], strict=True):
            total += space.expansion(sample, int(j), float(output))[0]
    return total


def pseudo_log_density(x: np.ndarray, factor: np.ndarray) -> float:
    left, scale, _ = np.linalg.svd(factor)
    kept = scale > 1e-7 * max(scale.max(), 1e-300)
    z = left.T[kept] @ x / scale[kept]
    return float(stats.norm.logpdf(z).sum() - np.log(scale[kept]).sum())


@pytest.mark.slow
def test_golden_value_of_the_counts():
    """The exact likelihood, the paper's algorithm, and the form with increments.

    The paper's algorithm agrees with its authors' code, once a mask has cured that of a division
    by zero: -119.34383 where nothing is rounded to zero.
    """
    problem = counts_problem()
    y = problem.records[0].y
    assert y.sum(axis=0).tolist() == [65.0, 57.0]
    exact = stats.poisson.logpmf(y, np.exp(0.1 + 0.5 * fitzhugh_nagumo_solution())).sum()
    assert exact == pytest.approx(-119.345731, abs=1e-6)
    derivatives = fitzhugh_nagumo_derivatives()
    space = StateSpace(
        problem.model, problem.records[0], FITZHUGH_NAGUMO, DIAGONAL, derivatives=derivatives
    )
    assert algorithm_two(space) == pytest.approx(-119.3438, abs=1e-4)
    coarse = dalton(space).sum()
    assert coarse == pytest.approx(exact, abs=6e-3)
    finer = plain(problem, solver=EKF1(2, 20, diffusion=0.1, jacobian="diagonal")).sum()
    # The error of an order-2 solver falls by eight when the step is halved; half that is asked.
    assert abs(finer - exact) < abs(coarse - exact) / 4


def test_a_gaussian_by_its_log_density_is_the_gaussian():
    def log_density(y, output, *, sd=0.005**0.5):
        return -0.5 * ((y - output) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)

    gaussian = fitzhugh_nagumo_problem()
    y = gaussian.records[0].y.copy()
    y[3, 0], y[9] = np.nan, np.nan
    by_sd = problem(y, ["V", "R"], np.sqrt(0.005))
    mixed = problem(y, ["V", "R"], [np.sqrt(0.005), log_density])
    np.testing.assert_allclose(plain(mixed), plain(by_sd), rtol=1e-9, atol=1e-9)


def test_the_tails_of_student_do_not_break_the_filter():
    """An outlier of a thousand scales lies where the log density is convex."""
    y = fitzhugh_nagumo_solution()
    y[20, 0] += 100.0
    heavy = problem(y, ["V", "R"], StudentT(0.1, 3.0))
    clean = y.copy()
    clean[20, 0] = np.nan
    without = plain(problem(clean, ["V", "R"], StudentT(0.1, 3.0)))
    increments = plain(heavy)
    tail = stats.t.logpdf(100.0, 3.0, 0.0, 0.1)
    assert increments[20] - without[20] == pytest.approx(tail, abs=0.05)
    rest = np.arange(41) != 20
    np.testing.assert_allclose(increments[rest], without[rest], atol=0.05)


def test_information_of_a_convex_density_is_that_of_its_mean():
    """-curvature, and the squared gradient where there is no curvature to speak of."""

    def log_density(y, output):
        return 3.0 * output + y * output**2 / 2

    density = problem(np.ones((41, 1)), "V", log_density).model.density
    assert density is not None
    function = ca.Function("information", [density.y, density.output], [density.information()])
    found = [float(np.array(function(y, 0.0))[0, 0]) for y in (-2.0, 0.5, 0.0)]
    assert found == [2.0, 9.0, 9.0]


def own(y, output, third):
    return y + output + third


@pytest.mark.parametrize(
    ("y", "noise", "sentence"),
    [
        (-1.0, Poisson(), r"y of output 0 .'V'. does not fit its noise Poisson.*whole numbers"),
        (0.5, Poisson(), "counts must be whole numbers"),
        (2.0, Bernoulli(), "values must be 0 or 1"),
        (0.0, LogNormal(0.1), "values must be positive"),
        (1.0, Poisson, "noise is the class Poisson: give an instance"),
        (1.0, own, "noise function 'own' takes 3 positional arguments"),
        (1.0, lambda y, g: (y, g), "noise function '<lambda>' returns 2 values"),
        (1.0, StudentT("nothing"), "parameter 'nothing' has no prior"),
        (1.0, object(), "give a positive standard deviation, a parameter's name, .* or a density"),
    ],
    ids=range(9),
)
def test_what_does_not_fit_is_refused(y, noise, sentence):
    with pytest.raises(InputError, match=sentence):
        problem(np.full((41, 1), y), "V", noise)


@pytest.mark.parametrize("make", [lambda: StudentT(-1.0), lambda: LogNormal(0.0)])
def test_scales_must_be_positive(make):
    with pytest.raises(
        InputError, match="give a positive number, a parameter's name, or a function"
    ):
        make()


def test_likelihoods_of_gaussian_noise_refuse_others():
    with pytest.raises(InputError, match=r"takes Gaussian noise only.*choose likelihood.*dalton"):
        build_likelihood(counts_problem(), EKF0(2, 10))


def mixed_problem() -> Problem:
    """A density of one's own beside a Gaussian, an output that bends, parameters, gaps."""

    def energy(V, R, *, gain):
        return gain * V**2 + np.exp(0.3 * R)

    def log_density(y, output, *, width=0.4, power):
        return -(np.abs((y - output) / width) ** power)

    y = np.column_stack([fitzhugh_nagumo_solution()[:, 0], np.linspace(0.5, 3.0, 41)])
    y[4, 0], y[7, 1], y[11] = np.nan, np.nan, np.nan
    extra = {"gain": stats.norm(1.0, 0.1), "power": stats.uniform(1.5, 0.5)}
    return problem(y, ["V", energy], [0.1, log_density], **extra)


HEAVY = StudentT("scale", 3.0)
COMPILED = {
    "counts": (counts_problem, FITZHUGH_NAGUMO),
    "mixed": (mixed_problem, np.append(FITZHUGH_NAGUMO, [1.05, 1.7])),
    "heavy": (
        lambda: problem(
            fitzhugh_nagumo_solution() + outliers(), ["V", "R"], HEAVY, scale=stats.lognorm(0.3)
        ),
        np.append(FITZHUGH_NAGUMO, 0.2),
    ),
}


def outliers() -> np.ndarray:
    noise = np.random.default_rng(2).normal(size=(41, 2))
    noise[::7] *= 30.0
    return 0.1 * noise


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("counts", DIAGONAL),
        pytest.param("counts", EKF0(2, 10, diffusion=1.0), marks=pytest.mark.nightly),
        pytest.param("mixed", EKF1(2, 10, diffusion=1.0), marks=pytest.mark.nightly),
        pytest.param("heavy", DIAGONAL, marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_kernel_follows_the_plain_form(name, solver):
    """Increment by increment, in pieces and whole, at parameters near the truth."""
    make, centre = COMPILED[name]
    problem = make()
    values = centre * np.exp(0.02 * np.random.default_rng(1).normal(size=(2, len(centre))))
    likelihood = build_likelihood(problem, solver, likelihood="dalton")
    state, first = likelihood.advance(values, likelihood.start(values), 0, 9)
    _, second = likelihood.advance(values, state, 9, 41)
    increments = np.concatenate([first, second])
    for theta, column in zip(values, increments.T, strict=True):
        space = StateSpace(problem.model, problem.records[0], theta, solver)
        np.testing.assert_allclose(column, dalton(space), rtol=1e-7, atol=1e-7)
    total = likelihood.evaluate(values, 41)[1]
    np.testing.assert_allclose(total, increments.sum(axis=0), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.nightly
def test_counts_are_identified():
    """The exact posterior is a few per cent wide; the truth lies within four sds."""
    y = np.random.default_rng(0).poisson(np.exp(2.0 + fitzhugh_nagumo_solution()))

    def of_v(V):
        return 2.0 + V

    def of_r(R):
        return 2.0 + R

    prior = {
        name: stats.lognorm(0.3, scale=s) for name, s in zip("abc", (0.3, 0.2, 2.5), strict=True)
    }
    posterior = smcpn.identify(
        problem(y, [of_v, of_r], Poisson(), **prior),
        solver=EKF1(2, 10, diffusion=10.0, jacobian="diagonal"),
        likelihood="dalton",
        particles=200,
        seed=1,
    )
    for name, truth in zip("abc", FITZHUGH_NAGUMO, strict=True):
        assert abs(posterior.mean[name] - truth) < 4 * posterior.sd[name]
    assert posterior.sd["c"] < 0.3
    assert 0.0 <= posterior.shift.worst < 0.5
    simulation = posterior.simulate(posterior.problem.records[0])
    assert np.isfinite(simulation.sd).all()
    residuals = posterior.validate().outputs[0]
    assert residuals.whiteness_p > 0.001
    assert residuals.chi2_p > 0.001
