"""Lines of status: who sees them, how often, and what an interrupt keeps."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import smcpn
from smcpn.base import status as module
from smcpn.base.status import routed, status, tell
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.search import INTERRUPTED
from smcpn.report.page import Gallery
from tests.models import decay_problem


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def said(clock, capsys, wanted):
    with status(wanted) as say:
        for second in range(35):
            clock[0] = float(second)
            say(f"at {second}")
    return capsys.readouterr().err.splitlines()


def test_a_log_has_a_line_every_ten_seconds_if_it_is_asked_for(clock, capsys):
    assert said(clock, capsys, True) == ["at 10", "at 20", "at 30"]


@pytest.mark.parametrize("wanted", [None, False])
def test_a_log_is_left_alone_else(clock, capsys, wanted):
    assert said(clock, capsys, wanted) == []


def test_what_runs_inside_shows_its_text_in_the_same_line(clock, capsys):
    with status(True):
        clock[0] = 12.0
        with status(None) as say:
            say("inside")
    assert capsys.readouterr().err == "inside\n"


def test_parts_tell_the_line_of_the_whole():
    texts = []
    tell("nobody listens")
    with routed(texts.append):
        smcpn.maximise(decay_problem(), solver=smcpn.RK4(steps=2), starts=2)
        Gallery().picture("empty", lambda: Figure(figsize=(1.0, 1.0)), "", reflow=False)
    assert any(text.startswith("search: ") for text in texts)
    assert texts[-1] == "report: empty"


def test_a_notebook_has_one_output_that_is_replaced_and_emptied(monkeypatch):
    shown = []

    class Handle:
        def update(self, bundle, raw):
            assert raw
            shown.append(bundle["text/plain"])

    def display(bundle, raw, display_id):
        assert raw
        assert display_id
        shown.append(bundle["text/plain"])
        return Handle()

    monkeypatch.setattr(module, "in_notebook", lambda: True)
    monkeypatch.setattr(module, "import_module", lambda name: SimpleNamespace(display=display))
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "SHOWN_EVERY", 0.0)
    with status(None) as say:
        say("one")
        say("two")
    assert shown[-3:] == ["one", "two", ""]


def test_what_says_nothing_is_shown_to_be_at_work(monkeypatch):
    shown = threading.Event()
    monkeypatch.setattr(module, "is_watched", lambda: True)
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module.StatusLine, "_show", lambda line: shown.set())
    with status(None):
        assert shown.wait(10.0)


def test_an_interrupted_search_keeps_its_highest_point(monkeypatch):
    expansion, calls = LogDensity.expansion, []

    def interrupted(self, theta, share=1.0):
        calls.append(theta)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return expansion(self, theta, share)

    monkeypatch.setattr(LogDensity, "expansion", interrupted)
    found = smcpn.maximise(decay_problem(), solver=smcpn.RK4(steps=2), starts=2)
    assert (found.success, found.reason) == (False, INTERRUPTED)
    density = LogDensity(found.function)
    highest = max(density.value(np.concatenate(calls[:3])))
    assert found.log_density == pytest.approx(highest)
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        smcpn.laplace(decay_problem(), solver=smcpn.RK4(steps=2), starts=2)
