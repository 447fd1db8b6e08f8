"""Case studies: the systems of the PN-SMC paper and other measured ones, identified by name.

A case is a problem, its test records, and what to compare with. `smcpn identify NAME` runs one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import lazy_loader

from smcpn.cli.cases.splits import SPLITS
from smcpn.errors import InputError, one_of

if TYPE_CHECKING:
    from smcpn.cli.cases.case import Case


def _study(module: str, function: str) -> Callable[..., Case]:
    """Return the case study of a module, which is imported when the case is asked for."""

    def case(*arguments: Any, **options: Any) -> Case:
        study = getattr(import_module(f"smcpn.cli.cases.{module}"), function)
        for name in options:
            if name not in inspect.signature(study).parameters:
                system = module.replace("_", "-")
                raise InputError(f"{system} has no option {name}: leave it out", argument=name)
        return study(*arguments, **options)

    return case


CASES: dict[str, Callable[..., Case]] = {
    "silverbox": _study("silverbox", "silverbox_case"),
    "emps": _study("emps", "emps_case"),
    "bouc-wen": _study("bouc_wen", "bouc_wen_case"),
    "cascaded-tanks": _study("cascaded_tanks", "cascaded_tanks_case"),
    "lynx-hare": _study("lynx_hare", "lynx_hare_case"),
    "nanodrone": _study("nanodrone", "nanodrone_case"),
    "theophylline": _study("theophylline", "theophylline_case"),
}


def load_case(
    name: str, hold: str | None = None, model: str | None = None, split: str | None = None
) -> Case:
    """Return a case study by its name.

    The name is a key of `CASES`; ``hold`` is the input between samples, where it is to be another
    one; for ``model`` and ``split`` see the function of the case study, whose defaults they have
    where left out. What does not apply is refused.
    """
    arguments = {"hold": hold, "model": model, "split": split}
    study = CASES[one_of("name", name, CASES)]
    return study(**{key: value for key, value in arguments.items() if value is not None})


__all__ = ["CASES", "SPLITS", "Case", "load_case"]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs={"case": ["Case"]})
