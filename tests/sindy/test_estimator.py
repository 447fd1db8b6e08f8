"""`SINDy`: conventions of pysindy and scikit-learn, and what is told of what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import smcpn.sindy as ps
from smcpn.errors import InputError

TIGHT = {"method": "LSODA", "rtol": 1e-10, "atol": 1e-10}
T = np.linspace(0.0, 4.0, 161)
NOISE = 0.01


def forced(t, x):
    """x' = -2 x + u with u = sin(3 t), y' = x - y."""
    return [-2.0 * x[0] + np.sin(3.0 * t), x[0] - x[1]]


TRUTH = np.array([[0.0, -2.0, 0.0, 1.0, *[0.0] * 6], [0.0, 1.0, -1.0, *[0.0] * 7]])
"""Columns 1, x0, x1, u0, and those of degree 2."""


def trajectory(start, t=T):
    return solve_ivp(forced, (t[0], t[-1]), start, t_eval=t, **TIGHT).y.T


@pytest.fixture(scope="module")
def data():
    return trajectory([1.0, -1.0]), np.sin(3.0 * T)[:, None]


@pytest.fixture(scope="module")
def noisy(data):
    x, u = data
    return x + NOISE * np.random.default_rng(3).normal(size=x.shape), u


@pytest.fixture(scope="module")
def model(noisy):
    x, u = noisy
    return ps.SINDy().fit(x, t=T, u=u)


def test_coefficients_are_in_the_order_of_the_features(model):
    names = ["1", "x0", "x1", "u0", "x0^2", "x0 x1", "x0 u0", "x1^2", "x1 u0", "u0^2"]
    assert model.get_feature_names() == names
    assert model.coef_.shape == (2, 10) == model.coef_std_.shape == model.inclusion_.shape
    np.testing.assert_array_equal(model.coef_ != 0.0, TRUTH != 0.0)
    assert np.all(np.abs(model.coef_ - TRUTH) <= 4.0 * model.coef_std_)
    assert (model.inclusion_[TRUTH != 0.0] > 0.99).all()
    assert model.complexity == 4
    assert model.optimizer.coef_ is model.coefficients() is model.coef_
    shape = model.n_features_in_, model.n_control_features_, model.n_output_features_
    assert shape == (3, 1, 10)


def test_ensemble_has_draws_of_the_coefficients(noisy):
    x, u = noisy
    optimizer = ps.EnsembleOptimizer(ps.STLSQ(), bagging=True, n_models=300)
    with pytest.warns(ps.SINDyWarning, match="does not use .optimizer=Ens"):
        model = ps.SINDy(optimizer).fit(x, t=T, u=u)
    drawn = np.array(optimizer.coef_list)
    assert drawn.shape == (300, 2, 10)
    spread = np.std(drawn, axis=0)[TRUTH != 0.0]
    np.testing.assert_allclose(spread, model.coef_std_[TRUTH != 0.0], rtol=0.3)
    with pytest.raises(AttributeError, match=r"has no history_.*discovery_\.models"):
        _ = optimizer.history_


def test_arrays_with_axes_are_those_of_numpy():
    with pytest.raises(AttributeError, match=r"has no AxesArray: give arrays of numpy"):
        _ = ps.AxesArray


def test_spread_is_that_over_all_models(model):
    found = model.discovery_
    draws = found.system.matrix(found.draws(4000, seed=1))
    place = [found.system.candidates.names.index(one) for one in model.get_feature_names()]
    spread = draws.std(axis=0)[:, place]
    # The standard error of a standard deviation of 4000 draws is 1.1 % for one Gaussian.
    sure = model.inclusion_ > 0.99
    np.testing.assert_allclose(spread[sure], model.coef_std_[sure], rtol=0.06)


def test_equations_are_written_as_by_pysindy(model, capsys):
    model.print(precision=1)
    assert capsys.readouterr().out == "(x0)' = -2.0 x0 +  1.0 u0\n(x1)' =  1.0 x0 + -1.0 x1\n"
    model.print(lhs=["a", "b"], precision=0)
    assert capsys.readouterr().out.startswith("a = -2 x0 +  1 u0\nb =")


def test_prediction_score_and_simulation(model, data):
    x, u = data
    np.testing.assert_allclose(
        model.predict(x, u=u)[:, 1], model.coef_[1, [1, 2]] @ x.T, rtol=1e-12
    )
    assert model.score(x, t=T, u=u) > 0.99
    assert model.score(x, u=u) == pytest.approx(model.score(x, t=T, u=u), rel=1e-12)
    assert model.score(x, x_dot=model.predict(x, u=u), u=u) == pytest.approx(1.0, abs=1e-12)
    rms = lambda a, b: float(np.sqrt(np.mean((a - b) ** 2)))  # noqa: E731
    assert model.score(x, t=T, u=u, metric=rms) < 0.1
    by_function = model.simulate(x[0], T, u=lambda t: np.array([np.sin(3.0 * t)]))
    np.testing.assert_allclose(by_function, x, atol=0.03)
    with pytest.warns(ps.SINDyWarning, match="last time"):
        by_samples = model.simulate(x[0], T, u=u, integrator="odeint")
    np.testing.assert_allclose(by_samples, by_function[:-1], atol=1e-4)


def test_trajectories_of_a_loose_solver_are_remarked_on():
    t = np.linspace(0.0, 10.0, 201)
    x = solve_ivp(lambda t, x: [x[1], -x[0] - 0.2 * x[1]], (0.0, 10.0), [1.0, 0.0], t_eval=t).y.T
    model = ps.SINDy().fit(x, t=t)
    np.testing.assert_array_equal(model.coef_ != 0.0, [[0, 0, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0]])
    assert "more than the noise" in model.discovery_.warnings[0]


def test_lists_of_trajectories(data):
    other = T[:90] ** 1.1
    x = [data[0], trajectory([-1.0, 2.0], other)]
    u = [data[1], np.sin(3.0 * other)]
    model = ps.SINDy(feature_library=ps.PolynomialLibrary(degree=1), feature_names=["a", "b", "u"])
    model.fit(x, t=[T, other], u=u, multiple_trajectories=True, quiet=True)
    np.testing.assert_allclose(model.coef_, TRUTH[:, :4], atol=0.01)
    assert model.get_feature_names() == ["1", "a", "b", "u"]
    assert model.discovery_.models[0].names[0] == "a'[a]"
    predicted = model.predict(x, u=u)
    assert [len(one) for one in predicted] == [161, 90]
    assert model.score(x, t=[T, other], u=u) > 0.99


def test_a_time_step_and_missing_samples(data):
    x, u = data[0].copy(), data[1]
    x[40:50, 0] = np.nan
    x[-1] = np.nan
    model = ps.SINDy(feature_library=ps.IdentityLibrary(), t_default=T[1]).fit(x, u=u)
    np.testing.assert_allclose(model.coef_, TRUTH[:, 1:4], atol=0.01)


@pytest.fixture
def at_once(model, monkeypatch):
    """What was found before is found again, of any data with the default library."""
    asked = {}
    found = lambda records, **given: asked.update(given) or model.discovery_  # noqa: E731
    monkeypatch.setattr("smcpn.sindy.estimator.discover", found)
    return asked


def test_names_that_no_equation_can_have(data, at_once):
    model = ps.SINDy(method="search", seed=3).fit(
        data[0], t=T, u=data[1], feature_names=["$x$", "t", "the force"]
    )
    assert model.get_feature_names()[:4] == ["1", "$x$", "t", "the force"]
    assert (at_once["states"], at_once["inputs"]) == (["x0", "x1"], ["u0"])
    assert (at_once["method"], at_once["seed"]) == ("search", 3)


def test_a_feature_that_is_there_twice(data):
    twice = ps.CustomLibrary([lambda x: 2.0 * x], [lambda name: f"2 {name}"])
    model = ps.SINDy(feature_library=ps.IdentityLibrary() + twice).fit(data[0], t=T, u=data[1])
    assert model.get_feature_names() == ["x0", "x1", "u0", "2 x0", "2 x1", "2 u0"]
    np.testing.assert_allclose(model.coef_[:, :3], TRUTH[:, 1:4], atol=0.01)
    assert not model.coef_[:, 3:].any()


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"optimizer": ps.STLSQ(threshold=0.2)}, {}, r"optimizer=STLSQ\(threshold=0.2\)"),
        ({"optimizer": ps.SR3()}, {"ensemble": True}, r"ensemble=True, optimizer=SR3\(\)"),
        ({"differentiation_method": ps.FiniteDifference(order=4)}, {}, "order=4"),
        ({}, {"x_dot": True}, "x_dot"),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_what_is_not_used_is_told_in_one_sentence(settings, given, message, data):
    x, u = data
    if "x_dot" in given:
        given = {"x_dot": np.stack(forced(T, x.T), axis=1)}
    model = ps.SINDy(**settings)
    with pytest.warns(ps.SINDyWarning, match=message) as told:
        model.fit(x, t=T, u=u, **given)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"t": None}, "t is missing"),
        ({"t": "1"}, "t is '1'"),
        ({"t": -1.0}, "must be positive"),
        ({"t": T[:-1]}, "160 times and x 161 samples"),
        ({"t": T[::-1]}, "does not increase at sample 1"),
        ({"t": [T, T], "x": [np.zeros((161, 2))] * 3, "u": None}, "t has 2 entries"),
        ({"x": "data"}, "x is 'data'"),
        ({"x": np.full((161, 2), np.inf)}, r"x is infinite at \(0, 0\)"),
        ({"x": np.zeros((161, 2, 2))}, "axes of space"),
        ({"x": [np.zeros((5, 2)), np.zeros((5, 3))]}, r"x\[1\] has 3 columns"),
        ({"u": np.zeros((3, 1))}, "u of trajectory 0"),
        ({"u": np.full((161, 1), np.nan)}, "u is nan at sample 0"),
        ({"feature_names": ["a", "b"]}, "give 3 different names"),
        ({"x_dot": np.ones((161, 2))}, "not the derivative"),
        ({"threads": 3}, "argument of fit"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told(given, message, data):
    arguments = {"x": data[0], "t": T, "u": data[1]} | given
    with pytest.raises(InputError, match=message):
        ps.SINDy().fit(**arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"discrete_time": True}, "discrete_time"),
        ({"feature_library": 3}, "feature_library is 3"),
        ({"method": "guess"}, "method"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_told(settings, message, data):
    with pytest.raises(InputError, match=message):
        ps.SINDy(**settings).fit(data[0], t=T)


def test_what_is_asked_for_too_early_or_with_other_shapes(model, data):
    new = ps.SINDy()
    for call in (new.coefficients, new.get_feature_names, new.equations, new.print):
        with pytest.raises(InputError, match="not fitted"):
            call()
    with pytest.raises(InputError, match="u is missing"):
        model.predict(data[0])
    with pytest.raises(InputError, match="3 and 1 columns"):
        model.predict(np.zeros((2, 3)), u=np.zeros((2, 1)))
    with pytest.raises(InputError, match="x0 is"):
        model.simulate([1.0], T, u=data[1])
    with pytest.raises(InputError, match="t is 3"):
        model.simulate([1.0, 1.0], 3, u=data[1])


@pytest.mark.parametrize("name", ["PDELibrary", "ConstrainedSR3", "SINDyPI", "DiscreteSINDy"])
def test_names_that_are_not_here_say_why(name):
    with pytest.raises(AttributeError, match=f"smcpn.sindy has no {name}: "):
        getattr(ps, name)


def test_parameters(data):
    model = ps.SINDy(feature_library=ps.PolynomialLibrary(degree=3))
    assert model.get_params()["feature_library__degree"] == 3
    model.set_params(feature_library__degree=1, optimizer__threshold=0.5, seed=4)
    assert (model.feature_library.degree, model.optimizer.threshold, model.seed) == (1, 0.5, 4)
    assert repr(model.feature_library) == "PolynomialLibrary(degree=1)"
    with pytest.raises(InputError, match="no parameter 'sed': did you mean 'seed'"):
        model.set_params(sed=3)
    with pytest.raises(InputError, match="degree is -1"):
        model.set_params(feature_library__degree=-1)


def test_scikit_learn_clones_and_searches(data):
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    validation = pytest.importorskip("sklearn.utils.validation")
    x, t = solve_ivp(lambda _, x: -x, (0.0, 3.0), [1.0], t_eval=T[T <= 3.0], **TIGHT).y.T, T[1]
    model = ps.SINDy(feature_library=ps.FourierLibrary(), t_default=float(t))
    clone = base.clone(model)
    assert repr(clone) == repr(model)
    assert clone.feature_library is not model.feature_library
    grid = {"feature_library": [ps.PolynomialLibrary(degree=1)], "optimizer__threshold": [0.1]}
    search = selection.GridSearchCV(model, grid, cv=selection.TimeSeriesSplit(n_splits=2))
    search.fit(x)
    assert repr(search.best_params_["feature_library"]) == "PolynomialLibrary(degree=1)"
    validation.check_is_fitted(search.best_estimator_)
    np.testing.assert_allclose(search.best_estimator_.coef_, [[0.0, -1.0]], atol=1e-4)
