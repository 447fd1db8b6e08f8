"""What a user gave, as plain data: a function by its name, a distribution by its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from smcpn.distributions import describe
from smcpn.tracing import function_name


def labelled(value: Any) -> Any:
    """Numbers and text as they are, in lists and mappings; all else by what it is called."""
    if isinstance(value, Mapping):
        return {str(name): labelled(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [labelled(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return labelled(value.tolist())
    if value is None or isinstance(value, (str, int, float)):
        return value
    if callable(getattr(value, "rvs", None)):
        return describe(value)
    return repr(value) if is_dataclass(value) else function_name(value)
