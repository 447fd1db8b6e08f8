"""Initial states fitted to the first samples of a record."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.results.simulation.initialisation import (
    fitted_initial_states,
    simulate_started,
)
from smcpn.results.simulation.simulation import simulate_particles
from smcpn.results.simulation.simulator import Simulator

TRUE = {"m": 1.0, "c": 0.4, "k": 30.0, "k3": 50.0}
START = {"x": 0.3, "v": -1.2}


def _problem() -> smcpn.Problem:
    rng = np.random.default_rng(0)
    bare = smcpn.Record(u=rng.standard_normal(400), dt=0.02)
    y = smcpn.simulate(smcpn.models.duffing, bare, TRUE, observe="x", initial=START, steps=16)
    record = smcpn.Record(u=bare.u, y=y, dt=0.02, name="moving")
    prior = {name: stats.lognorm(0.1, scale=value) for name, value in TRUE.items()}
    return smcpn.Problem(smcpn.models.duffing, record, observe="x", noise=1e-3, prior=prior)


PROBLEM = _problem()
RECORD = PROBLEM.records[0]
VALUES = np.array([[TRUE[name] for name in PROBLEM.names]])


def test_the_true_state_is_found_at_the_true_parameters():
    found = fitted_initial_states(PROBLEM.model, RECORD[:20], VALUES, steps=16)
    np.testing.assert_allclose(found, [[START["x"], START["v"]]], rtol=1e-6)


def test_missing_outputs_do_not_count():
    window = RECORD[:20]
    spoiled = smcpn.Record(u=window.u, y=window.y + 1e3 * (np.arange(20) == 7)[:, None], dt=0.02)
    found = fitted_initial_states(PROBLEM.model, spoiled.hide(7, 8), VALUES, steps=16)
    np.testing.assert_allclose(found, [[START["x"], START["v"]]], rtol=1e-5)


def test_every_particle_gets_the_least_squares_state_of_its_own():
    values = np.repeat(VALUES, 3, axis=0) * [[0.9], [1.0], [1.1]]
    window = RECORD[:20]
    found = fitted_initial_states(PROBLEM.model, window, values, steps=8)

    def squares(states):
        simulator = Simulator(PROBLEM.model, window, steps=8, initial=states)
        outputs = np.concatenate([part for _, _, part in simulator(values.T)])
        return np.square(outputs - window.y[:, :, None]).sum(axis=(0, 1))

    best = squares(found)
    for change in ((1e-3, 0), (-1e-3, 0), (0, 1e-2), (0, -1e-2)):
        assert (squares(found + change) > best).all()


def test_outputs_count_by_their_noise_whatever_their_units():
    noise = np.random.default_rng(2).normal(size=(400, 2))
    sd = np.array([1e-4, 0.5])
    prior = PROBLEM.prior.distributions

    def started(unit: float) -> np.ndarray:
        truth = np.column_stack([RECORD.y[:, 0], np.gradient(RECORD.y[:, 0], RECORD.dt)])
        y = (truth + sd * noise) * [1.0, unit]
        record = smcpn.Record(u=RECORD.u, y=y, dt=0.02)
        problem = smcpn.Problem(
            PROBLEM.ode, record, observe=["x", lambda v: unit * v], noise=sd * [1.0, unit],
            prior=prior,
        )  # fmt: skip
        return fitted_initial_states(problem.model, record[:20], VALUES, steps=16)[0]

    metres, micrometres = started(1.0), started(1e6)
    np.testing.assert_allclose(metres, micrometres, rtol=1e-6)
    # The standard deviation of x(0) is below 1e-4, that of a sample of x; v alone leaves .1.
    assert abs(metres[0] - START["x"]) < 3e-4


def test_a_started_simulation_reproduces_the_record_and_rest_does_not():
    weights = np.ones(1)
    started = simulate_started(PROBLEM, RECORD, VALUES, weights, 20, steps=16)
    assert started.rmse_of_mean[0] < 1e-7
    assert np.isnan(started.record.y[:20]).all()
    assert simulate_particles(PROBLEM, RECORD, VALUES, weights).rmse_of_mean[0] > 1e-2


@pytest.mark.parametrize("samples", [1, 400])
def test_a_window_out_of_range_is_refused(samples):
    with pytest.raises(smcpn.InputError, match="initialise is"):
        simulate_started(PROBLEM, RECORD, VALUES, np.ones(1), samples)


def test_a_window_with_too_few_outputs_is_refused():
    with pytest.raises(smcpn.InputError, match="1 measured outputs for 2 states"):
        fitted_initial_states(PROBLEM.model, RECORD[:20].hide(1, 20), VALUES, 8)
