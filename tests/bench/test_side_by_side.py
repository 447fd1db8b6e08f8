"""The comparison with other packages: what it says of each, without any of them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.machine import described, machine
from benchmarks.rows import table
from benchmarks.side_by_side import __main__ as command
from benchmarks.side_by_side import worker
from benchmarks.side_by_side.accuracy import accuracy, comparison, rows
from benchmarks.side_by_side.drawing import comparison_figure
from benchmarks.side_by_side.methods import DRAWS, METHODS
from benchmarks.side_by_side.reference import Reference
from benchmarks.side_by_side.table import markdown
from benchmarks.side_by_side.table import rows as printed_rows

REFERENCE = Reference(np.arange(4.0), np.diag([1.0, 4.0, 9.0, 16.0]), 1e6)
OWN, SHORT, PEER, BY_HAND = (
    "smcpn IBIS",
    "smcpn from Laplace",
    "emcee, numba",
    "emcee, numba lanes",
)


def runs(draws, seconds, count, seed=0):
    """What a worker tells of runs, each of so many independent draws."""
    rng, scale = np.random.default_rng(seed), np.sqrt(np.diag(REFERENCE.covariance))
    samples = [REFERENCE.mean + scale * rng.normal(size=(draws, 4)) for _ in range(count + 1)]
    return {
        "seconds": [10.0 + seconds] + [seconds] * count,
        "processor_seconds": [20.0] + [2.0 * seconds] * count,
        "means": [s.mean(axis=0).tolist() for s in samples],
        "covariances": [np.cov(s.T).tolist() for s in samples],
        "failures": [],
        "peak_MB": 100.0,
        "size": draws,
    }


def document(measured):
    figures = rows(measured, REFERENCE, DRAWS)
    return {
        "reference": {
            "draws": 1e6,
            "largest_mean_difference": 0.01,
            "largest_sd_difference": 0.01,
        },
        "samples": 3072,
        "draws": DRAWS,
        "methods": figures,
        "comparison": comparison(figures),
        "machine": machine(),
    }


def test_independent_draws_are_worth_their_number():
    found = accuracy(runs(300, 1.0, 149), REFERENCE)
    assert found["draws_se"] == pytest.approx(found["draws"] * np.sqrt(2.0 / 1200))
    assert found["draws"] == pytest.approx(300, abs=4.0 * found["draws_se"])


def test_a_mean_that_is_off_is_worth_few_draws():
    shifted = runs(100_000, 1.0, 2)
    shifted["means"] = [np.add(m, [0.1, 0.2, 0.3, 0.4]).tolist() for m in shifted["means"]]
    # A tenth of a standard deviation everywhere, and nothing of the other half of the squares.
    found = accuracy(shifted, REFERENCE)
    assert found["mean_error"] == pytest.approx(0.1, rel=0.1)
    assert found["draws"] == pytest.approx(200, rel=0.1)


def test_ratio_is_of_times_at_equal_accuracy():
    figures = rows(
        {OWN: runs(1000, 0.5, 99), PEER: runs(250, 4.0, 99), BY_HAND: runs(250, 1.0, 1)},
        REFERENCE,
        DRAWS,
    )
    for name in (OWN, PEER):
        values = figures[name]
        assert values["equal_seconds"] == values["seconds"] * DRAWS / values["draws"]
    # The accuracy is the sampler's, told by the row with more runs.
    assert figures[BY_HAND]["draws"] == figures[PEER]["draws"]
    assert figures[BY_HAND]["accuracy_runs"] == 100
    plain, expert = comparison(figures)
    assert (plain["fastest_peer"], expert["fastest_peer"]) == (PEER, BY_HAND)
    # 4 s instead of 0.5 s for a quarter of the draws; 800 squares each: 5 % standard error.
    assert plain["ratio"] == pytest.approx(32.0, rel=0.2)
    assert expert["ratio"] == pytest.approx(8.0, rel=0.2)
    # Every row has two processors at work.
    assert plain["processor_ratio"] == pytest.approx(plain["ratio"])


def test_another_posterior_is_not_compared():
    name = "smcpn IBIS, EKF0 marginal"
    assert not METHODS[name].same_likelihood
    figures = rows({name: runs(100, 0.1, 3), OWN: runs(200, 0.5, 3)}, REFERENCE, DRAWS)
    assert "equal_seconds" not in figures[name]
    assert figures[name]["accuracy_runs"] == 4
    assert comparison(figures) == []


def test_failures_have_a_row_that_says_so():
    measured = {
        OWN: runs(1000, 0.5, 3),
        SHORT: {**runs(1000, 0.5, 3), "failures": ["seed 4: singular"]},
        PEER: {"failed": "the package emcee is not installed"},
        BY_HAND: {**runs(10, 1.0, 0), "failures": ["seed 1: it diverged"]},
    }
    text = table(printed_rows(document(measured)))
    assert re.search(r"emcee, numba, s at .* the package emcee is not installed", text)
    assert re.search(r"emcee, numba lanes, s at .* seed 1: it diverged", text)
    assert "failed, seed 4: singular" in text
    assert "no figures: the package emcee is not installed" in markdown(document(measured))
    assert " / " not in text
    json.dumps(document(measured))


def test_table_and_figure_name_every_method():
    figures = document({OWN: runs(1000, 0.5, 3), PEER: runs(250, 4.0, 3)})
    text = table(printed_rows(figures))
    assert all(name in text for name in (OWN, PEER))
    page = markdown(figures)
    assert described(figures["machine"]) in page
    assert all(f"| {name} |" in page for name in (OWN, PEER))
    panel = comparison_figure(figures).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == [PEER, OWN]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "ended with -9: no message"),
        ("raise RuntimeError('no such thing')", "ended with 1: RuntimeError: no such thing"),
        ("import time; time.sleep(60)", "ended after 0.5 s"),
    ],
)
def test_a_crash_ends_one_row_only(monkeypatch, tmp_path, program, reason):
    run = subprocess.run
    monkeypatch.setattr(
        command.subprocess,
        "run",
        lambda _, **options: run([sys.executable, "-c", program], **options),
    )
    limit = 0.5 if "sleep" in program else 60.0
    measured = command.measure(OWN, tmp_path / "data.npz", 10, 1, limit)
    assert reason in measured["failed"]


def test_worker_goes_on_after_a_seed_that_fails(monkeypatch, tmp_path):
    def prepared(method, path):
        def run(seed, size):
            if seed == 1:
                raise np.linalg.LinAlgError("singular")
            return np.random.default_rng(seed).normal(size=(size, 4)), np.full(size, 1.0 / size)

        return run

    monkeypatch.setattr(worker.METHODS[PEER].__class__, "prepared", prepared)
    measured = worker.measured(PEER, tmp_path, 50, 3)
    assert measured["failures"] == ["seed 1: singular"]
    assert len(measured["seconds"]) == len(measured["means"]) == 3
    assert np.shape(measured["covariances"]) == (3, 4, 4)


def test_absent_package_is_named(monkeypatch, tmp_path):
    def prepared(method, path):
        raise ImportError("no", name="emcee")

    monkeypatch.setattr(worker.METHODS[PEER].__class__, "prepared", prepared)
    found = worker.measured(PEER, tmp_path, 50, 3)
    assert found == {"failed": "the package emcee is not installed"}
    assert rows({PEER: found}, REFERENCE, DRAWS) == {PEER: found}
