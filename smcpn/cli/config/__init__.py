"""Load a `Case` by the name of a case study, or from a configuration or a Python script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smcpn.cli.cases import CASES, load_case
from smcpn.cli.config.document import Document, configuration_path, is_configuration
from smcpn.cli.config.script import is_script, scripted_case
from smcpn.errors import InputError

if TYPE_CHECKING:
    from smcpn.cli.cases import Case


def load_system(
    name: str, hold: str | None = None, model: str | None = None, split: str | None = None
) -> Case:
    """Return a case by its name, or by the path of a configuration or a Python file.

    The name is a key of `CASES`; a TOML file, or the folder that holds it as ``config.toml``; or
    ``model.py``, ``model.py:name``, which holds a `Problem`. ``hold`` is the input between samples,
    where a case study or a configuration is to have another one; for ``model`` and ``split`` see
    the function of the case study, whose defaults they have where left out.
    """
    if name in CASES:
        return load_case(name, hold, model, split)
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
    if is_configuration(name):
        document = Document.read(configuration_path(name))
        from smcpn.cli.config.case import configured_case

        return configured_case(document, hold)
    if hold is not None:
        raise InputError(
            f"hold is '{hold}': in a Python file of your own the record states it, leave it out"
        )
    return scripted_case(name)


__all__ = ["load_system"]
