"""Systems that are identified by name: the case studies of the PN-SMC paper, or a user's own.

A case is a problem, its test records, and what to compare with. `smcpn identify NAME` runs one.
"""

from __future__ import annotations

from collections.abc import Callable

from smcpn.cases.bouc_wen import bouc_wen_case
from smcpn.cases.case import SPLITS, Case
from smcpn.cases.emps import emps_case
from smcpn.cases.silverbox import silverbox_case
from smcpn.errors import InputError

CASES: dict[str, Callable[..., Case]] = {
    "silverbox": silverbox_case,
    "emps": emps_case,
    "bouc-wen": bouc_wen_case,
}


def load_case(
    name: str, hold: str | None = None, model: str | None = None, split: str | None = None
) -> Case:
    """Find a case by its name, or by the path of a configuration or a Python file.

    Parameters
    ----------
    name : str
        A key of `CASES`; a TOML file, or the folder that holds it as ``config.toml``; or
        ``model.py``, ``model.py:name``, which holds a `Problem`.
    hold : str, optional
        The input between samples, where a case study or a configuration is to have another one.
    model, split : str, optional
        See the function of the case study; its defaults where left out.

    Raises
    ------
    InputError
        If there is none of that name, its files are missing, or an option does not apply.
    """
    if name in CASES:
        arguments = {"hold": hold, "model": model, "split": split}
        return CASES[name](**{key: value for key, value in arguments.items() if value is not None})
    # The configuration builds on the cases.
    from smcpn.config import is_configuration, is_script

    if not is_configuration(name) and not is_script(name):
        raise InputError(
            f"no system '{name}': choose one of {', '.join(CASES)}, or name a file as "
            "mysystem/config.toml or model.py:problem"
        )
    for option, value in (("--model", model), ("--split", split)):
        if value is not None:
            raise InputError(
                f"{option} is '{value}': it chooses a variant of a case study, leave it out"
            )
    return _own_case(name, hold)


def _own_case(name: str, hold: str | None) -> Case:
    from smcpn.config import configuration_path, configured_case, is_configuration, scripted_case

    if is_configuration(name):
        return configured_case(configuration_path(name), hold)
    if hold is not None:
        raise InputError(
            f"hold is '{hold}': in a Python file of your own the record states it, leave it out"
        )
    return scripted_case(name)


__all__ = ["CASES", "SPLITS", "Case", "load_case"]
