"""Covariance of the noise of dx = A x dt + G dW over a time h, by one matrix exponential."""

import numpy as np
from scipy.linalg import expm


def van_loan(A: np.ndarray, G: np.ndarray, h: float) -> np.ndarray:
    """Q(h) = int_0^h e^{A s} G G' e^{A' s} ds (Van Loan 1978, theorem 1)."""
    n = len(A)
    block = np.block([[-A, G @ G.T], [np.zeros((n, n)), A.T]])
    exponential = expm(block * h)
    return exponential[n:, n:].T @ exponential[:n, n:]
