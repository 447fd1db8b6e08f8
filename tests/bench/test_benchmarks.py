"""Parts of the benchmarks that a wrong figure could come from."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import smcpn
from benchmarks import executors
from benchmarks.all import COMMANDS
from benchmarks.executors import each, executing
from benchmarks.rows import (
    Row,
    absent,
    at_least,
    at_most,
    between,
    least_of,
    most_of,
    near,
    reached,
    rms_of,
    share_error,
)
from benchmarks.scaling import chain
from benchmarks.scaling_curves import Curve, Taken, markdown
from benchmarks.side_by_side import methods
from benchmarks.side_by_side.data import Data
from benchmarks.side_by_side.reference import Reference
from benchmarks.study import Passage, Study, run, studies_of
from benchmarks.study import study as named
from benchmarks.turn import ALWAYS, JUDGED, TURNS, studies, turn
from smcpn.cli.cases.silverbox import DUFFING_PRIOR
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
    curve = Curve("", "samples", sizes, taken, 1.0)
    assert curve.slope == pytest.approx(1.04)
    assert curve.last_slope == pytest.approx(1.04)
    assert curve.evaluation_slope == pytest.approx(1.04)
    assert curve.processor_slope == pytest.approx(1.04 + np.log10(2.0) / 2.0)
    # Twice the evaluations at the largest size cost processor time, by which it is judged.
    assert not next(curve.rows()).met
    plain = [Taken(1.0, 3.0 * n**1.04) for n in sizes]
    assert next(Curve("", "samples", sizes, plain, 1.0).rows()).met


def test_a_single_size_has_no_slope():
    curve = Curve("", "threads", [1], [Taken(1.0, 1.0)])
    assert not any("slope" in row.name for row in curve.rows())
    assert "one size only" in markdown([curve])


STUDIES = [
    Study("right", lambda quick: [near("one", 1.0, 1.0 if quick else 2.0, 1e-9), Row("told", 3)]),
    Study("absent", lambda quick: [absent("peer", "not installed"), at_most("x", np.nan, 1.0)]),
    Study("slow", lambda runs: [Row("runs", runs)], full=100, quick=None),
]


def written(path, *arguments, studies=STUDIES):
    """Rows that a command writes, and its exit code."""
    code = run("Test.", studies, ["--json", str(path / "rows.json"), *arguments])
    return json.loads((path / "rows.json").read_text())["rows"], code


def test_rows_are_written_and_judged(tmp_path):
    rows, code = written(tmp_path, "--check", "right")
    assert code == 1
    assert rows == [
        {"name": "right: one", "value": 1.0, "target": "2 +- 1e-09", "met": False, "note": ""},
        {"name": "right: told", "value": 3, "target": "", "met": None, "note": ""},
    ]
    assert written(tmp_path, "--check", "--quick", "right")[1] == 0


def test_what_is_not_measured_is_no_miss_but_nan_is(tmp_path):
    (peer, diverged), code = written(tmp_path, "--check", "absent")
    assert code == 1
    assert (peer["value"], peer["met"], peer["note"]) == (None, None, "not installed")
    assert (diverged["value"], diverged["met"]) == (None, False)


def test_numbers_of_numpy_are_those_of_json(tmp_path):
    found = [Study("n", lambda quick: [Row("x", np.float32(0.5)), at_least("y", np.int64(2), 1)])]
    rows, _ = written(tmp_path, studies=found)
    assert [(row["value"], row["met"]) for row in rows] == [(0.5, None), (2, True)]


def test_a_study_without_its_data_is_a_row():
    def study(quick):
        yield Row("before", 1.0)
        raise smcpn.InputError("no file: fetch it")

    assert run("Test.", [Study("silverbox", study)], ["--check"]) == 0


def test_a_study_may_have_no_quick_form_and_sizes_of_its_own(tmp_path):
    rows, _ = written(tmp_path, "slow")
    assert rows[0]["value"] == 100
    assert written(tmp_path, "--quick", "slow")[0] == []


def test_studies_are_listed_with_their_first_line(capsys):
    @named("one", full=3, quick=1)
    def one(size):
        """Return so many.

        More.
        """
        return [Row("", size)]

    assert run("Test.", [one], ["--list"]) == 0
    assert capsys.readouterr().out == "one: Return so many.\n"
    assert [row.value for row in one(one.quick)] == [1]


def test_an_unknown_study_is_refused(capsys):
    with pytest.raises(SystemExit):
        run("Test.", STUDIES, ["write"])
    assert "right" in capsys.readouterr().err


def test_passages_make_a_page(tmp_path):
    found = [Study("a", lambda quick: [Passage("first\n"), Passage("second\n")])]
    assert run("Test.", found, ["--markdown", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == "# Measured\n\nfirst\n\nsecond\n"


def test_every_part_has_studies_of_different_names():
    for package in ("closures", "discovery", "process_noise", "stiff", "trust"):
        command = import_module(f"benchmarks.{package}.__main__")
        found = studies_of(*(f"benchmarks.{package}.{part}" for part in command.PARTS))
        assert len({one.name for one in found}) == len(found) >= len(command.PARTS)
        assert all(one.summary for one in found)


def test_few_runs_may_be_off_by_what_chance_leaves_of_them():
    error = share_error(0.1, 100)
    assert error == pytest.approx(0.03)
    assert at_most("share", 0.195, 0.1, se=error).met
    assert not at_most("share", 0.205, 0.1, se=error).met
    assert at_least("share", 0.005, 0.1, se=error).met
    assert not at_least("share", np.nan, 0.1, se=error).met
    low = between("share", -0.01, 0.1, 0.2, se=error)
    assert (low.met, low.target) == (False, "0.1 to 0.2 within 3.3 se of 0.03")


def test_limits_of_few_runs_are_missed_once_in_a_thousand():
    rng = np.random.default_rng(0)
    hits = rng.binomial(20, 0.05, 200_000) / 20
    assert 1e-4 < np.mean(hits > most_of(0.05, 20, 40)) <= 1.2e-3
    assert 1e-4 < np.mean(1.0 - hits < least_of(0.95, 20, 40)) <= 1.2e-3
    assert (most_of(0.05, 40, 40), least_of(0.95, 40, 40)) == (0.05, 0.95)
    rms = np.sqrt(np.mean(np.square(rng.normal(size=(200_000, 4))), axis=1))
    assert np.mean(rms > rms_of(1.25, 4, 20)) == pytest.approx(1e-3, rel=0.3)
    assert rms_of(1.25, 20, 20) == 1.25


def test_a_known_miss_is_judged_by_what_was_reached():
    aim = at_least("ratio", 9.3, 10.0)
    assert reached(aim, 9.0, most=False).met
    assert not reached(aim, 9.5, most=False).met
    assert "see docs/benchmarks.md" in reached(aim, 9.0, most=False).note
    assert reached(at_least("ratio", 11.0, 10.0), 9.0, most=False).target == ">= 10"


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


def test_rows_are_the_same_by_an_executor(monkeypatch, tmp_path):
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
    seeds = [Study("seeds", study)]
    found = [
        written(tmp_path, *arguments, studies=seeds)
        for arguments in ([], ["--executor", "threads"])
    ]
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
        run("Test.", STUDIES, ["--executor", "nobody"])
    assert "executor is 'nobody'" in capsys.readouterr().err


def test_masses_in_a_row():
    problem = chain(2, 20)
    assert problem.ode.states == ("x0", "x1", "v0", "v1")
    values = dict.fromkeys(problem.names, 1.0)
    names = ("c0", "c1", "k0", "k1")
    theta = [values[name] for name in names]
    # x'' of the first: u does not reach it; of the last: u - k (x1 - x0) - c v1.
    rate = np.array(problem.ode.rhs([0.5, 2.0, 0.0, 1.0], [3.0], 0.0, theta)).ravel()
    np.testing.assert_allclose(rate, [0.0, 1.0, 1.5 - 0.5, 3.0 - 1.5 - 1.0])


def test_every_command_and_study_has_its_turn():
    named = [text.split() for group in TURNS.values() for text in group]
    assert {command for command, *_ in named} | set(ALWAYS) == set(COMMANDS)
    for package in ("trust", "discovery"):
        parts = import_module(f"benchmarks.{package}.__main__").PARTS
        found = studies_of(*(f"benchmarks.{package}.{part}" for part in parts))
        chosen = [name for command, *names in named if command == package for name in names]
        assert sorted(chosen) == sorted(one.name for one in found if one.quick is not None)
    rounds = [turn(len(TURNS) * 50 + k) for k in range(len(TURNS))]
    assert rounds == list(TURNS)
    assert [studies(name)[0].name for name in TURNS] == [g[0].split()[0] for g in TURNS.values()]
    assert set(TURNS) >= JUDGED
