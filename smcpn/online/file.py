"""The file of an identification under way: samples, population, and where the stream is.

It is made as a checkpoint is (`smcpn.checkpoint`): HDF5 behind a checksum, published whole or not
at all, without pickle and without anybody's code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from smcpn.checkpoint import (
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.checkpoint.container import content_of, image, opened, publish
from smcpn.checkpoint.population import read_population, write_population
from smcpn.errors import InputError
from smcpn.run.settings import RunSettings

if TYPE_CHECKING:
    from smcpn.online.online import Online

TITLE = "smcpn stream"
FORMAT_VERSION = 1


def save_live(live: Online, path: Path) -> None:
    """See `Online.save`."""
    settings = live.settings.model_copy(update={"solver": live.solver})
    if settings.not_storable:
        raise InputError(f"{path} cannot be written: {settings.not_storable}")
    problem, arrays = problem_document(live.problem)
    records, columns = records_document(live.problem.records[:1])
    document = {
        "settings": settings.document(),
        "options": live.options,
        "problem": problem,
        "records": records,
        "stream": live.document(),
    }

    def fill(file: h5py.File) -> None:
        file.attrs["format"], file.attrs["format_version"] = TITLE, FORMAT_VERSION
        file.attrs["document"] = json.dumps(document)
        for group, values in (("problem", arrays), ("records", columns), ("stream", live.arrays())):
            created = file.create_group(group)
            for name, array in values.items():
                created[name] = array
        prior, snapshot = live.population()
        write_population(file.create_group("population"), snapshot, prior)

    try:
        publish(path, image(TITLE, fill))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def load_live(kind: type[Online], path: Path, threads: int | None) -> Online:
    """See `Online.load`."""
    with opened(content_of(path, TITLE)) as file:
        attrs: Any = file.attrs
        if int(attrs["format_version"]) > FORMAT_VERSION:
            raise InputError(f"{path} was written by a newer smcpn: install that")
        document = json.loads(attrs["document"])
        arrays = {name: _arrays(file[name]) for name in ("problem", "records", "stream")}
        records = restored_records(document["records"], arrays["records"])
        problem = restored_problem(document["problem"], arrays["problem"], records)
        settings = RunSettings(**document["settings"])
        live = kind.configured(problem, settings, document["options"], threads)
        live.resume(
            document["stream"],
            arrays["stream"],
            lambda names: read_population(file["population"], names),
        )
    return live


def _arrays(group: Any) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.asarray(item[...])

    group.visititems(collect)
    return found
