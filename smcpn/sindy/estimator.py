"""`SINDy`: pysindy's estimator, whose equations come from `smcpn.discover`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import odeint, solve_ivp
from scipy.interpolate import interp1d

from smcpn.discovery.results.discovery import Discovery
from smcpn.errors import InputError, listed, one_of, shown
from smcpn.model.record import Record
from smcpn.run.discover import discover
from smcpn.sindy import differentiation, optimizers
from smcpn.sindy.feature_library import (
    FeatureLibrary,
    Input,
    PolynomialLibrary,
    Terms,
    translated,
)
from smcpn.sindy.parameters import Parameters
from smcpn.sindy.trajectories import Trajectories, matrix, sample_times

Array = NDArray[np.float64]

LSODA = {"method": "LSODA", "rtol": 1e-12, "atol": 1e-12}
FORMER = (
    "multiple_trajectories", "unbias", "quiet", "ensemble", "library_ensemble", "replace",
    "n_candidates_to_drop", "n_subset", "n_models", "ensemble_aggregator",
)  # fmt: skip
"""Arguments of ``fit`` in pysindy 1.7."""
AT_ONCE = ("multiple_trajectories", "quiet", "unbias")
"""Arguments among them whose meaning holds here, or is lost without a loss."""


class SINDyWarning(UserWarning):
    """Something was given that has no meaning where terms have probabilities."""


class SINDy(Parameters):
    """Equations x' = f(x, u) found in trajectories, by pysindy's and scikit-learn's conventions.

    The terms are not those left by a threshold on regressed derivatives: `smcpn.discover` compares
    trajectories with the data, estimates their noise, and gives every term a probability.

    Parameters
    ----------
    optimizer, differentiation_method : optional
        As of pysindy. An optimizer is kept and not used; derivatives of the data are used by
        `score` and `differentiate` only.
    feature_library : optional
        A library of `smcpn.sindy`, of pysindy, or of smcpn; monomials to degree 2 by default.
    feature_names : sequence of str, optional
        Of the states, then of the controls; ``x0``, ``x1``, ..., ``u0``, ... by default.
    t_default : float, optional
        Time step where ``t`` is not given.
    discrete_time : bool
        False only.
    method : str
        Of `smcpn.discover`.
    seed : int
        The same seed gives the same equations.

    Attributes
    ----------
    coef_ : ndarray, (n, p)
        Coefficients of the most probable equations, features in the order of `get_feature_names`.
    coef_std_ : ndarray, (n, p)
        Standard deviations over all models, zero coefficients included.
    inclusion_ : ndarray, (n, p)
        Probability that a feature stands in an equation.
    discovery_ : Discovery
        Models with their probabilities, and what else `smcpn.discover` returns.
    n_features_in_, n_control_features_, n_output_features_ : int
        States and controls together, controls, and features. A feature that is a multiple of one
        before it has the coefficient 0.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> t = np.linspace(0.0, 1.0, 100)
    >>> x = np.stack([3.0 * np.exp(-2.0 * t), 0.5 * np.exp(t)], axis=-1)
    >>> smcpn.sindy.SINDy().fit(x, t=t, feature_names=["x", "y"]).print()
    (x)' = -2.000 x
    (y)' =  1.000 y
    """

    discovery_: Discovery

    def __init__(
        self,
        optimizer: Any = None,
        feature_library: Any = None,
        differentiation_method: Any = None,
        feature_names: Sequence[str] | None = None,
        t_default: float | None = None,
        discrete_time: bool = False,
        *,
        method: str = "search",
        seed: int = 0,
    ) -> None:
        if discrete_time:
            raise InputError(
                "discrete_time is True: smcpn identifies differential equations; use "
                "pysindy.DiscreteSINDy for maps",
                argument="discrete_time",
            )
        self.optimizer = optimizers.STLSQ() if optimizer is None else optimizer
        self.feature_library = PolynomialLibrary() if feature_library is None else feature_library
        self.differentiation_method = (
            differentiation.FiniteDifference(axis=-2)
            if differentiation_method is None
            else differentiation_method
        )
        self.feature_names, self.t_default = feature_names, t_default
        self.discrete_time, self.method, self.seed = discrete_time, method, seed

    def fit(
        self,
        x: Any,
        t: Any = None,
        x_dot: Any = None,
        u: Any = None,
        feature_names: Sequence[str] | None = None,
        **former: Any,
    ) -> SINDy:
        """Find the equations.

        Parameters
        ----------
        x : array_like, (T, n), or list of array_like
            States; NaN where a sample is missing. A list of trajectories may have different
            lengths.
        t : float, array_like (T,), or list of these
            Time step or times, of each trajectory or of all.
        x_dot : array_like, optional
            Derivatives, which are not used.
        u : array_like, (T, m), or list of array_like, optional
            Controls, linear in between.
        feature_names : sequence of str, optional
            Of states and controls.
        **former
            Arguments of pysindy 1.7: ``quiet``, ``multiple_trajectories``, ``ensemble``, ...

        Returns
        -------
        SINDy
            Itself.

        Raises
        ------
        InputError
            One sentence that names the argument, its value and the remedy.
        """
        given = Trajectories.of(x, u)
        t = self._time(t)
        records = given.records(t)
        if x_dot is not None:
            given.check_derivatives(x_dot, t)
        optimizers.check_optimizer(self.optimizer)
        self._check_former(former)
        self._warn(former, x_dot is not None)
        inputs = self._inputs(feature_names, records[0])
        # Of its own: another SINDy may have the same library, and other states.
        library = copy(translated(self.feature_library).fitted(inputs))
        features = library.features(inputs)
        states = [one.name for one in inputs[: records[0].n_outputs]]
        found = discover(
            records,
            library=Terms(tuple(feature.term for feature in features)),
            states=states,
            inputs=[one.name for one in inputs[len(states) :]],
            method=self.method,
            seed=self.seed,
        )
        self._keep(found, library, inputs, records)
        return self

    def _time(self, t: Any) -> Any:
        if t is not None:
            return t
        # Folds of a cross-validation are scored without times.
        return getattr(self, "_step", None) if self.t_default is None else self.t_default

    def _check_former(self, former: Mapping[str, Any]) -> None:
        for name in former:
            one_of("an argument of fit", name, FORMER)

    def _warn(self, former: Mapping[str, Any], derivatives: bool) -> None:
        if former.get("quiet"):
            return
        lost = [f"{name}={shown(former[name])}" for name in former if name not in AT_ONCE]
        if not optimizers.is_default(self.optimizer):
            lost.append(f"optimizer={shown(self.optimizer)}")
        if derivatives:
            lost.append("x_dot")
        elif not differentiation.is_default(self.differentiation_method):
            lost.append(f"differentiation_method={shown(self.differentiation_method)}")
        if lost:
            warnings.warn(
                f"SINDy.fit does not use {listed(lost)}: terms are chosen by their probability, "
                "and trajectories are compared, not derivatives",
                SINDyWarning,
                stacklevel=3,
            )

    def _inputs(self, feature_names: Sequence[str] | None, record: Record) -> list[Input]:
        """States and controls with their names, which in equations must be identifiers."""
        n, m = record.n_outputs, record.n_inputs
        plain = [f"x{k}" for k in range(n)] + [f"u{k}" for k in range(m)]
        labels = self.feature_names if feature_names is None else feature_names
        if labels is None:
            return [Input(name, name) for name in plain]
        labels = [str(one) for one in labels] if not isinstance(labels, str) else [labels]
        if len(labels) != n + m or len(set(labels)) < len(labels):
            raise InputError(
                f"feature_names has {listed(labels)}: give {n + m} different names, of {n} states "
                f"and then {m} controls",
                argument="feature_names",
            )
        fit = all(one.isidentifier() and one != "t" for one in labels)
        return [
            Input(name, label) for name, label in zip(labels if fit else plain, labels, strict=True)
        ]

    def _keep(
        self,
        found: Discovery,
        library: FeatureLibrary,
        inputs: Sequence[Input],
        records: Sequence[Record],
    ) -> None:
        candidates = found.system.candidates
        self.discovery_, self._library, self._labels = found, library, [x.label for x in inputs]
        features = library.features(inputs)
        order = (*candidates.states, *candidates.inputs, "t")
        names = [feature.term.ordered(order).name for feature in features]
        place = {name: k for k, name in enumerate(candidates.names)}
        # Of a term that is there twice the first one has the coefficient.
        columns = [(k, place.pop(name)) for k, name in enumerate(names) if name in place]
        here, there = np.array(columns).T
        self.n_features_in_, self.n_output_features_ = len(inputs), len(features)
        self.n_control_features_ = len(candidates.inputs)
        best = np.zeros(len(found.system.coefficients))
        best[found.models[0].support] = found.models[0].mean
        deviation = np.sqrt(np.maximum(np.diag(found.moments[1]), 0.0))

        def placed(free: Array) -> Array:
            result = np.zeros((len(candidates.states), len(features)))
            result[:, here] = found.system.matrix(free)[:, there]
            return result

        self.coef_, self.coef_std_ = placed(best), placed(deviation)
        self.inclusion_ = placed(found.probabilities)
        self._step = records[0].interval if all(one.uniform for one in records) else None
        if isinstance(self.optimizer, optimizers.Optimizer):
            self.optimizer.keep(
                self.coef_, lambda n: [placed(one) for one in found.draws(n, self.seed)]
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "discovery_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise InputError("this SINDy is not fitted: call fit first")

    def coefficients(self) -> Array:
        """Return `coef_`."""
        self._check_fitted()
        return self.coef_

    def get_feature_names(self) -> list[str]:
        """Return the features as they are printed: ``"1"``, ``"x0"``, ``"x0^2"``, ``"x0 x1"``."""
        self._check_fitted()
        return self._library.get_feature_names(self._labels)

    @property
    def complexity(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.coefficients()))

    def equations(self, precision: int = 3) -> list[str]:
        """Return the right-hand sides of the most probable equations as text.

        Parameters
        ----------
        precision : int
            Digits behind the point; a coefficient that rounds to 0 is left out.
        """
        names = self.get_feature_names()
        rows = [
            " + ".join(
                f"{value: .{precision}f} {name}"
                for value, name in zip(row, names, strict=True)
                if np.round(value, precision)
            )
            for row in self.coef_
        ]
        return [row or f"{0.0: .{precision}f}" for row in rows]

    def print(self, lhs: Sequence[str] | None = None, precision: int = 3, **printing: Any) -> None:
        """Print the most probable equations.

        Parameters
        ----------
        lhs : sequence of str, optional
            Left-hand sides; ``(x0)'`` by default.
        precision : int
            See `equations`.
        **printing
            To Python's `print`.
        """
        right = self.equations(precision)
        left = [f"({label})'" for label in self._labels] if lhs is None else lhs
        for one, equation in zip(left, right, strict=False):
            print(f"{one} = {equation}", **printing)

    def predict(self, x: Any, u: Any = None, **former: Any) -> Any:
        """Return the derivatives (T, n) of the states at samples, or a list of these.

        Parameters
        ----------
        x : array_like, (T, n), or list of array_like
        u : array_like, (T, m), or list of array_like, optional
            Controls, where there were some.
        **former
            ``multiple_trajectories`` of pysindy 1.7.
        """
        self._check_former(former)
        given = self._read(x, u)
        controls = given.controls or [np.zeros((len(one), 0)) for one in given.states]
        found = [
            self._library.transform(np.hstack([one, own])) @ self.coef_.T
            for one, own in zip(given.states, controls, strict=True)
        ]
        return found if given.several else found[0]

    def _read(self, x: Any, u: Any) -> Trajectories:
        self._check_fitted()
        self._check_controls(u)
        given = Trajectories.of(x, u if self.n_control_features_ else None)
        controls = given.controls[0].shape[1] if given.controls else 0
        shape = given.states[0].shape[1], controls
        if shape != (len(self.coef_), self.n_control_features_):
            raise InputError(
                f"x and u have {shape[0]} and {shape[1]} columns, and the equations "
                f"{len(self.coef_)} states and {self.n_control_features_} controls: give as many",
                argument="x",
            )
        return given

    def _check_controls(self, u: Any) -> None:
        if self.n_control_features_ and u is None:
            raise InputError("u is missing: the equations have controls", argument="u")
        if not self.n_control_features_ and u is not None:
            warnings.warn(
                "u is not used: the equations have no controls", SINDyWarning, stacklevel=4
            )

    def differentiate(self, x: Any, t: Any = None, **former: Any) -> Any:
        """Return numerical derivatives of samples by the differentiation method."""
        self._check_former(former)
        given, t = Trajectories.of(x), self._time(t)
        found = [
            np.asarray(self.differentiation_method(record.y, record.t))
            for record in given.records(t)
        ]
        return found if given.several else found[0]

    def score(
        self,
        x: Any,
        t: Any = None,
        x_dot: Any = None,
        u: Any = None,
        metric: Callable[..., Any] | None = None,
        **metric_kws: Any,
    ) -> float:
        """Return how well derivatives of samples are predicted.

        Parameters
        ----------
        x : array_like, (T, n), or list of array_like
        t : float, array_like (T,), or list of these, optional
            By default the time step of what was fitted.
        x_dot : array_like, or list of array_like, optional
            Derivatives; by the differentiation method if not given.
        u : array_like, (T, m), or list of array_like, optional
        metric : callable, optional
            Of derivatives and predictions (T, n); the coefficient of determination, averaged over
            states, by default.
        **metric_kws
            To the metric.
        """
        metric_kws.pop("multiple_trajectories", None)
        given = self._read(x, u)
        predicted = self.predict(given.states, given.controls)
        if x_dot is None:
            slopes = self.differentiate(given.states, t)
        else:
            slopes = Trajectories.of(x_dot).states
        told, found = np.concatenate(slopes), np.concatenate(predicted)
        if told.shape != found.shape:
            raise InputError(
                f"x_dot has the shape {told.shape} and x {found.shape}: give a derivative of each "
                "sample",
                argument="x_dot",
            )
        known = np.isfinite(told).all(axis=1) & np.isfinite(found).all(axis=1)
        return (metric or _determination)(told[known], found[known], **metric_kws)

    def simulate(
        self,
        x0: Any,
        t: Any,
        u: Any = None,
        integrator: str = "solve_ivp",
        stop_condition: None = None,
        interpolator: Callable[..., Any] | None = None,
        integrator_kws: Mapping[str, Any] = LSODA,
        interpolator_kws: Mapping[str, Any] | None = None,
    ) -> Array:
        """Return a trajectory (T, n) of the most probable equations.

        Where the controls are samples, the last time is left out, as by pysindy.
        ``discovery_.simulate`` has bands.

        Parameters
        ----------
        x0 : array_like, (n,)
        t : array_like, (T,)
        u : callable or array_like, (T, m), optional
            Controls, a function of time or samples.
        integrator : {"solve_ivp", "odeint"}
        stop_condition : None
            Of maps, which are not here.
        interpolator : callable, optional
            Of ``t, u``; cubic by default.
        integrator_kws, interpolator_kws : mapping, optional
            Keyword arguments.
        """
        self._check_fitted()
        self._check_controls(u)
        one_of("integrator", integrator, ("solve_ivp", "odeint"))
        start = matrix("x0", np.ravel(x0)).ravel()
        if start.shape != (len(self.coef_),) or not np.isfinite(start).all():
            raise InputError(
                f"x0 is {shown(x0)}: give {len(self.coef_)} finite numbers", argument="x0"
            )
        if np.ndim(t) != 1:
            raise InputError(
                f"t is {shown(t)}: give the times at which states are wanted", argument="t"
            )
        times = sample_times(t, len(t))
        signal: Callable[[Any], Any] = lambda _: np.zeros(0)  # noqa: E731
        if self.n_control_features_:
            signal = u
            if not callable(u):
                samples = Trajectories.of(np.zeros((len(times), 1)), u).controls
                interpolate = interpolator or _cubic
                signal = interpolate(times, np.asarray(samples)[0], **(interpolator_kws or {}))
                times = times[:-1]
                warnings.warn(
                    "the last time is left out: controls are samples, give a function of time to "
                    "keep it",
                    SINDyWarning,
                    stacklevel=2,
                )
        rate = self._rate()

        def slope(time: float, state: Array) -> Array:
            return rate(state, np.ravel(signal(time)))

        if integrator == "odeint":
            own = {} if integrator_kws.get("method") == "LSODA" else dict(integrator_kws)
            return odeint(slope, start, times, tfirst=True, **own)
        span = (times[0], times[-1])
        return solve_ivp(slope, span, start, t_eval=times, **integrator_kws).y.T

    def _rate(self) -> Callable[[Array, Array], Array]:
        """Right-hand side of the most probable equations."""
        ode = self.discovery_.ode()
        values = ca.DM([ode.defaults[name] for name in ode.parameters])
        return lambda x, u: np.array(ode.rhs(x, u, 0.0, values)).ravel()


def _cubic(t: Array, u: Array) -> Callable[[Any], Any]:
    return interp1d(t, u, axis=0, kind="cubic", fill_value="extrapolate")  # pyright: ignore[reportArgumentType]


def _determination(told: Array, predicted: Array) -> float:
    """Coefficient of determination, the mean of those of the columns."""
    left = np.sum((told - predicted) ** 2, axis=0)
    whole = np.sum((told - told.mean(axis=0)) ** 2, axis=0)
    constant = np.where(left > 0.0, 0.0, 1.0)
    ratio = left / np.where(whole > 0.0, whole, 1.0)
    return float(np.mean(np.where(whole > 0.0, 1.0 - ratio, constant)))
