"""FMUs, by FMPy: what validates and simulates them here."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import InputError
from smcpn.model.dosing import as_given
from smcpn.results.exports import fmu as made
from smcpn.results.exports.c_source import MOST_REMEMBERED, ModelSource
from smcpn.results.exports.fmu import archived, variables
from smcpn.results.simulation.simulator import Simulator
from tests.models import PROBLEMS, duffing_problem
from tests.results.exports.test_c_source import ball, hopping, kinetics

fmpy = pytest.importorskip("fmpy")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not any(map(shutil.which, made.COMPILERS)), reason="there is no C compiler"),
]


def typical(problem):
    return np.array([float(one.mean()) for one in problem.prior.distributions.values()])


@pytest.fixture(scope="module")
def problem():
    return duffing_problem(hold="zoh")


@pytest.fixture(scope="module")
def path(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("fmu") / "duffing.fmu"
    path.write_bytes(archived(ModelSource.of(problem, typical(problem), 3)))
    return path


def cosimulated(path, problem, given=None, **parameters):
    """Outputs, of inputs by name beside those of the record."""
    record, given = as_given(problem.records[0]), given or {}
    kinds = [("time", float), *((name, float) for name in (*problem.ode.inputs, *given))]
    columns = np.column_stack([record.t, record.u, *given.values()])
    dt = record.interval
    result = fmpy.simulate_fmu(
        str(path), fmi_type="CoSimulation", stop_time=float(record.t[-1]), step_size=dt,
        output_interval=dt, input=np.array(list(map(tuple, columns)), dtype=kinds),
        start_values=parameters,
    )  # fmt: skip
    return result[problem.observe[0]]


def test_it_is_valid_and_simulates_as_the_package_does(path, problem):
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(path)) == []
    values, record = typical(problem), problem.records[0]
    for factor in (1.0, 1.5):
        values[problem.names.index("k")] *= factor
        runs = Simulator(problem.model, record, 3)(values[:, None])
        wanted = np.concatenate([part[:, 0, 0] for _, _, part in runs])
        found = cosimulated(path, problem, k=values[problem.names.index("k")])
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_dead_times_are_in_it(problem, tmp_path):
    from fmpy.validation import validate_fmu

    late = smcpn.Problem(
        problem.ode, problem.records, observe="x", noise=0.1, delay={"u": 0.137},
        prior=dict(problem.prior.distributions),
    )  # fmt: skip
    values, path = typical(late), tmp_path / "late.fmu"
    path.write_bytes(archived(ModelSource.of(late, values, 3)))
    assert validate_fmu(str(path)) == []
    runs = Simulator(late.model, late.records[0], 3)(values[:, None])
    wanted = np.concatenate([part[:, 0, 0] for _, _, part in runs])
    np.testing.assert_allclose(cosimulated(path, late), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("late", [0.0, 0.433])
def test_doses_are_inputs(late, tmp_path):
    """The sum of what was given at once is held, which says when and how much is given."""
    from fmpy.validation import validate_fmu

    rng, t = np.random.default_rng(3), 0.25 * np.arange(40)
    kind = {"state": "int", "fraction": "share", "lag": "late" if late else 0.0}
    doses = [
        smcpn.Dose(0.0, amount=20.0, **kind), smcpn.Dose(2.0, amount=5.0, **kind),
        smcpn.Dose(2.0, amount=15.0, **kind), smcpn.Dose(3.0, amount=30.0, duration=1.5, **kind),
    ]  # fmt: skip
    record = smcpn.Record(u=rng.normal(size=40), y=np.zeros(40), dt=0.25, hold="zoh", doses=doses)
    priors = {"ka": 1.2, "ke": 0.4, "share": 0.7} | ({"late": late} if late else {})
    prior = {name: stats.uniform(0, 2 * value) for name, value in priors.items()}
    dosed = smcpn.Problem(kinetics, record, observe="blood", noise=0.1, prior=prior)
    values, path = np.array(list(priors.values())), tmp_path / "kinetics.fmu"
    path.write_bytes(archived(ModelSource.of(dosed, values, 20)))
    assert validate_fmu(str(path)) == []
    whole = dosed.model.prepared(record)
    runs = Simulator(dosed.model, whole, 20)(values[:, None])
    wanted = np.concatenate([part[:, 0, 0] for _, _, part in runs])[whole.given]
    given = {
        "rate.int": 20.0 * ((t >= 3.0) & (t < 4.5)), "given.int": 20.0 * (1.0 + (t >= 2.0)),
    }  # fmt: skip
    found = cosimulated(path, dosed, given)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    if late:
        return
    rows = np.array([(0.0, 20.0), (2.0, 20.0), (2.0, 40.0), (9.75, 40.0)],
                    dtype=[("time", float), ("given.int", float)])  # fmt: skip
    result = fmpy.simulate_fmu(
        str(path), fmi_type="ModelExchange", stop_time=9.75, output_interval=0.25, input=rows,
        relative_tolerance=1e-9,
    )  # fmt: skip
    ka, ke, gut = 1.2, 0.4, lambda since: 14.0 * (since > 0) * np.exp(-np.maximum(since, 0))
    bateman = sum(ka / (ka - ke) * (gut(ke * (t - at)) - gut(ka * (t - at))) for at in (0.0, 2.0))
    np.testing.assert_allclose(np.interp(t, result["time"], result["blood"]), bateman, atol=1e-5)


@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
def test_the_state_jumps_at_events(kind, tmp_path):
    from fmpy.validation import validate_fmu

    t = 0.23 * np.arange(30)
    posed = smcpn.Problem(
        ball, smcpn.Record(t=t, y=np.zeros(30)), observe="x", noise=0.1,
        initial=[1.0, 0.0, 0.0, 0.0], prior={"r": stats.uniform(0, 1)},
    )  # fmt: skip
    path = tmp_path / "ball.fmu"
    path.write_bytes(archived(ModelSource.of(posed, np.array([0.8]), 2)))
    assert validate_fmu(str(path)) == []
    result = fmpy.simulate_fmu(
        str(path), fmi_type=kind, stop_time=t[-1], step_size=0.23, output_interval=0.23,
        relative_tolerance=1e-10, output=["x", "state.hops", "state.seen"],
    )  # fmt: skip
    rows = np.searchsorted(result["time"], t - 1e-9)
    found = np.column_stack([result[name][rows] for name in ("x", "state.hops", "state.seen")])
    tolerance = 1e-12 if kind == "CoSimulation" else 1e-6
    np.testing.assert_allclose(found, hopping(t, 0.8)[:, [0, 2, 3]], rtol=0, atol=tolerance)


def test_counts_begin_anew_at_communication_points(tmp_path):
    record = smcpn.Record(u=np.arange(9.0), y=np.ones(9), dt=0.5, hold="zoh")
    prior = {"ka": stats.lognorm(0.5), "ke": stats.lognorm(0.5)}
    counted = smcpn.Problem(
        kinetics.accumulating("blood"), record, observe="blood", noise=0.1, prior=prior,
        initial=[2.0, 1.0],
    )  # fmt: skip
    values, path = np.array([1.2, 0.4]), tmp_path / "counted.fmu"
    path.write_bytes(archived(ModelSource.of(counted, values, 20)))
    runs = Simulator(counted.model, record, 20)(values[:, None])
    wanted = np.concatenate([part[:, 0, 0] for _, _, part in runs])
    np.testing.assert_allclose(cosimulated(path, counted), wanted, rtol=0, atol=1e-12)
    assert fmpy.read_model_description(str(path)).modelExchange is None


@pytest.fixture(scope="module")
def late(problem):
    return smcpn.Problem(
        problem.ode, problem.records, observe="x", noise=0.1, delay={"u": "late"},
        prior=dict(problem.prior.distributions) | {"late": stats.uniform(0, 0.3)},
    )  # fmt: skip


class Slave:
    """An instance for co-simulation from a start on, with what it logs."""

    def __init__(self, source, folder, begin):
        from fmpy.fmi3 import FMU3Slave

        path = folder / "late.fmu"
        path.write_bytes(archived(source))
        description = fmpy.read_model_description(str(path))
        self.logged = []
        self.fmu = FMU3Slave(
            guid=description.guid, modelIdentifier=source.name,
            unzipDirectory=fmpy.extract(str(path), str(folder / "late")),
        )  # fmt: skip
        self.fmu.instantiate(logMessage=lambda *said: self.logged.append(said[1:]))
        self.references = {one.name: [one.valueReference] for one in description.modelVariables}
        # What is read before the begin is not remembered.
        self.get("x")
        self.fmu.enterInitializationMode(startTime=begin)
        self.get("x")
        self.fmu.exitInitializationMode()

    def set(self, name, value):
        self.fmu.setFloat64(self.references[name], [value])

    def get(self, name):
        return self.fmu.getFloat64(self.references[name])[0]


def test_what_is_read_or_set_again_at_a_time_changes_nothing(late, tmp_path):
    values, record = typical(late), late.records[0]
    slave = Slave(ModelSource.of(late, values, 3), tmp_path, -7.0)
    found = []
    for k, u in enumerate(record.u[:, 0]):
        for given in (u + 1.0, u - 1.0, u):
            slave.set("u", given)
            slave.get("der(state.x)")
        found.append(slave.get("x"))
        # The importer may have another last bit of the time.
        slave.fmu.doStep(-7.0 + k * record.interval, record.interval)
    runs = Simulator(late.model, record, 3)(values[:, None])
    wanted = np.concatenate([part[:, 0, 0] for _, _, part in runs])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_too_many_changes_within_a_dead_time_are_logged(late, tmp_path):
    source = ModelSource.of(late, typical(late), 3)
    slave = Slave(source, tmp_path, 0.0)
    step = 0.01 / source.past
    # Inputs that do not change take no place.
    for k in range(2 * source.past):
        slave.fmu.doStep(k * step, step)
    for k in range(2 * source.past, 3 * source.past - 1):
        slave.set("u", float(k))
        slave.fmu.doStep(k * step, step)
    assert slave.logged == []
    slave.set("u", -1.0)
    with pytest.raises(Exception, match="fmi3DoStep"):
        slave.fmu.doStep((3 * source.past - 1) * step, step)
    ((status, category, message),) = slave.logged
    assert (status, category) == (3, b"logStatusError")
    assert b"take communication steps of " in message


def test_a_dead_time_is_set_before_the_run(late, tmp_path):
    source = ModelSource.of(late, typical(late), 3)
    kinds = {one.name: one.variability for one in variables(source)}
    assert (kinds["late"], kinds["k"]) == ("fixed", "tunable")
    slave = Slave(source, tmp_path, 0.0)
    slave.set("k", 1.0)
    with pytest.raises(Exception, match="fmi3SetFloat64"):
        slave.set("late", 0.1)
    assert b"before the end of initialisation" in slave.logged[0][2]


def of_all_parts(lag):
    event = smcpn.event(when=lambda x, drive: x - drive, then=lambda v: {"v": -v})

    @smcpn.ode(events=[event])
    def equation(x, v, n, drive, *, k):
        return v, drive - k * x, x**2

    doses = [smcpn.Dose(1.0, "x", 2.0, lag=lag), smcpn.Dose(1.0, "v", 2.0, duration=0.3)]
    record = smcpn.Record(u=np.ones(9), y=np.ones(9), dt=0.5, doses=doses)
    return smcpn.Problem(
        equation.accumulating("n"), record, observe=lambda n, drive: n + drive, noise=0.1,
        prior={"k": stats.uniform(0, 2)} | ({"late": stats.uniform(0, 1)} if lag else {}),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["problem", "late", "all", "all, late"])
def test_no_frame_on_the_stack_is_large(name, request, tmp_path):
    parts = {"all": 0.0, "all, late": "late"}
    given = of_all_parts(parts[name]) if name in parts else request.getfixturevalue(name)
    source = ModelSource.of(given, typical(given), 3)
    source = replace(source, past=source.past and MOST_REMEMBERED)
    texts = {**source.texts(), "fmu.c": source.rendered("fmu.c", token="", absent=made.ABSENT)}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    command = [
        made._compiler(), "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
        "-Wframe-larger-than=20000", "-I", str(made._headers()), "-c", "fmu.c", f"{source.name}.c",
    ]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True)


def test_model_exchange_has_the_same_equations(path, problem):
    result = fmpy.simulate_fmu(
        str(path), fmi_type="ModelExchange", stop_time=60.0, output_interval=1.0,
        start_values={"u": 1.0, "state.x": 0.3}, relative_tolerance=1e-6,
    )  # fmt: skip
    values = dict(zip(problem.names, typical(problem), strict=True))
    rest = smcpn.linearise(problem.ode, values, observe="x", input=1.0).output[0]
    assert result["x"][0] == pytest.approx(0.3)
    # What is left after 60 s has decayed by exp(-12).
    assert result["x"][-1] == pytest.approx(rest, abs=1e-4)


def test_a_parameter_that_is_an_initial_state_moves_the_start(tmp_path):
    problem, path = PROBLEMS["lotka-volterra"](), tmp_path / "start.fmu"
    path.write_bytes(archived(ModelSource.of(problem, typical(problem), 1)))
    # y(0) is b.
    for given, start in (({"b": 2.5}, 2.5), ({"state.y": 3.5, "b": 2.5}, 3.5)):
        result = fmpy.simulate_fmu(
            str(path), fmi_type="CoSimulation", stop_time=0.01, step_size=0.01,
            output=["state.y"], start_values=given,
        )  # fmt: skip
        assert result["state.y"][0] == start


def test_the_source_is_in_it_and_the_bytes_are_the_same(path, problem, tmp_path):
    again = tmp_path / "again.fmu"
    again.write_bytes(archived(ModelSource.of(problem, typical(problem), 3)))
    assert again.read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert {"sources/duffing.c", "sources/fmu.c"} <= set(archive.namelist())
        ElementTree.fromstring(archive.read("modelDescription.xml"))


def test_names_of_variables_are_unique():
    problem = PROBLEMS["timed"]()
    source = ModelSource.of(problem, typical(problem), 1)
    found = list(variables(source))
    names = [one.name for one in found]
    assert names == ["u", "w", "x", "state.x", "der(state.x)", "rate"]
    assert [one.reference for one in found] == list(range(1, 7))
    assert found[4].derivative == found[3].reference
    assert found[3].start == "1.0"


def test_what_is_lacking_is_named(problem, tmp_path, monkeypatch):
    source = ModelSource.of(problem, typical(problem), 1)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(InputError, match="no no-such-compiler: install one"):
        archived(source)
    monkeypatch.setattr(made, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install fmpy"):
        archived(source)
