"""Reading a configuration: positions, sections, files, priors, and what is refused where."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import io, stats

import smcpn
from smcpn.checkpoint.codec import read_again
from smcpn.cli.config import load_system
from smcpn.cli.config.document import Document, key_lines
from smcpn.io import files
from smcpn.io.files import Layout, read_columns
from smcpn.run.identify import Settings

MODEL = """import smcpn


@smcpn.ode
def oscillator(x, v, u, *, c, k, gain=1.0):
    return v, gain * u - c * v - k * x


def moved(x, *, x0):
    return x + x0
"""
CONFIG = """[model]
file = "model.py"

[inputs]
u = "force"

[outputs]
x = {column = "position", noise = 0.01}

[data]
time = "t"
train = "data.csv"

[prior]
c = {lognormal = {median = 0.3, spread = 2}}
k = {dist = "lognorm", s = 1.0, scale = 4.0}
"""
ROOT = Path(__file__).parents[3]
T = np.arange(40) * 0.05
FORCE, POSITION = np.sin(T), 0.3 * np.cos(3 * T)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "config.toml").write_text(CONFIG)
    write_csv(tmp_path / "data.csv")
    return tmp_path


def write_csv(path, header="t,force,position", delimiter=",", decimal="."):
    rows = [[f"{v:.9g}".replace(".", decimal) for v in row] for row in zip(T, FORCE, POSITION)]  # noqa: B905
    path.write_text("\n".join([header, *(delimiter.join(row) for row in rows)]) + "\n")


def changed(folder, old: str, new: str):
    text = (folder / "config.toml").read_text()
    assert old in text
    (folder / "config.toml").write_text(text.replace(old, new))


def problem(folder) -> smcpn.Problem:
    return load_system("config.toml").problem


def test_a_model_counts_time_in_hours_and_a_file_is_read_once(folder, caplog):
    write_csv(folder / "data.csv", "t;force;position", ";", ",")
    changed(folder, 'time = "t"', 'time = {column = "t", unit = "min", to = "hour"}')
    changed(folder, '"data.csv"', '{file = "data.csv", samples = "0:20"}\ntest = "data.csv"')
    system = load_system("config.toml")
    assert system.problem.records[0].dt == pytest.approx(0.05 / 60)
    assert system.problem.records[0].t_unit == "h"
    assert "stay in" not in caplog.text
    assert len([one for one in caplog.messages if "semicolons" in one]) == 1


def test_an_interval_has_a_unit_and_a_stream_is_converted_to_it(folder):
    changed(folder, 'time = "t"', 'dt = 0.05\nt_unit = "days"')
    system = load_system("config.toml")
    assert (system.problem.records[0].dt, system.problem.records[0].t_unit) == (0.05, "day")
    assert system.stream().channels.column(("t", 0)).to == "day"
    changed(folder, "dt = 0.05", 'time = {column = "t", unit = "min"}')
    with pytest.raises(smcpn.InputError, match=r"data.t_unit: t_unit is 'days', but .* says 'min'"):
        load_system("config.toml")


# Positions


NASTY = '''# a = 1
a = 1.5 # x = 3
"b c".d = {e = [1, 2,
 {f = "x]"}], g = -3e-4}

[t.u]
v = """
x = 3
[z]
"" """
w = 1979-05-27 07:32:00
s = 'it' # ]
[[r.s]]
k = 1
[[r.s]]
k = "\\"["
[r.s.z]
q = [
  1,

  [2, 3], # c ]
]
'''


def paths(value, path=()):
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    else:
        return set()
    return {(*path, key) for key, _ in entries}.union(
        *(paths(entry, (*path, key)) for key, entry in entries)
    )


def test_every_key_has_its_line():
    lines = key_lines(NASTY)
    assert set(lines) == paths(tomllib.loads(NASTY))
    assert lines["a",] == 2
    assert lines["b c", "d", "e", 2, "f"] == 4
    assert lines["t", "u", "w"] == 11
    assert lines["r", "s", 1, "k"] == 16
    assert lines["r", "s", 1, "z", "q", 1] == 21


VALUES = st.recursive(
    st.one_of(st.integers(-9, 9), st.booleans(), st.text("ab]}[{,=#'\" \n.", max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab.# ]", max_size=3), inner)
    ),
    max_leaves=8,
)


def inline(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n ".join(inline(v) for v in value) + "]"
    return json.dumps(value)


@pytest.mark.slow
@given(st.dictionaries(st.text("ab.# ]", max_size=3), VALUES, max_size=4))
def test_every_key_of_any_document_has_a_line(document):
    text = "".join(f"# note\n{json.dumps(key)} = {inline(v)}\n" for key, v in document.items())
    assert tomllib.loads(text) == document
    assert set(key_lines(text)) == paths(document)


# What is read


def test_a_configuration_is_the_problem_it_describes(folder):
    case = load_system("config.toml")
    built = case.problem
    assert built.names == ("c", "k")
    assert built.observe == ["x"]
    assert built.noise == [0.01]
    np.testing.assert_allclose(built.records[0].u[:, 0], FORCE, atol=1e-9)
    np.testing.assert_allclose(built.records[0].y[:, 0], POSITION, atol=1e-9)
    c, k = built.prior.distributions.values()
    assert c.ppf(0.5) == pytest.approx(0.3)
    assert c.cdf(0.6) == pytest.approx(stats.norm.cdf(1.0))
    assert k.mean() == pytest.approx(stats.lognorm(1.0, scale=4.0).mean())
    assert list(case.tests) == ["data.csv (trained on)"]
    assert case.solver() == smcpn.EKF0()


def test_a_folder_stands_for_the_configuration_in_it(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert load_system(folder.name).name == folder.name


def test_rounded_times_are_an_interval_and_others_are_kept(folder):
    assert problem(folder).records[0].dt == 0.05
    rows = (folder / "data.csv").read_text().splitlines()
    (folder / "data.csv").write_text("\n".join(rows[:10] + rows[15:]))
    record = problem(folder).records[0]
    assert record.dt is None
    assert len(record) == 35


def test_units_are_carried_or_converted_where_it_is_asked_for(folder):
    write_csv(folder / "data.csv", "t [ms],force [kN],position [mm]")
    record = problem(folder).records[0]
    # A part of a second is that of an instrument.
    assert (record.dt, record.t_unit, record.y_unit) == (5e-5, "s", "mm")
    np.testing.assert_allclose(record.y[:, 0], POSITION, atol=1e-9)
    changed(folder, 'column = "position"', 'column = "position", to = "m"')
    changed(folder, 'u = "force"', 'u = {column = "force", unit = "kN", to = "N"}')
    record = problem(folder).records[0]
    assert record.y_unit == "m"
    changed(folder, "[data]", '[data]\nt_unit = "ms"')
    assert (problem(folder).records[0].dt, problem(folder).records[0].t_unit) == (0.05, "ms")
    np.testing.assert_allclose(record.y[:, 0], 1e-3 * POSITION, atol=1e-12)
    np.testing.assert_allclose(record.u[:, 0], 1e3 * FORCE, atol=1e-6)


def test_several_records_slices_and_tests(folder):
    changed(
        folder,
        'train = "data.csv"',
        'hold = "zoh"\n'
        'train = [{file = "data.csv", samples = "0:20"}, {file = "data.csv", samples = "20:30"}]\n'
        'test = {file = "data.csv", samples = "30:", name = "late", hold = "foh"}\n'
        "initialise = 5",
    )
    case = load_system("config.toml")
    assert [len(record) for record in case.problem.records] == [20, 10]
    assert case.problem.records[0].hold == "zoh"
    assert case.tests["late"].hold == "foh"
    assert len(case.tests["late"]) == 10
    assert case.initialise == 5
    assert load_system("config.toml", hold="bandlimited").problem.records[0].hold == "bandlimited"


def test_everything_a_problem_takes(folder):
    changed(
        folder,
        'x = {column = "position", noise = 0.01}',
        'moved = {column = "position", noise = "sigma"}\n'
        'v = {column = "speed", noise = {studentt = {scale = 0.02}}}',
    )
    header, *rows = (folder / "data.csv").read_text().splitlines()
    (folder / "data.csv").write_text("\n".join([f"{header},speed", *(f"{r},0.5" for r in rows)]))
    with (folder / "config.toml").open("a") as file:
        file.write(
            'x0 = {normal = {mean = 0, sd = 0.1}, coordinate = "identity"}\n'
            "sigma = {uniform = {low = 0.001, high = 0.1}}\ngain = 2.0\n"
            "kappa = {loguniform = {low = 1.0, high = 10.0}}\n"
            "[initial]\nx = 0.3\nv = {normal = {mean = 0.0, sd = 1.0}}\n"
            '[solver]\nkind = "EKF1"\nlikelihood = "dalton"\norder = 3\nsteps = 2\n'
            'diffusion = "kappa"\n'
            '[run]\nparticles = 50\nseed = 3\nmethod = "tempering"\nmoves = "waste-free"\n'
            'checkpoint = "run.h5"\nreport = "out.html"\n'
        )
    case = load_system("config.toml")
    built = case.problem
    assert built.names == ("c", "k", "x0", "sigma", "kappa", "v(0)")
    assert built.fixed == {"gain": 2.0}
    assert built.observe == ["moved", "v"]
    assert built.noise[0] == "sigma"
    assert built.noise[1].startswith("StudentT")
    assert case.solver() == smcpn.EKF1(order=3, steps=2, diffusion="kappa")
    assert case.solver(order=4, steps="auto") == smcpn.EKF1(order=4, diffusion="kappa")
    given = case.settings.given
    assert isinstance(given.pop("moves"), smcpn.WasteFree)
    assert given.pop("checkpoint").name == "run.h5"
    assert given.pop("solver") == case.solver()
    assert given == {"likelihood": "dalton", "method": "tempering", "particles": 50, "seed": 3}


def test_process_noise_is_a_table_of_states(folder):
    table = '[process_noise]\nx = 0.1\nv = "q"\n"x, v" = "rho"\n[prior]\n'
    table += (
        "q = {lognormal = {median = 0.1, spread = 2.0}}\nrho = {uniform = {low = -1, high = 1}}"
    )
    changed(folder, "[prior]", table)
    case = load_system("config.toml")
    assert case.problem.names == ("q", "rho", "c", "k")
    assert case.problem.process_noise == {"x": 0.1, "v": "q", "x,v": "rho"}
    assert case.solver() == smcpn.RK4()
    for name in ("classical", "dalton"):
        with pytest.raises(smcpn.InputError, match=f"{name} likelihood takes no process noise"):
            smcpn.identify(case.problem, likelihood=name, particles=50, progress=False)


def test_delay_is_a_table_of_inputs(folder):
    table = '[delay]\nu = "tau"\n[prior]\ntau = {uniform = {low = 0, high = 0.2}}'
    changed(folder, "[prior]", table)
    case = load_system("config.toml")
    assert case.problem.names == ("tau", "c", "k")
    assert case.problem.delay == {"u": "tau"}


def test_a_model_file_may_have_a_stochastic_equation(folder):
    model = (folder / "model.py").read_text()
    (folder / "model.py").write_text(model.replace("@smcpn.ode", "@smcpn.sde").replace(
        "return v, gain * u - c * v - k * x", "return (v, gain * u - c * v), (0, 0.1 * k)"
    ))  # fmt: skip
    noise = load_system("config.toml").problem.model.process_noise
    assert noise is not None
    assert noise.columns.shape == (2, 1)


def test_coloured_noise_is_a_table(folder):
    changed(folder, "noise = 0.01", 'noise = {ar1 = {sd = 0.01, rho = "rho", interval = 0.1}}')
    changed(folder, "[prior]", "[prior]\nrho = {uniform = {low = 0, high = 1}}")
    built = problem(folder)
    assert built.names == ("rho", "c", "k")
    assert built.noise == ["AR1(sd=0.01, rho='rho', interval=0.1)"]
    assert built.model.coloured == (0,)
    changed(folder, 'rho = "rho"', "rho = 1.5")
    with pytest.raises(smcpn.InputError, match=r"config.toml, line .* rho of AR1 is 1.5"):
        problem(folder)


# Files


def write_mat(path):
    io.savemat(path, {"rig": {"t": T, "force": FORCE}, "y": np.stack([POSITION, -POSITION])})


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file["rig/t"], file["rig/force"] = T, FORCE[:, None]
        file["y"] = np.stack([POSITION, -POSITION], axis=1)
        file["y"].attrs["unit"] = "mm"


def write_mat73(path):
    """MATLAB's version 7.3 is HDF5, transposed, behind a block of text that tells the version."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["rig/t"], file["rig/force"] = T[None, :], FORCE[None, :]
        file["y"] = np.stack([POSITION, -POSITION])
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_npz(path):
    np.savez(path, **{"rig.t": T, "rig.force": FORCE, "y": np.stack([POSITION, -POSITION])})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.mat", write_mat),
        ("v73.mat", write_mat73),
        ("a.h5", write_hdf5),
        ("a.npz", write_npz),
    ],
)
def test_arrays_of_every_format(tmp_path, name, write):
    write(tmp_path / name)
    (columns,) = read_columns(tmp_path / name, Layout("rig.t", ("rig.force",), ("y[1]",)))
    np.testing.assert_array_equal(columns.t, T)
    np.testing.assert_array_equal(columns.u[:, 0], FORCE)
    np.testing.assert_array_equal(columns.y[:, 0], -POSITION)
    assert columns.units == ({"y[1]": "mm"} if name == "a.h5" else {})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("rig.t", "rig.forse", "y[0]"), "has no 'rig.forse' .*did you mean 'force'"),
        (("rig.t", "rig.force", "y"), r"shape \(40, 2\): choose a column, as 'y\[0\]'"),
        (("rig.t", "rig.force", "y[2]"), "it has 2 columns"),
        (("rig.t", "rig", "y[0]"), "holds variables: choose one of rig.t, rig.force"),
    ],
)
def test_variables_that_are_not_there(tmp_path, columns, message):
    write_mat(tmp_path / "a.mat")
    t, u, y = columns
    with pytest.raises(smcpn.InputError, match=message):
        read_columns(tmp_path / "a.mat", Layout(t, (u,), (y,)))


def bomb_npz(path):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("t.npy", "w") as member,
    ):
        np.lib.format.write_array_header_1_0(
            member, {"descr": "<f8", "fortran_order": False, "shape": (1_000_000,)}
        )
        member.write(bytes(8_000_000))


def bomb_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("t", (1 << 40,), "f8", chunks=(1 << 20,), compression="gzip")


def foreign_hdf5(path):
    (path.parent / "secret").write_bytes(b"12345678" * 3)
    with h5py.File(path, "w") as file:
        secret = [(str(path.parent / "secret"), 0, 24)]
        for name in "tuy":
            file.create_dataset(name, (3,), "f8", external=secret)


@pytest.mark.parametrize(
    ("name", "write"), [("a.npz", bomb_npz), ("a.h5", bomb_hdf5), ("b.h5", foreign_hdf5)]
)
def test_a_file_that_unpacks_to_more_or_elsewhere_is_refused(tmp_path, name, write, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    write(tmp_path / name)
    with pytest.raises(smcpn.InputError, match=r"bytes|other files"):
        read_columns(tmp_path / name, Layout("t", ("u",), ("y",)))


@pytest.mark.parametrize("name", ["a.mat", "a.h5", "a.npz", "a.csv", "a.xlsx", "none.csv"])
def test_a_file_that_is_something_else_is_refused(tmp_path, name):
    if name != "none.csv":
        (tmp_path / name).write_bytes(b"\x00\xff\xfe nothing of the kind")
    with pytest.raises(smcpn.InputError, match=name):
        read_columns(tmp_path / name, Layout("t", (), ("y",)))


def test_csv_of_other_countries_and_without_a_header(folder):
    changed(folder, 'time = "t"', 'time = "Zeit"\ndelimiter = ";"\ndecimal = ","')
    changed(folder, 'u = "force"', 'u = "Kraft"')
    changed(folder, 'column = "position"', 'column = "Weg in mm"')
    write_csv(folder / "data.csv", "Zeit [s];Kraft (N);Weg in mm", ";", ",")
    np.testing.assert_allclose(problem(folder).records[0].y[:, 0], POSITION, atol=1e-9)
    changed(folder, "train", 'header = ["Zeit", "Kraft", "Weg in mm"]\ntrain')
    rows = (folder / "data.csv").read_text().split("\n", 1)[1]
    (folder / "data.csv").write_text(rows)
    assert len(problem(folder).records[0]) == 40


# What is refused: file, line and key


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[inputs]", "[inpts]", "config.toml, line 4, inpts: .*did you mean 'inputs'"),
        ('train = "', 'trian = "', "line 12, data.trian: .*did you mean 'train'"),
        ("[prior]", "particles = 9\n[prior]", "line 14, data.particles: .*belongs to \\[run\\]"),
        ('u = "force"', "u = force", "config.toml, line 5 in 'u = force': Invalid value"),
        ('u = "force"', 'f = "force"', "line 5, inputs.f: 'f' is no input .*choose one of u"),
        ('u = "force"', 'u = "forse"', "line 5, inputs.u: .*no 'forse'.*did you mean 'force'"),
        ("x = {", "z = {", "line 8, outputs.z: 'z' is no state of model 'oscillator'"),
        ("noise = 0.01", "noise = -1", "line 8, outputs.x.noise: noise is -1"),
        ("noise = 0.01", "nois = 1", "line 8, outputs.x.nois: .*did you mean 'noise'"),
        (", noise = 0.01", "", "line 8, outputs.x: noise is missing"),
        ("0.01}", "{gauss = {}}}", "line 8, outputs.x.noise.gauss: 'gauss' is no noise"),
        ('time = "t"', 'time = "T"', "line 11, data.time: .*no 'T'.*did you mean 't'"),
        ('time = "t"', 'time = "t"\ndt = 1', "line 12, data.dt: time and dt are given"),
        ('time = "t"', "", "line 10, data: the time axis is missing"),
        ('time = "t"', "dt = 0", "line 11, data.dt: dt is 0: give a number above 0"),
        ('"data.csv"', '"no.csv"', "line 12, data.train.file: no.csv is no file"),
        ('"data.csv"', "{}", "line 12, data.train.file: it is missing"),
        (
            '"data.csv"',
            '{file = "data.csv", samples = "9"}',
            'line 12, data.train.samples: .*write "0:600"',
        ),
        (
            'train = "',
            'test = ["data.csv",\n "data.csv"]\ntrain = "',
            r"line 13, data.test\[1\]: two records are called 'data.csv'",
        ),
        ("c = {", "cc = {", "line 15, prior.cc: parameter 'c' .*written 'cc' here"),
        ("c = {", "f = 3\nc = {", "line 15, prior.f: prior 'f' belongs to no parameter"),
        ("median = 0.3, ", "", "line 15, prior.c.lognormal.median: it is missing"),
        ("spread = 2", "spread = 0.5", "line 15, prior.c.lognormal: .*spread above 1"),
        ("lognormal", "lognrmal", "prior.c.lognrmal: .*did you mean 'lognormal'"),
        ("s = 1.0,", "sd = 1.0,", "line 16, prior.k.sd: 'sd' is not known"),
        ('"lognorm"', '"lognrm"', "line 16, prior.k.dist: .*did you mean 'lognorm'"),
        ("s = 1.0", "s = -1.0", "line 16, prior.k: prior of 'k' has no valid support"),
        ("scale = 4.0", 'scale = 4.0, coordinate = "logit"', "line 16, prior.k: coordinate"),
        ("[prior]", "[initial]\nq = 1\n[prior]", "line 15, initial.q: initial names 'q'"),
        ("[prior]", "[process_noise]\nw = 1\n[prior]", "line 15, process_noise.w: .*no state"),
        ("[prior]", "[delay]\nw = 1\n[prior]", "line 15, delay.w: .*no input"),
        ("[prior]", '[delay]\nu = "tau"\n[prior]', "line 15, delay.u: .*no prior"),
        ("[prior]", "[process_noise]\nv = -1\n[prior]", "line 15, process_noise.v: .*positive"),
        ("[prior]", '[process_noise]\nv = 1\n"x,v" = 0.5\n[prior]', "line 14, .*noise of its own"),
        ("[prior]", '[run]\nseed = "a"\n[prior]', "line 15, run.seed: seed is 'a'"),
        ("[prior]", "[run]\nparticles = 3\n[prior]", "run.particles: particles is 3"),
        ("[prior]", '[solver]\nkind = "RK4"\norder = 3\n[prior]', "order: order is 3: RK4 has no"),
        ("[prior]", '[solver]\nform = "chain"\n[prior]', "line 15, solver.form: say which"),
        ("[prior]", "[solver]\norder = 99\n[prior]", "line 15, solver.order: order is 99"),
        (
            "[prior]",
            '[solver]\nkind = "RK4"\nlikelihood = "dalton"\n[prior]',
            "line 16, solver.likelihood: the dalton likelihood does not go with RK4",
        ),
        ('"model.py"', '"no.py"', "line 2, model.file: 'no.py' is no file"),
        ('"model.py"', '"model.py"\nname = "f"', "line 3, model.name: .*has no 'f'"),
    ],
)
def test_what_is_refused_names_the_line_and_the_key(folder, old, new, message):
    changed(folder, old, new)
    with pytest.raises(smcpn.InputError, match=message):
        load_system("config.toml")


@pytest.mark.parametrize(
    ("options", "argument", "message"),
    [
        ({"particles": 3}, "particles", "particles is 3: give a whole number from 10"),
        ({"particles": True}, "particles", "particles is True: give a whole number"),
        ({"seed": 1.5}, "seed", "seed is 1.5: give a whole number from 0"),
        ({"ess": float("nan")}, "ess", "ess is nan: give a share between 0 and 1"),
        ({"method": "temperin"}, "method", "did you mean 'tempering'"),
        ({"replicate": 2}, "replicate", "no option: did you mean 'replicates'"),
        ({"solver": {"kind": "EKF0", "order": 99}}, "solver.order", "order is 99"),
        ({"solver": {"kind": "RK4", "order": 3}}, "solver.order", "RK4 has no order"),
        ({"solver": smcpn.EKF0}, "solver", "give an instance"),
        ({"moves": "waste-free", "max_moves": 3}, "max_moves", "leave it out"),
    ],
)
def test_a_refused_option_is_named(options, argument, message):
    with pytest.raises(smcpn.InputError, match=message) as caught:
        Settings(**options)
    assert caught.value.argument == argument


def test_a_problem_names_the_argument_that_does_not_fit(folder):
    given = problem(folder)
    with pytest.raises(smcpn.InputError) as caught:
        smcpn.Problem(given.ode, given.records, observe="x", noise=1.0, prior={"c": 1.0, "q": 2.0})
    assert caught.value.argument == "prior"
    changed(folder, "[prior]", "[prior]\nq = 2.0")
    with pytest.raises(smcpn.InputError) as caught:
        load_system("config.toml")
    assert caught.value.argument == "prior.q"


def test_settings_come_back_from_json(folder):
    asked = Settings(
        solver=smcpn.EKF1(order=4, diffusion=2.0), moves="waste-free", seed=2**70, replicates=2
    ).resolved(problem(folder))
    again = read_again(asked)
    assert again == asked
    assert again.sampler == asked.sampler
    assert again.solver == asked.solver


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return v,", "return w,", "model.py, line 6: .*NameError: name 'w'"),
        ("return v,", "return v v,", "model.py, line 6: SyntaxError"),
        ("return v,", "if x > 0: pass\n    return v,", "line 6: .*branches on a traced value"),
        ("import smcpn", "import smcpn, nothing", "line 1: ModuleNotFoundError"),
        ("import smcpn", "raise SystemExit(3)", "line 1: SystemExit: 3"),
        ("return x + x0", "return x + np", "line 10: .*NameError: name 'np'"),
    ],
)
def test_a_model_that_fails_is_reported_at_its_line(folder, old, new, message):
    changed(folder, "x = {", "moved = {")
    changed(folder, "[prior]", "[prior]\nx0 = 0.5")
    (folder / "model.py").write_text(MODEL.replace(old, new))
    with pytest.raises(smcpn.InputError, match=message) as caught:
        load_system("config.toml")
    assert "\n" not in str(caught.value)


def test_a_broken_line_of_the_data_is_named(folder):
    rows = (folder / "data.csv").read_text().splitlines()
    rows[3] = "0.1,abc,1"
    (folder / "data.csv").write_text("\n".join(rows))
    with pytest.raises(smcpn.InputError, match=r"data.csv, line 4: 'force' is 'abc', no number"):
        load_system("config.toml")


def test_units_that_contradict_or_do_not_convert(folder):
    write_csv(folder / "data.csv", "t [s],force [N],position [mm]")
    changed(folder, 'column = "position"', 'column = "position", unit = "cm"')
    with pytest.raises(smcpn.InputError, match=r"line 8, outputs.x.unit: .*the file says 'mm'"):
        load_system("config.toml")
    changed(folder, 'unit = "cm"', 'to = "s"')
    with pytest.raises(smcpn.InputError, match=r"line 8, outputs.x.to: unit 'mm' does not convert"):
        load_system("config.toml")
    changed(folder, 'to = "s"', 'to = "smoots per blink"')
    with pytest.raises(smcpn.InputError, match=r"line 8, outputs.x.to: unit .* is not known"):
        load_system("config.toml")


def test_a_document_that_cannot_be_read(tmp_path):
    with pytest.raises(smcpn.InputError, match=r"none.toml cannot be read: No such file"):
        Document.read(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_bytes(b"a = 1\r\n\r\n[b\r\n")
    with pytest.raises(smcpn.InputError, match=r"a.toml, line 3 in '\[b': Expected"):
        Document.read(tmp_path / "a.toml")


def test_the_page_shows_the_configuration_that_is_written():
    page = (ROOT / "docs" / "tutorials" / "command-line.md").read_text(encoding="utf-8")
    shown, *_ = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    written = (ROOT / "smcpn" / "cli" / "config" / "template" / "config.toml").read_text(
        encoding="utf-8"
    )
    assert tomllib.loads(shown) == tomllib.loads(written)
    equation = (ROOT / "smcpn" / "cli" / "config" / "template" / "model.py").read_text(
        encoding="utf-8"
    )
    assert "return v, (u - c * v - k * x - k3 * x**3) / m" in equation
    assert "return v, (u - c * v - k * x - k3 * x**3) / m" in page


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = " + "[" * 50_000, "nested too deeply"),
        (".".join(["a"] * 5000) + " = 1", "a key of more than 30 parts"),
        ("#" * 300_000, "more than 200000 bytes"),
        ("x = " + "9" * 5000, "digits"),
        ('"\\u001b[2J" = 1', r"\\x1b\[2J"),
        ("[run]\nmoves = {a = 1}", "moves is None"),
        ("[run]\nstart = {a = 1}", "start is"),
        ('[run]\npicture = "a\\u0000b"', "give the name of a file"),
        ("[run]\nseed = 2026-01-01", "seed is datetime"),
    ],
)
def test_content_that_cannot_be_meant_is_refused_in_a_sentence(folder, content, message):
    path = folder / "config.toml"
    head = "" if content.startswith("[run]") else content + "\n"
    text = path.read_text("utf-8")
    run = content if not head else ""
    path.write_text(head + re.sub(r"\[run\][^\[]*", "", text) + "\n" + run, "utf-8")
    with pytest.raises(smcpn.InputError, match=message) as caught:
        load_system(str(path))
    assert str(caught.value).isprintable()
