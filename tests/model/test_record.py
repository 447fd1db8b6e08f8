from __future__ import annotations

import numpy as np
import pytest

from smcpn import InputError, Record
from smcpn.model.record import by_name, trained_on
from smcpn.model.signal import RecordSamples, substep_inputs, substep_times


def test_shapes_and_time():
    record = Record(u=[1, 2, 3], y=[[1, 2], [3, 4], [5, 6]], dt=0.5)
    assert (record.n_inputs, record.n_outputs, len(record)) == (1, 2, 3)
    np.testing.assert_array_equal(record.t, [0.0, 0.5, 1.0])
    assert record.uniform
    assert not Record(y=[1, 2, 3], t=[0, 1, 3]).uniform


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(y=[1, 2, 3], t=[0, 2, 1]), "comes before the one before it: sort"),
        (dict(y=[1, 2, 3], t=[0, 1, 1]), "time 1 of sample 2 repeats"),
        (dict(y=[1, 2, 3], t=[0, np.nan, 1]), "t must be finite"),
        (dict(u=[1, 2], y=[1, 2, 3], dt=1), "unequal numbers of samples"),
        (dict(u=[1, np.nan, 3], y=[1, 2, 3], dt=1), "u is nan at sample 1"),
        (dict(y=[1, np.inf, 3], dt=1), "y is infinite at sample 1"),
        (dict(y=[1, 2, 3]), "give either dt or t"),
        (dict(y=[1, 2, 3], dt=1, t=[0, 1, 2]), "give either dt or t"),
        (dict(y=[1, 2, 3], dt=-1.0), "dt is -1.0"),
        (dict(y=[1, 2, 3], dt=1, hold="spline"), "hold is 'spline'"),
        (dict(u=[1, 2, 3], y=[1, 2, 3], t=[0, 1, 3], hold="bandlimited"), "uniform sampling"),
        (dict(y=[[[1.0]]], dt=1), "shape"),
        (dict(y=["a", "b"], dt=1), "not an array of numbers"),
        (dict(y=["1", "2"], dt=1), "not an array of numbers but of text"),
        (dict(y=[1, 2j], dt=1), "y is complex"),
        (dict(u=[1, 2j], dt=1), "u is complex"),
        (dict(y=[1, 2, 3], t="abc"), "t is not an array of numbers"),
        (dict(y=[1, 2, 3], t=3), "t must be one-dimensional"),
        (dict(y=[1, 2, 3], t=[[0, 1], [2]]), "t is not an array of numbers"),
        (
            dict(y=[1, 2], t=np.array(["2024-01-01", "2024-01-02"], "datetime64[s]")),
            "t holds datetime64.s.: give times as floats",
        ),
        (dict(y=[1, 2, 3], dt="0.1"), "dt is '0.1': give a positive"),
        (dict(y=[1, 2, 3], dt=np.nan), "dt is nan"),
        (dict(y=[1, 2, 3], dt=1, start=np.nan), "start is nan"),
        (dict(y=[1.0], dt=1), "at least two"),
        (dict(dt=1), "give t, or samples"),
    ],
)
def test_bad_records_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Record(**arguments)


def test_times_since_1970_are_uniform():
    t = 1.7e9 + 0.01 * np.arange(3000)
    record = Record(u=np.sin(t), t=t, hold="bandlimited")
    assert record.uniform
    assert record.interval == pytest.approx(0.01, rel=1e-7)
    t[7] += 1e-5
    assert not Record(y=t, t=t).uniform


def test_record_keeps_its_own_arrays():
    u, y, t = np.ones(3), np.ones(3), np.arange(3.0)
    record = Record(u=u, y=y, t=t)
    for mine in (u, y, t):
        mine[:] = 7.0
    assert record.u[0, 0] == record.y[0, 0] == record.t[1] == 1.0
    for its in (record.u, record.y, record.t):
        with pytest.raises(ValueError, match="read-only"):
            its[0] = 2.0


def test_repr_is_one_line():
    record = Record(u=np.ones(300), y=np.ones((300, 2)), dt=0.2, name="lab")
    assert repr(record) == "<Record 'lab': 300 samples every 0.2 s, 1 input (foh), 2 outputs>"
    irregular = Record(y=[1, 2, 3], t=[0, 1, 3])
    assert repr(irregular).endswith("3 samples at irregular times, no input, 1 output>")


def test_slice_keeps_time_and_context():
    record = Record(u=np.arange(300.0), y=np.arange(300.0), dt=0.1, hold="bandlimited")
    part = record[100:200]
    assert len(part) == 100
    assert part.t[0] == pytest.approx(10.0)
    before, after = part.input_around()
    np.testing.assert_array_equal(before[:, 0], np.arange(36.0, 100.0))
    np.testing.assert_array_equal(after[:, 0], np.arange(200.0, 264.0))
    inner = part[10:20].input_around()[0]
    np.testing.assert_array_equal(inner[:, 0], np.arange(46.0, 110.0))
    with pytest.raises(InputError, match="empty"):
        record[5:5]
    with pytest.raises(InputError, match="without a step"):
        record[::2]


def test_hide_repeat():
    record = Record(u=[1.0, 2.0], y=[3.0, 4.0], dt=1.0, periodic=True)
    twice = record.repeat(2).hide(0, 2)
    np.testing.assert_array_equal(twice.u[:, 0], [1, 2, 1, 2])
    np.testing.assert_array_equal(twice.y[:, 0], [np.nan, np.nan, 3, 4])
    with pytest.raises(InputError, match="only a periodic record"):
        Record(y=[1.0, 2.0], dt=1.0).repeat(2)


def test_zoh_never_shows_a_step_the_jump():
    record = Record(u=[1.0, 5.0, 2.0], dt=1.0, hold="zoh")
    np.testing.assert_array_equal(substep_inputs(record, 2)[:, :, 0], [[1, 1, 1], [5, 5, 5]])


def test_foh_is_linear():
    record = Record(u=[1.0, 5.0, 2.0], t=[0.0, 1.0, 3.0])
    np.testing.assert_allclose(
        substep_inputs(record, 4)[1, :, 0], np.interp(substep_times(record, 4)[1], [1, 3], [5, 2])
    )


@pytest.mark.parametrize("periodic", [True, False])
def test_bandlimited_is_exact_on_a_bandlimited_signal(periodic):
    n, parts = 256, 5

    def wave(t):
        return np.sin(2 * np.pi * 11 * t / n) + 0.5 * np.cos(2 * np.pi * 60 * t / n + 1)

    whole = Record(u=wave(np.arange(n)), dt=1.0, hold="bandlimited", periodic=True)
    record = whole if periodic else whole[80:160]
    error = substep_inputs(record, parts)[:, :, 0] - wave(substep_times(record, parts))
    assert np.abs(error).max() < (1e-12 if periodic else 2e-6)


def test_known_function_of_time_is_used_between_samples():
    record = Record(u=np.exp, t=np.linspace(0, 1, 5))
    np.testing.assert_array_equal(
        substep_inputs(record, 3)[:, :, 0], np.exp(substep_times(record, 3))
    )


def test_start_derivatives():
    t = 0.01 * np.arange(50)
    smooth = Record(u=np.exp(3 * t), dt=0.01, hold="foh")
    np.testing.assert_allclose(
        RecordSamples(smooth).rates(0, 2, 2)[0][:, 0], [(np.exp(0.03) - 1) / 0.01, 0]
    )
    exact = Record(u=lambda t: np.exp(3 * t), t=t)
    np.testing.assert_allclose(RecordSamples(exact).rates(0, 2, 3)[0][:, 0], [3, 9, 27], rtol=1e-5)
    np.testing.assert_array_equal(RecordSamples(smooth.with_hold("zoh")).rates(0, 2, 3)[0], 0)


def test_times_that_floating_point_does_not_tell_apart():
    with pytest.raises(InputError, match=r"start is -1e\+09, .*dt = 1e-09 from.*nearer to 0"):
        Record(y=np.zeros(60), dt=1e-9, start=-1e9)
    # Seconds since 1970 at a megahertz.
    assert len(Record(y=np.zeros(60), dt=1e-6, start=1.8e9)) == 60


def test_records_of_one_name_are_told_apart():
    record = Record(y=np.zeros(4), dt=1.0, name="rig")
    other = Record(y=np.zeros(4), dt=1.0, name="other")
    assert list(by_name([record, other])) == ["rig", "other"]
    assert list(trained_on([record[:2], record[2:]])) == [
        "rig, record 0 (trained on)",
        "rig, record 1 (trained on)",
    ]
