"""Commands import nothing that they do not use, and their help says what there is."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import smcpn
from smcpn.cli import stream_options
from smcpn.cli.signature import parameters_of
from smcpn.codegen.target import CPUS
from smcpn.discovery.question import SPIKE_AND_SLAB
from smcpn.discovery.shrinkage.priors import SHRINKAGE
from smcpn.errors import InputError
from smcpn.io.address import STANDARD
from smcpn.io.parse import FORMATS
from smcpn.io.stream import EVERY_SECONDS
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.model.record import HOLDS
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.settings import AUTO, EXISTING, METHODS

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


def test_words_in_the_help_are_those_of_the_registries():
    words = {name: one.words for name, one in parameters_of("run.identify", "identify").items()}
    own = [name for name, kind in LIKELIHOODS.items() if kind.__module__.startswith("smcpn.")]
    assert tuple(own) == words["likelihood"]
    assert (AUTO, *METHODS) == words["method"]
    assert set(words["solver"]) >= {"EKF0", "EKF1", "AdaptiveEKF1", "RK4", AUTO}
    assert words["cpu"] == CPUS
    assert words["existing"] == EXISTING
    assert set(words["resampling"]) == set(SCHEMES)
    assert words["start"] == (AUTO,)
    assert set(parameters_of("model.record", "Record")["hold"].words) == set(HOLDS)
    priors = parameters_of("run.discover", "discover")["prior"].words
    assert priors == (SPIKE_AND_SLAB, *SHRINKAGE)
    assert parameters_of("io.address", "open_source")["format"].words == FORMATS
    assert (stream_options.STANDARD, stream_options.EVERY_SECONDS) == (STANDARD, EVERY_SECONDS)


@pytest.mark.parametrize(
    ("module", "function"),
    [("run.identify", "identify"), ("online.online", "Online"), ("run.discover", "discover")],
)
def test_a_signature_is_read_as_python_has_it(module, function):
    """Each number is read as one, with its bounds and its default."""
    real = inspect.signature(getattr(smcpn, function)).parameters
    for name, one in parameters_of(module, function).items():
        assert one.default in (None, real[name].default)
        assert one.help
        if "Count" in str(real[name].annotation):
            assert one.typed is int
            with pytest.raises(InputError, match=f"{name} is 0: give a whole number from 1"):
                one.read(0)
