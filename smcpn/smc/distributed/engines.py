"""Properties of executors of the several libraries: size, repair, and names.

An engine that is defined registers itself under its library.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, ClassVar, Self

from typing_extensions import override

from smcpn.errors import InputError, shown
from smcpn.smc.distributed.tasks import Answer, Task

REMEDY = (
    "give 'loky:N' for N processes here, 'dask:tcp://host:8786', 'mpi', or a "
    "concurrent.futures.Executor, such as loky.get_reusable_executor(), "
    "dask.distributed.Client(...).get_executor() or mpi4py.futures.MPIPoolExecutor()"
)
IDLE_SECONDS = 600
"""Time after which a process of loky that has nothing to do ends."""
ASK_SECONDS = 3.0
"""How often a cluster that may grow is asked for its size."""
UNKNOWN_SIZE = 8
"""Workers of an executor that does not tell their number."""
ENGINES: dict[str, type[Engine]] = {}
"""Engines by the library that their executors are of."""


class Engine(ABC):
    """An executor, and what its library calls things.

    name: By which it is opened, before a colon; empty where it cannot be.
    """

    library: ClassVar[str]
    name: ClassVar[str] = ""

    def __init__(self, executor: Any) -> None:
        self.executor = executor

    def __init_subclass__(cls) -> None:
        ENGINES[cls.library] = cls

    @property
    @abstractmethod
    def size(self) -> int:
        """Tasks that it runs at the same time, at the moment."""

    @property
    def ended(self) -> bool:
        """True if nothing that was submitted will be answered."""
        return False

    def submit(self, task: Task) -> Future[Answer]:
        """Submit a task."""
        return self.executor.submit(task)

    def renewed(self) -> Self | None:
        """An engine like this one in place of it, which is broken; None where there is none."""
        return None

    def close(self) -> None:
        """Shut down the executor."""
        self.executor.shutdown()

    @classmethod
    def open(cls, address: str) -> Any:
        """Return an executor of an address, what follows the name."""
        raise NotImplementedError(cls.library, address)


class Standard(Engine):
    """Threads or processes of the standard library, or what is made like them."""

    library = "concurrent"

    @property
    @override
    def size(self) -> int:
        return getattr(self.executor, "_max_workers", UNKNOWN_SIZE)

    def renewed(self) -> Self | None:
        """Executor with processes of the same number, begun in the same way."""
        old = self.executor
        if not isinstance(old, ProcessPoolExecutor):
            return None
        private: Any = old
        again = ProcessPoolExecutor(
            self.size, private._mp_context, private._initializer, private._initargs
        )
        return type(self)(again)


class Loky(Engine):
    """Processes of loky."""

    library, name = "loky", "loky"

    @property
    @override
    def size(self) -> int:
        return self.executor._max_workers

    @override
    def renewed(self) -> Self | None:
        import loky

        size, old = self.size, self.executor
        reusable = type(old) is not loky.ProcessPoolExecutor
        make = loky.get_reusable_executor if reusable else loky.ProcessPoolExecutor
        return type(self)(make(max_workers=size, timeout=old._timeout))

    def close(self) -> None:
        """Close it; a process may wait for ever for a lock of one that was killed."""
        self.executor.shutdown(kill_workers=True)

    @classmethod
    def open(cls, address: str) -> Any:
        """Executor with as many processes as the address says."""
        import loky

        if not address.isdecimal() or int(address) < 1:
            raise InputError(
                f"executor is 'loky:{address}': give the number of processes, as loky:8",
                argument="executor",
            )
        return loky.ProcessPoolExecutor(max_workers=int(address), timeout=IDLE_SECONDS)


class Dask(Engine):
    """A client of dask.distributed."""

    library, name = "distributed", "dask"

    def __init__(self, executor: Any) -> None:
        super().__init__(executor)
        self._size, self._asked = 1, -ASK_SECONDS

    @property
    def size(self) -> int:
        """Number of workers, which join and leave; to ask costs as much as a task."""
        client = self.executor._client
        if client.status == "running" and time.monotonic() - self._asked > ASK_SECONDS:
            # A scheduler that does not answer loses the next tasks, and is found by that.
            with suppress(OSError):
                found = sum(client.nthreads().values())
                self._size = found if client.status == "running" else self._size
            self._asked = time.monotonic()
        return self._size

    @property
    def ended(self) -> bool:
        """True if the client is closed: its scheduler has been away for 30 s."""
        return self.executor._client.status == "closed"

    def submit(self, task: Task) -> Future[Answer]:
        """Submit a task; the dashboard shows the method."""
        key = f"{task.__name__}-{task.number}-{id(self):x}"
        return self.executor.submit(task, pure=False, key=key)

    @classmethod
    def open(cls, address: str) -> Any:
        """Client of the scheduler at the address."""
        from distributed import Client  # pyright: ignore

        if not address:
            raise InputError(
                "executor is 'dask': give the address of its scheduler, as "
                "dask:tcp://scheduler:8786",
                argument="executor",
            )
        try:
            client = Client(address)
        except (OSError, ValueError) as error:
            raise InputError(
                f"executor is 'dask:{address}', where no scheduler answers: start it by "
                "'dask scheduler', and give the address that it prints",
                argument="executor",
            ) from error
        return client.get_executor()

    def close(self) -> None:
        """Close a client that was made by `open`."""
        self.executor._client.close()


class MPI(Engine):
    """Ranks of mpi4py."""

    library, name = "mpi4py", "mpi"

    @property
    @override
    def size(self) -> int:
        return max(1, self.executor.num_workers)

    @classmethod
    def open(cls, address: str) -> Any:
        """Pool of the ranks that mpiexec has started."""
        from mpi4py.futures import MPIPoolExecutor  # pyright: ignore[reportMissingImports]

        return MPIPoolExecutor()


def engine_of(executor: Any) -> Engine:
    """Return the engine of an executor.

    Raises `InputError` if it is none.
    """
    if not isinstance(executor, Executor):
        raise InputError(f"executor is {shown(executor)}: {REMEDY}", argument="executor")
    libraries = [kind.__module__.partition(".")[0] for kind in type(executor).__mro__]
    return next(ENGINES[name] for name in libraries if name in ENGINES)(executor)


def checked_executor(executor: Any) -> Any:
    """Return an executor, or the name of one, if it can be one."""
    if isinstance(executor, str):
        if executor.partition(":")[0] not in _named():
            raise InputError(f"executor is {shown(executor)}: {REMEDY}", argument="executor")
    elif executor is not None:
        engine_of(executor)
    return executor


def _named() -> dict[str, type[Engine]]:
    return {engine.name: engine for engine in ENGINES.values() if engine.name}


@contextmanager
def opened(executor: Any) -> Generator[Any]:
    """Yield an executor, itself or of a name; one that was opened here is closed.

    Raises `InputError` if it cannot be opened.
    """
    if not isinstance(executor, str):
        yield executor
        return
    name, _, address = checked_executor(executor).partition(":")
    engine = _named()[name]
    try:
        if import_module(engine.library).__file__ is None:
            raise ImportError("a folder of that name, of which Python makes a package")
    except ImportError as error:
        raise InputError(
            f"executor is {shown(executor)}, and {engine.library} is not installed: "
            f"pip install smcpn[{name}]",
            argument="executor",
        ) from error
    own = engine(engine.open(address))
    try:
        yield own.executor
    finally:
        own.close()
