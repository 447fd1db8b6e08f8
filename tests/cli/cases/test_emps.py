"""The EMPS: model, records, protocols. Those on the records need DATA_EMPS*.mat."""

from types import SimpleNamespace

import numpy as np
import pytest

import smcpn
from smcpn.cli.cases.emps import emps_case, emps_problem, emps_protocols
from smcpn.datasets.inventory import find_file

pytestmark = pytest.mark.numerics

IDIM = {"M": 95.1089, "Fv": 203.5034, "Fc": 20.3935, "offset": -3.1648}
"""Least squares on the inverse dynamics, the robotics reference (Janot et al. 2019)."""

needs_files = pytest.mark.skipif(
    find_file("emps", "DATA_EMPS.mat") is None or find_file("emps", "DATA_EMPS_PULSES.mat") is None,
    reason="DATA_EMPS.mat and DATA_EMPS_PULSES.mat not found: set SMCPN_DATA",
)


def test_friction_opposes_the_motion_and_is_odd():
    def acceleration(v):
        rate = smcpn.models.emps.rhs([0.0, v], [0.0], 0.0, [1.0, 0.0, 20.0, 0.0, 1e-3])
        return float(rate[1])

    assert acceleration(0.1) == pytest.approx(-20.0, rel=1e-4)
    assert acceleration(-0.1) == pytest.approx(20.0, rel=1e-4)
    assert acceleration(0.0) == 0.0


def test_a_joint_pushed_less_than_its_friction_only_creeps():
    record = smcpn.Record(u=np.full(1001, 10.0), dt=1e-3, hold="zoh")
    parameters = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": 0.0}
    v = smcpn.simulate(smcpn.models.emps, record, parameters, observe="v")
    assert 0 < v[-1, 0] < smcpn.models.emps.defaults["width"]


def test_an_unknown_split_is_refused():
    with pytest.raises(smcpn.InputError, match="split is 'own'"):
        emps_case(split="own")


@needs_files
def test_records_are_in_newtons_and_metres():
    data = smcpn.datasets.emps()
    record = data.train.record
    assert len(record) == 24841
    assert record.hold == "zoh"
    # With the reference's parameters the force balances: that fixes its unit and its sign.
    q = record.y[:, 0]
    v = np.gradient(q, record.t)
    a = np.gradient(v, record.t)
    moving = np.abs(v) > 0.02
    force = IDIM["M"] * a + IDIM["Fv"] * v + IDIM["Fc"] * np.sign(v) + IDIM["offset"]
    assert np.corrcoef(force[moving], record.u[moving, 0])[0, 1] > 0.99


@needs_files
def test_the_controller_and_the_pulses_explain_the_command():
    data = smcpn.datasets.emps()
    for experiment in (data.train, data.test):
        volts = experiment.record.u[:, 0] / data.controller.gtau
        command = data.controller.command(experiment.reference, experiment.record.y[:, 0])
        beyond = volts - command - experiment.disturbance
        assert np.sqrt(np.square(beyond[20:]).mean()) < 0.02, "volts, of a command up to 10"
    assert not data.train.disturbance.any()
    assert data.test.disturbance.any()


@pytest.mark.nightly
@needs_files
def test_protocols_differ_as_they_should():
    data = smcpn.datasets.emps()
    problem = emps_problem(data.train.record)
    values = np.array([[IDIM[name] for name in problem.names]])
    posterior = SimpleNamespace(problem=problem, values=values, weights=np.ones(1))
    protocols = emps_protocols(data)
    rmse = {
        name: 1e3 * float(protocols[name](posterior).rmse_of_mean[0])  # type: ignore[arg-type]
        for name in ("open_loop", "closed_loop", "prediction_10", "prediction_1000")
    }
    assert rmse["closed_loop"] < 0.01
    assert 1.0 < rmse["open_loop"] < 12.0
    assert rmse["prediction_10"] < 0.01 < rmse["prediction_1000"] < rmse["open_loop"]


@needs_files
def test_the_first_samples_do_not_count():
    paper, official = emps_case(), emps_case(split="official")
    assert len(paper.problem.records[0]) == 24576
    assert len(official.problem.records[0]) == 24841
    assert np.isnan(official.problem.records[0].y[:20]).all()
    assert np.isfinite(official.problem.records[0].y[20:]).all()


@needs_files
def test_a_friction_spline_that_is_a_line_is_the_parametric_model():
    case = emps_case(model="spline")
    assert case.solver() == smcpn.RK4(steps=2)
    equation = case.problem.ode
    # Without curvature it rises by 20 e^[1] N from the first knot to the last.
    known = {"M": 95.0, "Fc": 20.0, "friction[0]": -3.0, "friction[1]": np.log(200.0 * 0.26 / 20.0)}
    values = [(known | equation.defaults).get(name, 0.0) for name in equation.parameters]
    own = equation.rhs([0.0, 0.1], [30.0], 0.0, values)
    other = smcpn.models.emps.rhs([0.0, 0.1], [30.0], 0.0, [95.0, 200.0, 20.0, -3.0, 1e-3])
    np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-9)
