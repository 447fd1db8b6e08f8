"""Particles of a file that do not follow from their parameters are found, wherever they stand."""

from dataclasses import replace

import numpy as np
import pytest

import smcpn
from smcpn.checkpoint.container import publish
from smcpn.checkpoint.run import header_image, read_run, run_image
from smcpn.checkpoint.stream import read_stream, write_stream
from smcpn.model.problem import Problem
from smcpn.run.restore import restored, stored_problem, stored_settings
from smcpn.smc.sampler import Sampler
from smcpn.smc.state import RandomState
from smcpn.smc.verification import LEAST, SHARE, is_consistent
from tests.models import oscillator_problem, oscillator_record
from tests.stopping import Stopped

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
N = 100
PROBLEM: Problem = oscillator_problem(oscillator_record(samples=60))
MIDDLE = slice(1, N - 1)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """A run stopped while a sample is assimilated in parts."""
    path = tmp_path_factory.mktemp("run") / "run.h5"

    def cut(state):
        if state.sample >= 10 and read_run(path).state.samplers[0].exponent is not None:
            raise Stopped

    with pytest.raises(Stopped):
        smcpn.identify(
            PROBLEM, solver=smcpn.RK4(2), particles=N, seed=1, checkpoint=path, progress=cut,
            checkpoint_every=0.0, method="ibis",
        )  # fmt: skip
    return path


@pytest.fixture
def stream(tmp_path):
    live = smcpn.Online(PROBLEM, solver=smcpn.RK4(2), particles=N, seed=1, forget=2.0)
    record = PROBLEM.records[0]
    for u, y in zip(record.u, record.y, strict=True):
        live.update(u, y)
    assert live.snapshot().begin > 0
    live.save(tmp_path / "stream.h5")
    return tmp_path / "stream.h5"


def edited(system, name):
    """The system with all but its first and last particle edited a little."""
    values = getattr(system, name).copy()
    values[..., MIDDLE] += 1e-3 * (1.0 + np.abs(values[..., MIDDLE]))
    return replace(system, **{name: values})


def edit(stream, change):
    """Write the file of a stream again, with other particles."""
    stored = read_stream(stream)
    population = stored.state.population
    population = replace(population, system=change(population.system))
    state = replace(stored.state, population=population)
    prior = smcpn.Online.load(stream)._windows.current.prior
    write_stream(stream, replace(stored, state=state), prior)


EDITS = ["log_prior", "log_likelihood", "log_increment", "state"]


@pytest.mark.parametrize("name", EDITS)
def test_edited_particles_in_the_middle_of_a_run_are_refused(name, unfinished, tmp_path):
    stored = read_run(unfinished)
    (sampler,) = stored.state.samplers
    sampler = replace(sampler, system=edited(sampler.system, name))
    snapshot = replace(stored.state, samplers=(sampler,))
    path = tmp_path / "run.h5"
    path.with_name(stored.header.data_file).write_bytes(
        unfinished.with_name(stored.header.data_file).read_bytes()
    )
    publish(path, run_image(snapshot, "running", header_image(stored.header), PROBLEM.prior))
    for use in (smcpn.load, smcpn.resume):
        with pytest.raises(smcpn.InputError, match="have another likelihood here"):
            use(path)


@pytest.mark.parametrize("name", EDITS[:2] + EDITS[3:])
def test_edited_particles_of_a_window_are_refused(name, stream):
    assert smcpn.Online.load(stream).sample == 60
    edit(stream, lambda system: edited(system, name))
    with pytest.raises(smcpn.InputError, match="have another likelihood here"):
        smcpn.Online.load(stream)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_states_of_another_size_do_not_reach_compiled_code(rows, unfinished, stream):
    stored = read_run(unfinished)
    (sampler,) = stored.state.samplers
    system = replace(sampler.system, state=np.resize(sampler.system.state, (rows, N)))
    snapshot = replace(stored.state, samplers=(replace(sampler, system=system),))
    problem = stored_problem(stored.header, unfinished)
    settings = stored_settings(stored.header, unfinished)
    with pytest.raises(smcpn.InputError, match="have another likelihood here"):
        restored(replace(stored, state=snapshot), problem, settings, unfinished)
    edit(stream, lambda system: replace(system, state=np.resize(system.state, (rows, N))))
    with pytest.raises(smcpn.InputError, match="have another likelihood here"):
        smcpn.Online.load(stream)


def test_other_particles_are_drawn_each_time_and_the_run_goes_on_alike(unfinished, monkeypatch):
    stored = read_run(unfinished)
    problem = stored_problem(stored.header, unfinished)
    settings = stored_settings(stored.header, unfinished)
    drawn, original = [], Sampler.recomputed

    def recomputed(self, index):
        drawn.append(tuple(index))
        return original(self, index)

    monkeypatch.setattr(Sampler, "recomputed", recomputed)
    runs = [restored(stored, problem, settings, unfinished) for _ in range(3)]
    assert len(set(drawn)) == 3
    assert all(len(set(some)) == max(LEAST, SHARE * N) for some in drawn)
    states = [RandomState.of(run.samplers[0]._rng) for run in runs]
    assert states == [stored.state.samplers[0].random_state] * 3


def test_no_weight_at_all_is_not_consistent(unfinished):
    stored = read_run(unfinished)
    problem = stored_problem(stored.header, unfinished)
    run = restored(stored, problem, stored_settings(stored.header, unfinished), unfinished)
    sampler = run.samplers[0]
    sampler._change_system(log_weights=np.full(N, -np.inf))
    assert not is_consistent(sampler)
