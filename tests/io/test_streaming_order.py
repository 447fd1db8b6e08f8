"""Times: stated, numbered or counted; what is new, doubled, late, missing or unbelievable."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from small_stream import CHANNELS, Pieces, online, samples_in

import smcpn
import smcpn.io.axis
import smcpn.io.stream
from smcpn.errors import InputError
from smcpn.io.axis import DOUBTFUL_GAP, LONGEST_GAP, TimeAxis
from smcpn.io.channels import Sample
from smcpn.io.events import Event
from smcpn.io.parse import LineParser
from smcpn.io.sources import Lines, Samples
from smcpn.io.stream import Clock, Stream
from tests.models import OSCILLATOR_DT, oscillator_problem

GRID = smcpn.Record(u=np.zeros(4), y=np.zeros(4), dt=OSCILLATOR_DT)
IRREGULAR = smcpn.Record(u=np.zeros(4), y=np.zeros(4), t=[0.0, 0.1, 0.3, 0.4])


def sample(line: int = 1, t: float | None = None, number: int | None = None) -> Sample:
    return Sample(line, t, np.zeros(1), np.zeros(1), number)


def streamed(given_samples, live: smcpn.Online | None = None, replays: bool = False):
    """The identification, the times of the samples that it took, and the events."""
    live, events = online() if live is None else live, []
    stream = Stream(live, Samples(given_samples, replays), events.append)
    times = [t for _, t, _ in stream]
    return live, times, [event for event in events if event.kind != "end"]


def told(events: list[Event]) -> list[tuple[str, int | None, int]]:
    return [(event.kind, event.line, event.count) for event in events]


FAR = OSCILLATOR_DT * (DOUBTFUL_GAP + 2)


@pytest.mark.parametrize(
    ("times", "placed", "events"),
    [
        ([0.0, 0.1, 0.2], [0.0, 0.1, 0.2], []),
        ([0.0, 0.1, 0.1 + 1e-12, 0.2], [0.0, 0.1, 0.2], [("duplicate", 3, 1)]),
        ([0.0, 0.1, 0.14, 0.2], [0.0, 0.1, 0.2], [("duplicate", 3, 1)]),
        ([0.0, 0.1, 0.0, 0.1, 0.2], [0.0, 0.1, 0.2], [("duplicate", 3, 2)]),
        ([0.0, 0.1, 0.4], [0.0, 0.1, 0.4], [("gap", 3, 2)]),
        ([0.0, 0.3, 0.1, 0.2, 0.3, 0.4], [0.0, 0.3, 0.4],
         [("gap", 2, 2), ("late", 3, 2), ("duplicate", 5, 1)]),
        ([0.0, 0.13, 0.24, 0.3], [0.0, 0.13, 0.24, 0.3], []),
        ([0.0, 1e9, 0.1, 0.2], [0.0, 0.1, 0.2], [("bad-time", 2, 1)]),
        ([0.0, 1e9, 0.0, 0.1], [0.0, 0.1], [("duplicate", 3, 1), ("bad-time", 2, 1)]),
        (
            [0.0, FAR, FAR + OSCILLATOR_DT],
            [0.0, FAR, FAR + OSCILLATOR_DT],
            [("gap", 2, DOUBTFUL_GAP + 1)],
        ),
        # A clock that is set forward, and a wrong time just after it.
        (
            [0.0, FAR, 5 * FAR, FAR + OSCILLATOR_DT, FAR + 2 * OSCILLATOR_DT],
            [0.0, FAR, FAR + OSCILLATOR_DT, FAR + 2 * OSCILLATOR_DT],
            [("bad-time", 3, 1), ("gap", 2, DOUBTFUL_GAP + 1)],
        ),
        # Two wrong times, one after the other.
        ([0.0, 9 * FAR, 5 * FAR, 0.1], [0.0, 0.1], [("bad-time", 2, 1), ("bad-time", 3, 1)]),
        ([0.0, FAR, 9 * FAR, 5 * FAR, 0.1], [0.0, 0.1], [("bad-time", k, 1) for k in (2, 3, 4)]),
        # Samples that are all far from each other.
        (
            [0.0, FAR, 2 * FAR, 3 * FAR],
            [0.0, FAR, 2 * FAR],
            [("gap", 2, DOUBTFUL_GAP + 1), ("gap", 3, DOUBTFUL_GAP + 1), ("bad-time", 4, 1)],
        ),
        ([0.0, 1e9], [0.0], [("bad-time", 2, 1)]),
    ],
)  # fmt: skip
def test_policy(times, placed, events):
    live, taken, found = streamed([(t, 1.0, 0.0) for t in times])
    assert taken == placed
    assert told(found) == events
    missing = sum(event.count for event in found if event.kind == "gap")
    assert live.sample == len(placed) + missing


def test_what_is_missing_is_put_in_and_what_is_skipped_is_not():
    live, _, events = streamed(
        [(0.0, 1, 0.1), (0.1, 1, np.nan), (0.1, 9, 9), (0.35, 2, 0.2), (0.2, 9, 9)]
    )
    np.testing.assert_allclose(
        samples_in(live),
        [(0.0, 1, 0.1), (0.1, 1, np.nan), (0.2, 1.5, np.nan), (0.3, 2, 0.2)],
    )
    assert told(events) == [("duplicate", 3, 1), ("gap", 4, 1), ("late", 5, 1)]


def test_a_clock_that_is_set_back_is_told_of_while_its_samples_come(monkeypatch):
    monkeypatch.setattr(smcpn.io.stream, "MANY_SKIPPED", 3)
    back = [(t, 9.0, 9.0) for t in np.arange(-5.0, -1.0, 0.1).tolist()]
    given_samples = [(0.0, 1.0, 0.1), *back, (0.1, 1.0, 0.1), (0.0, 9.0, 9.0), (0.2, 1.0, 0.1)]
    live, times, events = streamed(given_samples)
    assert (times, live.sample) == ([0.0, 0.1, 0.2], 3)
    assert [event.count for event in events] == [3, 30, 7, 1]
    set_back = ["was the clock of the source set back?" in event.message for event in events]
    assert set_back == [True, True, False, False]


def test_a_gap_beyond_the_longest_is_another_experiment():
    far = OSCILLATOR_DT * (LONGEST_GAP + 2)
    with pytest.raises(InputError, match="begin a new Online"):
        streamed([(0.0, 1, 0), (far, 1, 0), (far + OSCILLATOR_DT, 1, 0)])


def test_at_irregular_times_samples_are_taken_as_they_come_and_nothing_is_a_gap():
    live = online(problem=oscillator_problem(IRREGULAR, noise=0.5))
    _, times, events = streamed([(t, 1, 0) for t in (0.0, 0.1, 0.1 + 1e-9, 0.9, 0.1)], live)
    assert times == [0.0, 0.1, 0.1 + 1e-9, 0.9]
    assert told(events) == [("duplicate", 5, 1)]


def test_after_a_checkpoint_everything_before_it_counts_as_assimilated():
    before, after = TimeAxis(GRID), TimeAxis(GRID)
    for t in (0.0, 0.3):
        before.place(t)
    assert before.status(0.1) == "late"
    after.resume(before.state)
    assert [after.status(t) for t in (0.0, 0.1, 0.3, 0.4)] == ["duplicate"] * 3 + ["new"]
    np.testing.assert_array_equal(after.place(0.5), before.place(0.5))


def test_memory_of_times_is_bounded(monkeypatch):
    monkeypatch.setattr(smcpn.io.axis, "MEMORY", 500)
    axis = TimeAxis(GRID)
    for k in range(1500):
        if k != 1500 - 9:
            axis.place(OSCILLATOR_DT * k)
    assert len(axis._known) <= 1000
    places = (0.5, 1500 - 2, 1500 - 9)
    assert [axis.status(OSCILLATOR_DT * k) for k in places] == ["duplicate", "duplicate", "late"]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.booleans())
def test_times_strictly_increase_and_the_rest_is_left_out(times, uniform):
    axis, placed = TimeAxis(GRID if uniform else IRREGULAR), []
    for t in times:
        status, last = axis.status(t), axis.given
        if status == "new":
            placed.extend(axis.place(t))
        else:
            assert t <= last + 0.5 * OSCILLATOR_DT
    assert all(a < b for a, b in pairwise(placed))
    assert axis.status(times[0]) == "duplicate"


@given(st.data())
def test_a_replay_from_anywhere_changes_nothing(data):
    """What a server does after a reconnection: from the start, or from where it was."""
    times = [OSCILLATOR_DT * k for k in range(30)]
    lost = data.draw(st.integers(0, 29))
    again = data.draw(st.integers(0, lost))
    axis = TimeAxis(GRID)
    for t in times[:lost]:
        axis.place(t)
    assert [axis.status(t) for t in times[again:lost]] == ["duplicate"] * (lost - again)
    assert np.concatenate([axis.place(t) for t in times[lost:]]) == pytest.approx(times[lost:])


def test_times_stated_numbered_and_counted():
    clock = Clock(TimeAxis(smcpn.Record(u=np.zeros(4), y=np.zeros(4), dt=OSCILLATOR_DT, start=5.0)))
    times = [clock.time_of(s) for s in (
        sample(), sample(), sample(t=7.0), sample(), sample(number=30), sample())]  # fmt: skip
    assert times == pytest.approx([5.0, 5.1, 7.0, 7.1, 8.0, 8.1])
    clock.bad_line()
    assert clock.time_of(sample()) == pytest.approx(8.3)
    with pytest.raises(InputError, match="line 3 states no time"):
        Clock(TimeAxis(IRREGULAR)).time_of(sample(3))


def test_counted_times_gather_no_rounding():
    clock = Clock(TimeAxis(GRID))
    times = np.array([clock.time_of(sample()) for _ in range(5000)])
    np.testing.assert_array_equal(times, OSCILLATOR_DT * np.arange(5000))


def test_bad_lines_keep_their_place_where_times_are_counted():
    _, times, events = streamed([(1, 0), "noise", (1, 0), (1, 0)])
    assert times == pytest.approx([0.0, 0.2, 0.3])
    assert [e.kind for e in events] == ["bad-line", "gap"]


def test_a_resumed_source_without_times_goes_on_or_begins_anew():
    _, times, events = streamed([(1, 0), (1, 0)], online(begin=4))
    assert times == pytest.approx([0.4, 0.5])
    assert told(events) == [("untimed", 1, 1)]
    _, times, events = streamed([(1, 0)] * 6, online(begin=4), replays=True)
    assert times == pytest.approx([0.4, 0.5])
    assert told(events) == [("duplicate", 1, 4)]


def test_a_record_at_irregular_times_needs_stated_ones():
    live = online(problem=oscillator_problem(IRREGULAR, noise=0.5))
    with pytest.raises(InputError, match="send t with every sample"):
        streamed([(1, 1)], live)


def dated(*seconds: float, zone: str = "") -> Lines:
    """Lines with dates, so many seconds after midnight."""
    first = datetime(2026, 1, 31)
    text = "".join(f"{first + timedelta(seconds=s)}{zone},1,{s}\n" for s in seconds)
    return Lines(Pieces(text.encode()), LineParser(CHANNELS))


def test_dates_are_times_since_the_first_one_also_after_a_checkpoint(tmp_path):
    events: list[Event] = []
    live = online()
    places = [t for _, t, _ in Stream(live, dated(50.0, 50.1, 50.2), events.append)]
    live.save(tmp_path / "live.h5")
    live = smcpn.Online.load(tmp_path / "live.h5")
    places += [t for _, t, _ in Stream(live, dated(50.1, 50.2, 50.3, 50.4), events.append)]
    np.testing.assert_allclose(places, [0.0, 0.1, 0.2, 0.3, 0.4], atol=1e-12)
    np.testing.assert_array_equal(samples_in(live)[:, 2], [50.0, 50.1, 50.2, 50.3, 50.4])
    kinds = ["format", "end", "format", "duplicate", "end"]
    assert [event.kind for event in events] == kinds
    assert events[2].message == events[0].message == "t = 0 is 2026-01-31 00:00:50"
    other = Lines(Pieces(b"0.5,1,2\n"), LineParser(CHANNELS))
    for source in (other, dated(50.5, zone="Z")):
        with pytest.raises(InputError, match="nobody knows the time between"):
            list(Stream(live, source, events.append))


def test_a_date_after_seconds_of_a_checkpoint_is_refused():
    with pytest.raises(InputError, match="has a date for a time, the samples before numbers"):
        list(Stream(online(begin=3), dated(1.0), lambda event: None))


def test_midnight_is_told_where_times_have_no_date():
    events: list[Event] = []
    source = Lines(Pieces(b"23:59:59.9,1,2\n00:00:00,1,2\n"), LineParser(CHANNELS))
    assert len(list(Stream(online(), source, events.append))) == 1
    assert sorted(event.kind for event in events) == ["duplicate", "end", "format"]
    assert "midnight" in events[0].message


def test_the_interval_of_a_record_with_doses_is_that_of_its_samples():
    t, y = 0.1 * np.arange(101), np.full(101, np.nan)
    y[::20] = 1.0
    record = smcpn.Record(t=t, y=y, doses=[smcpn.Dose(3.33, "x", 1.0)])
    problem = smcpn.Problem(
        decay, record, observe="x", noise=0.1, prior={"k": stats.lognorm(1)}, initial=1.0
    )
    assert TimeAxis(problem.records[0]).interval == pytest.approx(0.1)


@smcpn.ode
def decay(x, *, k):
    return -k * x
