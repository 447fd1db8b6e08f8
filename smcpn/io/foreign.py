"""The program that reads MAT and HDF5 files for `smcpn.io.files`, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smcpn.errors import InputError
from smcpn.io.files import READ_APART, ColumnError, Layout
from smcpn.io.reading_process import Answer, serve


def answered(request: dict[str, Any]) -> Answer:
    """Return the experiments of a file, or why it is refused."""
    path = Path(request["path"])
    names = {name: _as_tuple(value) for name, value in request["layout"].items()}
    try:
        found = READ_APART[path.suffix.lower()](path, Layout(**names))
    except InputError as error:
        kind = "column" if isinstance(error, ColumnError) else "refused"
        return {kind: str(error), "argument": error.argument}, []
    experiments = [{"label": one.label, "units": dict(one.units)} for one in found]
    arrays = [array for one in found for array in (one.t, one.u, one.y) if array is not None]
    return {"experiments": experiments}, arrays


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    serve(answered)
