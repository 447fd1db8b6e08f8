"""Many normal draws at once, against one after the other."""

import numpy as np

from smcpn.discovery.shrinkage.mixture_moves import drawn_normals


def test_draws_are_those_of_the_factorised_precision():
    rng = np.random.default_rng(0)
    square = rng.normal(size=(6, 4, 9))
    precision = square @ square.transpose(0, 2, 1) + np.eye(4)
    pull, noise = rng.normal(size=(2, 6, 4))
    found = drawn_normals(np.moveaxis(precision, 0, -1).copy(), pull.T, noise.T)
    for n in range(6):
        factor = np.linalg.cholesky(precision[n])
        mean = np.linalg.solve(precision[n], pull[n])
        np.testing.assert_allclose(found[:, n], mean + np.linalg.solve(factor.T, noise[n]))
