"""Clusters on this machine: a scheduler and workers of dask, and ranks of MPI, as processes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

START_SECONDS = 60.0


def one_thread() -> dict[str, str]:
    """Environment of a worker, whose libraries have one thread."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **single, "PYTHONPATH": path}


class DaskCluster:
    """A scheduler and workers of dask.distributed with one thread each, as processes."""

    def __init__(self, folder: Path) -> None:
        self._file, self.processes = folder / "scheduler.json", list[subprocess.Popen[bytes]]()
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + START_SECONDS
        while not self._file.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the scheduler of dask has not started")
            time.sleep(0.05)

    def add(self) -> subprocess.Popen[bytes]:
        """Start another worker."""
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60")
        return self._start("worker", *options)

    @property
    def address(self) -> str:
        """Of the scheduler."""
        import json

        return json.loads(self._file.read_text())["address"]

    def stop(self) -> None:
        """End all processes that were started here."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", what, "--scheduler-file", str(self._file)]
        process = subprocess.Popen(
            [*command, *options],
            env=one_thread(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._file.parent,
        )
        self.processes.append(process)
        return process


@contextmanager
def dask_cluster(workers: int) -> Generator[DaskCluster]:
    """A cluster of so many workers."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = DaskCluster(Path(folder))
        try:
            for _ in range(workers):
                cluster.add()
            yield cluster
        finally:
            cluster.stop()


class Gate:
    """A way to an address that can be cut: every connection is closed, and none is made again."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._to, self._open = (host, int(port)), list[socket.socket]()
        self._door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._admit, daemon=True).start()

    @property
    def address(self) -> str:
        """Of this side."""
        return f"tcp://127.0.0.1:{self._door.getsockname()[1]}"

    def cut(self) -> None:
        """Close it."""
        for one in [self._door, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _admit(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._door.accept()[0], socket.create_connection(self._to)
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                sink.sendall(content)


def lacks_dask() -> str:
    """Why there is no dask here; empty where there is."""
    return "" if find_spec("distributed") else "distributed is not installed"


def lacks_mpi() -> str:
    """Why there is no MPI here; empty where there is."""
    if shutil.which("mpiexec") is None:
        return "there is no mpiexec"
    return "" if find_spec("mpi4py") else "mpi4py is not installed"


def on_ranks(ranks: int, module: str, *arguments: str) -> str:
    """Output of a module that runs on so many ranks, the first of which is the driver."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["mpiexec", *root, "--oversubscribe", "-n", str(ranks), sys.executable]
    done = subprocess.run(
        [*command, "-m", "mpi4py.futures", "-m", module, *arguments],
        env=one_thread() | {"OMPI_MCA_rmaps_base_oversubscribe": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"mpiexec ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def kill(process: int) -> None:
    """End a process at once."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
