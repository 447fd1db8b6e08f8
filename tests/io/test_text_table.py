"""Tables in text files: what is guessed, told and refused."""

import logging
import random
import re

import numpy as np
import pytest

import smcpn

T, U, X = [0.0, 0.1, 0.2], [1.0, 2.0, 2.5], [0.25, np.nan, -1.5]
GERMAN = "0,0;1,0;0,25\n0,1;2,0;\n0,2;2,5;-1,5\n"
PLAIN = "0,1,0.25\n0.1,2,\n0.2,2.5,-1.5\n"
TEKTRONIX = "Model,TDS2024\nRecord Length,3\nSample rate,10.0\n\nt,u,x\n"
UNITS = "t [s],u [N],x [mm]\n"

FILES = {
    "plain": ("t,u,x\n" + PLAIN, ""),
    "units": (UNITS + PLAIN, ""),
    "comment": ("# t u x of a rig\nt,u,x\n" + PLAIN, "header in line 2"),
    "savetxt": ("# t,u,x\n" + PLAIN, ""),
    "semicolons": ("t;u;x\n" + GERMAN, "semicolons, decimal comma, header in line 1, 3 columns"),
    "trailing": ("t;u;x;\n" + GERMAN.replace("\n", ";\n"), "semicolons"),
    "no trailing in header": ("t;u;x\n" + GERMAN.replace("\n", ";\n"), "semicolons"),
    "tabs": ("t\tu\tx\n" + PLAIN.replace(",", "\t"), "tabs, decimal point"),
    "bars": ("t | u | x\n" + PLAIN.replace(",", " | "), "bars"),
    "spaces": ("  t (s)  u (N)  x (mm)\n  0 1 0.25\n 0.1  2 nan\n 0.2 2.5 -1.5", "spaces"),
    "spaces and commas": ("t u x\n0 1 0,25\n0,1 2 -\n0,2 2,5 -1,5\n", "spaces, decimal comma"),
    "tabs and commas": ("t\tu\tx\n" + GERMAN.replace(";", "\t"), "tabs, decimal comma"),
    "oscilloscope": (TEKTRONIX + PLAIN, "commas, decimal point, header in line 5"),
    "row of units": ("t;u;x\n(s);(N);(mm)\n\n" + GERMAN, r"t \[s\], u \[N\], x \[mm\]"),
    "quoted": ('"t","u","x"\n"0,0","1,0","0,25"\n"0,1","2","-"\n"0,2","2,5","-1,5"\n', "comma"),
    "byte order mark": ("\ufefft,u,x\n" + PLAIN, ""),
    "other columns": ("no;t;note;u;x\n" + "".join(
        f"{k}.;{row.replace(';', f';a.b {k} µ;', 1)}\n" for k, row in enumerate(GERMAN.split())
    ), "decimal comma"),
    "dates": ("t,u,x\n" + "".join(
        f"2026-03-01 23:59:59.{row[2:3] if row[1] == '.' else 0}{row[row.index(','):]}\n"
        for row in PLAIN.split()
    ), ""),
    "windows": ("t,u,x\r\n" + PLAIN.replace("\n", "\r\n"), ""),
    "missing marks": ("t,u,x\n" + PLAIN.replace("2,\n", "2,N/A\n"), ""),
    "one quoted field": ("t,u,x\n" + PLAIN.replace("0.25", '"0.25"'), ""),
    "header again": ("t,u,x\n" + PLAIN.replace("0.2,", "t,u,x\n# more\n0.2,"), ""),
}  # fmt: skip


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode(encoding))
    return path


def read(path, **options):
    return smcpn.read_record(path, **{"time": "t", "inputs": "u", "outputs": "x"} | options)


@pytest.fixture(autouse=True)
def heard(caplog):
    """Commands that other tests ran with --quiet left the reader silent."""
    caplog.set_level(logging.WARNING, "smcpn.io")


@pytest.mark.parametrize("name", FILES)
def test_how_a_file_is_written_is_guessed_and_told(tmp_path, caplog, name):
    text, told = FILES[name]
    record = read(written(tmp_path, text))
    np.testing.assert_allclose(record.t, T, atol=1e-12)
    np.testing.assert_array_equal(record.u[:, 0], U)
    np.testing.assert_array_equal(record.y[:, 0], X)
    assert record.dt == 0.1
    assert len(caplog.messages) == bool(told)
    assert all(message.startswith("data.csv: ") for message in caplog.messages)
    assert not told or re.search(told, caplog.text)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_encodings(tmp_path, encoding):
    path = written(tmp_path, "Größe;x [µm]\n" + GERMAN[: GERMAN.index("\n")][:7] + "\n0,1;2,0\n",
                   encoding)  # fmt: skip
    record = smcpn.read_record(path, time="Größe", outputs="x", to={"x": "mm"})
    np.testing.assert_allclose(record.y[:, 0], [1e-3, 2e-3])
    assert record.y_unit == "mm"


def test_dates_are_counted_in_the_unit_of_the_model(tmp_path):
    path = written(tmp_path, "date,x\n2026-01-31,1\n2026-02-01,2\n2026-02-02,4\n")
    assert smcpn.read_record(path, time="date", outputs="x").dt == 86400.0
    assert smcpn.read_record(path, time="date", outputs="x", to={"date": "day"}).dt == 1.0
    days = smcpn.read_record(path, time="date", outputs="x", t_unit="days")
    assert (days.dt, days.t_unit) == (1.0, "day")
    with pytest.raises(smcpn.InputError, match=r"column 'date'.*does not convert"):
        smcpn.read_record(path, time="date", outputs="x", to={"date": "mm"})


@pytest.mark.parametrize(
    ("header", "options", "unit", "dt"),
    [
        ("t [h]", {}, "h", 0.5),
        ("t (hours)", {}, "h", 0.5),
        ("t [Days]", {}, "day", 0.5),
        ("t", {}, "s", 0.5),
        ("t", {"t_unit": "years"}, "year", 0.5),
        ("t [h]", {"t_unit": "hour"}, "h", 0.5),
        ("t [h]", {"to": {"t": "s"}}, "s", 1800.0),
        ("t [s]", {}, "s", 0.5),
    ],
)
def test_the_unit_of_time_is_that_of_the_file_and_told(tmp_path, caplog, header, options, unit, dt):
    path = written(tmp_path, f"{header},x\n0,1\n0.5,2\n1,4\n")
    record = smcpn.read_record(path, time="t", outputs="x", **options)
    assert (record.t_unit, record.dt) == (unit, dt)
    assert (f"times stay in {unit}" in caplog.text) == (unit != "s" and not options)
    with pytest.raises(smcpn.InputError, match=r"t_unit is 'min', but .* says 'h': correct one"):
        smcpn.read_record(
            written(tmp_path, "t [h],x\n0,1\n1,2\n"), time="t", outputs="x", t_unit="min"
        )


def test_dates_whose_header_names_a_zone_are_seconds(tmp_path):
    path = written(tmp_path, "time (UTC),x\n2026-01-31 01:00,1\n2026-01-31 02:00,2\n")
    record = smcpn.read_record(path, time="time", outputs="x")
    assert (record.t_unit, record.dt) == ("s", 3600.0)


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        (("20260131", "20260201", "20260203"), {}, [0.0, 86400.0, 259200.0]),
        (("20260131", "20260201", "20260203"), {"to": {"t": "day"}}, [0.0, 1.0, 3.0]),
        (("202601312359", "202602010000", "202602010002"), {}, [0.0, 60.0, 180.0]),
        (("20260131235959", "20260201000000", "20260201000003"), {}, [0.0, 1.0, 4.0]),
        # The 30th of February, other digits, a unit that is stated: times.
        (("20260228", "20260229", "20260231"), {}, [20260228.0, 20260229.0, 20260231.0]),
        (("20260131", "20260201", "120260203"), {}, [20260131.0, 20260201.0, 120260203.0]),
        (("20260131.5", "20260201", "20260203"), {}, [20260131.5, 20260201.0, 20260203.0]),
        (("20260131", "20260201", "20260203"), {"t_unit": "s"}, [20260131, 20260201, 20260203]),
        (("10000101", "10000102", "10000104"), {}, [10000101, 10000102, 10000104]),
    ],
)
def test_numbers_that_are_all_dates_are_dates_and_told(tmp_path, caplog, times, options, expected):
    path = written(tmp_path, "t,x\n" + "".join(f"{one},1\n" for one in times))
    record = smcpn.read_record(path, time="t", outputs="x", **options)
    # pint rounds what a day has in seconds.
    np.testing.assert_allclose(record.t, expected, rtol=1e-15)
    assert ("taken for dates" in caplog.text) == (expected[0] == 0.0)


@pytest.mark.parametrize(
    ("line", "unit"),
    [("s,mm", "mm"), ("[sec],[ticks]", "ticks"), ("s,ticks", "ticks"), ("hh:mm,°C", "°C")],
)
def test_words_below_the_names_are_units_where_one_is(tmp_path, line, unit):
    record = smcpn.read_record(written(tmp_path, f"t,x\n{line}\n0,1\n1,2\n"), time="t", outputs="x")
    assert (len(record), record.y_unit) == (2, unit)


@pytest.mark.parametrize(
    ("header", "times", "interval", "told"),
    [
        ("t", ("00:00", "00:01", "00:02"), 60.0, "as hours and minutes.*'t \\[mm:ss\\]'"),
        ("t", ("00:00:00", "00:01:00", "00:02:00"), 60.0, ""),
        ("t [mm:ss]", ("59:59", "60:00", "60:01"), 1.0, ""),
        ("t", ("31.12.2025 9:59", "31.12.2025 10:00", "31.12.2025 10:01"), 60.0, ""),
        ("t", ("2026/1/31", "2026/2/1", "2026/2/2"), 86400.0, ""),
        ("t", ("01/30/2026", "01/31/2026", "02/02/2026"), None, ""),
    ],
)
def test_times_as_loggers_write_them(tmp_path, caplog, header, times, interval, told):
    path = written(tmp_path, f"{header},x\n" + "".join(f"{one},1\n" for one in times))
    record = smcpn.read_record(path, time="t", outputs="x")
    assert record.dt == interval
    assert re.search(told, caplog.text)
    assert bool(told) == ("hours and minutes" in caplog.text)


def test_an_empty_line_of_one_column_is_a_missing_sample(tmp_path):
    text = "x [mm]\n1\n\n3\n# later\n\n\n6\n7\n\n\n"
    record = smcpn.read_record(written(tmp_path, text), dt=0.5, outputs="x")
    np.testing.assert_array_equal(record.y[:, 0], [1, np.nan, 3, np.nan, np.nan, 6, 7])
    with pytest.raises(smcpn.InputError, match="an empty line between all samples"):
        smcpn.read_record(written(tmp_path, "x\n1\n\n2\n\n3\n\n4\n"), dt=0.5, outputs="x")
    with pytest.raises(smcpn.InputError, match="line 3 is empty, and samples are counted"):
        smcpn.read_record(written(tmp_path, "x,u\n1,1\n\n2,2\n"), dt=0.5, outputs="x")
    record = smcpn.read_record(written(tmp_path, "x,u\n1,1\n2,2\n\n# end\n"), dt=0.5, outputs="x")
    assert len(record) == 2


@pytest.mark.parametrize(
    ("text", "u"),
    [
        ("t;u;x\n0;1.234;2\n0.5;2.345;3\n", [1.234, 2.345]),
        ("t,u,x\n1,1.234,2\n2,2.345,3\n", [1.234, 2.345]),
        ("t;u;x\n0;1234;2\n1;2.345;3\n", [1234, 2.345]),
        ("t;u;x\n0,5;1;2\n1,5;2;3\n", [1, 2]),
    ],
)
def test_a_mark_that_can_only_be_that_of_decimals(tmp_path, text, u):
    np.testing.assert_array_equal(read(written(tmp_path, text)).u[:, 0], u)


def test_units_of_several_outputs_go_with_the_record(tmp_path):
    path = written(tmp_path, "t,conc [mg/L],PCA [%]\n0,1,2\n1,2,3\n2,3,4\n")
    record = smcpn.read_record(path, time="t", outputs=["conc", "PCA"])
    assert record.y_unit == "mg/L, %"
    assert [record[1:].unit_of(j) for j in range(2)] == ["mg/L", "%"]
    assert [axes.get_ylabel() for axes in record.plot().axes] == [
        "output 0 (mg/L)", "output 1 (%)"]  # fmt: skip
    given = smcpn.Record(y=record.y, dt=1.0, y_unit=["mg/L", "%"])
    assert (given.y_unit, given.unit_of(1)) == (record.y_unit, "%")
    assert smcpn.Record(y=record.y, dt=1.0, y_unit="m").unit_of(1) == "m"
    with pytest.raises(smcpn.InputError, match="y_unit has 1 unit for 2 outputs"):
        smcpn.Record(y=record.y, dt=1.0, y_unit=["m"])


def test_other_words_below_the_names_are_no_numbers(tmp_path):
    path = written(tmp_path, "t,x\nstart,idle\n0,1\n1,2\n")
    with pytest.raises(smcpn.InputError, match="line 2: 'x' is 'idle', no number"):
        smcpn.read_record(path, time="t", outputs="x")


def test_a_table_without_names(tmp_path):
    header = ["t", "u", "x"]
    for text in (PLAIN, GERMAN, "device 7\n\n" + GERMAN, "a,b,c\n" + PLAIN):
        record = read(written(tmp_path, text), header=header)
        np.testing.assert_array_equal(record.y[:, 0], X)


def test_what_is_stated_is_not_guessed(tmp_path, caplog):
    path = written(tmp_path, "t;x\n1,234;5\n2,468;6\n3,702;7\n")
    record = smcpn.read_record(path, time="t", outputs="x", decimal=",", delimiter=";")
    assert record.dt == 1.234
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_every_way_of_writing_numbers_reads_the_same(tmp_path):
    """Numbers written with any separator, decimal mark and preamble come back to the last bit."""
    rng = random.Random(3)
    for delimiter in (",", ";", "\t", " ", "|"):
        for decimal in (".", ","):
            if delimiter == decimal:
                continue
            values = [[rng.gauss(0, 10 ** rng.uniform(-3, 3)) for _ in range(3)] for _ in range(40)]
            rows = [delimiter.join(repr(v).replace(".", decimal) for v in row) for row in values]
            preamble = "".join(f"Setting{k}{delimiter}{k}\n" for k in range(rng.randint(0, 9)))
            text = preamble + delimiter.join(["a", "b", "c"]) + "\n" + "\n".join(rows)
            path = written(tmp_path, text)
            record = smcpn.read_record(path, dt=1.0, inputs="c", outputs=["a", "b"])
            np.testing.assert_array_equal(np.hstack([record.y, record.u]), values)


def test_long_tables_are_read_in_pieces(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(500, 3)).round(6)
    text = "x,t,u\n" + "\n".join(f"{a},{k},{b}" for k, (a, _, b) in enumerate(rows))
    path = written(tmp_path, text)
    monkeypatch.setattr("smcpn.io.table.CHUNK", 100)
    record = read(path)
    np.testing.assert_array_equal(np.hstack([record.y, record.u]), rows[:, [0, 2]])
    lines = text.split("\n")
    lines[400] = "1,2,oops"
    with pytest.raises(smcpn.InputError, match=r"data.csv, line 401: 'u' is 'oops'"):
        read(written(tmp_path, "\n".join(lines)))


@pytest.mark.parametrize(
    ("rows", "hold", "told"),
    [
        ([*range(30), *range(40, 60)], "zoh", "between samples 29 and 30, 11 intervals apart:"),
        (
            [*range(30), *range(40, 60), 64],
            "foh",
            "1 shorter gap: the input is drawn as a line",
        ),
        ([*range(30), *range(40, 60)], "no input", ""),
        (range(50), "zoh", ""),
        (np.cumsum(1.0 + np.arange(50) % 3), "zoh", ""),
    ],
)
def test_missing_rows_are_told(tmp_path, caplog, rows, hold, told):
    path = written(tmp_path, "t,u,x\n" + "".join(f"{t},1,2\n" for t in rows))
    given = {"inputs": ()} if hold == "no input" else {"hold": hold}
    read(path, **given)
    assert told in caplog.text
    assert bool(told) == ("rows are missing" in caplog.text)


def test_parts_of_a_second_become_seconds_unless_the_model_is_said_to_count_in_them(tmp_path):
    path = tmp_path / "rig.csv"
    path.write_text("t [ms],y\n0,1\n20,2\n40,3\n")
    assert smcpn.read_record(path, time="t", outputs="y").dt == 0.02
    kept = smcpn.read_record(path, time="t", outputs="y", t_unit="ms")
    assert (kept.dt, kept.t_unit) == (20.0, "ms")
    path.write_text("t [h],y\n0,1\n20,2\n40,3\n")
    assert smcpn.read_record(path, time="t", outputs="y").t_unit == "h"
