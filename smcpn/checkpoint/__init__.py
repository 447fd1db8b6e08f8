"""Checkpoints of runs, discoveries and streams: HDF5 files of plain data, replaced atomically.

`container` writes and reads a file as bytes, with its lock, checksum and previous version; `codec`
writes dataclasses as parts of a file and reads them by the annotations of their fields (see
`smcpn.base.stored`). What is written: `problem` a problem and its records, `run` a run with its
records and `discovery` one that looks for equations, while they go on, `stream` and `nested`
streams, `posterior` a result, those of old formats too.
`fingerprint` compares problems and data sets by SHA-256; `inspection` describes a file as text.
`smcpn.run.restore` makes a run of a file again.
"""

from smcpn.checkpoint.fingerprint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.problem import StoredProblem, StoredRecord
from smcpn.errors import NotStorableError

__all__ = [
    "NotStorableError",
    "StoredProblem",
    "StoredRecord",
    "data_fingerprint",
    "model_fingerprint",
]
