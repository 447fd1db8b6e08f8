"""Parts of the benchmarks that a wrong figure could come from."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import smcpn
from benchmarks import executors
from benchmarks.executors import each, executing, option
from benchmarks.machine import machine
from benchmarks.rows import Row, absent, at_most, command, near
from benchmarks.scaling_problems import chain
from benchmarks.scaling_study import Study, Taken
from benchmarks.scaling_table import markdown, rows
from benchmarks.side_by_side import methods
from benchmarks.side_by_side.data import Data
from benchmarks.side_by_side.reference import Reference
from smcpn.cases.silverbox import DUFFING_PRIOR
from smcpn.datasets.models import duffing
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.signal import substep_inputs

STEPS = 4


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    u = 0.05 * np.convolve(rng.normal(size=60), np.ones(4) / 4, mode="same")
    record = smcpn.Record(u=u, y=0.1 * rng.normal(size=60), dt=1 / 610.35, hold="bandlimited")
    prior: Any = DUFFING_PRIOR
    return smcpn.Problem(duffing, record, observe="x", noise=1e-2, prior=prior)


@pytest.mark.numerics
@pytest.mark.nightly
@pytest.mark.parametrize("kernel", ["numba_scalar", "numba_lanes"])
def test_peers_have_the_same_likelihood(problem, kernel):
    record = problem.records[0]
    u = np.ascontiguousarray(substep_inputs(record, 2 * STEPS)[:, :, 0])
    y, h = record.y[1:, 0].copy(), record.interval / STEPS
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 70))
    log_likelihood = methods.import_module(f"{methods.HERE}.{kernel}").log_likelihood
    whole = log_likelihood(np.log(values), np.zeros((70, 2)), u, y, h, 1e-2)
    # Carried over a cut it adds up to the same.
    state = np.zeros((70, 2))
    parts = log_likelihood(np.log(values), state, u[:20], y[:20], h, 1e-2)
    parts = parts + log_likelihood(np.log(values), state, u[20:], y[20:], h, 1e-2)
    ours = build_likelihood(problem, smcpn.RK4(STEPS), threads=1).evaluate(values, 60)[1]
    stable = np.isfinite(ours)
    assert stable.sum() > 50
    np.testing.assert_allclose(parts[stable], whole[stable], rtol=1e-10)
    # They leave out what does not depend on the parameters.
    difference = (ours - whole)[stable]
    np.testing.assert_allclose(difference, difference[0], atol=1e-9 * np.abs(ours[stable]).max())


def test_data_survive_a_file(tmp_path):
    data = Data(np.ones((3, 9)), np.arange(3.0), 0.1, 1e-3, np.zeros(4), np.ones(4))
    data.save(tmp_path / "data.npz")
    loaded = Data.load(tmp_path / "data.npz")
    assert isinstance(loaded.h, float)
    for kept, value in zip(loaded, data, strict=True):
        np.testing.assert_array_equal(kept, value)


def test_whitened_errors_of_independent_draws():
    rng = np.random.default_rng(0)
    factor = np.tril(rng.normal(size=(4, 4))) + 2 * np.eye(4)
    reference = Reference(np.arange(4.0), factor @ factor.T, np.inf)
    squares = []
    for _ in range(200):
        draws = reference.mean + rng.normal(size=(50, 4)) @ factor.T
        error, _ = reference.whitened(draws.mean(axis=0), np.cov(draws.T))
        squares.append(np.mean(error**2))
    # 800 squares of standard normals over 50: standard error 5 %, checked at four.
    assert np.mean(squares) * 50 == pytest.approx(1.0, abs=0.2)
    _, spread = reference.whitened(reference.mean, 4.0 * reference.covariance)
    np.testing.assert_allclose(spread, 1.0)


def test_lines_are_those_of_code_in_the_marked_part(tmp_path):
    text = f'import a\n{methods.BEGIN}\n\ndef f(x):\n    """Doc.\n\n    More.\n    """\n'
    text += f'    # why\n    return g(\n        x, "text"\n    )\n\n{methods.END}\nb = 1\n'
    path = tmp_path / "user.py"
    path.write_text(text)
    assert methods.lines_of_code(path) == 4
    assert all(method.lines > 5 for method in methods.METHODS.values())


def test_absent_peer_is_an_import_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "emcee", None)
    monkeypatch.delitem(sys.modules, f"{methods.HERE}.emcee_stretch", raising=False)
    with pytest.raises(ImportError):
        methods.METHODS["emcee, numba"].prepared(tmp_path)


def test_slopes_of_a_power():
    sizes = [10, 100, 1000]
    # Twice the processor time of the wall time, and twice as many evaluations at the largest.
    taken = [
        Taken(2.0 * n**1.04, 4.0 * n**1.04 * k, k) for n, k in zip(sizes, (1, 1, 2), strict=True)
    ]
    study = Study("", "samples", sizes, taken, 1.0)
    assert study.slope == pytest.approx(1.04)
    assert study.last_slope == pytest.approx(1.04)
    assert study.evaluation_slope == pytest.approx(1.04)
    assert study.processor_slope == pytest.approx(1.04 + np.log10(2.0) / 2.0)
    assert study.met


def test_a_single_size_has_no_slope():
    study = Study("", "threads", [1], [Taken(1.0, 1.0)])
    used = [
        {"samples": n, "run_MB": mb, "record_bytes_per_sample": 8, "table_bytes_per_sample": 8}
        for n, mb in ((100, 4.0), (1000, 5.5))
    ]
    found = list(rows({"threads": [study]}, used))
    assert not any("slope" in row.name for row in found)
    assert found[-1] == Row("memory, longest less shortest, MB", 1.5, "<= 20", True)
    shown = markdown({"threads": [study]}, used, machine())
    assert "one size only" in shown
    assert "+1.5 MB from the shortest to the longest" in shown


STUDIES = {
    "right": lambda quick: [near("one", 1.0, 1.0 if quick else 2.0, 1e-9), Row("told", 3)],
    "absent": lambda quick: [absent("peer", "not installed"), at_most("x", np.nan, 1.0)],
}


def test_rows_are_all_that_json_prints_and_check_judges_them(capsys):
    assert command("Test.", STUDIES, ["--json", "--check", "right"]) == 1
    assert command("Test.", STUDIES, ["--json", "--check", "--quick", "right"]) == 0
    document = json.loads(capsys.readouterr().out.partition("}\n{")[0] + "}")
    assert document == {
        "rows": [
            {"name": "right: one", "value": 1.0, "target": "2 +- 1e-09", "met": False, "note": ""},
            {"name": "right: told", "value": 3, "target": "", "met": None, "note": ""},
        ]
    }


def test_what_is_not_measured_is_no_miss_but_nan_is(capsys):
    assert command("Test.", STUDIES, ["--json", "--check", "absent"]) == 1
    peer, diverged = json.loads(capsys.readouterr().out)["rows"]
    assert (peer["value"], peer["met"], peer["note"]) == (None, None, "not installed")
    assert (diverged["value"], diverged["met"]) == (None, False)


def test_a_study_without_its_data_is_a_row():
    def study(quick):
        yield Row("before", 1.0)
        raise smcpn.InputError("no file: fetch it")

    assert command("Test.", {"silverbox": study}, ["--check"]) == 0


def test_cases_are_in_order_whoever_ends_first():
    last = threading.Event()

    def ran(case):
        if case < 2:
            assert last.wait(30.0)
        else:
            last.set()
        # Cases of a case are run where it is.
        return case, list(each(lambda _: threading.get_ident(), range(2))), threading.get_ident()

    with ThreadPoolExecutor(3) as pool, executing(pool):
        found = list(each(ran, range(3)))
    assert [case for case, _, _ in found] == [0, 1, 2]
    assert all(inner == [own, own] for _, inner, own in found)
    assert len({own for _, _, own in found} - {threading.get_ident()}) == 3
    assert list(each(lambda _: threading.get_ident(), [0])) == [threading.get_ident()]


def test_rows_are_the_same_by_an_executor(monkeypatch, capsys):
    ran, addresses = [], []

    def squared(case):
        ran.append(threading.current_thread() is threading.main_thread())
        return float(np.random.default_rng(case).normal() ** 2)

    @contextmanager
    def opened(executor):
        addresses.append(executor)
        with ThreadPoolExecutor(2) as pool:
            yield pool if executor else None

    def study(quick):
        yield from (Row(f"seed {k}", value) for k, value in enumerate(each(squared, range(4))))

    monkeypatch.setattr(executors, "opened", opened)
    for name in executors.ONE_THREAD:
        monkeypatch.setenv(name, "1")
    found = []
    for arguments in ([], ["--executor", "threads"]):
        assert command("Test.", {"seeds": study}, ["--json", *arguments], executor=option()) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert ran == [True] * 4 + [False] * 4
    assert addresses == [None, "threads"]


def test_a_case_that_fails_fails_its_study():
    with (
        ThreadPoolExecutor(1) as pool,
        executing(pool),
        pytest.raises(ZeroDivisionError),
    ):
        list(each(lambda case: 1.0 / case, [1.0, 0.0, 2.0]))


def test_an_executor_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        command("Test.", STUDIES, ["--executor", "nobody"], executor=option())
    assert "executor is 'nobody'" in capsys.readouterr().err
    # Where nothing would use it, there is no such option.
    with pytest.raises(SystemExit, match="2"):
        command("Test.", STUDIES, ["--executor", "loky:2"])


def test_masses_in_a_row():
    problem = chain(2, 20)
    assert problem.ode.states == ("x0", "x1", "v0", "v1")
    values = dict.fromkeys(problem.names, 1.0)
    names = ("c0", "c1", "k0", "k1")
    theta = [values[name] for name in names]
    # x'' of the first: u does not reach it; of the last: u - k (x1 - x0) - c v1.
    rate = np.array(problem.ode.rhs([0.5, 2.0, 0.0, 1.0], [3.0], 0.0, theta)).ravel()
    np.testing.assert_allclose(rate, [0.0, 1.0, 1.5 - 0.5, 3.0 - 1.5 - 1.0])
