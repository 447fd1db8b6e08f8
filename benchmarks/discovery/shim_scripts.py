"""Scripts as users of pysindy write them, ``ps`` being what they import; each returns a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

Script = Callable[[Any], Any]

TIGHT: dict[str, Any] = {"method": "LSODA", "rtol": 1e-12, "atol": 1e-12}


def _lorenz(t, x):
    return [10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]]


def _driven(t, x):
    u = _control(t)[0]
    f = _lorenz(t, x)
    return [f[0] + u[0], f[1], f[2] - u[1]]


def _control(t):
    return np.column_stack([np.sin(2.0 * t), np.cos(3.0 * t)])


def _decay(t, start=(3.0, 0.5)):
    return np.stack([start[0] * np.exp(-2.0 * t), start[1] * np.exp(t)], axis=-1)


def readme(ps):
    """The first example of pysindy's README."""
    t = np.linspace(0, 1, 100)
    model = ps.SINDy()
    model.fit(_decay(t), t=t, feature_names=["x", "y"])
    model.print()
    return model


def parts_and_data(ps):
    """Parts by name, a time step, several trajectories, and derivatives."""
    t, other = np.linspace(0, 1, 100), np.linspace(0, 0.8, 120)
    model = ps.SINDy(
        differentiation_method=ps.FiniteDifference(order=2),
        feature_library=ps.PolynomialLibrary(degree=3),
        optimizer=ps.STLSQ(threshold=0.1),
    )
    model.fit(_decay(t), t=t[1] - t[0], feature_names=["x", "y"])
    slopes = _decay(other, (1.0, 2.0)) * [-2.0, 1.0]
    model.fit(_decay(other, (1.0, 2.0)), other, x_dot=slopes, feature_names=["x", "y"])
    model.fit([_decay(t), _decay(other, (1.0, 2.0))], [t, other], feature_names=["x", "y"])
    model.print(precision=2)
    return model


def lorenz(ps):
    """Fit, score, predict, differentiate and simulate."""
    dt = 0.002
    t = np.arange(0, 3, dt)
    x = solve_ivp(_lorenz, (t[0], t[-1]), [-8, 8, 27], t_eval=t, **TIGHT).y.T
    model = ps.SINDy()
    model.fit(x, t=dt)
    test = solve_ivp(_lorenz, (t[0], t[-1]), [8, 7, 15], t_eval=t, **TIGHT).y.T
    assert model.score(test, t=dt) > 0.999
    difference = model.differentiation_method(test, t=dt) - model.predict(test)
    assert np.abs(difference[5:-5]).max() < 1.0
    simulated = model.simulate(np.array([8, 7, 15]), t[:500])
    assert simulated.shape == (500, 3)
    assert model.coefficients().shape == (3, len(model.get_feature_names()))
    return model


def optimizers(ps):
    """Other optimizers and settings."""
    t = np.linspace(0, 1, 100)
    chosen = [ps.STLSQ(threshold=0.01, alpha=0.5), ps.SSR(), ps.FROLS()]
    chosen += [ps.EnsembleOptimizer(ps.STLSQ(threshold=0.1), bagging=True, n_models=5)]
    models = [ps.SINDy(optimizer=one).fit(_decay(t), t=t) for one in chosen]
    assert all(one.complexity >= 2 for one in models)
    return models[0]


def libraries(ps):
    """Libraries of the user's functions, sums, products, and choices of variables."""
    t = np.linspace(0, 2, 200)
    x = _decay(t)
    functions = [lambda x: np.sin(x), lambda x, y: x * y**2]
    names = [lambda x: f"sin({x})", lambda x, y: f"{x} {y}^2"]
    custom = ps.CustomLibrary(library_functions=functions, function_names=names)
    several = [
        ps.IdentityLibrary() + custom,
        ps.PolynomialLibrary(degree=1) * ps.FourierLibrary(n_frequencies=1),
        ps.ConcatLibrary([ps.IdentityLibrary(), ps.FourierLibrary()]),
        ps.GeneralizedLibrary(
            [ps.PolynomialLibrary(degree=2), ps.FourierLibrary()],
            tensor_array=[[1, 1]],
            inputs_per_library=[(0, 1), (1,)],
        ),
    ]
    for library in several:
        assert library.fit(x).transform(x).shape == (200, len(library.get_feature_names()))
    model = ps.SINDy(feature_library=several[0])
    model.fit(x, t=t)
    return model


def controls(ps):
    """Controls by samples and as a function of time."""
    t = np.arange(0, 3, 0.002)
    x = solve_ivp(_driven, (t[0], t[-1]), [-8, 8, 27], t_eval=t, **TIGHT).y.T
    u = _control(t)
    model = ps.SINDy()
    model.fit(x, u=u, t=0.002)
    assert model.score(x, u=u, t=0.002) > 0.999
    assert model.predict(x, u=u).shape == x.shape
    assert len(model.simulate(x[0], t[:300], u=_control)) == 300
    assert len(model.simulate(x[0], t[:300], u=u[:300])) == 299
    return model


def coefficients(ps):
    """Errors of coefficients, weighted by the size of features."""
    t = np.arange(0, 3, 0.002)
    x = solve_ivp(_lorenz, (t[0], t[-1]), [-8, 8, 27], t_eval=t, **TIGHT).y.T
    model = ps.SINDy().fit(x, t)
    truth = np.zeros((3, 10))
    truth[[0, 0, 1, 1, 1, 2, 2], [1, 2, 1, 2, 6, 3, 5]] = -10, 10, 28, -1, -1, -8 / 3, 1
    weights = np.sqrt(np.mean(np.asarray(model.feature_library.transform(x)) ** 2, axis=0))
    assert np.mean(weights * (model.optimizer.coef_ - truth) ** 2) < 0.01
    return model


def grid_search(ps):
    """A search over parameters by scikit-learn."""
    from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

    t = np.linspace(0, 2, 200)
    grid = {"feature_library__degree": [1, 2], "optimizer__threshold": [0.1]}

    class Fitted(ps.SINDy):  # pyright: ignore[reportUntypedBaseClass]
        """With the time step of the data, for folds have no times."""

        def __init__(self, optimizer=None, feature_library=None, differentiation_method=None):
            super().__init__(optimizer, feature_library, differentiation_method)

        def fit(self, x, y=None):
            return super().fit(x, t=t[1])

        def score(self, x, y=None):
            return super().score(x, t=t[1])

    search = GridSearchCV(Fitted(), grid, cv=TimeSeriesSplit(n_splits=2))
    search.fit(_decay(t))
    return search.best_estimator_


SCRIPTS: dict[str, Script] = {
    "README": readme,
    "parts and data": parts_and_data,
    "Lorenz": lorenz,
    "optimizers": optimizers,
    "libraries": libraries,
    "controls": controls,
    "coefficients": coefficients,
    "grid search": grid_search,
}
