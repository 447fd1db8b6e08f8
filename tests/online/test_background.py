"""Tests of threads beside the updates of a stream, and of their priority."""

import os
import sys
import threading
import time

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.base import priority
from smcpn.errors import InputError
from smcpn.online import real_time, window
from smcpn.online.background import Background


def test_the_result_of_a_task_or_its_error_comes_back():
    def fails(work):
        raise ValueError("of the task")

    assert Background(lambda work: 3).result() == 3
    failed = Background(fails)
    failed.wait()
    assert failed.done
    with pytest.raises(ValueError, match="of the task"):
        failed.result()


def test_a_task_learns_that_it_is_given_up():
    def until(work):
        while not work.given_up:
            time.sleep(1e-3)
        return "ended"

    work = Background(until)
    assert not work.done
    work.given_up = True
    assert work.result() == "ended"


def test_tasks_one_after_the_other_share_a_thread_and_those_at_once_do_not():
    first = Background(lambda work: threading.get_ident()).result()
    for _ in range(100):
        # A thread is idle a moment after its task has ended.
        if Background(lambda work: threading.get_ident()).result() == first:
            break
        time.sleep(1e-3)
    else:
        pytest.fail("every task was given a new thread")
    gate = threading.Event()

    def waits(work):
        gate.wait()
        return threading.get_ident()

    both = [Background(waits), Background(waits)]
    gate.set()
    assert len({work.result() for work in both}) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    Background(lambda work: None).result()
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        work = Background(lambda work: 7)
        end = time.monotonic() + 20.0
        while not work.done and time.monotonic() < end:
            time.sleep(1e-3)
        os._exit(0 if work.done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_real_time_priority_is_refused_where_there_is_none(monkeypatch):
    monkeypatch.setattr(priority.sys, "platform", "darwin")
    with pytest.raises(InputError, match="needs Linux, this is darwin"), real_time():
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_who_may_not_take_real_time_priority_learns_how(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with pytest.raises(InputError, match="ulimit -r 1"), real_time():
        pass


def _allowed():
    try:
        with real_time():
            return True
    except InputError:
        return False


@pytest.mark.skipif(not _allowed(), reason="this user may not take real-time priority")
def test_updates_have_real_time_priority_and_rejuvenations_have_not():
    before, seen = os.sched_getscheduler(0), []
    with real_time():
        assert os.sched_getscheduler(0) == os.SCHED_FIFO
        gate = threading.Event()
        # More at once than threads are idle: some are started by this thread.
        works = [Background(lambda work: gate.wait() and os.sched_getscheduler(0))
                 for _ in range(4)]  # fmt: skip
        gate.set()
        seen = [work.result() for work in works]
    assert seen == [os.SCHED_OTHER] * 4
    assert os.sched_getscheduler(0) == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_thread_of_a_process_in_the_background_stays_there():
    seen = []

    def idle():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        priority.normal()
        seen.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=idle)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_IDLE]


def test_samples_that_come_while_a_window_is_begun_are_in_it(monkeypatch):
    @smcpn.ode
    def decay(x, u, *, k):
        return u - k * x

    rng, n = np.random.default_rng(0), 700
    u = rng.normal(size=n)
    record = smcpn.Record(u=u, y=np.zeros(n), dt=0.1)
    y = smcpn.simulate(decay, record, {"k": 1.0}, observe="x")[:, 0] + 0.05 * rng.normal(size=n)
    problem = smcpn.Problem(
        decay, smcpn.Record(u=u[:9], y=y[:9], dt=0.1), observe="x", noise=0.05,
        prior={"k": stats.lognorm(1)},
    )  # fmt: skip
    gate, prior = threading.Event(), window.FreeStart.prior

    def waits(self, mean, sd):
        if threading.current_thread() is not threading.main_thread():
            gate.wait()
        return prior(self, mean, sd)

    monkeypatch.setattr(window.FreeStart, "prior", waits)
    live = smcpn.Online(problem, particles=50, seed=1, budget=10.0, forget=2.0)
    windows = live._windows
    for k in range(60):
        live.update(u[k], y[k])
    assert windows.current.begin == 0
    gate.set()
    seen = 60
    while windows.current.begin == 0 and seen < n:
        live.update(u[seen], y[seen])
        seen += 1
        # Its thread has the lowest priority: a busy machine lets it wait.
        time.sleep(2e-3 if seen < 90 else 0.1)
    current = windows.current
    assert current.begin > 0
    known = current.likelihood.stream.history.samples(0, seen - current.begin)
    np.testing.assert_array_equal(known[1][:, 0], u[current.begin : seen])
    np.testing.assert_array_equal(known[2][:, 0], y[current.begin : seen])
    live.finish()


def test_a_window_that_cannot_be_begun_is_told_once(monkeypatch):
    @smcpn.ode
    def decay(x, u, *, k):
        return u - k * x

    record = smcpn.Record(u=np.ones(40), y=np.linspace(0.0, 1.0, 40), dt=0.1)
    problem = smcpn.Problem(
        decay, record[:5], observe="x", noise=0.1, prior={"k": stats.lognorm(1)}
    )
    live, prior = smcpn.Online(problem, particles=20, seed=1, forget=1.0), window.FreeStart.prior

    def fails(self, mean, sd):
        raise ValueError("no window")

    monkeypatch.setattr(window.FreeStart, "prior", fails)
    told = []
    for k in range(20):
        try:
            live.update(record.u[k], record.y[k])
        except ValueError as error:
            told.append(str(error))
            monkeypatch.setattr(window.FreeStart, "prior", prior)
    assert told == ["no window"]
    assert live._windows.current.begin > 0
