"""Discoveries put together by hand, so that what they should show is known."""

from __future__ import annotations

import numpy as np

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import DiscoveredModel


def finished(kind, *given, **options):
    """The result of a `Search` or a `ShrinkageRun`, once nothing is left to do."""
    run = kind(*given, **options)
    while not run.ended:
        run.proceed()
    return run.result()


SWING = np.array([1.0, 0.0])
"""State at the start."""


def model(system, values, sd, probability, initial, log_evidence=0.0):
    """A model of coefficients by name, with independent errors."""
    names = tuple(name for name in system.coefficients if name in values)
    return DiscoveredModel(
        names=names,
        support=np.array([name in values for name in system.coefficients]),
        mean=np.array([values[name] for name in names]),
        covariance=np.diag(np.square([sd] * len(names))),
        initial=np.atleast_2d(initial),
        log_evidence=log_evidence,
        log_prior=0.0,
        probability=probability,
    )


def discovery(system, models, path, dt, noise, observe=None, **more):
    """A discovery whose record is a path with noise."""
    observe = np.eye(path.shape[1]) if observe is None else np.array(observe)
    y = path @ observe.T + noise * np.random.default_rng(0).normal(size=(len(path), len(observe)))
    inclusion = sum(one.probability * one.support for one in models)
    return Discovery(
        system=system,
        records=(smcpn.Record(y=y, dt=dt, name="run"),),
        observe=observe,
        models=tuple(models),
        probabilities=np.asarray(inclusion, dtype=float),
        noise=np.full(len(observe), noise),
        path=path,
        **more,
    )


def decay(probabilities=(1.0,), noise=0.05, sd=1e-9, size=60):
    """x' = -0.5 x, and less probable models with more terms."""
    system = CandidateSystem.of(smcpn.polynomials(3), ["x"])
    every = [{"x'[x]": -0.5}, {"x'[x]": -0.5, "x'[1]": 0.01}, {"x'[x]": -0.5, "x'[x^3]": 4.0}]
    models = [
        model(system, values, sd, p, 2.0, -k)
        for k, (values, p) in enumerate(zip(every, probabilities, strict=False))
    ]
    path = 2.0 * np.exp(-0.5 * 0.1 * np.arange(size))[:, None]
    return discovery(system, models, path, 0.1, noise)


def oscillator(hidden=False, **more):
    """x' = v, v' = -4 x - 0.2 v with x^3 in a second model, and v hidden or not."""
    system = CandidateSystem.of(smcpn.polynomials(3), ["x", "v"], known={"x": "v"})
    t = 0.05 * np.arange(200)
    w = np.sqrt(4.0 - 0.01)
    x = np.exp(-0.1 * t) * (np.cos(w * t) + 0.1 / w * np.sin(w * t))
    v = -np.exp(-0.1 * t) * 4.0 / w * np.sin(w * t)
    linear = {"v'[x]": -4.0, "v'[v]": -0.2}
    models = [
        model(system, linear, 0.004, 0.9, SWING),
        model(system, linear | {"v'[x^3]": 0.05}, 0.02, 0.1, SWING, -2.2),
    ]
    observe = [[1.0, 0.0]] if hidden else None
    return discovery(system, models, np.stack([x, v], axis=1), 0.05, 0.02, observe, **more)
