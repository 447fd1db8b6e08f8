"""An interrupted run without a checkpoint is kept in memory, and goes on to the same bytes."""

from __future__ import annotations

import signal
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

import smcpn
from smcpn.base.signals import exit_code
from smcpn.cli.app import app
from smcpn.cli.cases import Case
from smcpn.errors import InputError
from smcpn.likelihood.registry import build_likelihood
from smcpn.run import restore
from tests.models import decay_problem

SETTINGS = {"solver": smcpn.RK4(steps=2), "particles": 60, "seed": 3, "block": 4}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(restore, "_last", [])


def stop_when(reached):
    def told(progress):
        if reached(progress):
            raise KeyboardInterrupt

    return told


def interrupt(reached, **options):
    with pytest.raises(KeyboardInterrupt) as caught:
        smcpn.identify(decay_problem(), **SETTINGS, **options, progress=stop_when(reached))
    return str(caught.value)


@pytest.mark.parametrize("method", ["ibis", "tempering"])
def test_it_goes_on_to_the_same_bytes(method):
    whole = smcpn.identify(decay_problem(), **SETTINGS, method=method, progress=False)
    calls = []
    sentence = interrupt(lambda progress: calls.append(0) or len(calls) > 2, method=method)
    assert "smcpn.resume() goes on" in sentence
    again = smcpn.resume(progress=False)
    np.testing.assert_array_equal(again.theta, whole.theta)
    np.testing.assert_array_equal(again.log_weights, whole.log_weights)
    with pytest.raises(InputError, match="no run was interrupted here"):
        smcpn.resume()


def test_ibis_has_the_posterior_of_the_samples_so_far():
    problem = decay_problem()
    sentence = interrupt(lambda progress: progress.sample >= 9, method="ibis")
    posterior = smcpn.load()
    n = posterior.problem.n_samples
    assert 9 <= n < problem.n_samples
    assert f"the posterior of the first {n} of {problem.n_samples} samples" in sentence
    kept = restore.last_interrupted().state.samplers[0]
    # A part of the next sample has been assimilated, and is not of this posterior.
    assert kept.exponent is not None
    assert 0.0 < kept.exponent < 1.0
    likelihood = build_likelihood(problem, smcpn.RK4(steps=2))
    values = problem.prior.natural(posterior.theta)
    first, next_too = (likelihood.evaluate(values, end)[1] for end in (n, n + 1))
    expected = kept.system.log_weights - kept.exponent * (next_too - first)
    found = posterior.log_weights - posterior.log_weights[0]
    np.testing.assert_allclose(found, expected - expected[0], atol=1e-9)


def test_particles_on_their_way_are_no_posterior():
    sentence = interrupt(lambda progress: True, method="tempering")
    assert sentence == "interrupted on the way to the posterior: smcpn.resume() goes on"
    with pytest.raises(InputError, match="there is no posterior to show yet"):
        smcpn.load()


def test_populations_at_their_end_are_a_posterior():
    last = decay_problem().n_samples
    seen = []

    def second(progress):
        seen.append(progress.sample)
        return last in seen and progress.sample < last

    sentence = interrupt(second, method="ibis", replicates=2)
    assert "the posterior of 1 of 2 populations" in sentence
    assert len(smcpn.load().theta) == SETTINGS["particles"]


def test_the_command_says_what_would_have_kept_it(monkeypatch):
    def interrupted_run(*_args, **_options):
        raise KeyboardInterrupt

    case = Case("decay", decay_problem(), {}, {}, steps=2)
    monkeypatch.setattr(import_module("smcpn.cli.identify"), "load_system", lambda *_, **__: case)
    monkeypatch.setattr(smcpn, "identify", interrupted_run)
    done = CliRunner().invoke(app, ["identify", "rig/config.toml"])
    assert done.exit_code == exit_code(signal.SIGINT)
    assert "nothing is kept: --checkpoint FILE keeps a run" in done.stderr
