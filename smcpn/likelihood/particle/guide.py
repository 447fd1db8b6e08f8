"""Look-ahead functions of a disturbed model as graphs: what twists a particle filter.

Solver step n takes the state to x_{n+1} = Phi_n(x_n) + L_n z, z ~ N(0, I). The look-ahead function
psi_n(x) approximates the density of all samples to come given the state,

    log psi_n(x) = c + eta' (x - r) - (x - r)' Lambda (x - r) / 2,

with r the point of a path about which the model is linearised. Backward over a step, with
B = I + L' Lambda L, the integral of psi_{n+1} over the noise is, for the state m before that,

    log int psi_{n+1}(m + L z) N(z; 0, I) dz = c~ + eta~' (m - r) - (m - r)' Lambda~ (m - r) / 2,
    K = B^-1 L' Lambda,  Lambda~ = (I - L K)' Lambda (I - L K) + K' K,  eta~ = (I - L K)' eta,
    c~ = c - log det B / 2 + eta' L B^-1 L' eta / 2,

and psi_n is its value at the linearised step m = M x + b. Drawn in proportion to psi_{n+1}, the
noise is z = k0 - K m + C w, w ~ N(0, I), with C C' = B^-1 and k0 = B^-1 L' eta + K r. A sample
multiplies psi by the Gaussian g^ that has the value, gradient and information of its density where
the path is. On a linear model with Gaussian noise psi is exact and all weights are equal.

The path is that of an extended Kalman filter at first, and then that of the twisted step without
noise, the smoothed one.

Given the path of a particle, coloured noise of an output (`smcpn.likelihood.coloured`) is known: at
a sample it is N(phi r, phi^2 w + sigma^2 (1 - phi^2)) with r the residual y - g(x) of the last
sample that was measured and w = 0, moved so far. Both are numbers of a particle beside its states,
which a sample changes: psi before a sample is psi behind it at that state, times g^. Variances are
the same for all particles, so that psi does not look at them.

Where the model is not linear psi may be far too small where the state may be, in the other well of
two, say: weights there are rare and huge, and nearly all estimates too small. So a filter whose
weights have spread twists by psi + c, the defensive mixture of Hesterberg (1995) on whole sampling
intervals. From x a particle moves through an interval without looking ahead with probability
c / (psi(x) + c), and by psi otherwise; the density of its path is the mixture of both whichever it
did, p (psi^/G + c) / (psi(x) + c) with psi^ the function at the end of the path and G the product
of what its steps add to the weight under psi. At the sample after it the weight is multiplied by

    g (psi'(x') + c') / (g^ psi'(x') / G + c),

where primes are of the end. It stays below g (psi' + c') / c, whatever psi does, and the estimate
without bias for any c that is known before the interval.

References
----------
Guarniero, P., Johansen, A. M., Lee, A. (2017). The iterated auxiliary particle filter. JASA 112.
Hesterberg, T. (1995). Weighted average importance sampling and defensive mixture distributions.
Technometrics 37.
Heng, J., Bishop, A. N., Deligiannidis, G., Doucet, A. (2020). Controlled sequential Monte Carlo.
Annals of Statistics 48.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.coloured import correlation, faded
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.transition import Transition
from smcpn.model.signal import Signal
from smcpn.pn.gaussian import determinant, factorised, moved, moved_factor, whitened

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LookAhead:
    """Symbols or values of a look-ahead function: Lambda (n, n), eta (n, 1), c and r (n, 1)."""

    information: ca.SX
    slope: ca.SX
    constant: ca.SX
    about: ca.SX

    @property
    def entries(self) -> list[ca.SX]:
        """Numbers that are kept of it."""
        triangle = ca.tril(ca.densify(self.information)).nz[:]
        return [triangle, self.slope, self.constant, self.about]

    @classmethod
    def symbols(cls, n: int) -> LookAhead:
        """Fresh symbols."""
        information = ca.tril2symm(ca.SX.sym("lambda", ca.Sparsity.lower(n)))
        return cls(information, ca.SX.sym("eta", n), ca.SX.sym("c"), ca.SX.sym("r", n))

    def log(self, x: ca.SX) -> ca.SX:
        """Log psi(x)."""
        d = x - self.about
        return self.constant + ca.dot(self.slope - self.information @ d / 2, d)

    def through(self, following: ca.SX, jacobian: ca.SX, about: ca.SX) -> LookAhead:
        """Copy as a function of what a map takes to ``following``, linearised at a point."""
        offset = following - self.about
        return LookAhead(
            information=jacobian.T @ self.information @ jacobian,
            slope=jacobian.T @ (self.slope - self.information @ offset),
            constant=self.log(following),
            about=about,
        )

    def before_noise(self, factor: ca.SX) -> Twist:
        """Integral of psi over the noise that a factor adds, and the law of the noise under it."""
        k, n = factor.shape[1], self.about.numel()
        spread = self.information @ factor
        precision = factorised(ca.SX.eye(k) + factor.T @ spread)
        right = ca.horzcat(spread.T, factor.T @ self.slope, ca.SX.eye(k))
        white = whitened(precision, right)
        half, pull, inverse = white[:, :n], white[:, n], white[:, n + 1 :]
        gain = inverse.T @ half
        kept = ca.SX.eye(factor.shape[0]) - factor @ gain
        volume = determinant(precision)
        return Twist(
            mean=inverse.T @ pull,
            gain=gain,
            spread=inverse.T,
            before=LookAhead(
                information=kept.T @ self.information @ kept + gain.T @ gain,
                slope=kept.T @ self.slope,
                constant=self.constant - ca.log(volume) / 2 + ca.dot(pull, pull) / 2,
                about=self.about,
            ),
        )


@dataclass(frozen=True)
class Twist:
    """Noise in proportion to a look-ahead function: z = mean - gain (m - r) + spread w.

    before: Integral over the noise, as a function of the state m before it is added.
    """

    mean: ca.SX
    gain: ca.SX
    spread: ca.SX
    before: LookAhead


class Row:
    """Symbols by name, stored as the entries that are not zero by structure."""

    def __init__(self, **symbols: ca.SX) -> None:
        self._symbols = symbols

    def __getitem__(self, name: str) -> ca.SX:
        return self._symbols[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order of their entries."""
        return tuple(self._symbols)

    @property
    def symbols(self) -> ca.SX:
        """All stored entries, (R, 1)."""
        return ca.vertcat(*[ca.vec(s.nz[:]) for s in self._symbols.values()])

    def values(self, **values: ca.SX) -> ca.SX:
        """Values of the entries, (R, 1)."""
        return ca.vertcat(
            *[
                ca.vec(ca.project(ca.SX(values[name]), s.sparsity()).nz[:])
                for name, s in self._symbols.items()
            ]
        )


def _matrix(name: str, sparsity: ca.Sparsity) -> ca.SX:
    return ca.SX.sym(name, sparsity)


class Guide:
    """Graphs of a look-ahead function over a step and a sample, and of the particles under it.

    kalman: Whose mean is the first path; the variance that its solver claims for its error is
        noise.
    signal: Of the filters, whose loops know of no parts.
    factor: (n, k), L; ``additive`` where it does not depend on the state.
    noises: Normals of a step, k.
    look: Symbols, as they are carried backward.
    step_row, sample_row: What particles take of a step and of a sample.
    """

    def __init__(self, kalman: Kalman, signal: Signal) -> None:
        self.kalman, self.signal, self.model = kalman, signal, kalman.model
        self.set_back = kalman.set_back
        transition = self._transition()
        self.dead_times, self.sample, self.step = kalman.dead_times, kalman.sample, transition.step
        c = len(self.model.coloured)
        self.noise = kalman.mean[self.model.x.numel() :, :]
        self.left = ca.SX.sym("left", c, 1)
        self.x = ca.vertcat(kalman.mean, self.left)
        self.n, self.phi = self.x.numel(), correlation(self.model, self.model.coloured)
        self.outputs = ca.substitute(kalman.outputs, self.noise, self.phi * self.noise)
        self.following = self._beside(transition.following)
        self.jacobian = ca.densify(ca.diagcat(transition.jacobian, ca.SX.eye(2 * c)))
        self.factor = self._factor(transition)
        self.additive = not ca.depends_on(self.factor, self.x)
        self.noises = self.factor.shape[1]
        self.look = LookAhead.symbols(self.n)
        self.step_row, self.sample_row = self._step_symbols(), self._sample_symbols()

    def _transition(self) -> Transition:
        """A step from what the sample before it leaves of the states, see `SetBack.of_step`."""
        move, x, share = self.kalman.transition, self.model.x, self.set_back.share
        graphs = [move.following, move.jacobian @ ca.diag(share), move.factor, move.error_variance]
        following, jacobian, factor, error = ca.substitute(graphs, [x], [share * x])
        return replace(
            move, following=following, jacobian=jacobian, factor=factor, error_variance=error
        )

    def _step_symbols(self) -> Row:
        n, k = self.n, self.noises
        square, column = ca.Sparsity.lower(n), ca.Sparsity.dense(n, 1)
        row = {
            "information": _matrix("A", square), "slope": _matrix("a", column),
            "jacobian": _matrix("M", ca.Sparsity.dense(n, n)), "offset": _matrix("b", column),
        }  # fmt: skip
        if self.additive:
            row |= {
                "mean": _matrix("k", ca.Sparsity.dense(k, 1)),
                "gain": _matrix("K", ca.Sparsity.dense(k, n)),
                "spread": _matrix("C", ca.Sparsity.upper(k)),
                "factor": _matrix("L", self.factor.sparsity()),
            }
        else:
            row |= {
                "constant": _matrix("c", ca.Sparsity.dense(1, 1)),
                "information_after": _matrix("A1", square),
                "slope_after": _matrix("a1", column), "about": _matrix("r1", column),
            }  # fmt: skip
        return Row(**row | self._known)

    def _beside(self, states: ca.SX) -> ca.SX:
        """States of the model, and what is known of coloured noise."""
        return ca.vertcat(states, self.noise, self.left)

    def _factor(self, transition: Transition) -> ca.SX:
        """Factor of the noise of a step and of the error that its solver claims, (n, k)."""
        error = ca.diag(ca.sqrt(transition.error_variance))
        claimed = [k for k in range(error.shape[0]) if not error[k, k].is_zero()]
        factor = ca.sparsify(ca.horzcat(transition.factor, error[:, claimed]))
        return ca.vertcat(factor, ca.SX(2 * self.left.numel(), factor.shape[1]))

    @property
    def variance(self) -> ca.SX:
        """Variance of the noise of each output given the samples before and the path, (q, 1)."""
        model, variance = self.model, ca.SX(self.model.noise_variance)
        for place, j in enumerate(model.coloured):
            square = self.phi[place] ** 2
            variance[j] = square * self.left[place] + variance[j] * (1.0 - square)
        return variance

    @property
    def after_sample(self) -> ca.SX:
        """State behind a sample, (n, 1)."""
        coloured = list(self.model.coloured)
        if not coloured:
            return self.x
        here, innovation = self.sample.present[coloured], self.sample.y - self.outputs
        noise = self.phi * self.noise + here * innovation[coloured]
        left = (1.0 - here) * self.variance[coloured]
        return ca.vertcat(self.model.x, noise, left)

    def filtered(self) -> tuple[ca.SX, ca.SX, list[ca.SX]]:
        """State at a sample and behind it, and entries of the covariance, by the Kalman filter."""
        kalman, given, coloured = self.kalman, self.kalman.filtered, self.model.coloured
        n, share, c = self.model.x.numel(), self.set_back.share, len(coloured)
        left = ca.vertcat(share, ca.SX.ones(c, 1))
        behind = moved_factor(given.factor, left, ca.SX(n + c, 1))
        mean, entries = given.mean, ca.vertcat(*kalman.entries(behind))
        if coloured:
            before, (phi, fresh) = kalman.predicted, faded(self.model, coloured)
            fading = ca.vertcat(ca.SX.ones(n, 1), phi), ca.vertcat(ca.SX(n, 1), fresh)
            now = moved(before, *fading)
            symbols, values = (
                [one.mean, ca.vertcat(*kalman.entries(one.factor))] for one in (before, now)
            )
            mean, entries = ca.substitute([mean, entries], symbols, values)
        states = mean[:n]
        after = ca.substitute(self.after_sample, self.model.x, states)
        return self._beside(states), ca.vertcat(share * states, after[n:]), ca.vertsplit(entries)

    @property
    def _known(self) -> dict[str, ca.SX]:
        """Numbers of a step of delayed inputs, of a theta, that its particles read."""
        moving = self.dead_times.moving
        own = ca.vertcat(moving, self.step.row, self.set_back.row)
        return {"known": own} if moving.numel() else {}

    def _sample_symbols(self) -> Row:
        n, q = self.n, self.outputs.numel()
        return Row(
            path=_matrix("path", ca.Sparsity.dense(n, 1)),
            jacobian=_matrix("H", ca.Sparsity.dense(q, n)),
            **{name: _matrix(name, ca.Sparsity.dense(q, 1)) for name in ("at", "d", "w", "a")},
            information=_matrix("S", ca.Sparsity.lower(n)),
            slope=_matrix("s", ca.Sparsity.dense(n, 1)),
            constant=_matrix("c", ca.Sparsity.dense(1, 1)),
            **({name: _matrix(name, one.sparsity()) for name, one in self._behind(self.look)}),
        )

    def _behind(self, look: LookAhead) -> list[tuple[str, ca.SX]]:
        """Parts of the look-ahead function behind a sample, where that changes the state."""
        if not self.model.coloured:
            return []
        return [
            ("A1", ca.tril(ca.densify(look.information))), ("a1", look.slope),
            ("c1", look.constant), ("r1", look.about),
        ]  # fmt: skip

    # The look-ahead function, backward, of ``x`` on the path.

    def _expansion(self) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
        """Jacobian of the outputs; log density of each there, its gradient, its information."""
        model, sample, outputs = self.model, self.sample, self.outputs
        jacobian = ca.densify(ca.jacobian(outputs, self.x))
        if model.density is None:
            variance = self.variance
            residual = sample.y - outputs
            value = -0.5 * (residual**2 / variance + ca.log(2 * ca.pi * variance))
            slope, information = residual / variance, 1.0 / variance
        else:
            density = model.density
            value, slope, information = (
                sample.of_density(graph, outputs)
                for graph in (density.log_density, density.expansion()[0], density.information())
            )
        here = sample.present
        return jacobian, value * here, slope * here, information * here

    def seen(self) -> tuple[LookAhead, ca.SX]:
        """Look-ahead function before a sample, from that after it, and its `sample_row`."""
        jacobian, value, slope, information = self._expansion()
        ahead = self.look
        if self.model.coloured:
            after = self.after_sample
            ahead = ahead.through(after, ca.jacobian(after, self.x), self.x)
        look = LookAhead(
            information=ahead.information + jacobian.T @ ca.diag(information) @ jacobian,
            slope=ahead.slope + jacobian.T @ slope,
            constant=ahead.constant + ca.sum1(value),
            about=self.x,
        )
        row = self.sample_row.values(
            path=self.x, jacobian=jacobian, at=jacobian @ self.x, d=slope, w=information, a=value,
            information=ca.tril(ahead.information), slope=ahead.slope, constant=ahead.constant,
            **dict(self._behind(self.look)),
        )  # fmt: skip
        return look, row

    def unseen(self) -> ca.SX:
        """`sample_row` of a bootstrap filter."""
        n, q = self.n, self.outputs.numel()
        none = ca.SX.zeros(q, 1)
        return self.sample_row.values(
            path=ca.SX.zeros(n, 1), jacobian=ca.SX.zeros(q, n), at=none, d=none, w=none, a=none,
            information=ca.SX.zeros(n, n), slope=ca.SX.zeros(n, 1), constant=ca.SX(0.0),
            **{name: ca.SX.zeros(*one.shape) for name, one in self._behind(self.look)},
        )  # fmt: skip

    def stepped(self) -> tuple[LookAhead, ca.SX]:
        """Look-ahead function before a step, from that after it, and its `step_row`."""
        twist = self.look.before_noise(ca.densify(self.factor))
        before, m, about = twist.before, self.following, self.look.about
        look = before.through(m, self.jacobian, self.x)
        row = {"jacobian": self.jacobian, "offset": m - self.jacobian @ self.x} | self._known
        row["information"] = ca.tril(before.information)
        if self.additive:
            row |= {
                "slope": before.slope + before.information @ about,
                "mean": twist.mean + twist.gain @ about, "gain": twist.gain,
                "spread": twist.spread, "factor": self.factor,
            }  # fmt: skip
        else:
            row |= {
                "slope": before.slope, "constant": before.constant - self.look.constant,
                "information_after": ca.tril(self.look.information),
                "slope_after": self.look.slope, "about": about,
            }  # fmt: skip
        return look, self.step_row.values(**row)

    def unguided(self) -> ca.SX:
        """`step_row` of a bootstrap filter."""
        n, k = self.n, self.noises
        row = {name: ca.SX.zeros(n, 1) for name in ("slope", "offset", "slope_after", "about")} | {
            name: ca.SX.zeros(n, n) for name in ("information", "information_after", "jacobian")
        }
        row |= {"constant": ca.SX(0.0), "mean": ca.SX.zeros(k, 1), "gain": ca.SX.zeros(k, n)}
        row |= {"spread": ca.SX.eye(k), "factor": self.factor} | self._known
        return self.step_row.values(**row)

    def jacobian_diagonal(self) -> tuple[int, ...]:
        """Places of the diagonal of a step's Jacobian in `step_row`."""
        names = self.step_row.names
        begin = sum(self.step_row[name].nnz() for name in names[: names.index("jacobian")])
        i, j = self.step_row["jacobian"].sparsity().get_triplet()
        return tuple(begin + int(k) for k in np.flatnonzero(np.equal(i, j)))

    # The particles, forward; the path is that of one without noise.

    def particle(self, normals: ca.SX, free: ca.SX) -> tuple[ca.SX, ca.SX]:
        """State after a step, for standard normals (k, 1), and what its log weight grows by.

        ``free`` is 1 for a particle that moves as the model does, and 0 for one that looks ahead.
        """
        row, m = self.step_row, self.following
        linear = row["jacobian"] @ self.x + row["offset"]
        information = ca.tril2symm(row["information"])
        if self.additive:
            growth = ca.dot(m - linear, row["slope"] - information @ (m + linear) / 2)
            noise = row["mean"] - row["gain"] @ m + row["spread"] @ normals
            return m + row["factor"] @ (noise + free * (normals - noise)), growth
        after = LookAhead(
            ca.tril2symm(row["information_after"]), row["slope_after"], ca.SX(0.0), row["about"]
        )
        factor = self.factor
        twist = after.before_noise(ca.densify(factor))
        expected = LookAhead(information, row["slope"], row["constant"], row["about"])
        noise = twist.mean - twist.gain @ (m - row["about"]) + twist.spread @ normals
        moved = m + factor @ (noise + free * (normals - noise))
        return moved, twist.before.log(m) - expected.log(linear)

    def scored(self) -> ca.SX:
        """Growth of the log weight of a particle at a sample: log g - log g^."""
        scored = ca.sum1(self._expansion()[1]) - self._expected()
        if self.model.coloured:
            # What a sample makes of the state is linear in it for outputs that are.
            scored += self.ahead(self.after_sample) - self._foreseen()
        return scored

    def _expected(self) -> ca.SX:
        """Log g^ of a particle."""
        row = self.sample_row
        away = row["jacobian"] @ self.x - row["at"]
        return ca.sum1(row["a"] + (row["d"] - row["w"] * away / 2) * away)

    def ahead(self, state: ca.SX) -> ca.SX:
        """Log psi of a particle behind a sample."""
        if not self.model.coloured:
            return self._foreseen()
        information, slope, constant, about = (
            self.sample_row[name] for name, _ in self._behind(self.look)
        )
        return LookAhead(ca.tril2symm(information), slope, constant, about).log(state)

    def _foreseen(self) -> ca.SX:
        """Log psi behind a sample, of a particle before it."""
        row = self.sample_row
        information = ca.tril2symm(row["information"])
        return LookAhead(information, row["slope"], row["constant"], row["path"]).log(self.x)

    def weighed(self, log_weight: ca.SX, growth: ca.SX, log_constant: ca.SX) -> ca.SX:
        """Log weight after a sample under the model alone, from that twisted by psi + c before it.

        growth: Log G, of the steps since the sample before.
        log_constant: Log c.
        """
        guided = self._foreseen() + self._expected() - growth
        larger, away = ca.fmax(guided, log_constant), ca.fabs(guided - log_constant)
        mixture = larger + ca.log1p(ca.exp(-away))
        return log_weight + ca.sum1(self._expansion()[1]) - mixture
