"""Batches by workers: the same bytes as at home, whatever happens to tasks."""

import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import count

import numpy as np
import pytest
from executors import UnreliableExecutor
from hypothesis import given
from hypothesis import strategies as st
from models import decay_problem
from scipy import stats

import smcpn
from smcpn.checkpoint.container import CheckpointWarning
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.kernel import Rows
from smcpn.codegen.target import Target, compiling_for
from smcpn.errors import ExecutorError, InputError
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.run import restore
from smcpn.smc.distributed import parts, tasks, workers
from smcpn.smc.distributed.engines import opened
from smcpn.smc.distributed.parts import Sender, Store
from smcpn.smc.distributed.workers import Workers, cut, distributed


@cache
def disturbed_problem():
    """A decay that noise disturbs, whose likelihood is estimated by a particle filter."""

    @smcpn.sde
    def disturbed(x, *, c, s):
        return -c * x, s

    y = np.random.default_rng(0).normal(size=30).cumsum() / 5 + 1.0
    prior = {"c": stats.lognorm(0.5), "s": stats.lognorm(0.5)}
    record = smcpn.Record(y=y, dt=0.2)
    return smcpn.Problem(disturbed, record, observe="x", noise=0.3, initial={"x": 1.0}, prior=prior)


def identified(**options):
    options = {"solver": smcpn.EKF0(order=2, steps=2), "progress": False} | options
    return smcpn.identify(decay_problem(), particles=100, seed=1, **options)


def assert_same(one: smcpn.Posterior, other: smcpn.Posterior) -> None:
    for name in ("theta", "log_weights", "log_likelihood"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert one.log_evidence == other.log_evidence
    assert repr(one.method) == repr(other.method)


@given(
    particles=st.integers(1, 20_000), lanes=st.sampled_from([8, 16, 64]), tasks=st.integers(1, 400)
)
def test_tasks_begin_at_lanes_and_none_has_a_single_particle(particles, lanes, tasks):
    places = cut(particles, lanes, tasks)
    assert [place.stop for place in places[:-1]] == [place.start for place in places[1:]]
    assert (places[0].start, places[-1].stop) == (0, particles)
    assert all(place.start % lanes == 0 for place in places)
    assert min(place.stop - place.start for place in places) > 1 or particles == 1
    assert len(places) <= max(tasks, -(-particles // workers.MOST_PARTICLES))


SOLVERS = [
    smcpn.EKF0(order=2, steps=2),
    smcpn.EKF1(order=2, steps=2),
    smcpn.AdaptiveEKF1(tolerance=1e-5),
    smcpn.Rosenbrock(tolerance=1e-5),
    smcpn.RK4(steps=2),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.kind)
@pytest.mark.parametrize("n", [1, 130])
def test_a_likelihood_is_the_same(executor, solver, n):
    problem = decay_problem()
    home = build_likelihood(problem, solver)
    away = distributed(home, Workers(executor))
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), n))
    values[n // 2] = 1e300
    for ours, theirs in zip(away.evaluate(values, 20), home.evaluate(values, 20), strict=True):
        assert np.ascontiguousarray(ours).tobytes() == theirs.tobytes()
    state = home.evaluate(values, 20)[0]
    for one, other in zip(
        *(each.advance(values, state, 20, 25) for each in (away, home)), strict=True
    ):
        assert np.array_equal(one, other, equal_nan=True)
    for begin in (None, state):
        ours, theirs = (one.accumulate(values, begin, 0, 25) for one in (away, home))
        assert all(map(np.array_equal, ours, theirs, [True, True]))
    assert (away.n_samples, away.n_steps) == (home.n_samples, home.n_steps)
    assert len(executor.tasks) >= 2


def test_a_diffusion_travels_without_kernel_or_rows(executor):
    problem = decay_problem()
    executor.loses = executor.forgets = 0.0
    home = build_likelihood(
        problem, smcpn.EKF1(order=2, steps=2, diffusion=1.0), likelihood="filtering"
    )
    away = distributed(home, Workers(executor))
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 70))
    for factor in (1.0, 2.0, 4.0):
        ours, theirs = (one.at_diffusion(factor).evaluate(values, 30) for one in (away, home))
        assert np.array_equal(ours[1], theirs[1])
    assert np.ptp([len(task.likelihood.content) for task in executor.tasks]) < 100
    assert len({one for task in executor.tasks for one in task.parts}) <= 4


def test_an_estimate_is_the_same(executor):
    problem, rng = disturbed_problem(), np.random.default_rng(0)
    home = build_estimate(problem, smcpn.RK4(2), None, "particle")
    away = distributed(home, Workers(executor)).with_state_particles(32)
    home = home.with_state_particles(32)
    values = problem.prior.natural(problem.prior.sample(rng, 33))
    keys = rng.integers(0, 2**64, (33, home.n_keys(home.n_samples)), dtype=np.uint64)
    assert (
        away.evaluate(values, 30, keys)[1].tobytes() == home.evaluate(values, 30, keys)[1].tobytes()
    )
    plain, own = away.with_look_ahead(False), home.with_look_ahead(False)
    assert (
        plain.evaluate(values, 30, keys)[1].tobytes() == own.evaluate(values, 30, keys)[1].tobytes()
    )
    ours = away.advance(values, home.start(values), 0, 30, keys)
    theirs = home.advance(values, home.start(values), 0, 30, keys)
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    ours, theirs = (one.accumulate(values, None, 0, 30, keys) for one in (away, home))
    assert all(map(np.array_equal, ours, theirs))
    assert away.suited(values[0]).look_ahead == home.suited(values[0]).look_ahead


@pytest.mark.parametrize(
    "method",
    ["ibis", "tempering", pytest.param("diffusion-tempering", marks=pytest.mark.nightly)],
)
def test_a_run_is_the_same(executor, method):
    options = {"method": method}
    if method == "diffusion-tempering":
        options |= {"likelihood": "filtering", "solver": smcpn.EKF1(order=2, diffusion=1.0)}
    before = replace(CLOCK)
    here = identified(**options)
    between = replace(CLOCK)
    assert_same(here, identified(**options, executor=executor))
    assert CLOCK.since(between).theta_steps == between.since(before).theta_steps
    assert len(executor.tasks) > 5


def test_a_run_with_an_estimate_is_the_same(executor):
    def run(**options):
        return smcpn.identify(
            disturbed_problem(), likelihood="particle", solver=smcpn.RK4(2), particles=60, seed=2,
            state_particles=32, progress=False, **options,
        )  # fmt: skip

    assert_same(run(), run(executor=executor))


def test_parts_go_to_each_worker_once():
    told = []
    with UnreliableExecutor() as executor:
        identified(method="tempering", executor=executor, progress=told.append)
        assert told[-1].workers == "workers 1 of 8"
        assert executor.carried == len({task.likelihood.needs for task in executor.tasks})


class Clock:
    """Processor time that a call of a likelihood takes, whatever it takes in truth."""

    def __init__(self, seconds):
        self.seconds, self.now = seconds, 0.0

    def __call__(self):
        self.now += self.seconds
        return self.now


@pytest.mark.parametrize(("n", "away"), [(64, False), (500, False), (1100, True)])
def test_small_browses_stay_at_home(executor, n, away):
    """A trial of 64 particles over 30 samples takes a second: more than 16 of them are sent."""
    problem = decay_problem()
    home = build_likelihood(problem, smcpn.RK4(2))
    team = Workers(executor, home_seconds=16.5, clock=Clock(1.0))
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), n))
    found = distributed(home, team).evaluate(values, 30)[1]
    assert found.tobytes() == home.evaluate(values, 30)[1].tobytes()
    assert bool(executor.tasks) == away


def test_a_run_of_small_browses_sends_none(executor, monkeypatch):
    monkeypatch.setattr(workers, "HOME_SECONDS", np.inf)
    assert_same(identified(), identified(executor=executor))
    assert not executor.tasks


class Deaf(UnreliableExecutor):
    """Does not answer the third task but when it comes again."""

    def submit(self, fn, /, *args):
        if isinstance(fn, tasks.Task) and len(self.tasks) == 2:
            self.tasks.append(fn)
            return Future()
        return super().submit(fn, *args)


def test_a_slow_task_is_submitted_again(monkeypatch):
    monkeypatch.setattr(workers, "SLOW_SECONDS", 0.01)
    monkeypatch.setattr(workers, "TICK_SECONDS", 0.01)
    problem = decay_problem()
    home = build_likelihood(problem, smcpn.RK4(2))
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 500))
    with Deaf() as executor:
        team = Workers(executor)
        away = distributed(home, team)
        for _ in range(2):
            assert np.array_equal(away.evaluate(values, 30)[1], home.evaluate(values, 30)[1])
        assert team.resubmitted >= 1


class Suspended(UnreliableExecutor):
    """Does not answer the first task of each batch but when it comes again."""

    def submit(self, fn, /, *args):
        if isinstance(fn, tasks.Task) and fn.number % 2 == 0:
            self.tasks.append(fn)
            return Future()
        return super().submit(fn, *args)


def test_the_only_task_of_a_batch_is_submitted_again(monkeypatch):
    monkeypatch.setattr(workers, "UNKNOWN_SECONDS", 0.01)
    monkeypatch.setattr(workers, "TICK_SECONDS", 0.01)
    home = build_likelihood(decay_problem(), smcpn.RK4(2))
    values = np.ones((2, len(decay_problem().names)))
    with Suspended() as executor:
        away = distributed(home, Workers(executor))
        assert np.array_equal(away.evaluate(values, 30)[1], home.evaluate(values, 30)[1])


class Nobody(UnreliableExecutor):
    """Has no workers."""

    _max_workers = 0

    def submit(self, fn, /, *args):
        return Future()


def test_a_cluster_without_workers_is_told_of_and_given_up(monkeypatch, caplog):
    for name in ("WARM_SECONDS", "TICK_SECONDS", "WORKERLESS_SECONDS"):
        monkeypatch.setattr(workers, name, 0.2 if name == "WORKERLESS_SECONDS" else 0.01)
    with Nobody() as executor, pytest.raises(ExecutorError, match=r"had no worker .*start some"):
        identified(executor=executor)
    assert [one.message for one in caplog.records] == [
        "the executor has no worker: start some, with the same smcpn installed"
    ]


class Strange(UnreliableExecutor):
    """Workers of other versions, or without this package."""

    def __init__(self, lacks=None, **others):
        super().__init__()
        self.lacks, self.others = lacks, others

    def answer(self, task):
        if self.lacks is not None:
            raise self.lacks
        driver = tuple((name, self.others.get(name, own)) for name, own in tasks.versions())
        return super().answer(replace(task, driver=driver))


def test_a_worker_with_another_version_is_refused_by_name(monkeypatch):
    match = rf"the worker .* has smcpn {smcpn.__version__}, not 9\.9: install the same smcpn"
    with Strange(smcpn="9.9") as executor, pytest.raises(ExecutorError, match=match):
        identified(executor=executor)
    with Strange(numpy="9.9") as executor:
        assert_same(identified(executor=executor), identified())
    monkeypatch.setattr(tasks, "RECEIVED", Store())
    monkeypatch.setattr(tasks.Witness, "holds", lambda *_: False)
    match = r"other numbers than the driver: has numpy .*, not 9\.9: install the same versions"
    with Strange(numpy="9.9") as executor, pytest.raises(ExecutorError, match=match):
        identified(executor=executor)


def test_a_worker_without_this_package_is_told_of():
    lacks = ModuleNotFoundError("No module named 'smcpn'")
    with (
        Strange(lacks) as executor,
        pytest.raises(ExecutorError, match=r"No module named 'smcpn'\): install the same smcpn"),
    ):
        identified(executor=executor)


class Wrong(UnreliableExecutor):
    """Workers whose answers are changed on the way."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def answer(self, task):
        answer = super().answer(task)
        return self.change(answer) if answer.found is not None else answer


WRONG = {
    "none": lambda answer: None,
    "number": lambda answer: 3.0,
    "list": lambda answer: replace(answer, found=[*answer.found]),
    "lists": lambda answer: replace(answer, found=tuple(one.tolist() for one in answer.found)),
    "fewer results": lambda answer: replace(answer, found=answer.found[:1]),
    "no results": lambda answer: replace(answer, found=()),
    "fewer particles": lambda answer: replace(
        answer, found=tuple(one[..., 1:] for one in answer.found)
    ),
    "another shape": lambda answer: replace(answer, found=tuple(one[None] for one in answer.found)),
    "single": lambda answer: replace(
        answer, found=tuple(one.astype("f4") for one in answer.found)
    ),
    "objects": lambda answer: replace(
        answer, found=tuple(one.astype(object) for one in answer.found)
    ),
    "a number without axis": lambda answer: replace(answer, found=(np.array(1.0),)),
    "worker": lambda answer: replace(answer, worker=None),
    "seconds": lambda answer: replace(answer, seconds="1"),
    "time": lambda answer: replace(answer, elapsed=np.nan),
    "steps": lambda answer: replace(answer, theta_steps=None),
    "error": lambda answer: replace(answer, error="failed"),
    "lacking": lambda answer: replace(answer, lacking=(1,)),
}  # fmt: skip


@pytest.mark.parametrize("change", WRONG)
def test_what_is_no_answer_is_one_sentence(change):
    home = build_likelihood(decay_problem(), smcpn.RK4(2))
    with (
        Wrong(WRONG[change]) as executor,
        pytest.raises(ExecutorError, match=r"the worker .* gives no answer to a task"),
    ):
        distributed(home, Workers(executor)).evaluate(np.ones((10, 3)), 10)


def test_a_worker_that_asked_before_the_parts_came_is_not_sent_them_again(executor):
    home = build_likelihood(decay_problem(), smcpn.RK4(2))
    team = Workers(executor)
    pieces = [tasks.Batch("evaluate", {"values": np.ones((2, 3)), "b": 5})] * 2
    message = team.sender.message(home.detached())
    gathering = workers._Gathering(team, message, pieces, lambda: None)
    asked = [workers._Sent(place, team.engine, False, place) for place in range(2)]
    team.numbers = count(2)
    gathering._supply(asked[0], "one")
    gathering._pending.clear()
    gathering._supply(asked[1], "one")
    assert [sent.carries for sent in gathering._pending.values()] == [False]
    gathering._supply(workers._Sent(0, team.engine, False, 4), "one")
    assert [sent.carries for sent in gathering._pending.values()] == [False, True]


def test_tasks_that_wait_for_parts_go_on_when_who_carried_them_is_late():
    problem = decay_problem()
    home = build_likelihood(problem, smcpn.RK4(2))
    with UnreliableExecutor() as executor:
        team = Workers(executor)
        message = team.sender.message(home.detached())
        pieces = [tasks.Batch("evaluate", {"values": np.ones((2, 2)), "b": 5})] * 2
        gathering = workers._Gathering(team, message, pieces, lambda: None)
        gathering._answers[0] = tasks.Answer("another")
        gathering._held.append(1)
        gathering._settle(workers._Sent(0, team.engine, carries=True), Future())
        assert [sent.place for sent in gathering._pending.values()] == [1]


def test_a_worker_keeps_as_many_bytes_as_it_may_and_what_came_together(monkeypatch):
    sender, store = Sender(), Store()
    rows = [_rows(10, seed) for seed in range(3)]
    messages = [sender.message([one]) for one in rows]
    sizes = [len(sender.part(message.needs[0])) for message in messages]
    monkeypatch.setattr(parts, "MOST_BYTES", sizes[0] + sizes[1])
    for message in messages[:2]:
        store.receive({message.needs[0]: sender.part(message.needs[0])})
    assert len(store.read(messages[0])[0]) == 10
    store.receive({messages[2].needs[0]: sender.part(messages[2].needs[0])})
    # The second was used longest ago.
    assert [store.read(message) is None for message in messages] == [False, True, False]
    assert store.n_bytes == sizes[0] + sizes[2]
    whole = sender.message([_rows(50, 3), _rows(60, 4)])
    store.receive({one: sender.part(one) for one in whole.needs})
    assert [len(one) for one in store.read(whole)] == [50, 60]
    assert store.read(messages[0]) is None


def _rows(n, seed):
    rng = np.random.default_rng(seed)
    return Rows(np.empty(1), rng.normal(size=(n, 3)), 1, inputs=rng.normal(size=(n, 2)))


def test_a_run_without_workers_stops_and_its_checkpoint_goes_on(tmp_path):
    file = tmp_path / "run.h5"
    with UnreliableExecutor() as executor:

        def lose(progress):
            executor.loses = float(progress.sample >= 10)

        with pytest.raises(ExecutorError, match=r"lost a task 6 times .*the worker is gone"):
            identified(
                method="ibis", executor=executor, checkpoint=file, checkpoint_every=0.0, block=4,
                progress=lose,
            )  # fmt: skip
    assert_same(smcpn.resume(file, progress=False), identified(method="ibis", block=4))


def test_a_worker_that_computes_other_bytes_is_refused_by_name(executor, monkeypatch):
    monkeypatch.setattr(tasks.Witness, "holds", lambda *_: False)
    with pytest.raises(ExecutorError, match=r"the worker .*:\d+ \(.*\) finds other numbers"):
        identified(executor=executor)


def test_a_processor_without_the_features_of_the_kernels_is_refused():
    host = Target("x86_64-unknown-linux-gnu", "znver3", "+avx2,+fma,-avx512f,+sha")
    assert host.missing(host) == []
    wider = host._replace(cpu="skylake-avx512", features="+avx2,+fma,+avx512f,+aes")
    assert wider.missing(host) == ["avx512f"]
    assert host.missing(wider) == []
    assert host._replace(triple="aarch64-apple-darwin").missing(wider) == ["aarch64-apple-darwin"]


def test_an_error_of_the_computation_is_raised_here(executor):
    problem = decay_problem()
    away = distributed(build_likelihood(problem, smcpn.RK4(2)), Workers(executor))
    with pytest.raises(ValueError, match="not of the program's shape"):
        away.evaluate(np.ones((10, 7)), 10)


class Client:
    """As dask's: its `submit` returns futures of another kind."""

    def submit(self): ...


@pytest.mark.parametrize("given", [Client(), "loki:3", "loky:0", "loky:²", "loky", 4, "dask"])
def test_what_is_no_executor_is_refused(given):
    with pytest.raises(InputError, match=r"^executor is"):
        identified(executor=given)


def test_an_executor_that_was_shut_down_is_refused():
    with ThreadPoolExecutor(1) as executor:
        pass
    with pytest.raises(InputError, match=r"^executor takes no tasks .*shutdown"):
        identified(executor=executor)


@pytest.mark.slow
def test_processes_that_are_killed_are_replaced(monkeypatch):
    pytest.importorskip("loky")
    with opened("loky:1") as executor:
        team = Workers(executor)
        problem = decay_problem()
        home = build_likelihood(problem, smcpn.RK4(2))
        away = distributed(home, team)
        values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 500))
        assert np.array_equal(away.evaluate(values, 30)[1], home.evaluate(values, 30)[1])
        for process in list(executor._processes.values()):
            os.kill(process.pid, signal.SIGKILL)
        assert np.array_equal(away.evaluate(values, 30)[1], home.evaluate(values, 30)[1])
        assert len(team.done) >= 2
        team.close()


def test_a_portable_kernel_is_compiled_for_a_fixed_processor():
    problem = decay_problem()
    with compiling_for("portable"):
        portable = build_likelihood(problem, smcpn.EKF0(order=2, steps=2))
    own = build_likelihood(problem, smcpn.EKF0(order=2, steps=2))
    assert portable.detached()._kernel.code.target == Target.portable()
    assert own.detached()._kernel.code.target == Target.host()
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 10))
    np.testing.assert_allclose(portable.total(values), own.total(values), rtol=1e-9)


def test_a_run_that_goes_on_with_another_processor_says_so(tmp_path, monkeypatch):
    file = tmp_path / "run.h5"
    here = identified(checkpoint=file, method="ibis")
    monkeypatch.setattr(restore, "target", lambda: Target("", "other", ""))
    with pytest.warns(CheckpointWarning, match="goes on on other-"):
        assert smcpn.resume(file, progress=False).theta.tobytes() == here.theta.tobytes()
    portable = tmp_path / "portable.h5"
    there = identified(checkpoint=portable, method="ibis", cpu="portable")
    monkeypatch.undo()
    assert smcpn.resume(portable, progress=False).theta.tobytes() == there.theta.tobytes()
