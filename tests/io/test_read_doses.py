"""Doses of tables, and among the samples of a data set."""

import logging
from threading import Event

import h5py
import numpy as np
import pytest
from scipy.io import savemat

import smcpn
from smcpn import Dose, InputError, read_doses, read_record
from smcpn.io import Channels
from smcpn.io.doses import doses_left_out
from smcpn.io.parse import LineParser
from smcpn.io.sources import Lines
from smcpn.io.unmeasured import without_twins
from smcpn.model.units_and_times import MeasuredSamples
from tests.io.small_stream import Pieces

NONMEM = """ID,TIME,EVID,AMT,CMT,RATE,ADDL,II,DV
1,0,1,100,1,.,2,8,.
1,1,0,.,2,.,.,.,3.3
2,0,1,50,2,25,.,.,.
"""
STATES = ("gut", "central")


def test_rows_with_an_amount_are_doses(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(NONMEM)
    three = [Dose(8.0 * k, "gut", 100.0, fraction="F") for k in range(3)]
    assert read_doses(path, states=STATES, subject="1", fraction="F") == three
    assert read_doses(path, states=STATES, subject="2") == [Dose(0.0, "central", 50.0, 2.0)]
    path.write_text("time;amount;state;duration;lag;fraction\n1.5;10;gut;0.5;tlag;0.7\n")
    assert read_doses(path) == [Dose(1.5, "gut", 10.0, 0.5, "tlag", 0.7)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("t,dose\n0,1\n", "name time and amount"),
        ("time,amount\n0,1\n", "it has no state"),
        ("time,amount,state\nsoon,1,gut\n", "line 2: time is 'soon'"),
        ("time,amount,CMT\n0,1,3\n", "compartment 3 has no name"),
        ("time,amount,state,EVID\n0,1,gut,4\n", "EVID is 4"),
        ("time,amount,state,duration\n0,1,gut,-1\n", "duration is -1"),
        ("time,amount,state,addl\n0,1,gut,3\n", "give II above 0"),
        ("TIME,amount,state,T\n0,1,gut,9\n", "TIME, T both say the time of a dose"),
        ("time,amt,amount,state\n0,1,2,gut\n", "amt, amount both say the amount of a dose"),
        ("time,amount,CMT\n0,1,1.5\n", "compartment 1.5 has no name"),
        ("time,amount,CMT\n0,1,0\n", "compartment 0 has no name"),
        ("time,amount,CMT,EVID\n0,0,1,3\n", "EVID is 3"),
        ("time,amount,CMT,rate,dur\n0,1,1,2,3\n", "rate is 2 and duration 3"),
        ("time,amount,CMT,SS,II\n0,1,1,1,8\n", "SS is 1"),
        ("time [min],amount,CMT,DUR [h]\n0,1,1,1\n", "'DUR' is in h, and times are in min"),
        ("time,amount,CMT,lag [h]\n0,1,1,1\n", "'lag' is in h, and times are in no unit"),
        ("ID,time,amount,CMT\n1,0,1,1\n2,0,1,1\n", "subjects 1, 2: name one as subject"),
        ("time,amount,CMT,ADDL,II\n0,1,1,2.7,8\n", "ADDL is 2.7: give a whole number"),
        ("time [h],amount,CMT,rate [mg/min]\n0,1,1,1\n", "'rate' is in mg/min, and times are in h"),
        ("time,amount,CMT,rate [mg/h]\n0,1,1,1\n", "'rate' is in mg/h, and times are in no unit"),
        ("time,amount,CMT,fraction [%]\n0,1,1,50\n", "'fraction' is in %: write 0.5 for a half"),
        ("time,amount,CMT,fraction\n0,1,1,50\n", "fraction is 50: write 0.5 for a half"),
    ],
)
def test_a_line_that_is_no_dose_is_named(tmp_path, text, sentence):
    path = tmp_path / "doses.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_doses(path, states=STATES)


def test_lag_and_fraction_may_be_those_of_one_state(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(NONMEM.replace("\n2,", "\n1,"))
    found = read_doses(path, states=STATES, lag={"gut": "tlag"}, fraction={"gut": "F"})
    assert found[0] == Dose(0.0, "gut", 100.0, 0.0, "tlag", "F")
    assert found[3] == Dose(0.0, "central", 50.0, 2.0)
    with pytest.raises(InputError, match="lag names gutt, and the lines of"):
        read_doses(path, states=STATES, lag={"gutt": 0.5})


def test_times_are_converted_from_the_unit_of_the_file(tmp_path):
    path = tmp_path / "doses.csv"
    path.write_text("TIME [min],AMT,CMT,RATE,lag,ADDL,II\n30,60,1,4,6,1,60\n")
    two = [Dose(at, "gut", 60.0, 0.25, 0.1) for at in (0.5, 1.5)]
    assert read_doses(path, states=STATES, to="h") == two
    assert read_doses(path, states=STATES)[0] == Dose(30.0, "gut", 60.0, 15.0, 6.0)
    with pytest.raises(InputError, match="t_unit is 's', but"):
        read_doses(path, states=STATES, t_unit="s")
    path.write_text("time,amount,state\n30,60,gut\n")
    assert read_doses(path, t_unit="min", to="h") == [Dose(0.5, "gut", 60.0)]
    assert read_doses(path, to="h") == [Dose(30.0, "gut", 60.0)]
    assert read_doses(path, to="generation") == [Dose(30.0, "gut", 60.0)]
    with pytest.raises(InputError, match="'furlong' does not convert to 's'"):
        read_doses(path, to="furlong")
    path.write_text("time [h],amount [mg],state,rate [mg/hr],fraction\n1,60,gut,30,1.5\n")
    assert read_doses(path) == [Dose(1.0, "gut", 60.0, 2.0, fraction=1.5)]


def test_a_subject_that_the_file_does_not_know_is_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(NONMEM)
    with pytest.raises(
        InputError, match=r"subject names 3, and the lines of .* 1, 2: name one of these"
    ):
        read_doses(path, states=STATES, subject="3")
    path.write_text("time,amount,state\n0,1,gut\n")
    assert read_doses(path, subject="3") == [Dose(0.0, "gut", 1.0)]


def test_compartments_are_numbers_however_they_are_written(tmp_path):
    path = tmp_path / "doses.csv"
    path.write_text("time,amount,CMT\n0,1,2.0\n3,0,1.0\n")
    assert read_doses(path, states=STATES) == [Dose(0.0, "central", 1.0)]


def test_one_subject_alone_that_has_doses_need_not_be_named(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(NONMEM.replace("2,0,1,50", "2,0,0,."))
    one = read_doses(path, states=STATES)
    assert one == read_doses(path, states=STATES, subject="1")
    assert len(one) == 3
    assert read_doses(path, states=STATES, subject="2") == []


def test_a_lag_of_a_state_that_nothing_enters_is_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("time,amount,state\n0,0,.\n")
    with pytest.raises(InputError, match=r"lag names gut, and the lines of .* none: name one"):
        read_doses(path, lag={"gut": 0.5})


USUAL = """TIME,AMT,EVID,mdv,DV
0,100,1,1,0
0,.,0,0,0.5
1,.,0,0,3.0
2,.,2,.,0
3,.,0,1,0
4,.,.,.,0
"""
"""Of these three lines are samples: that of a dose, another one and a missing value have DV = 0."""
COLUMNS = np.genfromtxt(USUAL.splitlines(), delimiter=",", names=True)
MEASURED = [0.5, 3.0, np.nan, np.nan, 0.0]


def test_lines_of_doses_and_missing_values_are_not_measured(tmp_path, caplog):
    path = tmp_path / "data.csv"
    path.write_text(USUAL)
    with caplog.at_level(logging.WARNING):
        record = read_record(path, outputs="DV", time="TIME")
    told = "outputs of 3 samples are missing, where EVID or mdv is not 0"
    assert caplog.messages == [f"data.csv: {told}"]
    np.testing.assert_array_equal(record.t, [0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(record.y[:, 0], MEASURED)
    path.write_text(USUAL.replace("0,.,0,0,0.5\n", ""))
    record = read_record(path, outputs=["DV", "EVID"], time="TIME")
    np.testing.assert_array_equal(record.y[:, 0], [np.nan, 3.0, 0.0, np.nan, 0.0])


def _saved(folder, suffix):
    """The table in a file of a suffix, under names beside each other; and the prefix of these."""
    path, columns = folder / f"data{suffix}", {name: COLUMNS[name] for name in COLUMNS.dtype.names}
    if suffix == ".npz":
        np.savez(path, **columns)
    elif suffix == ".mat":
        savemat(path, {"rig": columns})
    else:
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[f"rig/{name}"] = values
    return path, "" if suffix == ".npz" else "rig."


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".h5"])
def test_variables_of_files_flag_what_was_not_measured(tmp_path, caplog, suffix):
    path, place = _saved(tmp_path, suffix)
    record = read_record(path, outputs=f"{place}DV", time=f"{place}TIME")
    flags = f"{place}EVID or {place}mdv"
    told = f"data{suffix}: outputs of 3 samples are missing, where {flags} is not 0"
    assert [one for one in caplog.messages if "missing" in one] == [told]
    np.testing.assert_array_equal(record.t, [0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(record.y[:, 0], MEASURED)


@pytest.mark.parametrize("experiment", [None, "ID"])
def test_columns_of_dataframes_flag_what_was_not_measured(experiment):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS).assign(ID=1)
    found = smcpn.Record.from_dataframe(frame, outputs="DV", time="TIME", experiment=experiment)
    record = found if experiment is None else found[0]
    np.testing.assert_array_equal(record.t, [0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(record.y[:, 0], MEASURED)
    measured = smcpn.Record.from_dataframe(frame[1:], outputs=["DV", "EVID"], time="TIME")
    np.testing.assert_array_equal(measured.y[:, 0], [0.5, 3.0, 0.0, np.nan, 0.0])


def test_two_doses_at_a_time_without_a_sample_leave_one_row():
    rows = np.array([0, 1, 2, 3, 4])
    t, y = np.array([0.0, 0.0, 1.0, 1.0, 2.0]), np.array([[np.nan, np.nan, np.nan, 3.0, 2.0]]).T
    samples = MeasuredSamples(t, np.empty((5, 0)), y)
    assert without_twins(samples, rows).tolist() == [0, 3, 4]


def test_lines_of_a_stream_that_are_not_measured_have_no_output():
    parser = LineParser(Channels((), ("DV",)))
    samples = list(Lines(Pieces(USUAL.encode()), parser).items(Event()))
    y = [float(one.y[0]) for one in samples if hasattr(one, "y")]
    np.testing.assert_array_equal(y, [np.nan, 0.5, 3.0, np.nan, np.nan, 0.0])
    told = [one.message for one in samples if hasattr(one, "message")]
    assert "outputs of samples are missing, where EVID or mdv is not 0" in told
    named = LineParser(Channels((), ("DV", "mdv")))
    samples = list(Lines(Pieces(USUAL.encode()), named).items(Event()))
    first = next(one for one in samples if hasattr(one, "y"))
    assert np.isnan(first.y).all()
    parser = LineParser(Channels((), ("DV", "mdv", "EVID")))
    samples = list(Lines(Pieces(USUAL.encode()), parser).items(Event()))
    first = next(one for one in samples if hasattr(one, "y"))
    np.testing.assert_array_equal(first.y, [0.0, 1.0, 1.0])


def test_an_ambient_temperature_is_no_dose(tmp_path):
    path = tmp_path / "room.csv"
    path.write_text("t,amt,T_room\n0,20.5,21\n1,20.6,22\n")
    assert doses_left_out(path, ["t", "T_room"]) == ""
    path.write_text("t,amt,T_room,cmt\n0,20.5,21,1\n1,20.6,22,1\n")
    assert "has doses in its column amt" in doses_left_out(path, ["t", "T_room"])
