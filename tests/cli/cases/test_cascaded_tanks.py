"""The cascaded tanks: equation, records, case. Those on the records need dataBenchmark.csv."""

import numpy as np
import pytest

import smcpn
from smcpn.cli.cases import load_case
from smcpn.datasets.inventory import find_file

pytestmark = pytest.mark.numerics

FITTED = {
    "pump": 0.0324,
    "out1": 0.1047,
    "out2": 0.2186,
    "ratio": 2.032,
    "share": 0.56,
    "zero": 2.087,
    "power": 0.1902,
}
"""Least squares on the training record."""
START = {"h1": 7.24, "h2": 5.18}

needs_file = pytest.mark.skipif(
    find_file("cascaded_tanks", "dataBenchmark.csv") is None,
    reason="dataBenchmark.csv not found: set SMCPN_DATA",
)


def _levels(u, parameters, initial, dt=4.0):
    record = smcpn.Record(u=u, dt=dt, hold="zoh")
    equation = smcpn.models.cascaded_tanks
    return smcpn.simulate(
        equation, record, parameters, observe=["h1", "h2"], initial=initial, steps=8
    )


def test_water_is_kept():
    # Nothing flows out of the lower tank or over its rim: what the pump has brought is there.
    closed = FITTED | {"out2": 1e-12, "share": 1.0}
    levels = _levels(np.full(12, 2.0), closed, {"h1": 5.0, "h2": 3.0})
    ratio = closed["ratio"]
    water = ratio * levels[:, 0] + levels[:, 1]
    assert levels.max() < 9.5
    np.testing.assert_allclose(np.diff(water), ratio * closed["pump"] * 2.0 * 4.0, rtol=2e-3)


def test_a_full_tank_overflows_and_its_share_arrives_below():
    levels = [
        _levels(np.full(60, 6.0), FITTED | {"share": share}, {"h1": 9.9, "h2": 5.0})
        for share in (0.0, 1.0)
    ]
    for level in levels:
        assert 10.0 < level[-1, 0] < 10.3
    assert levels[1][5, 1] > levels[0][5, 1] + 0.5
    assert levels[1][-1, 1] < 10.6


def test_an_empty_tank_stays_near_zero():
    levels = _levels(np.zeros(200), FITTED, {"h1": 1.0, "h2": 3.0})
    assert np.isfinite(levels).all()
    assert abs(levels[-1, 0]) < 0.05
    assert levels[-1, 1] == pytest.approx(FITTED["zero"], abs=0.05)


@pytest.mark.parametrize("option", ["model", "split"])
def test_what_does_not_exist_is_refused(option):
    with pytest.raises(smcpn.InputError, match=f"{option} is 'mine'"):
        load_case("cascaded-tanks", **{option: "mine"})


@needs_file
def test_the_records_are_the_benchmarks():
    data = smcpn.datasets.cascaded_tanks()
    assert len(data.train) == len(data.test) == 1024
    assert data.train.dt == data.test.dt == 4.0
    assert (data.train.y == 10.0).sum() == 47
    assert (data.test.y == 10.0).sum() == 37
    # First row of the file: uEst, uVal, yEst, yVal.
    first = [data.train.u[0, 0], data.test.u[0, 0], data.train.y[0, 0], data.test.y[0, 0]]
    assert first == [3.2567, 0.97619, 5.205, 4.9728]


@needs_file
def test_saturated_samples_are_missing_from_training_and_compared_in_the_test():
    case = load_case("cascaded-tanks")
    assert np.isnan(case.problem.records[0].y).sum() == 47
    assert np.isfinite(case.tests["test"].y).all()


@needs_file
def test_the_equation_runs_through_the_test_record():
    test = smcpn.datasets.cascaded_tanks().test
    y = _levels(test.u, FITTED, START)[:, 1]
    assert np.sqrt(np.square(y - test.y[:, 0]).mean()) < 0.25


@needs_file
def test_without_overflow_it_does_not():
    test = smcpn.datasets.cascaded_tanks().test
    y = _levels(test.u, FITTED | {"share": 0.0}, START)[:, 1]
    assert np.sqrt(np.square(y - test.y[:, 0]).mean()) > 0.4


def test_a_file_that_is_another_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    path = tmp_path / "dataBenchmark.csv"
    header = '"uEst","uVal","yEst","yVal","Ts"\n'
    for content in (
        "",
        "a,b\n1,2\n",
        header + "1,2,3,4,4\n",
        header + "1,2\n",
        header + "a,b,c,d,\n",
    ):
        path.write_text(content)
        with pytest.raises(smcpn.InputError, match="fetch it again"):
            smcpn.datasets.cascaded_tanks()


@needs_file
@pytest.mark.parametrize(
    ("model", "noise"), [("deterministic", 0), ("disturbed", 1), ("disturbed-both", 2)]
)
def test_models_differ_by_their_process_noise(model, noise):
    case = load_case("cascaded-tanks", model=model)
    given = case.problem.model.process_noise
    assert (0 if given is None else given.columns.shape[1]) == noise
    assert len(case.protocols) == (2 if noise else 0)


@needs_file
@pytest.mark.slow
@pytest.mark.nightly
def test_disturbed_it_predicts_the_next_sample_and_still_runs_freely():
    case = load_case("cascaded-tanks")
    approximation = smcpn.laplace(case.problem, solver=smcpn.RK4(2), starts=4, seed=1)
    posterior = approximation.to_posterior(100, 1)
    ahead = case.protocols["test, one sample ahead"](posterior)
    assert 0.92 < ahead.coverage[0] < 0.98
    assert ahead.rmse_of_mean[0] < 0.06
    assert posterior.simulate(case.tests["test"]).rmse_of_mean[0] < 0.4
