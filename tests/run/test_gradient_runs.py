"""`identify` with moves along the gradient: chosen by itself, the same bytes, refused elsewhere."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.checkpoint.run import read_run
from smcpn.errors import InputError
from smcpn.run.identify import Settings
from smcpn.run.run import Run
from smcpn.run.stages import advance

D = 22


@smcpn.ode(sizes={"c": D})
def driven(x, u, *, c):
    """Linear in c, and in the powers of u."""
    return -x + sum(c[j] * u**j / 2.0**j for j in range(D))


@pytest.fixture(scope="module")
def problem():
    u = np.sin(np.arange(30) / 3.0)
    y = np.cos(np.arange(30) / 5.0)
    record = smcpn.Record(u=u, y=y, dt=0.2)
    return smcpn.Problem(
        driven, record, observe="x", noise=0.1, initial={"x": 0.0}, prior={"c": stats.norm()}
    )


OPTIONS = {"solver": smcpn.RK4(steps=1), "particles": 60, "seed": 3}


def run_of(problem, **options):
    settings = Settings(**{**OPTIONS, **options})
    return Run(problem, settings.resolved(problem), settings.threads)


def finished(run):
    while run.outcome is None:
        advance(run)
    populations = run.outcome.populations
    return populations.theta.tobytes(), populations.log_evidence, populations.log_evidence_se


def test_they_are_the_default_of_many_parameters(problem):
    few = smcpn.Problem(
        driven, problem.records[0], observe="x", noise=0.1, initial={"x": 0.0},
        prior={"c": [stats.norm()] * 20 + [0.0] * (D - 20)},
    )  # fmt: skip
    chosen = {d: Settings(**OPTIONS).resolved(p).moves for d, p in ((D, problem), (20, few))}
    assert chosen == {D: smcpn.MeasuredMoves(), 20: smcpn.IndependentMetropolis()}
    for given in ({"method": "ibis"}, {"moves": "independent"}, {"max_moves": 5}):
        moves = Settings(**OPTIONS, **given).resolved(problem).moves
        assert isinstance(moves, smcpn.IndependentMetropolis)
    run = run_of(problem)
    finished(run)
    assert run.plan.method == "tempering"
    assert {r.proposal for r in run.samplers[0].rejuvenations} <= {"hmc"}


def test_chains_are_shorter_where_there_are_few_particles(problem):
    options = {"particles": 12, "method": "tempering"}
    assert run_of(problem, **options).settings.moves == smcpn.MeasuredMoves(length=6)
    assert np.isfinite(finished(run_of(problem, **options))[1])


def test_bytes_do_not_depend_on_threads_nor_on_an_interruption(problem):
    options = {"method": "tempering", "moves": "mala"}
    one, two = (run_of(problem, threads=threads, **options) for threads in (1, 2))
    whole = finished(one)
    parts = 0
    while two.outcome is None:
        advance(two)
        parts += 1
        if parts % 4 == 0 and two.outcome is None:
            two = Run.resumed(problem, two.settings, two.snapshot(), 2)
    assert finished(two) == whole
    assert len(one.samplers[0].rejuvenations) > 4


def test_a_checkpoint_holds_what_they_learned(problem, tmp_path):
    file = tmp_path / "run.h5"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = smcpn.identify(
            problem, method="tempering", checkpoint=file, progress=False, **OPTIONS
        )
    stored = read_run(file).state.samplers[0].rejuvenations
    assert repr(stored) == repr(posterior.rejuvenations)
    assert smcpn.resume(file).log_evidence == posterior.log_evidence


def test_a_longer_record_begins_anew(problem, tmp_path):
    whole, file = problem.records[0], tmp_path / "run.h5"
    options = {"method": "tempering", "progress": False, **OPTIONS}
    smcpn.identify(problem.with_records([whole[:20]]), checkpoint=file, **options)
    longer = smcpn.identify(problem, checkpoint=file, **options)
    assert longer.log_evidence == smcpn.identify(problem, **options).log_evidence


def test_values_are_those_of_the_likelihood_alone(problem):
    lanes = run_of(problem, method="tempering", moves="independent").likelihood
    likelihood = run_of(problem, method="tempering").likelihood
    assert lanes.derivatives is None
    values = np.random.default_rng(0).normal(size=(5, D))
    np.testing.assert_array_equal(likelihood.evaluate(values, 30)[1], lanes.evaluate(values, 30)[1])
    gradient = likelihood.derivatives().value_and_gradient(values)[1]
    for j in (0, D - 1):
        h = 1e-5 * np.eye(D)[j]
        ends = [likelihood.evaluate(values + sign * h, 30)[1] for sign in (1, -1)]
        np.testing.assert_allclose(gradient[:, j], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moves": "hmc", "method": "ibis"}, "method='ibis' weighs what has no gradient"),
        ({"moves": "mala", "method": "diffusion-tempering"}, "has no gradient"),
        ({"moves": smcpn.LangevinMetropolis(length=60)}, "choose at most half of 60 particles"),
    ],
)
def test_what_has_no_gradient_is_refused(problem, options, message):
    with pytest.raises(InputError, match=message):
        finished(run_of(problem, **{"method": "tempering", **options}))


def test_an_estimate_has_no_gradient(problem):
    disturbed = smcpn.Problem(
        driven, problem.records[0], observe="x", noise=0.1, initial={"x": 0.0},
        process_noise={"x": 0.1}, prior={"c": stats.norm()},
    )  # fmt: skip
    options = {"likelihood": "particle", "moves": "hmc", "particles": 100}
    with pytest.raises(InputError, match="is an estimate, which has no gradient"):
        Settings(**options).resolved(disturbed)
    moves = Settings(likelihood="particle").resolved(disturbed).moves
    assert moves == smcpn.IndependentMetropolis()


@pytest.mark.parametrize("acceptance", [0.0, 1.0, np.nan, "high"])
def test_settings_are_checked(acceptance):
    with pytest.raises(InputError, match="acceptance"):
        smcpn.HamiltonianMonteCarlo(acceptance=acceptance)
    with pytest.raises(InputError, match="length"):
        smcpn.LangevinMetropolis(length=0)
