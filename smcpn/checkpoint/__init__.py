"""Checkpoints of runs and streams: HDF5 files of plain data, replaced atomically.

`container` writes and reads a file as bytes, with its lock, checksum and previous version;
`payload` holds what is in it, documents, arrays and populations; `codec` makes that of runs,
records and streams, and these of it again; `problem` does so for a problem and its records;
`fingerprint` compares problems and data sets by SHA-256; `writer` writes a run while it goes on;
`inspection` describes a file as text. `smcpn.run.restore` makes a run of a file again.
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
