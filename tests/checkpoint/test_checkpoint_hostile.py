"""Files changed by one who knows the format, with a right checksum: refused in one sentence.

`benchmarks.attack.files_mutated` changes ten thousand at random.
"""

import json
import os
import warnings

import h5py
import numpy as np
import pytest

import smcpn
from smcpn.checkpoint.container import RECORDS, RUN, STREAM
from smcpn.checkpoint.inspection import inspect
from smcpn.checkpoint.run import read_records, read_run
from tests.checkpoint.changed import changed, entry, number, put, text
from tests.models import oscillator_problem, oscillator_record

RECORD = oscillator_record(samples=40)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The bytes of a run, of its records, and of a stream, by the first line of each."""
    folder = tmp_path_factory.mktemp("files")
    problem, options = oscillator_problem(RECORD), {"solver": smcpn.RK4(1), "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smcpn.identify(problem, particles=30, checkpoint=folder / "run.h5", **options)
    live = smcpn.Online(problem, particles=30, forget=1.0, **options)
    for u, y in zip(RECORD.u[:20], RECORD.y[:20], strict=True):
        live.update(u, y)
    live.save(folder / "live.h5")
    content = {path.name: path.read_bytes() for path in folder.glob("*.h5")}
    return {name: (name, data) for name, data in content.items()} | {
        data.split(b"\n")[0].decode(): (name, data) for name, data in content.items()
    }


def opened(path):
    for way in (inspect, smcpn.load, lambda p: smcpn.resume(p, progress=False)):
        with pytest.raises(smcpn.InputError) as caught:
            way(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


def generator(**changes):
    def change(file):
        held = json.loads(file["run/fields"][()])
        held["samplers"][0]["random_state"] |= changes
        put("run/fields", text(held))(file)

    return change


def of_sampler(*keys, value):
    return entry("run", "samplers", 0, *keys, value=value)


P = "run/samplers/0/system"
Q = "stream/population/system"
CHANGES = {
    "theta is NaN": number(f"{P}/theta", (7, 0), np.nan),
    "weight is infinite": number(f"{P}/log_weights", 3, np.inf),
    "weights are zero": number(f"{P}/log_weights", slice(None), -np.inf),
    "likelihood is NaN": number(f"{P}/log_likelihood", 3, np.nan),
    "ancestor is none": number(f"{P}/ancestor", 0, 30),
    "lineage is negative": number(f"{P}/lineage", 0, -1),
    "keys of an exact likelihood": put(f"{P}/keys", np.zeros((30, 2), "u8")),
    "keys are signed": put(f"{P}/keys", np.zeros((30, 0), "i8")),
    "keys are of fewer": put(f"{P}/keys", np.zeros((29, 0), "u8")),
    "state particles of an exact one": of_sampler("state_particles", value=32),
    "state particles are negative": of_sampler("state_particles", value=-32),
    "floor is infinite": of_sampler("log_floor", value=np.inf),
    "state has other particles": put(f"{P}/state", np.zeros((2, 29))),
    "theta has other parameters": put(f"{P}/theta", np.zeros((30, 3))),
    "theta is single": put(f"{P}/theta", np.zeros((30, 2), "f4")),
    "theta lies elsewhere": put(f"{P}/theta", h5py.ExternalLink("x.h5", "/x")),
    "stride is zero": of_sampler("trace", "stride", value=0),
    "sample is beyond the end": of_sampler("sample", value=41),
    "exponent is two": of_sampler("exponent", value=2.0),
    "sample is a text": of_sampler("sample", value="3"),
    "a kernel never ran": of_sampler("rejuvenations", value=[0, 0, 0]),
    "generator is another": generator(bit_generator="MT19937"),
    "generator has no state": generator(state={}),
    "generator has a long state": generator(state=1 << 128),
    "generator has an even step": generator(inc=2),
    "generator keeps what is no flag": generator(has_uint32=2),
    "particles are many": entry("header", "settings", "particles", value=10**9),
    "replicates are many": entry("header", "settings", "replicates", value=10**9),
    "data file is elsewhere": entry("header", "data_file", value="../run.h5.data-00000000.h5"),
    "data file is empty": entry("header", "data_file", value=""),
    "names are others": entry("header", "names", value=["c", "c"]),
    "problem is a number": entry("header", "problem", "ode", value=3),
    "further entry": entry("header", "further", value=1),
    "status is unknown": entry("version", "status", value="ready"),
    "solver is none": entry("run", "solver", "kind", value="os.system"),
    "solver is of no population": entry("run", "solver", "steps", value=64),
    "a solver too many": entry("run", "solvers", value=[]),
    "deep": put("run/fields", np.bytes_(b"[" * 10_000)),
    "further array": put(f"{P}/further", np.zeros(3)),
    "an array is there for two": of_sampler("system", "log_prior", value="samplers/0/system/theta"),
    "an array that is not there": of_sampler("system", "theta", value="samplers/0/system/x"),
    "an array as numbers": of_sampler("system", "log_prior", value=[0.0] * 30),
    "further document": put("run/further", np.bytes_(b"{}")),
    "a name twice": lambda f: put(
        "version/fields", f["version/fields"][()].replace(b"{", b'{"status": "running", ', 1)
    )(f),
    "further group": lambda f: f.create_group("further"),
    "no particles": lambda f: f.__delitem__(P),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_run_is_refused(files, tmp_path, name):
    _, content = files[RUN]
    records, data = files[RECORDS]
    path = tmp_path / "run.h5"
    path.write_bytes(changed(RUN, content, CHANGES[name]))
    (tmp_path / records).write_bytes(data)
    opened(path)


@pytest.mark.parametrize("option", ["likelihood", "method", "resampling"])
def test_a_run_by_a_word_that_is_not_known_is_refused(files, tmp_path, option):
    path, change = tmp_path / "run.h5", entry("header", "settings", option, value="finished")
    path.write_bytes(changed(RUN, files[RUN][1], change))
    (tmp_path / files[RECORDS][0]).write_bytes(files[RECORDS][1])
    for way in (smcpn.load, lambda p: smcpn.resume(p, progress=False)):
        with pytest.raises(smcpn.InputError, match=f"{option} is 'finished'") as caught:
            way(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["log_likelihood", "log_increment", "log_prior"])
@pytest.mark.parametrize("value", [-np.inf, 1.0])
def test_a_particle_of_another_likelihood_is_refused(files, tmp_path, name, value):
    path = tmp_path / "run.h5"
    path.write_bytes(changed(RUN, files[RUN][1], number(f"{P}/{name}", slice(None), value)))
    (tmp_path / files[RECORDS][0]).write_bytes(files[RECORDS][1])
    with pytest.raises(smcpn.InputError, match="another likelihood here"):
        smcpn.load(path)


def unchanged(file):
    pass


def test_unchanged_files_are_opened(files, tmp_path):
    for kind in (RUN, RECORDS, STREAM):
        name, content = files[kind]
        (tmp_path / name).write_bytes(changed(kind, content, unchanged))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert smcpn.resume(tmp_path / "run.h5").problem.n_samples == 40
    assert smcpn.Online.load(tmp_path / "live.h5").sample == 20


@pytest.mark.parametrize("forget", [None, 1.0])
def test_a_stream_without_samples_is_opened(tmp_path, forget):
    live = smcpn.Online(
        oscillator_problem(RECORD), solver=smcpn.RK4(1), particles=30, forget=forget
    )
    live.save(tmp_path / "live.h5")
    again = smcpn.Online.load(tmp_path / "live.h5")
    again.update(RECORD.u[0], RECORD.y[0])
    assert again.sample == 1


STREAM_CHANGES = {
    "times fall": number("stream/t", 3, -1.0),
    "input is NaN": number("stream/u", (3, 0), np.nan),
    "output is infinite": number("stream/y", (3, 0), np.inf),
    "held is long": put("stream/held", np.zeros(2)),
    "fewer states": put("stream/states", np.zeros((3, 2))),
    "more samples counted": entry("stream", "counted", value=41),
    "axis is elsewhere": entry("stream", "axis", "last", value=100.0),
    "test is a text": entry("stream", "change", "score", value="x"),
    "test is beyond its bound": entry("stream", "change", "score", value=2.0**31),
    "moves are a text": entry("header", "settings", "moves", "settings", value="x"),
    "memory is negative": entry("header", "options", "memory", value=-1),
    "writes to a folder": entry("header", "options", "folder", value="/etc"),
    "itself as a setting": entry("header", "settings", "self", value=1),
    "weights are zero": number(f"{Q}/log_weights", slice(None), -np.inf),
}


@pytest.mark.parametrize("name", STREAM_CHANGES)
def test_a_changed_stream_is_refused(files, tmp_path, name):
    path = tmp_path / "live.h5"
    path.write_bytes(changed(STREAM, files[STREAM][1], STREAM_CHANGES[name]))
    with pytest.raises(smcpn.InputError) as caught:
        smcpn.Online.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


RECORD_CHANGES = {
    "input is NaN": number("records/0/u", (0, 0), np.nan),
    "an array of objects": put("records/0/u", ["a", "b"]),
    "no output": lambda f: f.__delitem__("records/0/y"),
    "further record": put("records/9/u", np.zeros(3)),
    "no records": put("records/0/fields", np.bytes_(b"{}")),
    "interval is negative": entry("records/0", "dt", value=-1),
    "populations": lambda f: f.create_group("populations"),
}


@pytest.mark.parametrize("name", RECORD_CHANGES)
def test_changed_records_are_refused(files, tmp_path, name):
    path = tmp_path / files[RECORDS][0]
    path.write_bytes(changed(RECORDS, files[RECORDS][1], RECORD_CHANGES[name]))
    with pytest.raises(smcpn.InputError) as caught:
        read_records(path)
    assert "\n" not in str(caught.value)


def test_control_characters_are_not_printed(files, tmp_path):
    path = tmp_path / "run.h5"
    escape = entry("header", "not_stored", value="\x1b[31mred\x07")
    path.write_bytes(changed(RUN, files[RUN][1], escape))
    assert inspect(path).replace("\n", "").isprintable()


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "loop", "zeros", "folder", "n" * 300):
        for read in (read_run, inspect, smcpn.load, smcpn.Online.load):
            with pytest.raises(smcpn.InputError) as caught:
                read(tmp_path / name)
            assert "\n" not in str(caught.value)


def test_a_file_is_not_read_beyond_what_it_states(tmp_path):
    path = tmp_path / "run.h5"
    path.write_bytes(b"smcpn checkpoint\nsha256 0\nbytes 100\n")
    os.truncate(path, 1 << 40)
    with pytest.raises(smcpn.InputError, match="does not have its checksum"):
        read_run(path)
