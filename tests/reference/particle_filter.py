"""Particle filters in plain numpy: counted normals, systematic resampling, look-ahead functions.

One that looks ahead is twisted by psi + c from the sample on at which its weights spread.

The same arithmetic as that of the package, particle by particle, from the same keys; jacobians by a
complex step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MASK = 2**32 - 1


def philox(counters, key: int, rounds: int = 7) -> list[np.ndarray]:
    """Words of Philox-4x32 (Salmon et al. 2011)."""
    c = [np.asarray(word, dtype=np.uint64) for word in counters]
    k0, k1 = key & MASK, key >> 32
    for _ in range(rounds):
        low = np.uint64(MASK)
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            second & low,
            (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            first & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def normals(key: int, step: int, count: int, lanes: int) -> np.ndarray:
    """Standard normals of a step, (count, lanes): groups of 32 lanes draw together."""
    group, place = np.divmod(np.arange(lanes // 4), 8)
    z = np.empty((count, lanes))
    for noise in range(count):
        ones = np.ones(lanes // 4, dtype=np.uint64)
        words = philox((8 * group + place, step * ones, noise * ones, 0 * ones), key)
        for part in (0, 2):
            u = (words[part] + 0.5) * 2.0**-32
            radius = np.sqrt(-2 * np.log(u))
            turned = words[part + 1].astype(np.int64)
            angle = ((turned & (2**30 - 1)) + 0.5) * (np.pi / 2 * 2.0**-30)
            first = np.where(turned >> 31 & 1, -1, 1) * radius * np.sin(angle)
            second = np.where(turned >> 30 & 1, -1, 1) * radius * np.cos(angle)
            z[noise, 32 * group + place + 8 * part] = first
            z[noise, 32 * group + place + 8 * part + 8] = second
    return z


RESAMPLING, CHOICE = 1, 2
SHARE, SPREAD = 0.05, 0.003


def uniform(key: int, sample: int, purpose: int) -> float:
    """Uniform number of a sample."""
    return (float(philox((0, sample, 0, purpose), key)[0]) + 0.5) * 2.0**-32


def choice(probabilities: np.ndarray, u: float) -> np.ndarray:
    """Which are chosen by a systematic sample, so many as the probabilities sum to."""
    edges = np.floor(u + np.concatenate([[0.0], np.cumsum(probabilities)]))
    return np.diff(edges) > 0


def systematic(weights: np.ndarray, u: float) -> np.ndarray:
    """Ancestors: where (j + u) / N falls between the cumulative weights."""
    n = len(weights)
    edges = np.cumsum(weights) * (n / weights.sum())
    return np.minimum(np.searchsorted(edges, np.arange(n) + u, side="left"), n - 1)


def jacobian(function: Callable, x: np.ndarray) -> np.ndarray:
    """Derivative by a complex step."""
    steps = x[:, None] + 1e-30j * np.eye(len(x))
    return np.column_stack([np.imag(function(column)) / 1e-30 for column in steps.T])


@dataclass
class Model:
    """Steps, outputs and Gaussian noise of a record.

    Attributes
    ----------
    start : ndarray, (n,)
    step : callable
        ``step(k, x)``: state after the k-th solver step, of one state or of particles (n, N).
    factor : callable
        ``factor(k)``: L (n, m).
    output : callable
        Of one state or of particles: (q,) or (q, N).
    variance : float
    y : ndarray, (T, q)
    steps : int
        In a sampling interval.
    """

    start: np.ndarray
    step: Callable
    factor: Callable
    output: Callable
    variance: float
    y: np.ndarray
    steps: int

    def log_density(self, sample: int, x: np.ndarray) -> np.ndarray:
        """Of the outputs that are present."""
        y = self.y[sample]
        here = np.isfinite(y)
        away = (y[:, None] - self.output(x))[here]
        return (-0.5 * (away**2 / self.variance + np.log(2 * np.pi * self.variance))).sum(axis=0)

    def interval(self, sample: int) -> range:
        """Solver steps that lead to a sample."""
        return range(max(sample - 1, 0) * self.steps, sample * self.steps)


def kalman_path(model: Model) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Means of an extended Kalman filter before steps and after samples."""
    x, P = model.start.copy(), np.zeros((len(model.start),) * 2)
    before, after = [], []
    for sample, y in enumerate(model.y):
        for k in model.interval(sample):
            before.append(x)
            F, L = jacobian(lambda z, k=k: model.step(k, z), x), model.factor(k)
            x, P = model.step(k, x), F @ P @ F.T + L @ L.T
        H, about = jacobian(model.output, x), x
        for j in np.flatnonzero(np.isfinite(y)):
            gain = P @ H[j] / (model.variance + H[j] @ P @ H[j])
            e = y[j] - model.output(about)[j] - H[j] @ (x - about)
            x, P = x + gain * e, P - np.outer(gain, H[j] @ P)
        after.append(x)
    return before, after


def look_ahead(model: Model, before: list, after: list) -> tuple[list, list]:
    """Rows (k0, K, C, Lambda, eta, M, b) of steps; (a, H, d, w, x, psi) of samples; log psi_0."""
    n = len(model.start)
    information, slope, c, about = np.zeros((n, n)), np.zeros(n), 0.0, np.zeros(n)
    steps, samples = [None] * len(before), [None] * len(after)
    for sample in range(len(after) - 1, -1, -1):
        x, y = after[sample], model.y[sample]
        here = np.isfinite(y)
        H = jacobian(model.output, x)
        w = here / model.variance
        d = np.where(here, y - model.output(x), 0.0) * w
        value = model.log_density(sample, x[:, None])[0]
        # About the path's point at the sample, which is where the next step begins.
        samples[sample] = (value, H, d, w, x, (c, slope, information))
        information, slope, c = information + H.T @ (w[:, None] * H), slope + H.T @ d, c + value
        about = x
        for k in reversed(model.interval(sample)):
            x, L = before[k], model.factor(k)
            F, m = jacobian(lambda z, k=k: model.step(k, z), x), model.step(k, x)
            B = np.eye(L.shape[1]) + L.T @ information @ L
            inverse = np.linalg.inv(B)
            K = inverse @ L.T @ information
            pull = inverse @ L.T @ slope
            c += 0.5 * (slope @ L @ pull - np.linalg.slogdet(B)[1])
            kept = np.eye(n) - L @ K
            after_noise, slope = kept.T @ information @ kept + K.T @ K, kept.T @ slope
            C = np.linalg.inv(np.linalg.cholesky(B)).T
            eta = slope + after_noise @ about
            steps[k] = (pull + K @ about, K, C, after_noise, eta, F, m - F @ x)
            r = m - about
            c += slope @ r - 0.5 * r @ after_noise @ r
            slope, information = F.T @ (slope - after_noise @ r), F.T @ after_noise @ F
            about = x
    return steps, samples, c + slope @ (model.start - about)


def smoothed_path(model: Model, steps: list) -> tuple[list, list]:
    """Path of the twisted steps without noise."""
    x, before, after = model.start.copy(), [], []
    for sample in range(len(model.y)):
        for k in model.interval(sample):
            before.append(x)
            m = model.step(k, x)
            x = m + model.factor(k) @ (steps[k][0] - steps[k][1] @ m)
        after.append(x)
    return before, after


def ahead(row, x: np.ndarray) -> np.ndarray:
    """Log psi of particles after a sample."""
    *_, path, (c, slope, information) = row
    away = x - path[:, None]
    return c + ((slope[:, None] - 0.5 * information @ away) * away).sum(axis=0)


def expected(row, x: np.ndarray) -> np.ndarray:
    """Log of the Gaussian in place of the density of a sample."""
    value, H, d, w, path, _ = row
    away = H @ (x - path[:, None])
    return value + ((d[:, None] - 0.5 * w[:, None] * away) * away).sum(axis=0)


def particle_filter(model: Model, keys, lanes: int, guided: bool) -> tuple[np.ndarray, int, int]:
    """Increments of the log of the estimate, (T,), resamplings, and samples under psi + c."""
    first = 0.0
    if guided:
        steps, samples, first = look_ahead(model, *kalman_path(model))
        steps, samples, first = look_ahead(model, *smoothed_path(model, steps))
    x = np.repeat(model.start[:, None], lanes, axis=1)
    log_weights, before, resampled = np.full(lanes, first), np.log(lanes), 0
    increments, shares, log_c, varied, defensive = [], np.zeros(lanes), -np.inf, 1.0, 0
    for sample in range(len(model.y)):
        key = int(keys[sample // 64])
        free = choice(shares, uniform(key, sample, CHOICE))
        growth = np.zeros(lanes)
        for k in model.interval(sample):
            L = model.factor(k)
            z, m = normals(key, k, L.shape[1], lanes), model.step(k, x)
            if guided:
                k0, K, C, information, eta, M, b = steps[k]
                linear = M @ x + b[:, None]
                growth += ((m - linear) * (eta[:, None] - 0.5 * information @ (m + linear))).sum(0)
                z = np.where(free, z, k0[:, None] - K @ m + C @ z)
            x = m + L @ z
        log_weights = log_weights + model.log_density(sample, x)
        if guided:
            psi = ahead(samples[sample], x)
            log_path = psi + expected(samples[sample], x) - growth
            # Under the model alone.
            log_weights = log_weights - np.logaddexp(log_path, log_c)
            weights = np.exp(log_weights + psi - (log_weights + psi).max())
            spread = lanes * (weights**2).sum() / weights.sum() ** 2
            defensive += defensive > 0 or spread - varied > SPREAD
            varied = spread
            if defensive and sample + 1 < len(model.y):
                parts = np.logaddexp.reduce(log_weights + psi), np.logaddexp.reduce(log_weights)
                log_c = np.log(SHARE / (1.0 - SHARE)) + parts[0] - parts[1]
            else:
                log_c = -np.inf
            log_weights = log_weights + np.logaddexp(psi, log_c)
            shares = np.exp(log_c - np.logaddexp(psi, log_c))
        log_weights = np.where(log_weights < np.inf, log_weights, -np.inf)
        top = log_weights.max()
        weights = np.exp(log_weights - top)
        total = top + np.log(weights.sum())
        increments.append(total - before)
        before = total
        if weights.sum() ** 2 < 0.5 * lanes * (weights**2).sum():
            ancestors = systematic(weights, uniform(key, sample, RESAMPLING))
            x, shares = x[:, ancestors], shares[ancestors]
            log_weights, before, resampled = np.zeros(lanes), np.log(lanes), resampled + 1
            varied = 1.0
    return np.array(increments), resampled, defensive
