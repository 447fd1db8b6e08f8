"""A posterior of supports that is known: linear regression with noise of variance one."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from smcpn.discovery.search.regression import BetaBinomial
from smcpn.discovery.supports.proposal import Gaussians, SupportProposal, active, restricted
from smcpn.discovery.supports.spike_and_slab import SpikeAndSlabPrior
from smcpn.discovery.supports.trajectory import Quadratic


class LinearTarget:
    """y = X b + Z a + noise, with terms X of which some are absent, and Z that are always there."""

    def __init__(self, terms, others, y, slabs=(0.7,)):
        self.columns, self.y = np.hstack([terms, others]), y
        self.count, m = terms.shape[1], others.shape[1]
        self.prior = SpikeAndSlabPrior(
            supports=BetaBinomial(np.arange(self.count) // 2),
            columns=np.arange(self.count),
            n_terms=self.count,
            scale=np.linspace(1.0, 2.0, self.count),
            slabs=slabs,
            signs=np.zeros(self.count, dtype=int),
            centre=np.full(m, 0.3),
            spread=np.full(m, 1.5),
        )

    def log_likelihood(self, z):
        return stats.norm.logpdf(self.y, z @ self.columns.T).sum(axis=1)

    def log_density(self, masks, z):
        return self.prior.log_density(masks, z) + self.log_likelihood(z)

    def expanded(self, mask, z):
        """Exact to second order."""
        residual = self.y - self.columns @ z
        pull, precision = self.prior.curvature(mask[None], z[None])
        return Quadratic(
            mask, z, float(self.log_likelihood(z[None])[0]), self.columns.T @ residual,
            self.columns.T @ self.columns, pull[0], precision[0],
        )  # fmt: skip

    @property
    def masks(self):
        return np.array(list(product([False, True], repeat=self.count)))

    def moments(self, mask):
        """Log evidence with prior probability, mean and covariance of one support; one slab."""
        there = active(mask, self.columns.shape[1])
        x = self.columns[:, there]
        widths = np.append(self.prior.slabs[0] * self.prior.scale, self.prior.spread)[there]
        centre = np.append(np.zeros(self.count), self.prior.centre)[there]
        gram = np.eye(len(self.y)) + (x * widths**2) @ x.T
        evidence = stats.multivariate_normal.logpdf(self.y, x @ centre, gram)
        covariance = np.linalg.inv(x.T @ x + np.diag(widths**-2))
        mean = covariance @ (x.T @ self.y + centre / widths**2)
        return evidence + self.prior.log_probability(mask[None])[0], mean, covariance

    @property
    def log_evidence(self):
        return logsumexp([self.moments(mask)[0] for mask in self.masks])

    @property
    def inclusion(self):
        scores = np.array([self.moments(mask)[0] for mask in self.masks])
        return np.exp(scores - logsumexp(scores)) @ self.masks

    def draws(self, rng, size):
        """Exact draws of supports and coordinates."""
        moments = [self.moments(mask) for mask in self.masks]
        scores = np.array([score for score, _, _ in moments])
        chosen = rng.choice(len(scores), size=size, p=np.exp(scores - logsumexp(scores)))
        z = np.zeros((size, self.columns.shape[1]))
        for k in np.unique(chosen):
            rows = np.flatnonzero(chosen == k)
            columns = np.flatnonzero(active(self.masks[k], z.shape[1]))
            drawn = rng.multivariate_normal(*moments[k][1:], size=len(rows))
            z[np.ix_(rows, columns)] = drawn
        return self.masks[chosen], z

    def proposal(self, mask, off=0.0):
        """About the maximum of one support, from which it is off by so many in all coordinates."""
        there = active(mask, self.columns.shape[1])
        z = np.zeros(len(there))
        z[there] = self.moments(mask)[1] + off
        at = self.expanded(mask, z)
        known = {mask.tobytes(): restricted(at, mask)[0]}
        gaussians = Gaussians(known, at)
        return SupportProposal.of(mask[None], np.ones(1), gaussians, len(z))

    def near(self):
        """A proposal about the maxima of all supports, in proportion to their probability."""
        known = self.proposal(self.masks[-1])
        scores = np.array([self.moments(mask)[0] for mask in self.masks])
        weights = np.exp(scores - logsumexp(scores))
        return SupportProposal.of(self.masks, weights, known.gaussians, known.n_coordinates)


def linear_target(seed=0, size=25, terms=4, strength=0.5, slabs=(0.7,)):
    rng = np.random.default_rng(seed)
    x, others = rng.normal(size=(size, terms)), rng.normal(size=(size, 2))
    x[:, 1] = 0.7 * x[:, 1] + 0.7 * x[:, 0]
    b = np.where(np.arange(terms) % 2, 0.0, strength)
    y = x @ b + others @ [0.5, -0.2] + rng.normal(size=size)
    return LinearTarget(x, others, y, slabs)
