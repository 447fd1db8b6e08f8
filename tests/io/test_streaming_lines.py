"""Lines to samples: what is read, and what is reported instead of read."""

from __future__ import annotations

import json
import re
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_stream import Pieces
from test_text_table import FILES, T, U, X

from smcpn.errors import InputError
from smcpn.io.channels import Channels, Column, Sample
from smcpn.io.events import Event
from smcpn.io.fields import LONGEST, BadLineError
from smcpn.io.parse import LineParser, LineSplitter
from smcpn.io.sources import Break, Lines, Samples

ONE = Channels(("force",), ("x",))
TWO = Channels(("a", "b"), ("x", "y1"))


def read(*chunks: bytes, channels: Channels = ONE, **options):
    items = list(Lines(Pieces(*chunks), LineParser(channels, **options)).items(threading.Event()))
    samples = [item for item in items if isinstance(item, Sample)]
    return samples, [item for item in items if isinstance(item, Event)]


def rows(samples: list[Sample]) -> list[tuple]:
    return [(s.line, s.t, s.u.tolist(), s.y.tolist()) for s in samples]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (b"1,2\n", (1, None, [1.0], [2.0])),
        (b"0.5,1,2\n", (1, 0.5, [1.0], [2.0])),
        (b"t,force,x\n0.5,1,2\n", (2, 0.5, [1.0], [2.0])),
        (b"x,other,t (s),u\n2,7,0.5,1\n", (2, 0.5, [1.0], [2.0])),
        (b'"time","y","force"\r\n"0.5","2","1"\r\n', (2, 0.5, [1.0], [2.0])),
        (b"\xef\xbb\xbft,u0,y0\n\n# a comment\n0.5,1,2\n", (4, 0.5, [1.0], [2.0])),
        (b'{"t": 0.5, "u": 1, "y": 2}\n', (1, 0.5, [1.0], [2.0])),
        (b'{"time": 0.5, "force": 1, "x": 2, "more": {}}\n', (1, 0.5, [1.0], [2.0])),
        (b'{"u": [1], "y": [2], "t": null}\n', (1, None, [1.0], [2.0])),
        (b'{"t": 0.5, "u": 1, "y": 2}', (1, 0.5, [1.0], [2.0])),
    ],
)
def test_one_sample_in_every_dress(text, row):
    samples, events = read(text)
    assert rows(samples) == [row]
    assert events == []


def test_several_channels_and_missing_outputs():
    samples, events = read(
        b"t,x,y1,b,a\n0.5,,4,2,1\n", b"0.5,3,NaN,2,1\n", b'{"u":[1,2],"y":[null,4]}\n',
        b'{"a":1,"b":2,"x":3}\n', channels=TWO,
    )  # fmt: skip
    assert events == []
    np.testing.assert_array_equal([s.u for s in samples], np.tile([1.0, 2.0], (4, 1)))
    np.testing.assert_array_equal(
        [s.y for s in samples], [[np.nan, 4], [3, np.nan], [np.nan, 4], [3, np.nan]]
    )


def test_a_name_of_the_problem_wins_over_a_word():
    samples, _ = read(b'{"n": 3, "y": 2}\n', channels=Channels(("n",), ("x",)))
    assert samples[0].number is None
    assert samples[0].u.tolist() == [3.0]


def test_sequence_numbers():
    samples, events = read(b"n,u,y\n7,1,2\n", b'{"seq": 8, "u": 1, "y": 2}\n7.5,1,2\n')
    assert [s.number for s in samples] == [7, 8]
    assert [e.line for e in events] == [4]


BAD = [
    b"1,2,3,4", b"5", b"a,b", b"1,two", b"1_0,2", b"0x1,2", "\u0661,2".encode(), b"inf,2",
    b"1,-inf", b",2", b"nan,1,2", b"\xff\xfe\x00,1", b'"1,2', b"\x00,2", b"1;2",
    b"1,9" + b"9" * 400,
    b"x" * (LONGEST + 1), b"{", b"{}", b'{"u": 1}', b'{"y": 1}', b'{"u": "1", "y": 2}',
    b'{"u": true, "y": 2}', b'{"u": [1, 2], "y": 2}', b'{"u": 1, "y": 1e999}',
    b'{"u": Infinity, "y": 1}', b'{"u": null, "y": 1}', b'{"t": "now", "u": 1, "y": 1}',
    b'{"u": 1, "y": ' + b"9" * 400 + b"}", b'{"a":' * 9000, b'{"n": 1e20, "u": 1, "y": 1}',
    b'{"u": 1, "y": ' + b"9" * 5000 + b"}", b'{"u":1,"y":2}{"u":1,"y":2}',
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=[str(text[:12]) for text in BAD])
def test_a_bad_line_is_reported_with_its_number_and_skipped(bad):
    samples, events = read(b"0,1,2\n" + bad + b"\n1,1,2\n")
    assert [s.line for s in samples] == [1, 3]
    assert [(e.kind, e.line) for e in events] == [("bad-line", 2)]
    assert len(str(events[0])) < 300
    assert str(events[0]).isprintable()


def test_json_only_reads_no_csv_and_the_other_way():
    assert [e.line for e in read(b'1,2\n{"u":1,"y":2}\n', format="json")[1]] == [1]
    assert [e.line for e in read(b'1,2\n{"u":1,"y":2}\n', format="csv")[1]] == [2]
    with pytest.raises(InputError, match="format is 'xml'"):
        LineParser(ONE, "xml")


def test_a_line_cut_off_at_the_end_is_no_sample():
    """12.5 that lost its last digit is still a number."""
    samples, events = read(b"0,1,2\n1,1,12.", b"")
    assert [s.line for s in samples] == [1]
    assert [e.line for e in events] == [2]
    assert "cut off" in events[0].message
    assert [e.line for e in read(b'{"u": 1, "y": 2')[1]] == [1]


def test_columns_may_be_named_and_a_header_must_be_whole():
    samples, _ = read(b"2,9,1,0.5\n", columns=["y", "-", "u", "t"])
    assert rows(samples) == [(1, 0.5, [1.0], [2.0])]
    for options, text in (({"columns": ["t", "y"]}, b""), ({}, b"t,force,position\n1,2,3\n")):
        with pytest.raises(InputError, match="names no"):
            read(text, **options)
    with pytest.raises(InputError, match="twice"):
        read(b"t,u,force,y\n")


def test_files_strung_together_bring_their_headers_along():
    samples, events = read(b"t,u,y\n0,1,2\n", b"time, u0, x\n1,1,2\n", b"some,other,words\n")
    assert rows(samples) == [(2, 0.0, [1.0], [2.0]), (4, 1.0, [1.0], [2.0])]
    assert [e.line for e in events] == [5]


@pytest.mark.parametrize("noise", [b"y,u,t", b"u,t,y", b"t,u,z", b"ERROR,timeout", b"a,b,c"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"t,u,y\n0,1,2\n", b"1,3,4\n"),
        (b"0,1,2\n", b"1,3,4\n"),
        (b'{"t":0,"u":1,"y":2}\n\n', b'{"t":1,"u":3,"y":4}\n'),
    ],
)
def test_noise_among_samples_is_no_header(noise, before, after):
    samples, events = read(before + noise + b"\n" + after)
    assert [(s.t, *s.u, *s.y) for s in samples] == [(0.0, 1.0, 2.0), (1.0, 3.0, 4.0)]
    assert [e.kind for e in events] == ["bad-line"]


def test_a_file_that_is_replaced_may_name_its_columns_anew():
    class Replaced(Pieces):
        def read(self, stop, position):
            yield b"t,u,y\n0,1,2\n"
            yield Break(lossy=False)
            yield b"y,u,t\n4,3,1\n"

    items = list(Lines(Replaced(), LineParser(ONE)).items(threading.Event()))
    assert [(s.t, *s.u, *s.y) for s in items] == [(0.0, 1.0, 2.0), (1.0, 3.0, 4.0)]


def test_memory_of_an_endless_line_is_bounded():
    splitter = LineSplitter(longest=100)
    for _ in range(1000):
        assert list(splitter.feed(b"x" * 64)) == []
        assert len(splitter._rest) <= 100
    lines = list(splitter.feed(b"\n1,2\n"))
    assert [(line.number, line.too_long) for line in lines] == [(1, True), (2, False)]


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_noise_never_raises_and_lines_after_it_are_read(chunks):
    noise = b"".join(chunks)
    samples, _ = read(*chunks, b'\n{"t": 1, "u": 2, "y": 3}\n', format="json")
    assert rows(samples)[-1:] == [(noise.count(b"\n") + 2, 1.0, [2.0], [3.0])]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_lines_do_not_depend_on_the_chunks(content, cuts):
    def lines(*chunks: bytes):
        splitter = LineSplitter()
        found = [line for chunk in chunks for line in splitter.feed(chunk)]
        rest = splitter.cut()
        return [*found, rest] if rest else found

    places = [0, *sorted(cuts), len(content)]
    pieces = [content[a:b] for a, b in pairwise(places)]
    assert lines(*pieces) == lines(content)


@given(
    st.lists(
        st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3), min_size=1, max_size=9
    )
)
def test_numbers_survive_to_the_last_bit(values):
    text = "".join(f"{t!r},{u!r},{y!r}\n" for t, u, y in values)
    objects = "".join(json.dumps({"t": t, "u": u, "y": y}) + "\n" for t, u, y in values)
    expected = [(k, t, [u], [y]) for k, (t, u, y) in enumerate(values, 1)]
    assert rows(read(text.encode())[0]) == expected
    assert rows(read(objects.encode())[0]) == expected


def test_an_iterable_is_checked_like_lines():
    given_samples = [(1.0, 2.0), (0.5, [1.0], [np.nan]), (np.nan, 1.0), "xy", (1.0,), None]
    items = list(Samples(given_samples).items(threading.Event()))
    assert [type(item) for item in items] == [Sample, Sample, Event, Event, Event, Event]
    assert items[1].t == 0.5


def test_a_fault_says_what_it_is():
    with pytest.raises(BadLineError, match="'force' is nan: an input must be known"):
        LineParser(ONE).parse(next(LineSplitter().feed(b"nan,2\n")))


CONFIGURED = Channels(
    ("u",),
    ("x",),
    {
        ("t", 0): Column("clock", "ms", "s"),
        ("u", 0): Column("force", "", "N", "N"),
        ("y", 0): Column("position", "mm", "m"),
    },
)
"""As `{column = "position", unit = "mm", to = "m"}` of a configuration, with N in a header."""


@pytest.mark.parametrize(
    "text",
    [
        b"clock,x,force,position\n250,9,2,3\n",
        b"clock [ms],force [kN],position [mm]\n250,0.002,3\n",
        b"clock (milliseconds),force,position\n250,2,3\n",
        b"250,2,3\n",
        b'{"clock": 250, "x": 9, "force": 2, "position": 3}\n',
        b'{"n": 1, "time": 3, "clock": 250, "force": 2, "position": 3}\n',
    ],
)
def test_columns_of_a_configuration_are_converted(text):
    (sample,), events = read(text, channels=CONFIGURED)
    assert not events
    assert [sample.t, *sample.u, *sample.y] == [0.25, 2.0, 0.003]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"clock,force,position [m]\n", "'position' is in 'm', but the configuration says"),
        (b"clock,force [bananas],position\n", "'bananas' is not known"),
        (b"clock,force [mm],position\n", "'mm' does not convert to 'N'"),
        (b"clock,force,x\n", r"no output \(position\): the configuration has the columns clock"),
        (b"clock,u,position\n", "no input 'force'"),
        (b"t,force,position\n", "no time 'clock'"),
        (b'{"clock": 1, "u": 1, "y": 2}\n', "no input 'force'"),
        (b'{"clock": 1, "force": 1, "x": 2}\n', "no output"),
    ],
)
def test_other_columns_than_those_of_a_configuration_are_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        read(text, channels=CONFIGURED)


def test_a_message_before_the_first_sample_is_passed_over():
    text = b'{"status": "ready"}\n{"clock": 0, "force": 1, "position": 2}\n{"clock": 5}\n'
    samples, events = read(text, channels=CONFIGURED)
    assert [len(samples), [event.kind for event in events]] == [1, ["bad-line", "bad-line"]]


def test_a_unit_that_the_problem_does_not_state_is_told_once():
    samples, events = read(b"t,force [N],x [mm]\n0,1,2\n1,1,3\n")
    assert [s.y.tolist() for s in samples] == [[2.0], [3.0]]
    assert [event.kind for event in events] == ["units"]
    assert "force [N], x [mm]" in events[0].message


@pytest.mark.parametrize("name", FILES)
def test_lines_of_loggers_are_read_as_their_files_are(name):
    text, told = FILES[name]
    samples, events = read(text.encode() + b"\n", channels=Channels(("u",), ("x",)))
    first = samples[0].moment
    times = [s.t if s.moment is None else s.moment.since(first.date) for s in samples]
    np.testing.assert_allclose(times, T, atol=1e-12)
    np.testing.assert_array_equal([s.u[0] for s in samples], U)
    np.testing.assert_array_equal([s.y[0] for s in samples], X)
    formats = [event.message for event in events if event.kind == "format"]
    assert len(formats) == (bool(told) and name != "comment") + (name == "savetxt")
    assert name in ("comment", "savetxt") or not told or re.search(told, formats[0])


@pytest.mark.parametrize(
    ("text", "found", "reason"),
    [
        (b"1,234;2,345\n0,1;1,5\n", [(0.1, 1.5)], "may be a decimal number or .* --decimal ,"),
        (b"0;1\n1;2,5\n2;2.5\n", [(0.0, 1.0), (1.0, 2.5)], "'2.5' is not a number"),
        (b"1,2,\n3,4\n", [(3.0, 4.0)], "a column is empty, .* --columns"),
        (b"01/02/2026 12:00;1;2\n1;2\n", [(1.0, 2.0)], "write seconds, or dates as 2026"),
        (b"x force t\n1,2,3\n", [], r"1 column instead of 3 \(x, force, t\)"),
        (b"# x force t\n1,2,3\n", [], "a comment names the columns x, force, t"),
        (b"System ready\n1,2\n3,x\n", [(1.0, 2.0)], "'x' is not a number"),
        (b"t,force,x\nready\n0,1,2\n", [(1.0, 2.0)], "1 column instead of 3"),
        (b"5,1,2\n2026-01-31,1,2\n", [(1.0, 2.0)], "the time is a date, where .* a number"),
        (b"2026-01-31,1,2\n2026-01-31T01:00Z,1,2\n", [(1.0, 2.0)], "the time is a date with a"),
        (b"0001-01-01T00:00:00+23:59,1,2\n", [], "the time is '0001"),
        (b'{"t":"2026-01-31","u":1,"y":2}\n{"t":3,"u":1,"y":2}\n', [(1.0, 2.0)], "is a number"),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(text, found, reason):
    samples, events = read(text)
    assert [(*s.u, *s.y) for s in samples] == found
    (bad,) = [event for event in events if event.kind == "bad-line"]
    assert re.search(reason, bad.message)


def test_words_above_numbers_that_name_other_columns_are_refused():
    with pytest.raises(InputError, match=r"\('out put,in put'\) names no input 'force'"):
        read(b"out put,in put\n1,2\n")


def test_a_unit_below_the_names_and_one_in_latin_1_are_converted():
    text = "clock;force;position\nms;kN;mm\n250,0;0,002;3,0\n"
    for content in (
        text.encode(),
        text.replace("mm", "µm").replace("3,0", "3000").encode("cp1252"),
    ):
        channels = Channels(("u",), ("x",), {
            ("t", 0): Column("clock", "", "s", ""), ("u", 0): Column("force", "", "N"),
            ("y", 0): Column("position", "", "m"),
        })  # fmt: skip
        (sample,), _ = read(content, channels=channels)
        np.testing.assert_allclose([sample.t, *sample.u, *sample.y], [0.25, 2.0, 0.003])


def test_a_header_without_a_time_is_told():
    _, events = read(b"Clock;force;x\n0;1;2\n1;1;2\n")
    assert [event.kind for event in events] == ["format", "untimed"]


HOSTILE = ("[" * 65000, "[ " * 32000, "a[" * 32000, " " * 65000 + "x", "1" * 65000 + "x",
           "x\t" * 32000, "(" * 65000 + ")")  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE)
def test_a_long_line_takes_no_longer_than_its_length(line):
    """In processor time, and far from what is quadratic in the length, which takes minutes."""
    begin = time.process_time()
    for before in (b"", b"t,force,x\n", b"0,1,2\n"):
        samples, _ = read(before + b"t,force,x" + line.encode() + b"\n0.5,1,2\n0.6,1,2\n")
        assert samples
    assert time.process_time() - begin < 20.0


def test_a_mark_of_thousands_in_a_stream():
    samples, events = read(b"998;1\n999;1\n1.000;1\n1.5;2\n")
    assert [float(s.u[0]) for s in samples] == [998.0, 999.0, 1.5]
    assert [e.line for e in events if e.kind == "bad-line"] == [3]
