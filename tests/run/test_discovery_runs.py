"""A discovery that is stopped goes on to the same bytes, from a file or memory, and by workers."""

import hashlib
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from typer.testing import CliRunner

import smcpn
from smcpn.checkpoint.codec import read_again
from smcpn.checkpoint.container import DISCOVERY
from smcpn.checkpoint.discovery import StoredSystem, read_discovery, system_fingerprint
from smcpn.checkpoint.inspection import inspect
from smcpn.cli.app import app
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.errors import InputError
from smcpn.run import restore
from smcpn.smc.distributed import tasks, workers
from smcpn.smc.distributed.parts import Store
from tests.checkpoint.changed import changed, entry, number, put
from tests.models import decay_problem
from tests.stopping import stopped_after

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")

T = 0.1 * np.arange(60)
X = np.column_stack([np.exp(-0.1 * T) * np.cos(2 * T), np.exp(-0.1 * T) * np.sin(2 * T)])
RECORD = smcpn.Record(y=X + 0.02 * np.random.default_rng(0).normal(size=X.shape), t=T)
CASES = {
    "spike-and-slab": {},
    "laplace": {"prior": "laplace", "particles": 30, "replicates": 2, "solver": smcpn.RK4(2)},
}
PARTS = {"spike-and-slab": 7, "laplace": 20}
"""Of a life."""


def discover(record=RECORD, **options):
    given = {"library": smcpn.polynomials(2), "states": ["x", "y"], "progress": False}
    return smcpn.discover(record, **{**given, **options})


def bytes_of(found):
    digest = hashlib.sha256()
    arrays = [found.probabilities, found.noise, found.path]
    for model in found.models:
        arrays += [model.support, model.mean, model.covariance, model.initial]
        arrays.append(np.array([model.log_evidence, model.log_prior, model.probability]))
    if found.posterior is not None:
        arrays += [found.posterior.coefficients, found.posterior.weights, found.posterior.noise]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.nightly) if one == "laplace" else one for one in CASES],
)
def test_it_is_killed_again_and_again_and_ends_in_the_same_bytes(name, tmp_path, monkeypatch):
    file, often = tmp_path / "d.h5", {"checkpoint_every": 0.0}
    whole = bytes_of(discover(**CASES[name]))

    def begin():
        discover(**CASES[name], checkpoint=file, **often)

    def go_on():
        smcpn.resume(file, progress=False, **often)

    kills, call = 0, begin
    while stopped_after(PARTS[name], monkeypatch, call):
        kills, call = kills + 1, go_on
    assert kills >= 3
    assert bytes_of(smcpn.resume(file, progress=False)) == whole
    assert bytes_of(discover(**CASES[name], checkpoint=file)) == whole


def test_workers_find_the_same_bytes(monkeypatch):
    monkeypatch.setattr(workers, "HOME_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "RECEIVED", Store())
    told = []
    with ThreadPoolExecutor(2) as executor:
        found = discover(executor=executor, progress=told.append)
    assert bytes_of(found) == bytes_of(discover())
    assert told[-1].workers.startswith("workers ")
    assert told[-1].stage == "end"
    assert any(one.stage == "smaller" and 0 < one.done < one.total for one in told)
    assert told[-1].models == max(one.models for one in told) > 0


def test_an_interrupted_one_is_kept_in_memory(monkeypatch):
    monkeypatch.setattr(restore, "_last", [])

    def stop(progress):
        if progress.stage == "maxima":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"part \d+ of the search: smcpn.resume\(\) goes"):
        discover(progress=stop)
    with pytest.raises(InputError, match="a discovery was interrupted last"):
        smcpn.load()
    assert bytes_of(smcpn.resume(progress=False)) == bytes_of(discover())
    with pytest.raises(InputError, match="no run was interrupted here"):
        smcpn.resume()


def test_equations_come_back_from_plain_data():
    def pushed(v, u, *, gain=2.0):
        return v + gain * u

    library = smcpn.polynomials(2) + smcpn.terms(np.sin, drag=lambda v: v * abs(v))
    constraints = ("w'[v] < 0", "w'[x] = -w'[w]")
    system = CandidateSystem.of(
        library, ["x", "v", "w"], ["u"], known={"x": "v", "v": pushed}, constraints=constraints
    )
    again = read_again(StoredSystem(system.candidates, system.known)).restored(constraints)
    assert system_fingerprint(again) == system_fingerprint(system)
    assert again.coefficients == system.coefficients
    np.testing.assert_array_equal(again.freedom.signs, system.freedom.signs)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The checkpoint of a finished discovery with draws, and its records, as names and bytes."""
    folder = tmp_path_factory.mktemp("files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        discover(**CASES["laplace"], checkpoint=folder / "d.h5")
    return {path.name: path.read_bytes() for path in folder.glob("*.h5")}


@pytest.fixture
def file(files, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path / "d.h5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"library": smcpn.polynomials(3)}, "another library"),
        ({"record": smcpn.Record(y=1.1 * X, t=T)}, "other data"),
        ({"seed": 3}, "was started with seed = 0, not 3"),
        ({"prior": "horseshoe"}, "was started with prior = "),
        ({"existing": "raise"}, "exists: choose existing='resume'"),
    ],
    ids=str,
)
def test_another_question_is_refused(file, options, message):
    with pytest.raises(InputError, match=message):
        discover(**{**CASES["laplace"], "checkpoint": file, **options})


def test_a_file_of_another_kind_is_refused(file):
    with pytest.raises(InputError, match="is of a discovery, which has no posterior"):
        smcpn.load(file)
    with pytest.raises(InputError, match=r"data is given, but .* is of a discovery"):
        smcpn.resume(file, data=RECORD)
    problem = decay_problem()
    with pytest.raises(InputError, match="'smcpn discovery', not 'smcpn checkpoint'"):
        smcpn.identify(problem, checkpoint=file, particles=20)


S, P = "discovery/search", "discovery/shrinkage/populations/0/system"
CHANGES = {
    "a path is NaN": number(f"{S}/point/path", (3, 0), np.nan),
    "a path is shorter": put(f"{S}/point/path", np.zeros((59, 2))),
    "a support is no truth": number(f"{S}/point/support", 0, 2),
    "noise is negative": number(f"{S}/errors/variances", 0, -1.0),
    "stage is unknown": entry("discovery", "search", "stage", value="begin"),
    "stage lacks supports": entry("discovery", "search", "stage", value="maxima"),
    "substeps are many": entry("discovery", "search", "substeps", value=1 << 40),
    "scores are fewer": put(f"{S}/counted/scores", np.zeros(1)),
    "covariance is of other terms": put(f"{S}/counted/maxima/0/covariance", np.eye(7)),
    "draws of a prior that has none": entry("header", "settings", "prior", value=None),
    "particles are many": entry("header", "settings", "particles", value=10**7),
    "weights are zero": number(f"{P}/log_weights", slice(None), -np.inf),
    "likelihoods are others": number(f"{P}/log_likelihood", slice(None), 3.0),
    "the linear model is of other terms": entry(
        "discovery", "shrinkage", "linear", "first", value=3
    ),
    "a term more": put("header/system/candidates/allowed", np.ones((2, 7), "i8")),
    "a term is no graph": put("header/system/candidates/terms/operands", np.full((3, 3), 9)),
    "constraints are none": entry("header", "settings", "constraints", value=["x' ="]),
    "states are others": entry("header", "system", "candidates", "states", value=["x", "z"]),
    "observed are others": put("header/observe", np.eye(3)),
    "data file is elsewhere": entry("header", "data_file", value="../d.h5.data-00000000.h5"),
    "further entry": entry("header", "further", value=1),
    "further group": lambda f: f.create_group("further"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_is_refused_in_one_sentence(file, name):
    file.write_bytes(changed(DISCOVERY, file.read_bytes(), CHANGES[name]))
    with pytest.raises(InputError) as caught:
        smcpn.resume(file, progress=False)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_model_of_another_evidence_is_refused(file):
    count = len(read_discovery(file).state.search.counted.maxima)
    content = file.read_bytes()
    for k in range(count):
        change = entry("discovery", "search", "counted", "maxima", k, "log_evidence", value=1e3)
        content = changed(DISCOVERY, content, change)
    file.write_bytes(content)
    with pytest.raises(InputError, match="another evidence here"):
        smcpn.resume(file, progress=False)


def test_a_damaged_file_has_a_previous_version(file):
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(InputError, match="damaged"):
        smcpn.resume(file)
    file.with_name("d.h5.previous").write_bytes(whole)
    with pytest.warns(smcpn.CheckpointWarning, match="its previous version is used"):
        found = smcpn.resume(file, progress=False)
    assert found.posterior is not None


def test_a_file_is_described_and_resumed_on_the_command_line(file):
    text = inspect(file)
    assert "12 coefficients of 2 equations" in text
    assert "population 2 of draws" in text
    done = CliRunner().invoke(app, ["resume", str(file), "--json"])
    assert done.exit_code == 0, done.output
    assert "x'[y]" in done.stdout
