"""`Discovery`: what it prints, simulates and compares."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys

import discoveries
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.residuals import remarks
from smcpn.errors import InputError


def test_it_prints_equations_noise_models_and_warnings():
    found = discoveries.oscillator(warnings=("something is doubtful",))
    assert str(found) == (
        "x' = v  (known)\n"
        "v' = -4.000(7) x [1.00]  - 0.200(7) v [1.00]  + 0.005(16) x^3 [.10]\n"
        "(7 other terms, probability less than .01)\n"
        "\n"
        "noise sd         x 0.02, v 0.02\n"
        "models           2 found, the best with probability .90\n"
        "warning          something is doubtful\n"
        "\n"
        "   probability  log-evidence  log-prior  terms  coefficients\n"
        "0          .90         +0.00      +0.00      2  v'[x], v'[v]\n"
        "1          .10         -2.20      +0.00      3  + v'[x^3]\n"
        "\n"
        "verdict          look again, fit 95.8, 97.8 %\n"
        "                 - read the warnings (.warnings in Python)"
    )


def test_one_model_is_written_without_probabilities():
    found = discoveries.oscillator()
    assert found.equations(0) == ["x' = v  (known)", "v' = -4.000(4) x  - 0.200(4) v"]
    assert found.equations(1)[1] == "v' = -4.000(20) x  - 0.200(20) v  + 0.050(20) x^3"
    with pytest.raises(InputError, match="rank"):
        found.equations(2)


def test_coefficients_that_others_determine_are_written_too():
    system = CandidateSystem.of(
        smcpn.polynomials(1, constant=False),
        ["x", "y"],
        constraints=["x'[y] = -2 y'[x]", "y'[y] = -9.81"],
    )
    own = discoveries.model(system, {"y'[x]": 1.5}, 0.04, 0.8, [0.0, 0.0])
    less = discoveries.model(system, {"x'[x]": 1.0}, 0.04, 0.2, [0.0, 0.0])
    found = discoveries.discovery(system, [own, less], np.zeros((9, 2)), 0.1, 1.0)
    assert found.equations(0) == ["x' = -3.00(8) y", "y' = 1.50(4) x  - 9.81 y"]
    first, second = found.equations()
    assert first.startswith("x' = -2.4(1.2) y [.80]  + 0.2(4) x [.20]")
    assert second.startswith("y' = -9.81 y [1.00]  + 1.2(6) x [.80]")


def test_what_is_known_is_written_before_the_terms():
    @smcpn.ode
    def known(x, v, u, *, m=2.0):
        return v, u / m - 9.81 * np.sin(x)

    system = CandidateSystem.of(smcpn.polynomials(1), known=known)
    one = discoveries.model(system, {"v'[v]": -0.2}, 0.004, 1.0, [0.0, 0.0])
    found = discoveries.discovery(system, [one], np.zeros((9, 2)), 0.1, 1.0)
    assert found.equations(0) == ["x' = v  (known)", "v' = (u/m)-(9.81*sin(x))  - 0.200(4) v"]


def test_probable_terms_come_first_and_few_of_the_others():
    system = CandidateSystem.of(smcpn.polynomials(8), ["x"])
    rare = [{"x'[x]": -0.5, name: 1.0} for name in system.coefficients if name != "x'[x]"]
    models = [discoveries.model(system, {"x'[x]": -0.5}, 0.01, 0.6, 2.0)]
    models += [discoveries.model(system, one, 0.01, 0.4 / len(rare), 2.0) for one in rare]
    found = discoveries.discovery(system, models, np.ones((9, 1)), 0.1, 1.0)
    line, rest, count = str(found).splitlines()[:3]
    assert (line + rest).count("[.05]") == 4
    assert line.startswith("x' = -0.500(10) x [1.00]")
    assert count == "(4 other terms, probability at most .05)"


def test_the_equation_is_one_for_simulation_and_identification():
    found = discoveries.oscillator()
    y = smcpn.simulate(
        found.ode(), found.records[0], {}, observe=["x", "v"], initial=dict(x=1.0, v=0.0)
    )
    np.testing.assert_allclose(y, found.path, atol=1e-4)
    prior = {name: stats.norm(0, 5) for name in found.ode().parameters}
    problem = smcpn.Problem(
        found.ode(), found.records[0], observe=["x", "v"], noise=0.02, prior=prior
    )
    assert problem.names == ("v'[x]", "v'[v]")


def test_initial_states_are_drawn_from_what_the_noise_leaves():
    found = discoveries.decay(noise=0.05)
    record, window, draws = found.records[0], 30, 2000
    run = found.simulate(record, draws=draws, initialise=window)
    slopes = np.exp(-0.5 * record.t)
    variance = 0.05**2 / np.sum(slopes[:window] ** 2) * slopes**2
    best = np.sum(slopes[:window] * record.y[:window, 0]) / np.sum(slopes[:window] ** 2)
    # A mean and a variance of 2000 draws have standard errors of sd / 45 and 3.2 %.
    np.testing.assert_allclose(run.mean[:, 0], best * slopes, atol=4 * np.sqrt(variance[0] / draws))
    np.testing.assert_allclose(run.parameter_variance[:, 0], variance, rtol=4 * np.sqrt(2 / draws))
    assert run.diverged == 0.0
    assert not np.isfinite(run.record.y[:window]).any()


def test_a_hidden_state_is_found_from_the_first_samples():
    run = discoveries.oscillator(hidden=True).simulate(
        discoveries.oscillator(hidden=True).records[0]
    )
    assert run.fit > 90
    assert run.coverage > 0.85


def test_a_given_initial_state_needs_no_outputs():
    found = discoveries.decay(noise=0.0)
    run = found.simulate(smcpn.Record(t=[0.0, 1.0, 2.0]), initial={"x": 3.0}, draws=5)
    np.testing.assert_allclose(run.mean[:, 0], 3.0 * np.exp([0.0, -0.5, -1.0]), rtol=1e-4)
    np.testing.assert_allclose(run.parameter_variance, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "give initial"),
        ({"initial": {"y": 1.0}}, "no state"),
        ({"initial": {}}, "give a number"),
        ({"initial": [1.0, 2.0]}, "give a number"),
        ({"initialise": 1}, "give initial|initialise"),
    ],
    ids=str,
)
def test_initial_states_that_do_not_fit_are_refused(more, message):
    with pytest.raises(InputError, match=message):
        discoveries.decay().simulate(smcpn.Record(t=[0.0, 1.0, 2.0]), **more)


def test_draws_that_leave_the_data_are_left_out_and_counted():
    found = discoveries.decay((0.7, 0.0, 0.3))
    run = found.simulate(found.records[0], draws=400)
    # The share of 400 draws has a standard error of .023; the first is the best model's.
    assert abs(run.diverged - 0.3) < 0.1
    assert np.isfinite(run.upper).all()
    assert run.rmse_of_mean < 0.1
    explosive = dataclasses.replace(found, models=found.models[2:])
    with pytest.raises(InputError, match=r"no draw stays|does not settle"):
        explosive.simulate(found.records[0])


@pytest.fixture(scope="module")
def chaotic():
    system = CandidateSystem.of(smcpn.polynomials(2), ["x", "y", "z"])
    true = {"x'[x]": -10.0, "x'[y]": 10.0, "y'[x]": 28.0, "y'[y]": -1.0, "y'[x z]": -1.0,
            "z'[z]": -8 / 3, "z'[x y]": 1.0}  # fmt: skip
    rhs = lambda t, x: [  # noqa: E731
        10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]
    ]  # fmt: skip
    t = 0.02 * np.arange(1000)
    path = solve_ivp(rhs, (0, t[-1]), [-8, 7, 27], t_eval=t, rtol=1e-8).y.T
    return discoveries.discovery(
        system, [discoveries.model(system, true, 1e-3, 1.0, path[0])], path, 0.02, 0.2
    )


def test_a_chaotic_system_is_simulated_as_long_as_one_likes(chaotic):
    run = chaotic.simulate(chaotic.records[0], draws=20)
    assert run.sd[50, 0] < 2.0
    assert run.sd[-1, 0] > 3.0


def test_it_is_copied_and_pickled():
    found = discoveries.oscillator()
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert str(other) == str(found)
        assert np.array_equal(other.draws(10, seed=3), found.draws(10, seed=3))


def test_correlated_residuals_and_even_models_are_remarked_on():
    assert remarks(discoveries.oscillator()) == []
    found = discoveries.decay((0.4, 0.35, 0.25))
    y = found.records[0].y + 0.2 * np.sin(found.records[0].t)[:, None]
    object.__setattr__(found, "records", (smcpn.Record(y=y, dt=0.1),))
    first, second = remarks(found)
    assert "residuals of x are correlated" in first
    assert "0.40" in second


@pytest.mark.slow
def test_coefficients_of_pysindy_stand_beside():
    pytest.importorskip("pysindy")
    table = discoveries.oscillator().compare("pysindy")
    assert "v'[x]" in table.names
    assert all(abs(one[table.names.index("v'[x]")] + 4.0) < 0.5 for one in table.others.values())
    assert str(table).splitlines()[0].split()[:2] == ["smcpn", "STLSQ"]
    with pytest.raises(InputError, match="v is hidden"):
        discoveries.oscillator(hidden=True).compare()


def test_a_peer_that_is_not_installed_or_known_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysindy", None)
    with pytest.raises(InputError, match="pip install pysindy"):
        discoveries.oscillator().compare("pysindy")
    with pytest.raises(InputError, match="peer"):
        discoveries.oscillator().compare("nothing")
