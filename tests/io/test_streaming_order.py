"""Times: stated, numbered or counted; what is new, doubled, late, missing or unbelievable."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming_standin import StandIn

import smcpn
from smcpn.errors import InputError
from smcpn.io.axis import JUMP, MEMORY, Clock, Ordering
from smcpn.io.events import Event
from smcpn.io.parse import Sample
from smcpn.io.sources import Samples
from smcpn.io.stream import Stream
from tests.models import oscillator_problem, oscillator_record

DT = 0.1


def sample(line: int = 1, t: float | None = None, number: int | None = None) -> Sample:
    return Sample(line, t, np.zeros(1), np.zeros(1), number)


def ordered(times, interval: float | None = DT, last: float | None = None):
    events: list[Event] = []
    ordering = Ordering(interval, events.append, last)
    placed = [
        when for line, t in enumerate(times) for _, when in ordering.place(sample(line, t), t)
    ]
    ordering.finish()
    return placed, events


def told(events: list[Event]) -> list[tuple[str, int | None, int]]:
    return [(event.kind, event.line, event.count) for event in events]


@pytest.mark.parametrize(
    ("times", "placed", "events"),
    [
        ([0.0, 0.1, 0.2], [0.0, 0.1, 0.2], []),
        ([0.0, 0.1, 0.1 + 1e-12, 0.2], [0.0, 0.1, 0.2], [("duplicate", 2, 1)]),
        ([0.0, 0.1, 0.0, 0.1, 0.2], [0.0, 0.1, 0.2], [("duplicate", 2, 2)]),
        ([0.0, 0.1, 0.4], [0.0, 0.1, 0.4], [("gap", 2, 2)]),
        ([0.0, 0.3, 0.1, 0.2, 0.3, 0.4], [0.0, 0.3, 0.4],
         [("gap", 1, 2), ("late", 2, 2), ("duplicate", 4, 1)]),
        ([0.0, 0.13, 0.24, 0.3], [0.0, 0.13, 0.24, 0.3], []),
        ([0.0, 1e9, 0.1, 0.2], [0.0, 0.1, 0.2], [("bad-time", 1, 1)]),
        ([0.0, 1e9, 0.0, 0.1], [0.0, 0.1], [("duplicate", 2, 1), ("bad-time", 1, 1)]),
        ([0.0, 1e9, 1e9 + 0.1], [0.0, 1e9, 1e9 + 0.1], [("gap", 1, 10**10 - 1)]),
        ([0.0, 1e9], [0.0], [("bad-time", 1, 1)]),
    ],
)  # fmt: skip
def test_policy(times, placed, events):
    found = ordered(times)
    assert found[0] == placed
    assert told(found[1]) == events


def test_at_irregular_times_nothing_is_a_gap():
    placed, events = ordered([0.0, 0.1, 900.0, 0.1], interval=None)
    assert placed == [0.0, 0.1, 900.0]
    assert told(events) == [("duplicate", 3, 1)]


def test_after_a_checkpoint_everything_before_it_counts_as_assimilated():
    placed, events = ordered([0.0, 0.1, 0.2, 0.3], last=0.2)
    assert placed == [0.3]
    assert told(events) == [("duplicate", 0, 3)]


def test_memory_of_times_is_bounded():
    events: list[Event] = []
    ordering = Ordering(DT, events.append)
    for k in range(3 * MEMORY):
        ordering.place(sample(k), DT * k)
    assert len(ordering._assimilated) <= 2 * MEMORY
    for t in (0.05, DT * (3 * MEMORY - 2), DT * (3 * MEMORY - 1.5)):
        ordering.place(sample(0), t)
    ordering.finish()
    assert told(events) == [("duplicate", 0, 2), ("late", 0, 1)]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.booleans())
def test_times_strictly_increase_and_every_sample_is_accounted_for(times, uniform):
    placed, events = ordered(times, DT if uniform else None)
    assert all(a < b for a, b in pairwise(placed))
    skipped = sum(e.count for e in events if e.kind in ("duplicate", "late", "bad-time"))
    assert len(placed) + skipped == len(times)


@given(st.data())
def test_a_replay_from_anywhere_changes_nothing(data):
    """What a server does after a reconnection: from the start, or from where it was."""
    times = [DT * k for k in range(30)]
    lost = data.draw(st.integers(0, 29))
    again = data.draw(st.integers(0, lost))
    placed, events = ordered([*times[:lost], *times[again:]])
    assert placed == times
    assert [e.kind for e in events] == ["duplicate"] * (again < lost)


def test_a_long_gap_is_believed_once_it_is_confirmed():
    events: list[Event] = []
    ordering = Ordering(DT, events.append)
    assert len(ordering.place(sample(), 0.0)) == 1
    begin = DT * (JUMP + 2)
    assert ordering.place(sample(), begin) == []
    assert [t for _, t in ordering.place(sample(), begin + DT)] == [begin, begin + DT]


def test_times_stated_numbered_and_counted():
    clock = Clock(DT, start=5.0)
    times = [clock.time_of(s) for s in (
        sample(), sample(), sample(t=7.0), sample(), sample(number=30), sample())]  # fmt: skip
    assert times == pytest.approx([5.0, 5.1, 7.0, 7.1, 8.0, 8.1])
    clock.bad_line()
    assert clock.time_of(sample()) == pytest.approx(8.3)
    with pytest.raises(InputError, match="line 3 states no time"):
        Clock(None, 0.0).time_of(sample(3))


def test_counted_times_gather_no_rounding():
    clock = Clock(DT, start=0.0)
    times = np.array([clock.time_of(sample()) for _ in range(5000)])
    np.testing.assert_array_equal(times, DT * np.arange(5000))


def assimilated(given_samples, last: float | None = None, replays: bool = False):
    live, events = StandIn(), []
    stream = Stream(live, Samples(given_samples, replays), PROBLEM, events.append, last=last)
    for _ in stream:
        pass
    return live, [event for event in events if event.kind != "end"]


PROBLEM = oscillator_problem(oscillator_record(samples=40))


def test_a_stream_assimilates_what_is_new_at_its_time():
    live, events = assimilated(
        [(0.0, 1, 1), (0.1, 1, np.nan), (0.1, 9, 9), (0.35, 1, 2), (0.2, 9, 9)]
    )
    assert live.times == [0.0, 0.1, 0.35]
    np.testing.assert_array_equal(live.outputs, [1.0, np.nan, 2.0])
    assert told(events) == [("duplicate", 3, 1), ("gap", 4, 2 - 1), ("late", 5, 1)]


def test_bad_lines_keep_their_place_where_times_are_counted():
    live, events = assimilated([(1, 1), "noise", (1, 1), (1, 1)])
    assert live.times == pytest.approx([0.0, 0.2, 0.3])
    assert [e.kind for e in events] == ["bad-line", "gap"]


def test_a_resumed_source_without_times_goes_on_or_begins_anew():
    live, events = assimilated([(1, 1), (1, 1)], last=0.3)
    assert live.times == pytest.approx([0.4, 0.5])
    assert told(events) == [("untimed", 1, 1)]
    live, events = assimilated([(1, 1)] * 6, last=0.3, replays=True)
    assert live.times == pytest.approx([0.4, 0.5])
    assert told(events) == [("duplicate", 1, 4)]


def test_a_record_at_irregular_times_needs_stated_ones():
    record = smcpn.Record(u=np.zeros(4), y=np.zeros(4), t=[0.0, 0.1, 0.3, 0.4])
    stream = Stream(StandIn(), Samples([(1, 1)]), oscillator_problem(record), lambda event: None)
    with pytest.raises(InputError, match="send t with every sample"):
        list(stream)
