"""A run kept in a file: the same bytes after any interruption, and no wrong posterior ever."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import smcpn
from smcpn.checkpoint import run as writing
from smcpn.checkpoint.container import RUN, image, previous_of
from smcpn.checkpoint.run import read_run, records_path
from tests.models import OSCILLATOR_DT, oscillator, oscillator_problem, oscillator_record
from tests.stopping import stopped_after

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
SOLVER = smcpn.EKF0(order=2, steps=2)
OPTIONS = {"solver": SOLVER, "particles": 100, "seed": 1, "progress": False}


def run(file=None, samples=80, **changes):
    options = OPTIONS | changes
    return smcpn.identify(
        oscillator_problem(oscillator_record(samples=samples)), checkpoint=file, **options
    )


def fingerprint(posterior):
    arrays = (posterior.theta, posterior.log_weights, posterior.log_likelihood, posterior.ancestor)
    numbers = (posterior.log_evidence, posterior.log_evidence_se, str(posterior.solver))
    return *(a.tobytes() for a in arrays), posterior.ess_path.tobytes(), repr(numbers)


CASES = {
    "default": {},
    "data": {"method": "ibis"},
    "tempering": {"method": "tempering"},
    "replicates": {"method": "ibis", "replicates": 2},
    "auto": {"method": "ibis", "solver": smcpn.EKF0(order=2, steps="auto")},
    "waste-free": {"method": "ibis", "moves": smcpn.WasteFree()},
}
LONG = ("replicates", "auto", "waste-free")


@pytest.mark.numerics
@pytest.mark.parametrize(
    "case",
    [one if one not in LONG else pytest.param(one, marks=pytest.mark.nightly) for one in CASES],
)
def test_resumed_at_any_part_the_bytes_are_the_same(case, tmp_path, monkeypatch):
    changes, parts, ends = CASES[case], 1, []
    expected = fingerprint(run(**changes))
    while True:
        path = tmp_path / f"{parts}.h5"
        if not stopped_after(parts, monkeypatch, run, path, checkpoint_every=0.0, **changes):
            break
        ends.append(fingerprint(smcpn.resume(path, progress=False)))
        # A run that begins near the posterior has few.
        parts += 7 if changes else 1
    assert len(ends) >= 2
    assert all(end == expected for end in ends)


@pytest.mark.slow
def test_the_script_itself_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "run.h5"
    assert stopped_after(12, monkeypatch, run, path, checkpoint_every=0.0, method="ibis")
    before = read_run(path).state.sample
    assert 0 < before < 80
    assert fingerprint(run(path, method="ibis")) == fingerprint(run(method="ibis"))
    # A finished run is not run again, but for the checks of its solver, at finer steps too.
    steps = run(path, method="ibis").timing.theta_steps
    assert steps < run(method="ibis").timing.theta_steps / 3


def test_a_finished_run_goes_on_with_more_samples(tmp_path):
    """The posterior of 60 samples and then 20 more is that of all 80: the log-evidence
    to its standard error, and the likelihood of every particle to rounding."""
    path = tmp_path / "run.h5"
    whole = oscillator_record(samples=80)
    smcpn.identify(oscillator_problem(whole[:60]), checkpoint=path, **OPTIONS)
    more = smcpn.Record(u=whole.u[60:], y=whole.y[60:], dt=OSCILLATOR_DT)
    extended = smcpn.resume(path, data=more, progress=False)
    direct = run()
    assert extended.problem.n_samples == 80
    error = np.hypot(extended.log_evidence_se, direct.log_evidence_se)
    assert abs(extended.log_evidence - direct.log_evidence) < 5 * error < 1.0
    likelihood = smcpn.likelihood.registry.build_likelihood(oscillator_problem(whole), SOLVER)
    _, again = likelihood.evaluate(extended.values, 80)
    np.testing.assert_allclose(again, extended.log_likelihood, rtol=1e-9)
    # And the file now holds the longer record.
    assert smcpn.load(path).problem.n_samples == 80
    assert len(list(tmp_path.glob("run.h5.data-*.h5"))) <= 2


def test_a_longer_record_in_the_script_goes_on_as_well(tmp_path):
    path, whole = tmp_path / "run.h5", oscillator_record(samples=80)
    smcpn.identify(oscillator_problem(whole[:60]), checkpoint=path, **OPTIONS)
    again = smcpn.identify(oscillator_problem(whole), checkpoint=path, **OPTIONS)
    assert again.problem.n_samples == 80


@pytest.mark.slow
def test_the_posterior_so_far(tmp_path, monkeypatch):
    path = tmp_path / "run.h5"
    assert stopped_after(14, monkeypatch, run, path, checkpoint_every=0.0, method="ibis")
    snapshot = read_run(path).state
    posterior = smcpn.load(path)
    assert posterior.problem.n_samples == snapshot.sample < 80
    assert posterior.theta.tobytes() == snapshot.samplers[0].system.theta.tobytes()
    assert "k " in posterior.summary()
    assert posterior.report(tmp_path / "so_far.html").stat().st_size > 10_000


def test_nothing_to_show_yet(tmp_path, monkeypatch):
    path = tmp_path / "run.h5"
    assert stopped_after(1, monkeypatch, run, path, checkpoint_every=0.0)
    with pytest.raises(smcpn.InputError, match="no posterior to show yet"):
        smcpn.load(path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.h5"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = fingerprint(run(path))
    previous_of(path).unlink()
    return path, path.read_bytes(), expected


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_file_is_refused(finished, tmp_path, share):
    _, content, _ = finished
    path = tmp_path / "run.h5"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(smcpn.InputError, match=r"empty|damaged|no smcpn checkpoint"):
        smcpn.load(path)


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_is_refused(finished, tmp_path_factory, place, bit):
    _, content, _ = finished
    path = tmp_path_factory.getbasetemp() / "flipped.h5"
    damaged = bytearray(content)
    damaged[int(place * len(content))] ^= 1 << bit
    path.write_bytes(damaged)
    with pytest.raises(smcpn.InputError):
        smcpn.load(path)


def test_the_previous_version_is_used_with_a_warning(finished, tmp_path):
    source, content, expected = finished
    path = tmp_path / "run.h5"
    path.write_text("garbled")
    previous_of(path).write_bytes(content)
    records = next(source.parent.glob("run.h5.data-*.h5"))
    (tmp_path / records.name).write_bytes(records.read_bytes())
    with pytest.warns(
        smcpn.CheckpointWarning, match=r"no smcpn checkpoint.*its previous version is used"
    ):
        assert fingerprint(smcpn.load(path)) == expected


def test_another_format_version_is_refused_in_a_sentence(finished, tmp_path):
    _, content, _ = finished
    path = tmp_path / "run.h5"
    for other in (1, 3, 5):
        changed = image(RUN, lambda file, v=other: file.attrs.update(format_version=v), content)
        path.write_bytes(changed)
        with pytest.raises(smcpn.InputError, match=f"has format version {other}, .* version 6: "):
            smcpn.load(path)


def test_records_that_are_absent_or_damaged_are_refused(finished, tmp_path):
    _, content, _ = finished
    path = tmp_path / "run.h5"
    path.write_bytes(content)
    with pytest.raises(smcpn.InputError, match="not with the checkpoint"):
        smcpn.resume(path)
    records_path(path, read_run(path).header.data_fingerprint).write_bytes(b"no records")
    with pytest.raises(smcpn.InputError, match="no smcpn records"):
        smcpn.resume(path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"particles": 200}, "started with particles = 100, not 200"),
        ({"seed": 2}, "started with seed = 1, not 2"),
        ({"solver": smcpn.RK4(steps=2)}, "started with solver"),
        ({"samples": 84}, "other data"),
    ],
)
def test_another_question_is_refused(tmp_path, changes, match):
    path = tmp_path / "run.h5"
    run(path)
    with pytest.raises(smcpn.InputError, match=match):
        run(path, **changes)
    assert fingerprint(run(path, existing="overwrite", **changes)) == fingerprint(run(**changes))


def test_another_prior_is_refused(tmp_path):
    path, record = tmp_path / "run.h5", oscillator_record(samples=80)
    run(path)
    prior = {"c": stats.lognorm(0.5, scale=0.5), "k": stats.lognorm(0.5, scale=6.0)}
    other = smcpn.Problem(oscillator, record, observe="x", noise=0.02, prior=prior)
    with pytest.raises(smcpn.InputError, match="another model or other priors"):
        smcpn.identify(other, checkpoint=path, **OPTIONS)


def test_existing_files_can_be_refused(tmp_path):
    path = tmp_path / "run.h5"
    run(path)
    with pytest.raises(smcpn.InputError, match="exists: choose"):
        run(path, existing="raise")
    with pytest.raises(smcpn.InputError, match="existing is 'append'"):
        run(path, existing="append")


@pytest.mark.parametrize(
    ("name", "match"), [("nowhere/run.h5", "folder does not exist"), (".", "is a folder")]
)
def test_a_path_that_cannot_be_is_refused(tmp_path, name, match):
    with pytest.raises(smcpn.InputError, match=match):
        run(tmp_path / name)


class OwnPrior:
    """A prior object of the user's."""

    def rvs(self, size=None, random_state=None):
        return stats.lognorm(0.5, scale=5.0).rvs(size=size, random_state=random_state)

    def logpdf(self, x):
        return stats.lognorm(0.5, scale=5.0).logpdf(x)


def test_what_cannot_be_stored_asks_for_the_script(tmp_path, monkeypatch):
    path = tmp_path / "run.h5"
    own = smcpn.Problem(
        oscillator,
        oscillator_record(samples=80),
        observe="x",
        noise=0.02,
        prior={"c": stats.lognorm(0.5, scale=0.5), "k": OwnPrior()},
    )
    first = smcpn.identify(own, checkpoint=path, **OPTIONS)
    with pytest.raises(smcpn.InputError, match=r"prior of 'k' .* OwnPrior.* Run your script again"):
        smcpn.resume(path)
    assert fingerprint(smcpn.identify(own, checkpoint=path, **OPTIONS)) == fingerprint(first)


@pytest.mark.slow
def test_a_second_process_is_refused(tmp_path):
    path, told = tmp_path / "run.h5", []

    def progress(state):
        if state.sample >= 40 and not told:
            code = f"import smcpn; smcpn.resume({str(path)!r})"
            second = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False
            )
            told.append(second.stderr.splitlines()[-1])

    run(path, method="ibis", progress=progress, checkpoint_every=0.0)
    assert "in use by another process" in told[0]


def test_a_folder_that_cannot_be_written_is_told_once_and_at_the_end(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "publish", full)
    with pytest.warns(smcpn.CheckpointWarning, match="No space left on device") as told:
        posterior = run(tmp_path / "run.h5", checkpoint_every=0.0)
    assert sum(w.category is smcpn.CheckpointWarning for w in told) == 1
    assert fingerprint(posterior) == fingerprint(run())
    assert any("could not be written" in warning for warning in posterior.warnings)


def test_other_readers_find_values_and_names(finished):
    path, _, _ = finished
    with h5py.File(path) as file:
        assert file.attrs["format"] == b"smcpn checkpoint"
        assert file["values/names"][...].tolist() == [b"c", b"k"]
        theta = file["run/samplers/0/system/theta"][...]
        np.testing.assert_allclose(file["values/0"][...], np.exp(theta))
        assert json.loads(file["header/fields"][()])["settings"]["particles"] == 100


SCRIPT = """
import sys, warnings
sys.path[:0] = {tests!r}
warnings.simplefilter("ignore")
import test_checkpoint_run as t
t.run({path!r}, samples=400, method="ibis", solver=t.smcpn.RK4(steps=400),
      checkpoint_every=0.0,      progress=lambda state: print(state.sample, flush=True))
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly), (signal.SIGINT, -signal.SIGINT)],
)
@pytest.mark.slow
def test_signals_leave_a_checkpoint_and_the_conventional_code(tmp_path, number, code):
    path = str(tmp_path / "run.h5")
    tests = [str(folder) for folder in Path(__file__).parents[:3]]
    script = textwrap.dedent(SCRIPT).format(tests=tests, path=path)
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"SMCPN_THREADS": "1"},
    )
    assert child.stdout is not None
    while int(child.stdout.readline()) < 5:
        pass
    child.send_signal(number)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == code
    assert f"'smcpn resume {path}' goes on" in stderr
    stored = read_run(Path(path))
    assert stored.version.status == "interrupted"
    assert 5 <= stored.state.sample < 400
