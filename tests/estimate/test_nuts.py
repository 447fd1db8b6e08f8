"""The No-U-Turn sampler on known posteriors; expected deviations are in standard errors."""

from __future__ import annotations

import ctypes
import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from executors import UnreliableExecutor
from models import (
    LINE_NOISE,
    decay,
    decay_problem,
    drift,
    line,
    line_answer,
    line_record,
    two_modes,
)
from scipy import stats

import smcpn
from smcpn import InputError, LogLikelihood, Prior, Problem
from smcpn.estimate.batching import BatchedEvaluation
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts import sampler
from smcpn.estimate.nuts.native import native_density, prior_table
from smcpn.smc.distributed import tasks, workers
from smcpn.smc.distributed.parts import Store
from smcpn.smc.replicates import SamplerWarning

needs_nutpie = pytest.mark.skipif(find_spec("nutpie") is None, reason="nutpie is not installed")
RK4 = smcpn.RK4(steps=2)
QUIET = {"seed": 1, "progress": False}

drag = smcpn.spline("v", knots=4, within=(-1, 1))


@smcpn.ode
def falling(v, *, drag):
    return 0.5 - drag(v)


def falling_problem() -> Problem:
    y = np.tanh(np.linspace(0.0, 1.0, 12)) + 0.02 * np.random.default_rng(0).normal(size=12)
    return Problem(
        falling, smcpn.Record(y=y, dt=0.2), observe="v", noise=0.02, initial=[0.0], prior={}
    )


def wide_problem() -> Problem:
    prior = {"rate": stats.uniform(0, 5), "sigma": stats.gamma(2.0), "start": stats.t(3.0)}
    return decay_problem(prior=prior)


@pytest.mark.parametrize("make", [line, decay_problem, wide_problem, falling_problem])
def test_machine_code_is_the_log_density(make):
    problem = make()
    density = LogDensity(LogLikelihood(problem, solver=RK4, threads=1))
    rng, d = np.random.default_rng(1), len(problem.names)
    centre, factor = rng.normal(size=d), np.tril(rng.normal(size=(d, d))) + 2 * np.eye(d)
    native = native_density(density, centre, factor)
    data = native.data
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, *[ctypes.c_void_p] * 4)
    for theta in problem.prior.sample(np.random.default_rng(2), 10):
        x, gradient, value = np.linalg.solve(factor, theta - centre), np.empty(d), np.empty(1)
        places = [a.ctypes.data for a in (x, gradient, value, data)]
        assert kind(native.log_density)(d, *places) == 0
        assert native.value(x[None, :]) == value
        plain, slope = density.value_and_gradient(theta[None, :])
        np.testing.assert_allclose(value, plain, rtol=1e-7)
        slope = slope[0] @ factor
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


def test_solution_that_diverges_is_told_by_machine_code():
    density = LogDensity(LogLikelihood(two_modes(), solver=RK4, threads=1))
    native = native_density(density, np.zeros(1), np.eye(1))
    assert np.isnan(native.value(np.array([[1e200]])))


@pytest.mark.parametrize(
    "distribution",
    [stats.norm(3, 1e-3), stats.lognorm(2.0), stats.uniform(-1, 2), stats.beta(2, 5),
     stats.invgamma(3.0), stats.truncnorm(-1, 2), stats.cauchy(), stats.logistic()],
)  # fmt: skip
def test_table_of_a_smooth_prior_holds_between_its_nodes(distribution):
    prior = Prior({"a": distribution})
    table = prior_table(prior)[0]
    first, spacing, nodes = table[0], table[1], table[2:].reshape(-1, 2)
    k = np.random.default_rng(0).integers(0, len(nodes) - 1, 500)
    z, (f0, g0), (f1, g1) = first + spacing * (k + 0.3), nodes[k].T, nodes[k + 1].T
    s, g0, g1 = 0.3, g0 * spacing, g1 * spacing
    cubic = f0 + s * (g0 + s * (3 * (f1 - f0) - 2 * g0 - g1 + s * (2 * (f0 - f1) + g0 + g1)))
    exact = prior.log_density(z[:, None])
    # Farther out the density of a bounded parameter is rounding.
    probable = exact > exact.max() - 60
    assert probable.sum() > 50
    np.testing.assert_allclose(cubic[probable], exact[probable], rtol=1e-7, atol=1e-7)


def test_prior_with_a_kink_or_bounds_has_no_table():
    assert prior_table(Prior({"a": stats.laplace()})) is None
    assert prior_table(Prior({"a": stats.uniform()}, coordinates={"a": "identity"})) is None


@pytest.fixture(scope="module")
def posterior():
    pytest.importorskip("nutpie", reason="nutpie is not installed")
    return smcpn.nuts(line(), solver=RK4, **QUIET)


def test_normal_posterior_is_found(posterior):
    mean, covariance, _ = line_answer()
    found = np.array([posterior.mean[name] for name in ("rate", "x0")])
    order = [posterior.names.index(name) for name in ("rate", "x0")]
    # The chains are worth 3000 to 7000 draws: 4 standard errors of so many.
    error = np.sqrt(np.diag(covariance) / posterior.ess_bulk[order])
    assert (np.abs(found - mean) < 4 * error).all()
    sampled = np.cov(posterior.theta[:, order].T)
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert (np.abs(sampled - covariance) < 4 * np.sqrt(2 / 2000) * spread).all()
    assert posterior.ess > 2000
    assert posterior.r_hat.max() < 1.01
    assert not posterior.statistics.divergent.any()
    assert posterior.warnings == ()


@needs_nutpie
def test_same_draws_for_any_number_of_threads(posterior):
    again = smcpn.nuts(line(), solver=RK4, threads=1, **QUIET)
    assert again.theta.tobytes() == posterior.theta.tobytes()
    other = smcpn.nuts(line(), solver=RK4, seed=2, progress=False)
    assert other.theta.tobytes() != posterior.theta.tobytes()


class Alone(BatchedEvaluation):
    """Evaluates each point when it comes."""

    def __init__(self, function, searches):
        super().__init__(function, 0)


@needs_nutpie
def test_chains_by_python_wait_for_each_other_and_draw_the_same(posterior, monkeypatch):
    monkeypatch.setattr(sampler, "native_density", lambda *arguments: None)
    few = {"draws": 20, "tune": 30, "solver": RK4} | QUIET
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerWarning)
        plain = [smcpn.nuts(line(), threads=1, **few)]
        monkeypatch.setattr(sampler, "BatchedEvaluation", Alone)
        plain.append(smcpn.nuts(line(), threads=2, **few))
        monkeypatch.undo()
        native = smcpn.nuts(line(), **few)
    assert plain[0].theta.tobytes() == plain[1].theta.tobytes()
    # To the rounding of the gradients, which grows along a chain.
    np.testing.assert_allclose(plain[0].theta, native.theta, rtol=1e-6)


@needs_nutpie
@pytest.mark.slow
def test_prior_with_a_kink_is_sampled():
    """Mean and sd of a Laplace prior that a weak record hardly changes, by quadrature."""
    record = line_record()[:3]
    problem = Problem(
        drift, record, observe="x", noise=2.0, initial=[0.5], prior={"rate": stats.laplace()}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerWarning)
        found = smcpn.nuts(problem, draws=250, tune=100, chains=2, solver=RK4, **QUIET)
    rate = np.linspace(-20, 20, 40001)[:, None]
    density = stats.laplace.logpdf(rate) + stats.norm.logpdf(
        record.y[:, 0], 0.5 + rate * record.t, 2.0
    ).sum(axis=1, keepdims=True)
    weights = np.exp(density - density.max())
    weights /= weights.sum()
    mean = (weights * rate).sum()
    sd = np.sqrt((weights * (rate - mean) ** 2).sum())
    # At least 100 effective draws: 4 standard errors; the fourth moment is 6 of a Laplace density.
    assert found.ess > 100
    assert abs(found.mean["rate"] - mean) < 4 * sd / np.sqrt(found.ess)
    assert abs(found.sd["rate"] / sd - 1) < 4 * np.sqrt(5 / 4 / found.ess)


@needs_nutpie
@pytest.mark.slow
def test_process_noise_by_the_kalman_likelihood():
    disturbed = Problem(
        decay, line_record(), observe="x", noise=LINE_NOISE, initial=[0.5],
        process_noise={"x": 0.2}, prior={"rate": stats.norm(0.0, 1.0)},
    )  # fmt: skip
    with pytest.raises(InputError, match="estimate by random numbers"):
        smcpn.nuts(disturbed, likelihood="particle", **QUIET)
    found = smcpn.nuts(disturbed, draws=500, **QUIET)
    assert found.likelihood_name == "kalman"
    sampled = smcpn.identify(disturbed, particles=1000, seed=1, progress=False)
    error = np.hypot(found.sd["rate"] / np.sqrt(found.ess), sampled.sd["rate"] / np.sqrt(500))
    assert abs(found.mean["rate"] - sampled.mean["rate"]) < 4 * error


def test_result_is_a_posterior(posterior):
    assert posterior.chains.shape == (4, 1000, 2)
    assert np.isnan(posterior.log_evidence)
    text = posterior.summary()
    assert "4 of 1000 draws, after 200 for tuning" in text
    assert "log-evidence  " not in text
    simulated = posterior.simulate(line_record(), steps=1)
    assert simulated.coverage > 0.8
    assert posterior.plot_run().axes
    assert np.isnan(smcpn.compare({"nuts": posterior})["nuts"].log_evidence)
    particles = posterior.particles()
    assert type(particles) is smcpn.Posterior
    assert particles.mean == posterior.mean


@pytest.mark.slow
@pytest.mark.nightly
def test_report_of_chains(posterior, tmp_path):
    text = posterior.report(tmp_path / "report.html").read_text()
    assert text.count("R-hat") == 2  # among the figures, and how it was computed
    assert "log-evidence</" not in text


def test_exported_to_arviz_draw_by_draw(posterior):
    tree = posterior.to_arviz()
    np.testing.assert_array_equal(tree["posterior"]["rate"], posterior.chains[:, :, 0])
    np.testing.assert_array_equal(tree["sample_stats"]["n_steps"], posterior.statistics.steps)
    assert set(tree["sample_stats"]) >= {"diverging", "tree_depth", "step_size", "energy", "lp"}


@needs_nutpie
def test_start_brings_likelihood_and_solver(posterior):
    laplace = smcpn.laplace(line(), solver=RK4, seed=1)
    again = smcpn.nuts(line(), start=laplace, **QUIET)
    assert again.theta.tobytes() == posterior.theta.tobytes()
    with pytest.raises(InputError, match="start is a Laplace approximation"):
        smcpn.nuts(line(), start=laplace, solver=RK4)
    with pytest.raises(InputError, match=r"start is 'auto': give what smcpn\.laplace returns"):
        smcpn.nuts(line(), start="auto")


@needs_nutpie
def test_too_few_draws_are_refused():
    with pytest.raises(InputError, match="draws is 3: take at least 4"):
        smcpn.nuts(line(), 3)
    with pytest.raises(InputError, match="tune is 0: take at least 20"):
        smcpn.nuts(line(), tune=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerWarning)
        found = smcpn.nuts(line(), 4, tune=20, chains=1, solver=RK4, **QUIET)
    assert found.chains.shape == (1, 4, 2)


@needs_nutpie
def test_warnings_say_what_is_wrong():
    with pytest.warns(SamplerWarning) as said:
        found = smcpn.nuts(two_modes(), draws=20, tune=20, solver=RK4, **QUIET)
    assert [str(one.message) for one in said] == list(found.warnings)
    text = " ".join(found.warnings)
    assert "independent ones, fewer than 100 of each chain: take more draws=" in text


def test_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nutpie.compile_pymc", None)
    with pytest.raises(InputError, match=r"pip install smcpn\[nuts\]"):
        smcpn.nuts(line())


@needs_nutpie
@pytest.mark.parametrize(("native", "sent"), [(True, "sampled"), (False, "gradient")])
def test_chains_are_the_same_by_workers_that_are_lost(monkeypatch, native, sent):
    monkeypatch.setattr(workers, "HOME_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "RECEIVED", Store())
    if not native:
        monkeypatch.setattr(sampler, "native_density", lambda *arguments: None)
    start = smcpn.laplace(line(), solver=RK4, starts=1)

    def run(**options):
        return smcpn.nuts(line(), 8, tune=20, chains=3, start=start, **QUIET, **options)

    with (
        warnings.catch_warnings(),
        UnreliableExecutor(seed=1, loses=0.2, forgets=0.3) as executor,
    ):
        warnings.simplefilter("ignore", SamplerWarning)
        here, there = run(threads=1), run(executor=executor)
    assert here.theta.tobytes() == there.theta.tobytes()
    for name, found in vars(here.statistics).items():
        assert np.array_equal(found, getattr(there.statistics, name))
    methods = [task.batch.method for task in executor.tasks]
    assert set(methods) == {sent}
    assert len(methods) > 3


class Interrupted:
    """A chain that an interrupt reaches when it has a hundred draws."""

    def __init__(self, chain):
        self.chain = chain

    @property
    def is_finished(self):
        _, stats = self.chain._sampler.inspect().get_arrow_trace()
        if stats[0].num_rows > 100:
            raise KeyboardInterrupt
        return False

    def abort(self):
        return self.chain.abort()


@needs_nutpie
@pytest.mark.parametrize("native", [True, False])
def test_interrupt_ends_with_what_there_is(monkeypatch, native):
    package = sampler.nutpie()
    begun = SimpleNamespace(
        sample=lambda *args, **kwargs: Interrupted(package.sample(*args, **kwargs))
    )
    monkeypatch.setattr(sampler, "nutpie", lambda: begun)
    if not native:
        monkeypatch.setattr(sampler, "native_density", lambda *arguments: None)
    with warnings.catch_warnings(record=True):
        found = smcpn.nuts(line(), 10**6, tune=50, solver=RK4, threads=4, **QUIET)
    assert "was interrupted after" in found.warnings[-1]
    assert 50 < len(found.theta) < 4 * 10**6
