"""Compiled entry points of hand-written numba code, kept on disk like the generated kernels.

numba's own cache looks at the file of a function, not at those of the functions it calls. An entry
point is therefore written to a file of its own, whose text names the content of its whole package.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from smcpn.codegen.cache import load_kernel

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

_SOURCE = '''\
"""An entry point copied by smcpn from a package of digest {digest}."""
from __future__ import annotations

from numba import njit

from {module} import {names}


@njit(nogil=True, error_model="numpy", fastmath=set({fast}), cache=True)
{function}'''


def compiled(function: Callable[..., Any]) -> Any:
    """Mark a function as compiled code that other compiled code calls."""
    return njit(**_OPTIONS)(function)


@functools.cache
def entry_point(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, now or at an earlier start.

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
