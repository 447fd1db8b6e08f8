"""Runs and streams of problems with process noise: stored, resumed, and the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from tests.models import forced_input
from tests.stopping import Stopped

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")


@smcpn.ode
def mass(x, v, u, *, c):
    return v, u - c * v - x


@smcpn.sde
def rough(x, v, u, *, c, q):
    return (v, u - c * v - x), (0, q * np.sqrt(1 + v**2))


def record() -> smcpn.Record:
    u = forced_input(40, 0.2)
    given = smcpn.Record(u=u, dt=0.2, hold="foh")
    y = smcpn.simulate(mass, given, {"c": 0.5}, observe="x", process_noise={"v": 0.2}, seed=3)
    y += 0.02 * np.random.default_rng(0).normal(size=y.shape)
    return smcpn.Record(u=u, y=y, dt=0.2, hold="foh")


def problem(stochastic: bool) -> smcpn.Problem:
    prior = {"c": stats.lognorm(0.5, scale=0.5), "q": stats.lognorm(0.5, scale=0.2)}
    noise = None if stochastic else {"v": "q"}
    ode = rough if stochastic else mass
    return smcpn.Problem(ode, record(), observe="x", noise=0.02, prior=prior, process_noise=noise)


@pytest.fixture(params=[False, True], ids=["process_noise", "sde"], scope="module")
def disturbed(request) -> smcpn.Problem:
    return problem(request.param)


@pytest.mark.slow
def test_a_run_goes_on_from_the_file_alone(disturbed, tmp_path):
    run = {"solver": smcpn.RK4(2), "particles": 60, "seed": 1, "method": "ibis"}
    whole = smcpn.identify(disturbed, progress=False, **run)
    path, calls = tmp_path / "run.h5", 0

    def stop(_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Stopped

    with pytest.raises(Stopped):
        smcpn.identify(disturbed, checkpoint=path, checkpoint_every=0.0, progress=stop, **run)
    again = smcpn.resume(path, progress=False)
    assert again.problem.process_noise == disturbed.process_noise
    assert again.likelihood_name == whole.likelihood_name == "kalman"
    assert again.problem.model.process_noise.columns.nnz() == 1
    assert again.theta.tobytes() == whole.theta.tobytes()
    assert again.log_evidence == whole.log_evidence


@pytest.mark.slow
def test_a_stream_goes_on_from_the_file_alone(disturbed, tmp_path):
    run = {"solver": smcpn.RK4(2), "particles": 60, "seed": 1}
    lives = [smcpn.Online(disturbed, forget=forget, **run) for forget in (None, "4 s")]
    for number, live in enumerate(lives):
        path = tmp_path / f"live{number}.h5"
        for k in range(30):
            live.update(disturbed.records[0].u[k], disturbed.records[0].y[k])
        live.save(path)
        again = smcpn.Online.load(path)
        for k in range(30, 40):
            states = [
                one.update(disturbed.records[0].u[k], disturbed.records[0].y[k])
                for one in (live, again)
            ]
        assert states[0].mean == states[1].mean
        assert states[0].mean["q"] > 0.0
