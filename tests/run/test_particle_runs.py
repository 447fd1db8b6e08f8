"""Runs with an estimated likelihood, SMC^2: exact, resumed to the same bytes, and told of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.checkpoint.container import RUN, save
from smcpn.checkpoint.run import header_image, read_run, run_image
from smcpn.errors import InputError
from smcpn.likelihood.registry import build_likelihood
from tests.nightly import nightly_but
from tests.stopping import Stopped
from tests.targets import OrnsteinUhlenbeck

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
PROCESS = OrnsteinUhlenbeck.simulated(40, spread=0.0)
PRIOR = {"rate": stats.lognorm(0.5), "q": stats.lognorm(0.5)}
OPTIONS = {"likelihood": "particle", "solver": smcpn.RK4(1), "particles": 100, "progress": False}


@smcpn.ode
def decaying(x, *, rate):
    """Linear: the Kalman likelihood is exact."""
    return -rate * x


@smcpn.ode
def bistable(x, *, rate):
    """Two wells, between which the noise moves the state."""
    return rate * (x - x**3)


def problem_of(ode) -> smcpn.Problem:
    return smcpn.Problem(
        ode,
        smcpn.Record(y=PROCESS.y, dt=PROCESS.h),
        observe="x",
        noise=PROCESS.noise,
        process_noise={"x": "q"},
        prior=PRIOR,
        initial={"x": 0.0},
    )


def bytes_of(posterior) -> tuple[bytes, ...]:
    arrays = (posterior.theta, posterior.log_weights, posterior.log_likelihood, posterior.ancestor)
    evidence = np.array([posterior.log_evidence, posterior.log_evidence_se])
    # An interrupted part counts twice as work.
    method = replace(posterior.method, weighings=0.0, search_weighings=0.0)
    return *(a.tobytes() for a in (*arrays, evidence)), repr(method).encode()


@pytest.mark.parametrize("method", ["auto", "tempering", "ibis"])
def test_posterior_of_a_linear_model(method):
    """Evidence and moments against quadrature, within 4 standard errors."""
    found = smcpn.identify(
        problem_of(decaying), seed=1, method=method, **OPTIONS | {"particles": 400}
    )
    evidence, mean, sd = PROCESS.moments()
    assert abs(found.log_evidence - evidence) < 4 * found.log_evidence_se < 0.4
    weights = np.exp(found.log_weights - found.log_weights.max())
    moment = np.average(found.theta, axis=0, weights=weights)
    np.testing.assert_allclose((moment - mean) / sd, 0.0, atol=4 / np.sqrt(0.5 * found.ess))
    record = found.method
    assert record.state_particles == 32 * (1 + (record.state_particles > 32))
    assert record.bridges == (method != "ibis")
    assert record.guided == (method != "ibis")
    assert "state particles" in found.computation


@pytest.mark.parametrize(
    "options",
    nightly_but(
        [{}, {"method": "ibis"}],
        [
            {},
            {"replicates": 2},
            {"method": "ibis"},
            {"moves": "random-walk", "method": "tempering"},
        ],
    ),
    ids=str,
)
def test_resumed_after_every_other_part_it_ends_in_the_same_bytes(options, tmp_path):
    def stop(progress):
        parts.append(progress.sample)
        if len(parts) == 2:
            raise Stopped

    problem, lives = problem_of(bistable), 0
    settings = OPTIONS | {"seed": 3, "particles": 50} | options
    whole = smcpn.identify(problem, threads=1, **settings)
    settings |= {"checkpoint": tmp_path / "run.h5", "checkpoint_every": 0.0, "progress": stop}
    found = None
    while found is None and lives < 100:
        lives, parts = lives + 1, []
        with suppress(Stopped):
            found = smcpn.identify(problem, threads=2, **settings)
    assert lives > 3
    assert found is not None
    assert bytes_of(found) == bytes_of(whole)
    assert bytes_of(smcpn.resume(tmp_path / "run.h5", progress=False)) == bytes_of(whole)


def test_a_file_with_other_state_particles_is_refused(tmp_path):
    file, settings = tmp_path / "run.h5", OPTIONS | {"seed": 1, "particles": 50}
    smcpn.identify(problem_of(bistable), checkpoint=file, **settings)
    stored, prior = read_run(file), problem_of(bistable).prior
    for number in (33, 64, 1 << 20):
        samplers = [replace(one, state_particles=number) for one in stored.state.samplers]
        changed = replace(stored.state, samplers=tuple(samplers))
        save(file, RUN, run_image(changed, "running", header_image(stored.header), prior))
        with pytest.raises(InputError):
            smcpn.resume(file, progress=False)


def test_a_longer_record_begins_the_estimate_anew(tmp_path):
    """What looked ahead to the end of a record says nothing of one that goes on."""
    problem, file = problem_of(decaying), tmp_path / "run.h5"
    record = problem.records[0]
    settings = OPTIONS | {"seed": 1}
    smcpn.identify(problem.with_records([record[:25]]), checkpoint=file, **settings)
    longer = smcpn.identify(problem, checkpoint=file, **settings)
    evidence, _, _ = PROCESS.moments()
    assert abs(longer.log_evidence - evidence) < 4 * longer.log_evidence_se
    values = problem.prior.natural(longer.theta)
    exact = build_likelihood(problem, smcpn.RK4(1)).evaluate(values, 40)[1]
    np.testing.assert_allclose(longer.log_likelihood, exact, atol=1e-9)


def test_ibis_goes_on_with_further_samples_to_the_same_bytes(tmp_path):
    problem, settings = problem_of(bistable), OPTIONS | {"seed": 3, "method": "ibis"}
    record, file = problem.records[0], tmp_path / "run.h5"
    smcpn.identify(problem.with_records([record[:25]]), checkpoint=file, **settings)
    longer = smcpn.identify(problem, checkpoint=file, **settings)
    assert bytes_of(longer) == bytes_of(smcpn.identify(problem, **settings))


def derivative(problem, likelihood):
    return smcpn.LogLikelihood(problem, likelihood).value_and_gradient([[0.5, 0.1]])


@pytest.mark.parametrize("call", [smcpn.maximise, smcpn.laplace, derivative])
def test_what_needs_a_gradient_refuses_an_estimate(call):
    with pytest.raises(InputError, match="take likelihood='kalman' here") as caught:
        call(problem_of(decaying), likelihood="particle")
    assert caught.value.argument == "likelihood"


@pytest.mark.parametrize("number", [0, 33, 2.0, "many"])
def test_state_particles_are_a_multiple_or_auto(number):
    with pytest.raises(InputError, match="give a multiple of 32 up to 1048576, or 'auto'"):
        smcpn.identify(problem_of(decaying), state_particles=number, **OPTIONS)


def test_state_particles_of_an_exact_likelihood_are_refused():
    with pytest.raises(InputError, match="state_particles is 64: the kalman likelihood has none"):
        smcpn.identify(problem_of(decaying), state_particles=64, likelihood="kalman")
    smcpn.identify(problem_of(decaying), state_particles="auto", particles=50, progress=False)
