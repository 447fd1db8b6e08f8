"""Workers that are killed, and a scheduler that is gone."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.bytes.digest import of_posterior
from benchmarks.rows import Row, absent
from benchmarks.scale_out.cases import alone, run
from benchmarks.scale_out.clusters import Gate, dask_cluster, kill, lacks_dask
from benchmarks.study import study
from smcpn.errors import ExecutorError
from smcpn.smc.distributed.engines import opened

KILLS, QUICK_KILLS = 30, 2
MOMENT = 4.0
"""Seconds after which something happens to a cluster of dask."""


def during(seconds: float, act: Callable[[], object]) -> threading.Timer:
    """Do something after a time, while what follows goes on."""
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def kill_one(executor: Any, rng: np.random.Generator) -> None:
    """Kill a process of loky."""
    living = list(executor._processes)
    if living:
        kill(int(rng.choice(living)))


@study("killed", full=KILLS, quick=QUICK_KILLS)
def killed(kills: int) -> Iterator[Row]:
    """Processes of loky that are killed at random moments of a run."""
    rng, agrees = np.random.default_rng(0), 0
    with opened("loky:2") as executor:
        run("tempering", executor)
        begin = time.perf_counter()
        run("tempering", executor)
        length = time.perf_counter() - begin
    for _ in range(kills):
        with opened("loky:2") as executor:
            run("tempering", executor)
            moment = rng.uniform(0.0, length)
            timer = during(moment, lambda executor=executor: kill_one(executor, rng))
            agrees += of_posterior(run("tempering", executor)) == alone("tempering")
            timer.join()
    yield Row("loky, a worker killed", f"{agrees} of {kills}", "all", agrees == kills)


@study("scheduler")
def scheduler(quick: bool) -> Iterator[Row]:
    """A scheduler of dask that is gone: the run stops, and its checkpoint goes on."""
    if why := lacks_dask():
        yield absent("dask, a worker killed", why)
        return
    with dask_cluster(2) as cluster:
        timer = during(3.0, cluster.processes[1].kill)
        found = of_posterior(run("ibis", f"dask:{cluster.address}"))
        timer.join()
        agrees = found == alone("ibis")
        yield Row("dask, a worker killed", agrees, "same bytes", agrees)
    with dask_cluster(2) as cluster:
        yield from stopped("scheduler killed", cluster.address, cluster.scheduler.kill)


@study("cut")
def cut(quick: bool) -> Iterator[Row]:
    """A cut between driver and scheduler: the run stops, and its checkpoint goes on."""
    if why := lacks_dask():
        yield absent("dask, network cut", why)
        return
    with dask_cluster(2) as cluster:
        gate = Gate(cluster.address)
        yield from stopped("network cut", gate.address, gate.cut)


def stopped(name: str, address: str, act: Callable[[], object]) -> Iterator[Row]:
    """Rows of a run that something stops after a time, and that goes on without a cluster."""
    with tempfile.TemporaryDirectory() as folder:
        file, sentence = Path(folder) / "run.h5", ""
        timer = during(MOMENT, act)
        begin = time.perf_counter()
        try:
            run("ibis", f"dask:{address}", checkpoint=file, checkpoint_every=0.0)
        except ExecutorError as error:
            sentence = str(error)
        seconds = time.perf_counter() - begin - MOMENT
        timer.join()
        yield Row(f"dask, {name}: seconds until it stops", round(seconds, 1), note=sentence)
        resumed = smcpn.resume(file, progress=False) if sentence else None
        agrees = isinstance(resumed, smcpn.Posterior) and of_posterior(resumed) == alone("ibis")
        yield Row(f"dask, {name}, then resumed", agrees, "same bytes", agrees)


@study("slow")
def slow(quick: bool) -> Iterator[Row]:
    """A worker of dask that is suspended, and neither answers nor closes its connections."""
    if why := lacks_dask():
        yield absent("dask, a worker suspended", why)
        return
    with dask_cluster(2) as cluster:
        timer = during(MOMENT, lambda: cluster.processes[1].send_signal(signal.SIGSTOP))
        begin = time.perf_counter()
        agrees = of_posterior(run("ibis", f"dask:{cluster.address}")) == alone("ibis")
        note = f"{time.perf_counter() - begin:.0f} s"
        timer.join()
        yield Row("dask, a worker suspended", agrees, "same bytes", agrees, note)
