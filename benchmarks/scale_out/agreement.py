"""The same bytes by any executor, with any number of workers, in any order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.bytes.digest import of_posterior
from benchmarks.rows import Row, absent
from benchmarks.scale_out.cases import METHODS, RUNS, alone, found, run
from benchmarks.scale_out.clusters import dask_cluster, lacks_dask, lacks_mpi, on_ranks
from benchmarks.study import study


def same(name: str, digested: str, expected: str, note: str = "") -> Row:
    """The row of a comparison."""
    agrees = digested == expected
    return Row(name, "same bytes" if agrees else "others", "same bytes", agrees, note)


@study("processes")
def processes(quick: bool) -> Iterator[Row]:
    """Processes of loky, and threads."""
    for number in (2,) if quick else (1, 2, 7):
        for name in ("tempering",) if quick else RUNS:
            yield same(
                f"loky:{number} {name}", of_posterior(run(name, f"loky:{number}")), alone(name)
            )
    for name in () if quick else METHODS:
        yield same(f"loky:2 {name}", found(name, "loky:2"), alone(name))
    with ThreadPoolExecutor(3) as threads:
        yield same(
            "3 threads tempering", of_posterior(run("tempering", threads)), alone("tempering")
        )


@study("dask")
def dask(quick: bool) -> Iterator[Row]:
    """A local cluster of dask, and a worker that joins late."""
    if why := lacks_dask():
        yield absent("dask", why)
        return
    for number in (2,) if quick else (1, 2, 7):
        with dask_cluster(number) as cluster:
            for name in ("tempering",) if quick else RUNS:
                there = of_posterior(run(name, f"dask:{cluster.address}"))
                yield same(f"dask {number} workers {name}", there, alone(name))
    with dask_cluster(1) as cluster:
        joins = threading.Timer(4.0, cluster.add)
        joins.start()
        there = of_posterior(run("ibis", f"dask:{cluster.address}"))
        joins.join()
        yield same("dask, a worker joins late", there, alone("ibis"))


@study("mpi", full=RUNS, quick=("tempering",))
def mpi(names: Iterable[str]) -> Iterator[Row]:
    """Ranks of MPI, of which the first is the driver."""
    if why := lacks_mpi():
        yield absent("mpi", why)
        return
    for name in names:
        output = on_ranks(2, "benchmarks.scale_out.agreement", name)
        yield same(f"mpi 2 ranks {name}", output.split()[-1], alone(name))


if __name__ == "__main__":
    print(of_posterior(run(sys.argv[1], "mpi")))
