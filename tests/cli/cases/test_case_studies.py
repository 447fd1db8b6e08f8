"""The case studies on both splits, and the table that compares them."""

from dataclasses import replace

import numpy as np
import pytest

import smcpn
from benchmarks.case_studies import shortened
from smcpn.cli.cases import load_case
from smcpn.datasets.bouc_wen import OFFICIAL_NOISE, TRUE_PARAMETERS
from smcpn.datasets.inventory import find_file

pytestmark = pytest.mark.numerics

needs_silverbox = pytest.mark.skipif(
    find_file("silverbox", "SNLS80mV.mat") is None,
    reason="SNLS80mV.mat not found: set SMCPN_DATA",
)


@pytest.fixture
def no_files(monkeypatch, tmp_path):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["silverbox", "emps", "bouc-wen"])
def test_an_unknown_split_is_refused(name):
    with pytest.raises(smcpn.InputError, match="split is 'mine': choose one of paper, official"):
        load_case(name, split="mine")


def test_bouc_wen_training_follows_the_official_recipe(no_files):
    data = smcpn.datasets.bouc_wen()
    record = data.official_train
    assert data.official_from == "generated"
    u = record.u[:, 0]
    assert len(u) == 5 * 8192
    np.testing.assert_array_equal(u[:8192], u[8192:16384])
    assert np.sqrt(np.square(u).mean()) == pytest.approx(50.0)
    spectrum = np.abs(np.fft.rfft(u[:8192]))
    hertz = np.arange(len(spectrum)) * 750 / 8192
    inside = (hertz >= 5.0) & (hertz <= 150.0)
    assert spectrum[~inside].max() < 1e-9 * spectrum.max()
    assert spectrum[inside].min() > 0.99 * spectrum.max()
    exact = smcpn.simulate(smcpn.models.bouc_wen, record, TRUE_PARAMETERS, observe="x", steps=20)
    noise = record.y - exact
    # The filters of the decimation take some of the noise.
    assert 0.85 * OFFICIAL_NOISE < noise.std() < OFFICIAL_NOISE


@pytest.mark.nightly
def test_bouc_wen_official_finds_the_products_without_any_file(no_files):
    case = load_case("bouc-wen", split="official")
    posterior = smcpn.identify(
        shortened(case, 4096).problem,
        method="ibis",
        solver=smcpn.EKF0(3, 8),
        particles=200,
        seed=1,
    )
    for name in ("gamma", "delta"):
        mean = posterior.weights @ (posterior["beta"] * posterior[name])
        assert mean == pytest.approx(1e3 * TRUE_PARAMETERS[name], rel=0.01)


@needs_silverbox
def test_silverbox_splits_are_the_benchmarks():
    records = smcpn.datasets.silverbox()
    full = records.full.y[:, 0]
    np.testing.assert_array_equal(records.official_train.y[:, 0], full[40650:105712])
    tests = {name: record.y[:, 0] for name, record in records.official_tests.items()}
    np.testing.assert_array_equal(tests["multisine"], full[105712:127400])
    np.testing.assert_array_equal(tests["arrow"], full[100:40575])
    np.testing.assert_array_equal(tests["arrow, no extrapolation"], full[100:32100])


@pytest.mark.nightly
@needs_silverbox
def test_the_data_ask_for_the_second_damping_and_it_predicts_better():
    evidence, rmse = {}, {}
    for model in ("duffing-offsets", "duffing-damping"):
        case = shortened(load_case("silverbox", model=model, split="official"), 4096)
        posterior = smcpn.identify(
            case.problem, method="ibis", solver=smcpn.EKF0(3, 8), particles=200, seed=1
        )
        evidence[model] = posterior.log_evidence
        case = replace(case, tests={"multisine": case.tests["multisine"][:4000]})
        rmse[model] = case.simulations(posterior)["multisine"].rmse_of_mean[0]
    assert evidence["duffing-damping"] > evidence["duffing-offsets"] + 100
    assert rmse["duffing-damping"] < rmse["duffing-offsets"] < 0.4e-3


@needs_silverbox
def test_the_models_of_the_silverbox_are_named():
    with pytest.raises(smcpn.InputError, match="duffing, duffing-offsets, duffing-damping"):
        load_case("silverbox", model="pendulum")
