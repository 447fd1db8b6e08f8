"""Cache compiled code on disk, so that a second start compiles nothing.

The source of a generated kernel is written once to a file named by its content, numba's own cache
lies in the same folder. That is the user's cache folder, or ``SMCPN_CACHE``; where it cannot be
written, a temporary one that lasts as long as the process. It keeps the newest `KERNELS_KEPT`
kernels.

Hand-written numba code is kept in the same way: its functions are marked `compiled` or
`allocating`, and `entry_point` compiles one that Python calls.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import platformdirs
from numba import njit

KERNELS_KEPT = 256


def load_kernel(source: str, **names: Any) -> ModuleType:
    """Import the module with this source text, compiled now or at an earlier start.

    Parameters
    ----------
    source : str
        Identifies the module: it says all that its machine code depends on.
    **names
        What the module finds under names that it does not define.
    """
    key = "|".join([source, numba.__version__, llvmlite.__version__, _processor()])
    name = f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    path = _folder() / f"{name}.py"
    try:
        return _written_and_imported(name, path, source, names)
    except FileNotFoundError:
        # Another process tidied the folder between our look and our import.
        return _written_and_imported(name, path, source, names)


def _written_and_imported(name: str, path: Path, source: str, names: dict[str, Any]) -> ModuleType:
    # A disk that was full leaves half a file, which would break every later start.
    if _text(path) != source:
        _write_whole(path, source)
        _keep_newest(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # numba's cache finds a function's module by its name.
    sys.modules[name] = module
    vars(module).update(names)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@functools.cache
def _processor() -> str:
    return f"{sys.version_info[:2]}{llvmlite.binding.get_host_cpu_name()}"


@functools.cache
def _folder() -> Path:
    wanted = os.environ.get("SMCPN_CACHE") or platformdirs.user_cache_dir("smcpn", appauthor=False)
    folder = Path(wanted) / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        temporary = Path(tempfile.mkdtemp(prefix="smcpn-kernels-"))
        atexit.register(_remove, temporary, os.getpid())
        return temporary


def _remove(folder: Path, owner: int) -> None:
    # A forked child leaves the folder to its parent.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _keep_newest(folder: Path) -> None:
    """Remove all but the newest kernels, with what Python and numba keep of them."""
    aged: list[tuple[float, Path]] = []
    for path in folder.glob("kernel_*.py"):
        # Another process may tidy up at the same time.
        with suppress(OSError):
            aged.append((path.stat().st_mtime, path))
    for _, path in sorted(aged, reverse=True)[KERNELS_KEPT:]:
        for file in [path, *(folder / "__pycache__").glob(f"{path.stem}.*")]:
            with suppress(OSError):
                file.unlink()


def _write_whole(path: Path, text: str) -> None:
    """Write under another name first: a second process never imports half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


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

from numba import njit

from {module} import {names}


@njit(nogil=True, error_model="numpy", fastmath=set({fast}), cache=True)
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
    """
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
