from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy import signal

import smcpn
from smcpn import InputError
from smcpn.cli.cases.bouc_wen import INTEGRATOR_ERROR
from smcpn.datasets.bouc_wen import (
    DECIMATIONS,
    SWEEP_DECIMATIONS,
    TRUE_PARAMETERS,
    undecimated,
)
from smcpn.datasets.inventory import find_file
from smcpn.datasets.models import bouc_wen


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("empty")
    patch.setenv("SMCPN_DATA", str(folder))
    patch.chdir(folder)
    try:
        return smcpn.datasets.bouc_wen()
    finally:
        patch.undo()


@pytest.mark.slow
def test_bouc_wen_training_follows_the_recipe(generated):
    train = generated.paper_train
    assert len(train) == 12288
    assert train.dt == 1 / 4096
    assert np.abs(train.u).max() == pytest.approx(208.0, rel=0.02)
    exact = smcpn.simulate(bouc_wen, train, TRUE_PARAMETERS, observe="v'", steps=8)
    noise = train.y - exact
    assert noise.std() == pytest.approx(generated.noise, rel=0.03)
    assert generated.noise == pytest.approx(0.05 * np.sqrt(np.mean(exact**2)), rel=1e-3)
    spectrum = np.abs(np.fft.rfft(train.u[:, 0] * np.hanning(len(train))))
    frequency = np.fft.rfftfreq(len(train), 1 / 4096)
    assert spectrum[frequency > 105].max() < 1e-3 * spectrum.max()
    ramp = np.abs(train.u[:410]).max() / np.abs(train.u).max()
    assert ramp < 0.45


def test_bouc_wen_is_generated_the_same_each_time(generated):
    assert generated.tests_from == "generated"
    again = smcpn.datasets.bouc_wen()
    assert again.paper_train.y.tobytes() == generated.paper_train.y.tobytes()
    other = smcpn.datasets.bouc_wen(seed=1)
    assert other.paper_train.y.tobytes() != generated.paper_train.y.tobytes()


def test_bouc_wen_generated_tests(generated):
    multisine, sweep = generated.multisine, generated.sweep
    assert len(sweep) == 153000
    u = multisine.u[:8192, 0]
    assert np.sqrt(np.mean(u**2)) == pytest.approx(50.0)
    spectrum, frequency = np.abs(np.fft.rfft(u)), np.fft.rfftfreq(8192, 1 / 750)
    assert spectrum[(frequency < 4.9) | (frequency > 150.1)].max() < 1e-9 * spectrum.max()
    assert np.isnan(multisine.y[:8192]).all()
    assert np.isfinite(multisine.y[8192:]).all()
    np.testing.assert_allclose(sweep.u[750, 0], 40 * np.sin(2 * np.pi * (18 + 1 / 12)), atol=1e-9)


@pytest.mark.slow
def test_bouc_wen_equations_reproduce_the_official_tests():
    """At the true parameters, band-limited: the floors that the benchmark's own filter leaves."""
    if find_file("bouc_wen", "test.h5") is None:
        pytest.skip("SMCPN_DATA does not lead to Bouc-Wen's test.h5")
    data = smcpn.datasets.bouc_wen()
    for record, floor in ((data.multisine, 2.4e-7), (data.sweep, 2.56e-6)):
        y = smcpn.simulate(bouc_wen, record, TRUE_PARAMETERS, observe="x", steps=20)
        assert np.sqrt(np.nanmean((y - record.y) ** 2)) == pytest.approx(floor, rel=0.05)


@pytest.mark.parametrize("factors", [DECIMATIONS, SWEEP_DECIMATIONS])
def test_the_filters_of_a_decimation_are_undone(factors):
    t = np.arange(8192 * 20) / 15000
    fine = np.sin(2 * np.pi * 18.0 * t + 20 * t**2) + 0.1 * np.sin(2 * np.pi * 140.0 * t)
    y = fine
    for factor in factors:
        taps = signal.firwin(31, 1 / factor, window="hamming")
        y = np.convolve(np.pad(y, 15), taps, "valid")[::factor]
    inner = slice(400, -400)
    known = fine[::20][inner]
    assert np.abs(y[inner] - known).max() > 5e-4
    np.testing.assert_allclose(undecimated(y, factors)[inner], known, atol=2e-5)


@pytest.mark.slow
def test_without_their_filters_the_official_tests_differ_by_their_integrator():
    if find_file("bouc_wen", "test.h5") is None:
        pytest.skip("SMCPN_DATA does not lead to Bouc-Wen's test.h5")
    data = smcpn.datasets.bouc_wen(unfiltered=True)
    for record in (data.multisine, data.sweep):
        y = smcpn.simulate(bouc_wen, record, TRUE_PARAMETERS, observe="x", steps=20)
        error = np.sqrt(np.nanmean((y - record.y) ** 2))
        assert error == pytest.approx(INTEGRATOR_ERROR, rel=0.15)


@pytest.mark.slow
def test_generated_records_have_no_filter_to_undo(generated, tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    again = smcpn.datasets.bouc_wen(unfiltered=True)
    for name in ("official_train", "multisine", "sweep"):
        assert getattr(again, name).y.tobytes() == getattr(generated, name).y.tobytes()


def test_broken_test_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    (tmp_path / "test.h5").write_text("not hdf5")
    with pytest.raises(InputError, match="cannot be read as the Bouc-Wen tests"):
        smcpn.datasets.bouc_wen()
    with h5py.File(tmp_path / "test.h5", "w") as file:
        file["multisine/u"] = [1.0]
    with pytest.raises(InputError, match="cannot be read as the Bouc-Wen tests"):
        smcpn.datasets.bouc_wen()


def test_silverbox_splits(silverbox_file):
    records = smcpn.datasets.silverbox()
    assert len(records.full) == 131072
    assert len(records.paper_train) == 3072
    assert records.paper_train.t[0] == pytest.approx(49278 * 2**14 / 1e7)
    assert np.abs(records.full.u[49270:49278]).max() < 1e-3
    assert np.isnan(records.paper_test.y[:1000]).all()
    assert len(records.paper_test) == 40000


def test_missing_silverbox_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"get it with the package nonlinear-benchmarks") as caught:
        smcpn.datasets.silverbox()
    assert "\n" not in str(caught.value)


def test_wrong_silverbox_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    (tmp_path / "SNLS80mV.mat").write_bytes(b"nonsense" * 100)
    with pytest.raises(InputError, match="cannot be read as the Silverbox record"):
        smcpn.datasets.silverbox()
