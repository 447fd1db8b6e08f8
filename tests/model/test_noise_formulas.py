"""Noise as a formula, known for each sample, of counts, and values known by their limits."""

import pickle

import casadi as ca
import numpy as np
import pytest
from scipy import special, stats

import smcpn
from smcpn.errors import InputError
from smcpn.model.special_functions import (
    log_gamma,
    log_gamma_ratio,
    log_normal_cdf,
    log_normal_interval,
)

pytestmark = pytest.mark.numerics

T = np.linspace(0.0, 3.0, 16)
X = 2.0 * np.exp(-0.7 * T)
RNG = np.random.default_rng(0)
Z = RNG.normal(size=len(T))
SD = RNG.uniform(0.05, 0.2, len(T))
PRIOR = {name: stats.lognorm(1.0) for name in ("k", "a", "b")}
THETA = np.array([[0.7, 0.05, 0.1]])
FINE = smcpn.RK4(steps=30)


@smcpn.ode
def decay(x, *, k):
    return -k * x


def _problem(noise, names, observe="x", **outputs):
    record = smcpn.Record(dt=0.2, **outputs)
    prior = {name: PRIOR[name] for name in names}
    given = {} if noise is None else {"noise": noise}
    return smcpn.Problem(decay, record, observe=observe, initial=[2.0], prior=prior, **given)


def _limited(y):
    """Values below .8 and above 1.8 known by these limits, and one by an interval."""
    low, high = y < 0.8, y > 1.8
    lower, upper = np.where(high, 1.8, np.nan), np.where(low, 0.8, np.nan)
    lower[5], upper[5] = 0.5, 1.5
    y = np.where(np.isfinite(lower) | np.isfinite(upper), np.nan, y)
    return {"y": y, "y_lower": lower, "y_upper": upper}


def _log_probability(given, mean, sd, transform=lambda y: y):
    """Log density of values and probability of limits, by SciPy."""
    below, above = ((transform(given[n]) - transform(mean)) / sd for n in ("y_lower", "y_upper"))
    one = np.where(np.isfinite(above), stats.norm.logcdf(above), stats.norm.logsf(below))
    both = np.log(stats.norm.cdf(above) - stats.norm.cdf(below))
    value = stats.norm.logpdf(transform(given["y"]), transform(mean), sd)
    limited = np.isfinite(below) | np.isfinite(above)
    return np.where(np.isfinite(below + above), both, np.where(limited, one, value))


def _cases():
    y, sd = X + 0.1 * Z, 0.05 + 0.1 * X
    formula = smcpn.Normal(lambda y, t, *, a, b: a + b * y + 0 * t)
    yield "formula", (formula, ("k", "a", "b"), {"y": y}), stats.norm.logpdf(y, X, sd)
    own = {"y": y, "y_sd": SD}
    yield "y_sd", (None, ("k",), own), stats.norm.logpdf(y, X, SD)
    both = smcpn.Normal(lambda y, y_sd, *, a: np.sqrt(y_sd**2 + a**2))
    yield "y_sd and more", (both, ("k", "a"), own), stats.norm.logpdf(y, X, np.hypot(SD, 0.05))
    outputs = {"observe": ["x", lambda x: 2.0 * x], "y": np.column_stack([y, 2.0 * X - 0.1 * Z])}
    one = outputs | {"y_sd": np.column_stack([SD, np.full(len(T), np.nan)])}
    wanted = stats.norm.logpdf(y, X, SD) + stats.norm.logpdf(0.1 * Z, 0.0, 0.05)
    yield "y_sd of one output", (["y_sd", "a"], ("k", "a"), one), wanted
    given = _limited(y)
    yield "limits", ("a", ("k", "a"), given), _log_probability(given, X, 0.05)
    positive = _limited(np.exp(0.05 * Z) * X)
    logarithms = _log_probability(positive, X, 0.05 * np.log(10), np.log)
    jacobian = np.nan_to_num(np.log(positive["y"]))
    noise = smcpn.LogNormal("a", base=10)
    yield "log10", (noise, ("k", "a"), positive), logarithms - jacobian
    counts = np.arange(len(T)) % 5.0
    noise, each = smcpn.NegativeBinomial("a"), stats.nbinom.logpmf(counts, 0.05, 0.05 / (0.05 + X))
    yield "counts", (noise, ("k", "a"), {"y": counts}), each


CASES = {name: (made, wanted) for name, made, wanted in _cases()}


@pytest.mark.parametrize("name", CASES)
def test_log_likelihood_is_that_of_scipy(name):
    (noise, names, given), wanted = CASES[name]
    function = smcpn.LogLikelihood(_problem(noise, names, **given), "classical", solver=FINE)
    values = THETA[:, : len(names)]
    np.testing.assert_allclose(function(values), wanted.sum(), rtol=1e-8)
    _, gradient = function.value_and_gradient(values)
    steps = 1e-5 * np.eye(len(names))
    differences = [(function(values + h) - function(values - h))[0] / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient[0], differences, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("solver", [smcpn.EKF0(steps=30), smcpn.AdaptiveEKF1(tolerance=1e-8)])
def test_probabilistic_solvers_take_noise_that_varies(solver):
    (noise, names, given), wanted = CASES["y_sd and more"]
    # Nothing is known of a sample that was not measured.
    missing = np.arange(len(T)) == 3
    given = {name: np.where(missing, np.nan, one) for name, one in given.items()}
    function = smcpn.LogLikelihood(_problem(noise, names, **given), solver=solver)
    np.testing.assert_allclose(function(THETA[:, :2]), wanted[~missing].sum(), rtol=1e-5)


def test_a_filter_takes_limits():
    (noise, names, given), wanted = CASES["limits"]
    problem = _problem(noise, names, **given)
    function = smcpn.LogLikelihood(problem, "filtering", solver=smcpn.EKF1(steps=20))
    np.testing.assert_allclose(function(THETA[:, :2]), wanted.sum(), rtol=1e-4)


def test_likelihoods_that_take_no_limits_say_so():
    (noise, names, given), _ = CASES["limits"]
    with pytest.raises(InputError, match=r"Gaussian noise only.*classical"):
        smcpn.LogLikelihood(_problem(noise, names, **given), solver=smcpn.EKF0(steps=2))


def test_special_functions_are_exact():
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    cdf = ca.Function("cdf", [a], [log_normal_cdf(a), ca.gradient(log_normal_cdf(a), a)])
    z = np.linspace(-40.0, 10.0, 60)
    value, slope = (np.array(one).ravel() for one in cdf(z[None, :]))
    np.testing.assert_allclose(value, special.log_ndtr(z), rtol=3e-14)
    np.testing.assert_allclose(
        slope, np.exp(stats.norm.logpdf(z) - special.log_ndtr(z)), rtol=1e-11
    )
    between = ca.Function("between", [a, b], [log_normal_interval(a, b)])
    ends = np.array([[-30.0, -29.9], [20.0, 21.0], [-1.0, 1.0], [0.3, 0.3 + 1e-9], [-9.0, 40.0]])
    far = [special.log_ndtr(-np.abs(one)) for one in ends[:2]]
    far = [one.max() + np.log(-np.expm1(-np.ptp(one))) for one in far]
    near = [np.log(special.erf(np.sqrt(0.5))), stats.norm.logpdf(0.3) + np.log(np.ptp(ends[3]))]
    wanted = [*far, *near, stats.norm.logsf(-9.0)]
    np.testing.assert_allclose(np.array(between(*ends.T[:, None])).ravel(), wanted, rtol=1e-10)
    gamma = ca.Function("gamma", [a, b], [log_gamma(a), log_gamma_ratio(a, b)])
    x, n = np.array([0.01, 0.5, 3.0, 1e6]), np.array([4.0, 1.0, 50.0, 7.0])
    own, ratio = (np.array(one).ravel() for one in gamma(x[None], n[None]))
    np.testing.assert_allclose(own, special.gammaln(x), rtol=2e-14)
    np.testing.assert_allclose(ratio, np.log(special.poch(x, n)), rtol=2e-14)


REFUSED = {
    "limit and value": (lambda: smcpn.Record(y=[1.0, 2.0], y_upper=[3.0, 3.0], dt=1), "NaN in y"),
    "limits crossed": (
        lambda: smcpn.Record(y=[1, np.nan], y_lower=[np.nan, 3], y_upper=[np.nan, 2], dt=1),
        "above y_lower",
    ),
    "no deviation": (lambda: smcpn.Record(y=[1, 2], y_sd=[1, 0], dt=1), "positive standard"),
    "shape": (lambda: smcpn.Record(y=[1.0, 2.0], y_sd=[1.0], dt=1), "one number for each"),
    "not taken": (lambda: _problem("a", ("k", "a"), y=X, y_sd=SD), "does not take"),
    "not of this one": (
        lambda: _problem(
            ["a", "y_sd"], ("k", "a"), ["x", "x"], y=np.column_stack([X, X]),
            y_sd=np.column_stack([SD, SD]),
        ),
        "has y_sd of 'x', which its noise",
    ),
    "not of a limit": (
        lambda: _problem(
            "y_sd", ("k",), **_limited(X), y_sd=np.where(np.isnan(_limited(X)["y"]), np.nan, SD)
        ),
        "not for every value of 'x'",
    ),
    "not given": (lambda: _problem("y_sd", ("k",), y=X), "has not"),
    "nothing": (lambda: _problem(None, ("k",), y=X), "give it to smcpn.Record"),
    "unknown": (
        lambda: _problem(smcpn.Normal(lambda y, w: w), ("k",), y=X), "takes 'w': write the output"
    ),
    "density": (
        lambda: _problem(smcpn.StudentT("a"), ("k", "a"), **_limited(X)), "does not take: give"
    ),
    "coloured": (
        lambda: _problem(smcpn.AR1("a", 0.5), ("k", "a"), **_limited(X)), "beside coloured noise"
    ),
    "base": (lambda: smcpn.LogNormal(0.1, base=1.0), "number above 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        make()


def test_parts_of_a_record_keep_what_is_beside_y():
    record = smcpn.Record(dt=0.2, y_sd=SD, **_limited(X))
    again = pickle.loads(pickle.dumps(record[:6].followed_by(record[6:])))
    for name in ("y", "y_sd", "y_lower", "y_upper"):
        np.testing.assert_array_equal(getattr(again, name), getattr(record, name))
    assert not record.hide(0, 16).told.any()
    assert record.with_outputs(X).y_sd is None


@pytest.mark.parametrize("name", ["limits", pytest.param("formula", marks=pytest.mark.nightly)])
def test_a_stream_is_the_record_to_the_byte(name, tmp_path):
    (noise, names, given), _ = CASES[name]
    problem = _problem(noise, names, **given)
    solver = smcpn.RK4(steps=2)
    options = {"solver": solver, "particles": 100, "seed": 1}
    posterior = smcpn.identify(problem, method="ibis", progress=False, **options)
    record = problem.records[0]
    begun = smcpn.Problem(
        decay, record[:2], observe="x", noise=noise, initial=[2.0],
        prior={name: PRIOR[name] for name in names},
    )  # fmt: skip
    live = smcpn.Online(begun, **options)
    for k in range(len(T)):
        if k == 7:
            live.save(tmp_path / "live.h5")
            live = smcpn.Online.load(tmp_path / "live.h5")
        limits = {one: given[one][k] for one in given if one != "y"}
        live.update(None, given["y"][k], T[k], **limits)
    assert live.posterior().log_evidence == posterior.log_evidence
    with pytest.raises(InputError, match="y_sd is given"):
        live.update(None, 1.0, 4.0, y_sd=0.1)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("width", [0.3, pytest.param(np.inf, marks=pytest.mark.nightly)])
def test_limits_may_be_all_that_is_known(width):
    given = {"y": np.full(len(T), np.nan), "y_upper": X + 0.1, "y_lower": X + 0.1 - width}
    given["y_lower"][np.isinf(width)] = np.nan
    problem = _problem(0.1, ["k"], **given)
    posterior = smcpn.identify(problem, particles=400, seed=0, progress=False)
    k = np.geomspace(0.05, 20.0, 4000)
    with np.errstate(divide="ignore"):
        likely = [_log_probability(given, 2.0 * np.exp(-one * T), 0.1).sum() for one in k]
    weights = np.exp(likely) * PRIOR["k"].pdf(k) * np.gradient(k)
    mean = weights @ k / weights.sum()
    assert posterior.log_evidence == pytest.approx(np.log(weights.sum()), abs=0.1)
    assert abs(posterior.mean["k"] - mean) < 0.2 * posterior.sd["k"]
    assert posterior.verdict.fit == ()
    assert "nan" not in str(posterior)


def test_residuals_of_limited_values_are_standard_normal_where_the_model_is_right():
    y, rng = np.exp(-0.7 * np.arange(400) / 200), np.random.default_rng(2)
    measured = y + 0.1 * rng.normal(size=len(y))
    low = measured < 0.5
    record = smcpn.Record(
        y=np.where(low, np.nan, measured), y_upper=np.where(low, 0.5, np.nan), dt=1 / 200
    )
    problem = smcpn.Problem(
        decay, record, observe="x", noise="a", initial=[1.0],
        prior={"k": PRIOR["k"], "a": PRIOR["a"]},
    )  # fmt: skip
    posterior = smcpn.identify(problem, particles=100, seed=0, progress=False)
    (part,) = posterior.validate().innovations
    assert stats.kstest(part.normalised[:, 0], "norm").pvalue > 0.01
    assert abs(posterior.mean["k"] - 0.7) < 3 * posterior.sd["k"]


@pytest.mark.parametrize("kind", ["online", "nested"])
def test_a_stream_of_a_disturbed_system_takes_limits(kind):
    given = _limited(X)
    options = {
        "observe": "x", "noise": 0.1, "initial": [2.0], "process_noise": {"x": 0.1},
        "prior": {"k": PRIOR["k"]},
    }  # fmt: skip
    problem = smcpn.Problem(decay, smcpn.Record(t=T, **given)[:2], **options)
    settings = {"particles": 20, "seed": 1, "solver": smcpn.RK4(steps=1)}
    if kind == "nested":
        live = smcpn.NestedFilter(problem, **settings)
    else:
        live = smcpn.Online(problem, likelihood="particle", **settings)
    for k in range(6):
        limits = {name: given[name][k] for name in ("y_lower", "y_upper")}
        live.update(None, given["y"][k], T[k], **limits)
    assert live.sample in (5, 6)
