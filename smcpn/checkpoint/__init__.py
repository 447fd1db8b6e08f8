"""A problem as plain data: what a checkpoint holds of it, without anybody's code and no pickle.

`problem`, `priors` and `records` take apart and put together, `fingerprint` tells whether two
problems or two data sets are the same.
"""

from smcpn.checkpoint.fingerprint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.problem import (
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.errors import NotStorableError

__all__ = [
    "NotStorableError",
    "data_fingerprint",
    "model_fingerprint",
    "problem_document",
    "records_document",
    "restored_problem",
    "restored_records",
]
