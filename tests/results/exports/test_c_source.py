from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import smcpn
from smcpn import RK4, InputError
from smcpn.cli.app import app
from smcpn.results.exports import c_source
from smcpn.results.exports.c_source import ModelSource, c_comment, c_text, write_c
from smcpn.results.simulation.simulator import Simulator
from tests.models import PROBLEMS, bouc_wen_problem, decay_problem

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILER = shutil.which("cc") or shutil.which("gcc")
compiles = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def typical(problem):
    """Parameters at the means of their priors."""
    return np.array([float(one.mean()) for one in problem.prior.distributions.values()])


def compiled(folder, source, *options):
    """Compile the files of a model, without a remark of the compiler."""
    names = [f"{source.name}.c", *(() if "-shared" in options else (f"{source.name}_main.c",))]
    command = [COMPILER, *STRICT, *options, "-o", "made", *names, "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "made"


@compiles
@pytest.mark.parametrize("name", ["bouc-wen", "lotka-volterra", "timed"])
def test_the_program_simulates_as_the_package_does(name, tmp_path):
    """Held and linear inputs, none, two; irregular times; an observed derivative; x(0)."""
    problem = PROBLEMS[name]()
    values, record = typical(problem), problem.records[0]
    source = ModelSource.of(problem, values, 3)
    write_c(source, tmp_path)
    rows = np.column_stack([record.t, record.u])
    header = ",".join(("t", *source.inputs))
    np.savetxt(tmp_path / "u.csv", rows, "%.17g", ",", header=header, comments="")
    program = compiled(tmp_path, source)
    done = subprocess.run([program, tmp_path / "u.csv"], check=True, capture_output=True, text=True)
    first, *lines = done.stdout.splitlines()
    assert first == ",".join(("t", *source.outputs))
    found = np.array([line.split(",") for line in lines], dtype=float)
    outputs = [part[:, :, 0] for _, _, part in Simulator(problem.model, record, 3)(values[:, None])]
    assert np.array_equal(found[:, 0], record.t)
    wanted = np.concatenate(outputs)
    np.testing.assert_allclose(found[:, 1:], wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())


@smcpn.ode
def mixer(x, v, u, w, *, k):
    return v - k * x * w, u - v


@compiles
@pytest.mark.parametrize("hold", ["zoh", "foh"])
@pytest.mark.parametrize("even", [True, False])
def test_the_program_remembers_what_is_late(hold, even, tmp_path):
    """Two dead times, one of them a parameter; outputs that read a delayed input."""
    rng = np.random.default_rng(0)
    times = {"dt": 0.1} if even else {"t": np.cumsum(rng.uniform(0.03, 0.2, 60))}
    record = smcpn.Record(
        u=rng.normal(size=(60, 2)), y=rng.normal(size=(60, 2)), hold=hold, **times
    )
    problem = smcpn.Problem(
        mixer, record, observe=["x", "v'"], noise=0.1, delay={"u": "late", "w": 0.2},
        prior={"k": stats.lognorm(0.5), "late": stats.uniform(0, 0.5)},
    )  # fmt: skip
    values = np.array([0.8, 0.333])
    source = ModelSource.of(problem, values, 30)
    assert source.parameters == ("k", "late")
    write_c(source, tmp_path)
    program = compiled(tmp_path, source)
    np.savetxt(tmp_path / "u.csv", np.column_stack([record.t, record.u]), "%.17g", ",")
    done = subprocess.run([program, tmp_path / "u.csv"], check=True, capture_output=True, text=True)
    found = np.array([line.split(",")[1:] for line in done.stdout.splitlines()[1:]], dtype=float)
    # Before the first sample the package cuts intervals where nothing changes.
    given = values[:, None]
    outputs = [part[:, :, 0] for _, _, part in Simulator(problem.model, record, 30)(given)]
    np.testing.assert_allclose(found, np.concatenate(outputs), rtol=0, atol=1e-12)
    fine = np.column_stack([0.001 * np.arange(600), rng.normal(size=(600, 2))])
    np.savetxt(tmp_path / "u.csv", fine, "%.17g", ",")
    done = subprocess.run([program, tmp_path / "u.csv"], capture_output=True, text=True)
    assert (done.returncode, "within a dead time" in done.stderr) == (2, True)
    # Where inputs are held, those that do not change take no place.
    fine[:, 1:] = 1.0
    np.savetxt(tmp_path / "u.csv", fine, "%.17g", ",")
    done = subprocess.run([program, tmp_path / "u.csv"], capture_output=True, text=True)
    assert done.returncode == (0 if hold == "zoh" else 2)


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_a_dead_time_may_be_longer_than_the_record(hold, tmp_path):
    """Far more samples than are remembered at a time, so that old ones are forgotten."""
    rng = np.random.default_rng(1)
    u = rng.uniform(0.5, 1.5, (2000, 2))
    long = smcpn.Record(dt=0.5, u=u, y=np.zeros((2000, 2)), hold=hold)
    problem = smcpn.Problem(
        mixer, long[:31], observe=["x", "v'"], noise=0.1, delay={"u": "late", "w": 0.2},
        prior={"k": stats.lognorm(0.5), "late": stats.uniform(0, 100)},
    )  # fmt: skip
    values = np.array([0.8, 80.3])
    source = ModelSource.of(problem, values, 40)
    assert 16 + 4 * 200 <= source.past <= 16 + 4 * 202
    write_c(source, tmp_path)
    program = compiled(tmp_path, source)
    np.savetxt(tmp_path / "u.csv", np.column_stack([long.t, long.u]), "%.17g", ",")
    done = subprocess.run([program, tmp_path / "u.csv"], check=True, capture_output=True, text=True)
    found = np.array([line.split(",")[1:] for line in done.stdout.splitlines()[1:]], dtype=float)
    outputs = [part[:, :, 0] for _, _, part in Simulator(problem.model, long, 40)(values[:, None])]
    np.testing.assert_allclose(found, np.concatenate(outputs), rtol=0, atol=1e-9)


@smcpn.ode
def kinetics(int, blood, drive, *, ka, ke):
    return -ka * int, ka * int - ke * blood + drive


def given_in_c(source, record, times):
    """Lines of the program at times, the inputs behind the time left out: rates and amounts."""
    rates, amounts = np.zeros((2, len(times), len(source.doses)))
    kinds = [one.state for one in source.doses]
    for dose in record.doses:
        kind = kinds.index(source.states.index(dose.state))
        begin = dose.time if isinstance(dose.lag, str) else dose.begin
        if dose.duration:
            there = (times >= begin) & (times < begin + dose.duration)
            rates[there, kind] += dose.amount / dose.duration
        else:
            amounts[times == begin, kind] += dose.amount
    return np.hstack([rates, amounts])


def run_of(program, folder, rows):
    """Outputs of the program for lines."""
    np.savetxt(folder / "u.csv", rows, "%.17g", ",")
    done = subprocess.run([program, folder / "u.csv"], check=True, capture_output=True, text=True)
    return np.array([line.split(",")[1:] for line in done.stdout.splitlines()[1:]], dtype=float)


@compiles
@pytest.mark.parametrize("hold", ["zoh", "foh"])
@pytest.mark.parametrize("late", [None, "lag", "lag and dead time"])
def test_the_program_takes_doses(hold, late, tmp_path):
    """Some at once and some over a while, at one time, at the first sample and between samples."""
    rng, dt = np.random.default_rng(2), 0.25
    between = 0.0 if late else 0.1
    lag = "late" if late else 0.05
    doses = [
        smcpn.Dose(0.0, "int", 20.0, fraction="share", lag=lag if late else 0.0),
        smcpn.Dose(2.0 + between, "int", 10.0, fraction="share", lag=lag),
        smcpn.Dose(2.0 + between, "int", 15.0, fraction="share", lag=lag),
        smcpn.Dose(3.0 + between, "int", 30.0, duration=1.5, fraction="share", lag=lag),
        smcpn.Dose(3.5, "int", -4.0, duration=2.0, fraction="share", lag=lag),
        smcpn.Dose(1.0, "blood", 3.0), smcpn.Dose(4.5, "blood", 2.0, duration=0.25),
    ]  # fmt: skip
    record = smcpn.Record(
        u=rng.normal(size=30), y=rng.normal(size=(30, 2)), dt=dt, hold=hold, doses=doses
    )
    problem = smcpn.Problem(
        kinetics, record, observe=["int", "blood'"], noise=0.1, initial={"blood": 1.0},
        prior={"ka": stats.lognorm(0.5), "ke": stats.lognorm(0.5), "share": stats.uniform(0, 1),
               **({"late": stats.uniform(0, 0.6)} if late else {})},
        delay={"drive": 0.37} if late == "lag and dead time" else None,
    )  # fmt: skip
    values = np.array([1.2, 0.4, 0.7, 0.433])[: len(problem.names)]
    # With both the package takes more steps: it cuts intervals where something may arrive.
    steps = 160 if late == "lag and dead time" else 20
    source = ModelSource.of(problem, values, steps)
    whole = problem.model.prepared(record)
    runs = Simulator(problem.model, whole, steps)(values[:, None])
    wanted = np.concatenate([part[:, :, 0] for _, _, part in runs])
    # With a lag the package has its samples where something may arrive, and C only the given ones.
    rows, wanted = (record, wanted[whole.given]) if late else (whole, wanted)
    assert late or len(rows.t) > len(record)
    write_c(source, tmp_path)
    program = compiled(tmp_path, source)
    found = run_of(
        program,
        tmp_path,
        np.column_stack([rows.t, rows.u[:, 0], given_in_c(source, record, rows.t)]),
    )
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    (tmp_path / "u.csv").write_text("0,1,0,0,1,0\n1,1,0,0,nan,0\n")
    done = subprocess.run([program, tmp_path / "u.csv"], capture_output=True, text=True)
    assert (done.returncode, "line 2 has an amount that is not finite" in done.stderr) == (2, True)


@compiles
def test_a_dose_that_is_none_is_not_given(tmp_path):
    record = smcpn.Record(
        u=np.zeros(5), y=np.zeros(5), dt=1.0, doses=[smcpn.Dose(0.0, "int", 1.0, fraction="share")]
    )
    prior = {name: stats.uniform(0, 1) for name in ("ka", "ke", "share")}
    problem = smcpn.Problem(kinetics, record, observe="blood", noise=0.1, prior=prior)
    source = ModelSource.of(problem, np.array([0.5, 0.5, 0.25]), 1)
    assert (source.inputs, source.parameters) == (("drive", "rate.int"), ("ka", "ke", "share"))
    write_c(source, tmp_path)
    library = ctypes.CDLL(compiled(tmp_path, source, "-fPIC", "-shared"))
    x, p = (ctypes.c_double * 2)(1.0, 2.0), (ctypes.c_double * 3)(*source.values)
    for kind, amount, said in (
        (0, 8.0, 1), (0, np.nan, 0), (0, np.inf, 0), (1, 1.0, 0), (-1, 1.0, 0), (0, -4.0, 1),
    ):  # fmt: skip
        assert library.kinetics_give(kind, ctypes.c_double(amount), p, x) == said
    assert list(x) == [2.0, 2.0]


@compiles
def test_the_program_counts_between_its_lines(tmp_path):
    """Accumulators beside doses; what is counted at first is given."""
    counted = kinetics.accumulating("blood")
    doses = [smcpn.Dose(1.0, "int", 5.0), smcpn.Dose(2.0, "int", 6.0, duration=3.0)]
    record = smcpn.Record(u=np.arange(9.0), y=np.ones((9, 2)), dt=0.5, hold="foh", doses=doses)
    prior = {"ka": stats.lognorm(0.5), "ke": stats.lognorm(0.5)}
    problem = smcpn.Problem(
        counted, record, observe=["int", "blood"], noise=0.1, prior=prior, initial=[2.0, 1.0]
    )
    values = np.array([1.2, 0.4])
    source = ModelSource.of(problem, values, 20)
    write_c(source, tmp_path)
    found = run_of(
        compiled(tmp_path, source), tmp_path,
        np.column_stack([record.t, record.u[:, 0], given_in_c(source, record, record.t)]),
    )  # fmt: skip
    runs = Simulator(problem.model, problem.model.prepared(record), 20)(values[:, None])
    wanted = np.concatenate([part[:, :, 0] for _, _, part in runs])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


@smcpn.ode(
    events=[
        smcpn.event(
            when=lambda x: x,
            then=lambda v, hops, *, r: {"v": -r * v, "hops": hops + 1},
            direction="falling",
        ),
        smcpn.event(when=lambda hops: hops - 3.5, then=lambda: {"seen": 1.0}),
    ]
)
def ball(x, v, hops, seen, *, r):
    """A ball on a floor; the fourth hop calls another event."""
    return v, -2.0, 0.0, 0.0


def hopping(t, r):
    """States of the ball from a height of one, at times."""
    begin, speed, length, hops = -1.0, 2.0, 2.0, 0
    found = np.empty((len(t), 4))
    for k, time in enumerate(t):
        while time > begin + length:
            begin, speed, hops = begin + length, r * speed, hops + 1
            length = speed
        since = time - begin
        found[k] = since * (speed - since), speed - 2 * since, hops, hops > 3
    return found


@compiles
def test_the_state_of_the_program_jumps_at_events(tmp_path):
    """Some within one step, and one that another calls; the method of the steps is exact here."""
    t = np.array([0.0, 0.7, 1.4, 2.9, 4.4, 6.1, 8.0])
    record = smcpn.Record(t=t, y=np.zeros((7, 4)))
    problem = smcpn.Problem(
        ball, record, observe=["x", "v", "hops", "seen"], noise=0.1, initial=[1.0, 0.0, 0.0, 0.0],
        prior={"r": stats.uniform(0, 1)},
    )  # fmt: skip
    with pytest.raises(InputError, match="steps is 'auto', and a model with events has none"):
        ModelSource.of(problem, np.array([0.8]), "auto")
    source = ModelSource.of(problem, np.array([0.8]), 2)
    write_c(source, tmp_path)
    found = run_of(compiled(tmp_path, source), tmp_path, t[:, None])
    np.testing.assert_allclose(found, hopping(t, 0.8), rtol=0, atol=1e-12)
    assert found[-1, 2] > 6
    # Ever faster beyond all numbers.
    late = run_of(tmp_path / "made", tmp_path, np.array([[0.0], [8.5], [9.5]]))
    assert np.isfinite(late[1]).all()
    assert np.isnan(late[2]).all()
    write_c(ModelSource.of(problem, np.array([0.01]), 2), tmp_path)
    late = run_of(compiled(tmp_path, source), tmp_path, t[:, None])
    assert np.isnan(late[2:]).all()


@compiles
def test_doses_and_inputs_that_jump_call_events(tmp_path):
    """A dose lifts a state over a limit, and so does a step of the input."""
    events = [
        smcpn.event(when=lambda x: x - 2.0, then=lambda x: {"x": 0.5 * x}, direction="rising"),
        smcpn.event(when=lambda u: u - 1.5, then=lambda n: {"n": n + 1.0}),
        smcpn.event(when=lambda x, *, low: x - low, then=lambda x: {"x": x + 0.7}),
    ]

    @smcpn.ode(events=events)
    def tank(x, n, u, *, k):
        return u - k * x, 0.0

    u = np.array([1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 1.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    doses = [smcpn.Dose(1.0, "x", 1.5), smcpn.Dose(3.0, "x", 2.5, duration=1.0)]
    record = smcpn.Record(u=u, y=np.zeros((12, 2)), dt=0.5, hold="zoh", doses=doses)
    values = {"k": 0.8, "low": 0.45}
    problem = smcpn.Problem(
        tank, record, observe=["x", "n"], noise=0.1, initial=[1.0, 0.0],
        prior={name: stats.uniform(0, 2 * value) for name, value in values.items()},
    )  # fmt: skip
    source = ModelSource.of(problem, np.array(list(values.values())), 40)
    write_c(source, tmp_path)
    rows = np.column_stack([record.t, record.u[:, 0], given_in_c(source, record, record.t)])
    found = run_of(compiled(tmp_path, source), tmp_path, rows)
    wanted = smcpn.simulate(tank, record, values, observe=["x", "n"], initial=[1.0, 0.0])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert found[-1, 1] == 4


def test_one_short_interval_does_not_lengthen_what_is_remembered(monkeypatch):
    t = np.sort(np.append(0.1 * np.arange(60), 1.0 + 1e-8))
    record = smcpn.Record(t=t, u=np.zeros((61, 2)), y=np.zeros((61, 2)))
    problem = smcpn.Problem(
        mixer, record, observe=["x", "v'"], noise=0.1, delay={"u": "late", "w": 0.2},
        prior={"k": stats.lognorm(0.5), "late": stats.uniform(0, 0.5)},
    )  # fmt: skip
    values = np.array([0.8, 0.333])
    assert ModelSource.of(problem, values, 30).past <= 16 + 4 * 7
    monkeypatch.setattr(c_source, "MOST_REMEMBERED", 40)
    with pytest.raises(InputError, match="44 samples of the inputs would be remembered"):
        ModelSource.of(problem, values, 30)


@compiles
def test_a_line_that_has_not_all_numbers_is_named(tmp_path):
    problem = PROBLEMS["timed"]()
    source = ModelSource.of(problem, typical(problem), 1)
    write_c(source, tmp_path)
    program = compiled(tmp_path, source)
    for text in ("t,u,w\n0,1,2\n1,2\n", "t,u,w\n0,1,2\n0,1,nonsense\n", "t\n\n0,1,2,3\n"):
        (tmp_path / "u.csv").write_text(text)
        done = subprocess.run([program, tmp_path / "u.csv"], capture_output=True, text=True)
        assert done.returncode == 2
        assert "does not have 3 numbers" in done.stderr
    assert subprocess.run([program, "nowhere.csv"], capture_output=True).returncode == 2
    (tmp_path / "u.csv").write_text("0,1,2\n1,1,2\n1,1,2\n")
    done = subprocess.run([program, tmp_path / "u.csv"], capture_output=True, text=True)
    assert (done.returncode, "line 3 is not later" in done.stderr) == (2, True)
    # Samples further apart than those of the record take as many more steps.
    ends = []
    for times in ("0 1.2", "0 0.3 0.6 0.9 1.2"):
        (tmp_path / "u.csv").write_text("".join(f"{t},1,2\n" for t in times.split()))
        done = subprocess.run([program, tmp_path / "u.csv"], check=True, capture_output=True)
        ends.append(float(done.stdout.split(b",")[-1]))
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


@compiles
def test_the_jacobian_is_that_of_the_linear_model(tmp_path):
    problem = bouc_wen_problem()
    source = ModelSource.of(problem, typical(problem), 1)
    write_c(source, tmp_path)
    library = ctypes.CDLL(compiled(tmp_path, source, "-fPIC", "-shared"))
    x, u = np.array([1e-3, 0.2, -5.0]), np.array([3.0])
    values = dict(zip(source.parameters, source.values, strict=True))
    linear = smcpn.linearise(problem.ode, values, observe="v'", state=x, input=u)
    p = np.ascontiguousarray(source.values)
    blocks = [np.full(one.shape, np.nan) for one in (linear.A, linear.B, linear.C, linear.D)]

    def address(array):
        return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    library.bouc_wen_jacobian(
        ctypes.c_double(0.0), address(x), address(u), address(p), *map(address, blocks)
    )
    for found, wanted in zip(blocks, (linear.A, linear.B, linear.C, linear.D), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_only_what_the_simulation_needs_is_a_parameter():
    source = ModelSource.of(bouc_wen_problem(), typical(bouc_wen_problem()), 1)
    assert "sigma" not in source.parameters
    assert source.linear_input


@compiles
def test_a_name_cannot_write_code(tmp_path):
    problem = PROBLEMS["timed"]()
    evil = 'x*/ int y; /*"; \\\n?\\?/ \u202e\x1b'
    source = replace(
        ModelSource.of(problem, typical(problem), 1),
        title=evil, inputs=(evil, evil), outputs=(evil,), parameters=(evil,),
    )  # fmt: skip
    assert source.name == "x_int_y"
    write_c(source, tmp_path)
    compiled(tmp_path, source, "-fsyntax-only")
    assert c_text('a"\\\n') == '"a\\042\\134\\012"'
    assert "*/" not in c_comment("/**/*/")


@compiles
@pytest.mark.parametrize("name", ["fmu", "fmi3Functions", "Math", "stdio", "con"])
def test_a_name_of_another_file_is_not_taken(name, tmp_path):
    problem = PROBLEMS["timed"]()
    source = replace(ModelSource.of(problem, typical(problem), 1), title=name)
    assert source.name == f"model_{name}"
    write_c(source, tmp_path)
    compiled(tmp_path, source, "-I.", "-fsyntax-only")


def test_a_file_of_another_is_not_overwritten(tmp_path):
    problem = PROBLEMS["timed"]()
    source = ModelSource.of(problem, typical(problem), 1)
    paths = write_c(source, tmp_path)
    assert write_c(source, tmp_path) == paths
    paths[1].write_text("mine")
    with pytest.raises(InputError, match="was not written by smcpn"):
        write_c(source, tmp_path)
    assert paths[1].read_text() == "mine"


def maximum_of(problem):
    from smcpn.results.maximum import StartResult

    values = typical(problem)
    theta = problem.prior.unconstrained(values[None])[0]
    start = StartResult(values, values, 0.0, "", True, 1, values[None], np.zeros(1))
    return smcpn.Maximum(
        problem, RK4(2), "classical", "posterior", "l-bfgs-b", theta, 0.0, 0.0, (start,)
    )


def test_a_result_writes_its_model(tmp_path):
    maximum = maximum_of(decay_problem())
    paths = maximum.to_c(tmp_path / "new" / "folder", steps=5)
    assert [path.name for path in paths] == ["decay.c", "decay.h", "decay_main.c"]
    assert "DECAY_STEPS 5" in paths[1].read_text()
    assert f"{maximum['rate']:.10g}"[:8] in paths[0].read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        maximum.to_c(tmp_path / "file" / "inside")
    with pytest.raises(InputError, match="steps is 0"):
        maximum.to_c(tmp_path, steps=0)


def test_the_command_writes_what_it_is_asked_for(tmp_path):
    run = tmp_path / "run.h5"
    maximum_of(decay_problem()).to_posterior().save(run)
    wanted = ["--c", str(tmp_path / "c"), "--csv", str(tmp_path / "a.csv"), "--latex",
              str(tmp_path / "a.tex"), "--steps", "2"]  # fmt: skip
    done = CliRunner().invoke(app, ["export", str(run), *wanted])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 5
    assert (tmp_path / "a.tex").read_text().startswith(r"\begin{tabular}")
    nothing = CliRunner().invoke(app, ["export", str(run)])
    assert isinstance(nothing.exception, InputError)
    assert "give --c, --fmu" in str(nothing.exception)


@smcpn.ode(algebraic=["d"])
def _rectifier(v, d, u, *, r, load):
    current = 1e-14 * np.expm1(d / 0.02585)
    return (current - v / load) / 1e-5, u - v - d - r * current


@compiles
@pytest.mark.slow
@pytest.mark.nightly
def test_algebraic_equations_are_solved_in_the_program(tmp_path):
    t, u = 1e-3 * np.arange(12), 2.0 * np.sin(np.arange(12))
    record = smcpn.Record(t=t, u=u, y=np.zeros((12, 2)), hold="zoh")
    prior = {"r": stats.lognorm(0.1, scale=10.0), "load": stats.lognorm(0.1, scale=1e3)}
    problem = smcpn.Problem(_rectifier, record, observe=["v", "d"], noise=0.1, prior=prior)
    values = np.array([10.0, 1e3])
    source = ModelSource.of(problem, values, 16)
    write_c(source, tmp_path)
    np.savetxt(tmp_path / "u.csv", np.column_stack([t, u]), "%.17g", ",", header="t,u", comments="")
    program = compiled(tmp_path, source)
    done = subprocess.run([program, tmp_path / "u.csv"], check=True, capture_output=True, text=True)
    found = np.array([line.split(",") for line in done.stdout.splitlines()[1:]], dtype=float)
    parameters = dict(zip(prior, values, strict=True))
    wanted = smcpn.simulate(_rectifier, record, parameters, observe=["v", "d"])
    np.testing.assert_allclose(found[:, 1:], wanted, atol=1e-5)
