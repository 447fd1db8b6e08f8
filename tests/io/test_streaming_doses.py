"""Doses, limits and deviations in the lines of a stream, and in files that continue a record."""

import json
from threading import Event

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import Dose, InputError
from smcpn.base.signals import Stop
from smcpn.io import Channels
from smcpn.io.doses import LineDoses
from smcpn.io.parse import LineParser
from smcpn.io.read import following_record
from smcpn.io.sources import Lines
from smcpn.io.stream import Stream
from tests.io.small_stream import Pieces

TIMES = np.arange(0.0, 8.0)
DOSES = [Dose(0.0, "c", 8.0, fraction="F"), Dose(2.5, "c", 4.0, 0.7, fraction="F")]


@smcpn.ode
def cleared(c, *, k):
    return -k * c


def posed(**beside):
    record = smcpn.Record(t=TIMES, y=np.ones(8), doses=DOSES, t_unit="h", y_unit="mg", **beside)
    prior = {"k": stats.lognorm(0.3, scale=0.4), "F": stats.uniform(0.3, 0.7)}
    noise = "y_sd" if "y_sd" in beside else 0.2
    return smcpn.Problem(cleared, record, observe="c", noise=noise, prior=prior)


NONE = np.full(8, np.nan)
LIMITED = posed(y_lower=NONE, y_upper=NONE)
Y = [0.1, 4.0, 3.1, 4.2, np.nan, 2.5, np.nan, 1.2]
"""Of these two are below 2."""
CSV = """# from the ward
t [min],c [ug],c_upper [mg],AMT,STATE,DUR
0,100,,,,
0,.,.,8,c,.
60,4000,,,,
120,3100,,,,
150,,,4,c,42
180,4200,,,,
240,,2,,,
300,2500,,,,
360,,2,,,
420,1200,,,,
"""


def online():
    return smcpn.Online(LIMITED, solver=smcpn.RK4(4), particles=100, seed=1)


def streamed(text, live):
    """Have a stream take lines; the events that it told of."""
    events = []
    source = Lines(Pieces(text.encode()), LineParser(Channels.of(LIMITED)))
    list(Stream(live, source, events.append))
    return [one.kind for one in events]


def by_hand():
    live = online()
    live.give(DOSES)
    for t, y in zip(TIMES, Y, strict=True):
        live.update(None, y, t, y_upper=2.0 if np.isnan(y) else None)
    return live.posterior().theta


@pytest.mark.slow
def test_lines_with_doses_and_limits_are_the_updates_by_hand():
    live = online()
    assert set(streamed(CSV, live)) <= {"end", "format"}
    assert [one.time for one in live.doses] == [0.0, 2.5]
    np.testing.assert_array_equal(live.posterior().theta, by_hand())


@pytest.mark.slow
def test_objects_with_doses_are_the_updates_by_hand():
    rows = [
        {"t": t, "c": None if np.isnan(y) else y, "y_upper": 2.0 if np.isnan(y) else None}
        for t, y in zip(TIMES.tolist(), Y, strict=True)
    ]
    rows[0]["doses"] = [{"amount": 8.0}, {"time": 2.5, "amount": 4.0, "duration": 0.7}]
    live = online()
    assert streamed("\n".join(map(json.dumps, rows)) + "\n", live) == ["end"]
    np.testing.assert_array_equal(live.posterior().theta, by_hand())


@pytest.mark.slow
def test_a_stream_with_doses_goes_on_where_it_was_killed(tmp_path):
    lines = CSV.splitlines(keepends=True)
    live = online()
    streamed("".join(lines[:7]), live)
    live.save(tmp_path / "stream.h5")
    again = smcpn.Online.load(tmp_path / "stream.h5")
    assert "late-dose" not in streamed(CSV, again)
    assert again.doses == tuple(DOSES)
    np.testing.assert_array_equal(again.posterior().theta, by_hand())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("60,1000,2,,,", "y is measured there"),
        ("60,1000,,much,c,", "amount is 'much'"),
        ("60,1000,,8,gut,", "the problem is posed for c"),
        ("60,1000,,8,1,", "compartment 1 has no name"),
        ("60,1000,,8,c,-1", "duration is -1"),
    ],
)
def test_a_line_that_states_no_dose_or_limit_is_reported(line, sentence):
    source = Lines(Pieces((CSV + line + "\n").encode()), LineParser(Channels.of(LIMITED)))
    live, events = online(), []
    list(Stream(live, source, events.append))
    assert any(one.kind == "bad-line" and sentence in one.message for one in events)


def test_times_of_a_dose_are_in_the_unit_of_its_line():
    parser = LineParser(Channels.of(LIMITED))
    lines = b"t [min],c,AMT,STATE,DUR,ADDL,II\n60,.,4,c,30,1,90\n"
    (sample,) = (one for one in Lines(Pieces(lines), parser).items(Event()) if hasattr(one, "y"))
    doses = [one.at(sample.t) for one in sample.doses]
    assert doses == [Dose(at, "c", 4.0, 0.5, fraction="F") for at in (1.0, 2.5)]


def test_lines_may_number_the_compartments_that_a_configuration_names():
    doses = LineDoses.of(LIMITED, ["other", "c"])
    (one,) = doses.read([{"amount": "3", "state": "2", "rate": "6"}])
    assert one.at(1.0) == Dose(1.0, "c", 3.0, 0.5, fraction="F")


def test_a_dose_that_comes_late_is_reported_and_left_out():
    live = online()
    assert "late-dose" in streamed(CSV + "150,,,4,c,12\n", live)
    assert live.doses == tuple(DOSES)


@pytest.mark.slow
def test_a_dose_before_the_first_sample_begins_the_stream():
    live, other = online(), online()
    text = "t,c,AMT\n0,.,8\n1,3.9,.\n2,3.2,.\n"
    assert set(streamed(text, live)) <= {"end", "format"}
    other.update(None, None, 0.0, doses=[Dose(0.0, "c", 8.0, fraction="F")])
    for t, y in ((1.0, 3.9), (2.0, 3.2)):
        other.update(None, y, t)
    np.testing.assert_array_equal(live.posterior().theta, other.posterior().theta)


def test_doses_of_a_problem_without_any_are_refused():
    record = smcpn.Record(t=TIMES, y=np.ones(8))
    problem = smcpn.Problem(
        cleared, record, observe="c", noise=0.2, prior={"k": stats.uniform(0, 1)}
    )
    parser = LineParser(Channels.of(problem))
    source = Lines(Pieces(b'{"t": 0, "y": 1, "doses": [{"amount": 1}]}\n'), parser)
    live = smcpn.Online(problem, solver=smcpn.RK4(4), particles=50, seed=1)
    with pytest.raises(InputError, match="the problem's record has none"):
        list(Stream(live, source, print))


def test_a_file_continues_a_record_with_limits_and_doses(tmp_path):
    path = tmp_path / "more.csv"
    path.write_text(
        "t [min],c [ug],c_upper,amount,ADDL,II,RATE\n480,1000,,,,,\n510,,,6,1,30,0.5\n"
        "510,500,,,,,\n540,,700,,,,\n"
    )
    more = following_record(path, LIMITED)
    np.testing.assert_array_equal(more.t, [8.0, 8.5, 9.0])
    np.testing.assert_allclose(more.y[:, 0], [1.0, 0.5, np.nan])
    np.testing.assert_allclose(more.y_upper[:, 0], [np.nan, np.nan, 0.7])
    assert more.doses == tuple(Dose(at, "c", 6.0, 0.2, fraction="F") for at in (8.5, 9.0))


def test_an_output_that_is_called_like_a_field_of_a_dose_is_an_output(tmp_path):
    @smcpn.ode
    def cleared(rate, *, k):
        return -k * rate

    record = smcpn.Record(t=TIMES, y=np.ones(8), doses=[Dose(0.0, "rate", 8.0)])
    prior = {"k": stats.lognorm(0.3, scale=0.4)}
    problem = smcpn.Problem(cleared, record, observe="rate", noise=0.2, prior=prior)
    path = tmp_path / "more.csv"
    path.write_text("t,rate,AMT\n8,2.5,\n8.5,3.5,6\n9,0.7,\n")
    more = following_record(path, problem)
    assert more.y[:, 0].tolist() == [2.5, 3.5, 0.7]
    assert more.doses == (Dose(8.5, "rate", 6.0),)


def test_deviations_of_lines_have_the_unit_of_their_output():
    problem = posed(y_sd=np.full(8, 0.1))
    source = Lines(Pieces(b"t,c [ug],c_sd\n1,500,20\n"), LineParser(Channels.of(problem)))
    (sample,) = (one for one in source.items(Event()) if hasattr(one, "y"))
    np.testing.assert_allclose([sample.y[0], sample.beside["y_sd"][0]], [0.5, 0.02])


def test_lines_state_the_deviations_of_those_outputs_that_have_some():
    y = np.column_stack([np.ones(8), np.full(8, 2.0)])
    record = smcpn.Record(t=TIMES, y=y, y_sd=np.column_stack([0.1 * y[:, 0], NONE]))
    problem = smcpn.Problem(
        cleared, record, observe=["c", lambda c: 2.0 * c], noise=["y_sd", "s"],
        prior={"k": stats.lognorm(0.3), "s": stats.lognorm(1.0)},
    )  # fmt: skip
    source = Lines(
        Pieces(b"t,c,c_sd,y1\n1,0.5,0.02,1.1\n2,0.5,,1.1\n"), LineParser(Channels.of(problem))
    )
    sample, bad = source.items(Event())
    live = smcpn.Online(problem, solver=smcpn.RK4(4), particles=50, seed=1)
    live.update(sample.u, sample.y, sample.t, **sample.beside)
    assert live.sample == 1
    assert "y_sd is nan: give a positive" in str(bad)


def test_lines_of_doses_with_a_value_of_0_are_not_measured(tmp_path):
    text = "t,c,AMT,EVID,MDV\n8,0,4,1,1\n8,2.5,.,0,0\n9,0,.,0,1\n10,1.1,.,0,0\n"
    source = Lines(Pieces(text.encode()), LineParser(Channels.of(LIMITED)))
    samples = [one for one in source.items(Event()) if hasattr(one, "y")]
    assert [one.is_dose for one in samples] == [True, False, False, False]
    path = tmp_path / "more.csv"
    path.write_text(text)
    more = following_record(path, LIMITED)
    assert more.doses == (Dose(8.0, "c", 4.0, fraction="F"),)
    np.testing.assert_array_equal(more.y[:, 0], [2.5, np.nan, 1.1])


NOT_MEASURED = """t,c,AMT,EVID,mdv
0,0,100,1,1
0,0.5,.,0,0
1,3,.,0,0
2,0,.,2,.
3,0,.,0,1
4,0,.,.,.
4,9,.,.,.
"""


@pytest.mark.parametrize("as_json", [False, True])
def test_a_line_of_a_dose_does_not_take_the_place_of_the_sample_of_its_time(as_json):
    text = NOT_MEASURED
    if as_json:
        names, *rows = (line.split(",") for line in text.split())
        values = [[None if one == "." else float(one) for one in row] for row in rows]
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in values)
    record = smcpn.Record(t=[0.0, 1.0, 3.0], y=np.ones(3))
    prior = {"k": stats.lognorm(0.3, scale=0.4)}
    problem = smcpn.Problem(cleared, record, observe="c", noise=0.2, prior=prior)
    live, events = smcpn.Online(problem, solver=smcpn.RK4(4), particles=50, seed=1), []
    source = Lines(Pieces(text.encode()), LineParser(Channels.of(problem)))
    list(Stream(live, source, events.append))
    state = live.snapshot()
    np.testing.assert_array_equal(state.t, [0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(state.y[:, 0], [0.5, 3.0, np.nan, np.nan, 0.0])
    told = "outputs of samples are missing, where EVID or mdv is not 0"
    assert [one.message for one in events].count(told) == 1
    kinds = {one.kind for one in events}
    assert kinds == {"format", "doses", "end", "duplicate"} - ({"doses"} if as_json else set())


@pytest.mark.parametrize("replays", [False, True])
def test_a_line_without_a_measurement_counts_where_the_stream_is_stopped_after_it(replays):
    text = "t,c,MDV\n8,2.5,0\n9,0,1\nbad\n10,1.1,0\n"
    live, stop = online(), Stop()
    source = Lines(Pieces(text.encode()), LineParser(Channels.of(LIMITED)))
    source.replays = replays
    list(
        Stream(live, source, lambda e: stop.request() if e.kind == "bad-line" else None, stop=stop)
    )
    assert live.snapshot().t.tolist() == ([8.0] if replays else [8.0, 9.0])
