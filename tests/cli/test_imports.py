"""Commands import nothing that they do not use, and their help says what there is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from annotated_types import Ge

from smcpn.cli import names
from smcpn.codegen.target import CPUS
from smcpn.errors import InputError
from smcpn.io.address import STANDARD
from smcpn.io.parse import FORMATS
from smcpn.io.stream import EVERY_SECONDS
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.model.record import HOLDS
from smcpn.settings import AUTO, METHODS, Settings

HEAVY = ("numpy", "numba", "casadi", "scipy", "matplotlib", "h5py", "pint")
SCRIPT = """
import sys
from smcpn.cli.app import main
for arguments in {commands}:
    sys.argv = ["smcpn", *arguments]
    try:
        main()
    except SystemExit as left:
        loaded = [name for name in {heavy} if name in sys.modules]
        print("ended", arguments, loaded, left.code)
"""
LIGHT = {
    ("--help",): 0,
    ("--version",): 0,
    ("identify", "--help"): 0,
    ("stream", "--help"): 0,
    ("discover", "--help"): 0,
    ("discover", "data.csv", "--states", "x", "--prior", "magic"): 2,
    ("resume", "--help"): 0,
    ("identify", "pendulum"): 2,
    ("fit", "pendulum/config.toml"): 2,
    ("fit", "silverbox", "--likelihood", "exact"): 2,
    ("stream", "silverbox", "--particles", "3"): 2,
    ("identify", "silverbox", "--parts", "3"): 2,
    ("simulate",): 2,
}


def test_help_and_a_refusal_import_no_engine():
    """One after the other in one process: what one loads, all that follow would show."""
    script = SCRIPT.format(commands=list(LIGHT), heavy=HEAVY)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ended = [line for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert ended == [f"ended {arguments} [] {code}" for arguments, code in LIGHT.items()]


def test_identify_and_fit_import_no_compiler_of_python_and_no_figures():
    script = "import sys, smcpn.cli.outcome, smcpn.cli.fitting\nprint(*sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not {"numba", "h5py", "matplotlib", "pint"} & set(done.stdout.split())


def test_names_in_the_help_are_those_of_the_registries():
    own = [name for name, kind in LIKELIHOODS.items() if kind.__module__.startswith("smcpn.")]
    assert tuple(own) == names.LIKELIHOODS
    assert (AUTO, *METHODS) == names.METHODS
    assert names.HOLDS == HOLDS
    assert names.FORMATS == FORMATS
    assert names.STARTS == (AUTO,)
    assert names.CPUS == CPUS
    assert Settings().particles == names.PARTICLES
    assert (names.STANDARD, names.EVERY_SECONDS) == (STANDARD, EVERY_SECONDS)


@pytest.mark.parametrize("name", names.LEAST)
def test_least_numbers_are_those_of_the_settings(name):
    constraints = Settings.model_fields[name].metadata
    assert [c.ge for c in constraints if isinstance(c, Ge)] == [names.LEAST[name]]
    with pytest.raises(InputError, match=f"{name} is {names.LEAST[name] - 1}: give a whole number"):
        Settings(**{name: names.LEAST[name] - 1})
