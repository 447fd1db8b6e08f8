"""Records of dataframes."""

import numpy as np
import pytest

import smcpn

pytest.importorskip("narwhals")


def record(df, **options):
    return smcpn.Record.from_dataframe(df, inputs="u", outputs=["x", "v"], **options)


VALUES = {"u": [1, 2, 3], "x": [0.1, None, 0.3], "v": [1.0, 2.0, 3.0]}
EXPECTED = np.array([[0.1, 1.0], [np.nan, 2.0], [0.3, 3.0]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns(library):
    module = pytest.importorskip(library)
    found = record(module.DataFrame(VALUES), dt=0.5)
    np.testing.assert_array_equal(found.y, EXPECTED)
    np.testing.assert_array_equal(found.u, [[1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(found.t, [0.0, 0.5, 1.0])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_and_durations_are_seconds(zone):
    pandas = pytest.importorskip("pandas")
    # The clock goes back in between.
    dates = pandas.date_range("2026-10-25 00:59:59.75", periods=3, freq="250ms", tz="UTC")
    df = pandas.DataFrame(VALUES | {"date": dates.tz_convert(zone), "since": dates - dates[0]})
    df.attrs["units"] = {"x": "m", "v": "m"}
    for time in ("date", "since"):
        found = record(df, time=time)
        np.testing.assert_array_equal(found.t, [0.0, 0.25, 0.5])
        assert found.y_unit == "m"


def test_units_of_time_missing_rows_and_conversions_are_those_of_files(caplog):
    pandas = pytest.importorskip("pandas")
    rows = np.array([*range(30), *range(40, 60)], float)
    df = pandas.DataFrame({"t": rows, "u": rows, "x": rows, "v": rows})
    df.attrs["units"] = {"t": "hours", "x": "mm", "v": "mm"}
    found = record(df, time="t", to={"x": "m", "v": "m"})
    assert (found.t_unit, found.y_unit) == ("h", "m")
    np.testing.assert_allclose(found.y[:, 0], 1e-3 * rows)
    assert "times stay in h" in caplog.text
    assert "between samples 29 and 30, 11 intervals apart" in caplog.text
    even = record(df[:30], time="t", to={"t": "min"})
    assert (even.dt, even.t_unit) == (60.0, "min")
    dates = pandas.DataFrame(VALUES | {"date": pandas.date_range("2026-01-01", periods=3)})
    assert (record(dates, time="date", to={"date": "day"}).dt) == 1.0
    assert record(dates, time="date", t_unit="h").dt == 24.0
    assert record(dates, dt=1.0, t_unit="days").t_unit == "day"
    with pytest.raises(smcpn.InputError, match="to names 'w', which is no column"):
        record(df, time="t", to={"w": "m"})


def test_a_dataset_of_xarray():
    xarray = pytest.importorskip("xarray")
    variables = {name: ("time", np.array(v, float)) for name, v in VALUES.items()}
    dataset = xarray.Dataset(variables, {"time": [0.0, 0.1, 0.3]})
    dataset["time"].attrs["units"] = "days since 1900-01-01"
    found = record(dataset, time="time")
    np.testing.assert_array_equal(found.t, [0.0, 0.1, 0.3])
    assert found.t_unit == "day"
    with pytest.raises(smcpn.InputError, match="to_dataset"):
        record(dataset["x"], time="time")


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        ({}, {}, "either time"),
        ({}, {"time": "when"}, "choose from u, x"),
        ({"v": ["a", "b", "c"]}, {"dt": 0.1}, "not numbers"),
        ({"u": [1.0, None, 2.0]}, {"dt": 0.1}, "an input must be known"),
        ({"when": [0.0, None, 2.0]}, {"time": "when"}, "drop these rows"),
    ],
)
def test_errors_name_the_cure(change, options, sentence):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(smcpn.InputError, match=sentence):
        record(pandas.DataFrame(VALUES | change), **options)


def test_no_dataframe():
    with pytest.raises(smcpn.InputError, match="give a dataframe"):
        record([1.0, 2.0], dt=0.1)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_experiments_are_a_list(library):
    module = pytest.importorskip(library)
    runs = {name: values * 2 for name, values in VALUES.items()}
    df = module.DataFrame(runs | {"run": ["b", "b", "b", "a", "a", "a"], "t": [0.0, 0.1, 0.3] * 2})
    found = record(df, time="t", experiment="run", name="rig")
    assert [one.name for one in found] == ["rig [b]", "rig [a]"]
    for one in found:
        np.testing.assert_array_equal(one.t, [0.0, 0.1, 0.3])
        np.testing.assert_array_equal(one.y, EXPECTED)
    with pytest.raises(smcpn.InputError, match="choose from u, x, v"):
        record(df, time="t", experiment="ran")
    blank = module.DataFrame(VALUES | {"run": ["b", None, "b"]})
    with pytest.raises(smcpn.InputError, match="'run' has no label in row 1: fill it in"):
        record(blank, dt=0.1, experiment="run")
