"""Compile generated and hand-written numba code once, and load it at every later start.

The module of a generated kernel is named by its source, and its machine code is kept under that
name (`smcpn.codegen.store`). Hand-written numba code is kept in the same way: its functions are
marked `compiled` or `allocating`, and `entry_point` compiles one that Python calls.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import llvmlite.binding
import numba
from numba import njit
from numba.core import compiler, config, serialize

from smcpn.codegen import store
from smcpn.errors import InputError
from smcpn.process.signals import uninterrupted

_LOCK = threading.RLock()
"""A module that another thread is still compiling is not handed out."""


def load_kernel(source: str, **names: Any) -> ModuleType:
    """Return the module with this source text, compiled now or at an earlier start.

    An interrupt waits until the module is whole.

    Parameters
    ----------
    source : str
        Identifies the module: it says all that its machine code depends on. Its functions are
        marked `stored`.
    **names
        What the module finds under names that it does not define.
    """
    key = "|".join([source, numba.__version__, llvmlite.__version__, _processor()])
    name = f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    with _LOCK:
        if name not in sys.modules:
            with uninterrupted(), store.locked(name):
                _run(name, source, names)
        return sys.modules[name]


def _run(name: str, source: str, names: dict[str, Any]) -> None:
    module = ModuleType(name)
    vars(module).update(names)
    # numba finds the module of a stored function by its name.
    sys.modules[name] = module
    try:
        exec(compile(source, f"<{name}>", "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise


class StoredCode:
    """The cache of one function, as numba asks for it.

    numba's own keeps an index and code without a digest, and looks where a source file lies.

    Parameters
    ----------
    function : callable
        Of a module whose name says all that its machine code depends on.
    """

    def __init__(self, function: Any) -> None:
        self._prefix = f"{function.__module__}.{function.__qualname__}"

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(store.folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code of a signature, or None."""
        target_context.refresh()
        entry = store.load(self._name(sig, target_context.codegen()))
        if entry is None:
            return None
        rebuild = compiler.CompileResult._rebuild  # pyright: ignore[reportPrivateUsage]
        return rebuild(target_context, *pickle.loads(entry))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code of a signature."""
        if not data.library.has_dynamic_globals:
            store.save(self._name(sig, data.codegen), serialize.dumps(data._reduce()))

    def enable(self) -> None:
        """Do nothing: it is always enabled."""

    def disable(self) -> None:
        """Do nothing, as `enable`."""

    def flush(self) -> None:
        """Do nothing: an entry that is not believed is written again."""

    def _name(self, sig: Any, codegen: Any) -> str:
        key = hashlib.sha256(repr((sig, codegen.magic_tuple())).encode()).hexdigest()
        return f"{self._prefix}.{key[:24]}"


def stored(signature: str | None = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function of a generated module as `numba.njit` does, and keep it on disk."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(**options)(function)
        dispatcher._cache = StoredCode(function)
        if signature is not None:
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return decorate


@functools.cache
def _processor() -> str:
    return f"{sys.version_info[:2]}{llvmlite.binding.get_host_cpu_name()}"


# Not plain fastmath: that would assume there is no NaN and remove the guards against it.
FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": FAST,
    # Python never calls it: no code is needed that takes its arguments apart.
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}

_BORROWING: dict[str, Any] = {"_nrt": False}
"""No counting of references: to take an array out of a named tuple is otherwise two atomic
instructions, more than half of the time of a step. Callers own the arrays while a call lasts."""

_SOURCE = '''\
"""An entry point copied by smcpn from a package of digest {digest}."""
from __future__ import annotations

from smcpn.codegen.cache import stored
from {module} import {names}


@stored(nogil=True, error_model="numpy", fastmath=set({fast}))
{function}'''


def compiled(function: Callable[..., Any]) -> Any:
    """Mark a function as compiled code that other compiled code calls; it makes no arrays."""
    return njit(**_OPTIONS, **_BORROWING)(function)


def allocating(function: Callable[..., Any]) -> Any:
    """Mark a function as compiled code that makes arrays, or calls what does."""
    return njit(**_OPTIONS)(function)


@functools.cache
def entry_point(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, now or at an earlier start.

    numba's cache looks at the file of a function, not at those of the functions it calls: the
    function is therefore copied to a file whose text names the content of its whole package.

    Parameters
    ----------
    function : callable
        A plain function of a module; what it calls is marked `compiled` and lies in the same
        folder.

    Raises
    ------
    InputError
        If numba is told not to compile.
    """
    known_to_numba: Any = config
    if known_to_numba.DISABLE_JIT:
        raise InputError("NUMBA_DISABLE_JIT is set: unset it, for this calls machine code")
    texts = [
        path.read_bytes() for path in sorted(Path(inspect.getfile(function)).parent.glob("*.py"))
    ]
    known = function.__globals__
    source = _SOURCE.format(
        digest=hashlib.sha256(b"".join(texts)).hexdigest(),
        module=function.__module__,
        names=", ".join(sorted(name for name in function.__code__.co_names if name in known)),
        fast=sorted(FAST),
        function=inspect.getsource(function),
    )
    return getattr(load_kernel(source), function.__name__)
