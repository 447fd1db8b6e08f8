"""Runs that begin near the posterior: all modes, and the prior again where the start misses one."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4, InputError
from smcpn.run import judge
from smcpn.run.identify import Settings
from smcpn.smc.evidence import largest_k
from smcpn.smc.particles import normalise
from smcpn.smc.tempering import CollapsedError, Tempering
from tests.models import decay_problem
from tests.stopping import interrupted_at

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
SOLVER = RK4(steps=2)
OPTIONS = {"solver": SOLVER, "particles": 200, "seed": 3, "progress": False}


@smcpn.ode
def square_decay(x, *, a):
    """Decay at the rate a squared: the sign of a is known from the prior only."""
    return -(a**2) * x


def two_signs() -> smcpn.Problem:
    """Posterior with modes at +-.8, the smaller one with .163 of the mass by the prior."""
    t = np.arange(21) / 10
    y = np.exp(-0.64 * t) + 0.02 * np.random.default_rng(1).normal(size=21)
    return smcpn.Problem(
        square_decay, smcpn.Record(t=t, y=y), observe="x", noise=0.02, initial=[1.0],
        prior={"a": stats.norm(0.5, 0.7)},
    )  # fmt: skip


def exact(problem: smcpn.Problem) -> tuple[float, float]:
    """Log-evidence and share of the negative mode, by quadrature."""
    grid = np.linspace(-3, 4, 70_001)
    log_likelihood = smcpn.LogLikelihood(problem, solver=SOLVER)(grid[:, None])
    density = log_likelihood + stats.norm(0.5, 0.7).logpdf(grid)
    heights = np.exp(density - density.max())
    evidence = density.max() + np.log(heights.sum() * (grid[1] - grid[0]))
    return evidence, heights[grid < 0].sum() / heights.sum()


def share_below_zero(posterior: smcpn.Posterior) -> float:
    return float(posterior.weights[posterior.values[:, 0] < 0].sum())


@pytest.fixture(scope="module")
def one_sided() -> smcpn.Laplace:
    """An approximation at the lesser mode alone."""
    found = smcpn.laplace(two_signs(), solver=SOLVER, starts=[[-0.8]])
    assert len(found.modes) == 1
    return found


@pytest.fixture(scope="module")
def narrow(one_sided) -> smcpn.Laplace:
    """One with a twentieth of the standard deviation."""
    mode = one_sided.modes[0]
    return replace(one_sided, modes=(replace(mode, covariance=mode.covariance / 400),))


def test_all_modes_are_kept_with_their_evidence():
    found = smcpn.laplace(two_signs(), solver=SOLVER)
    evidence, smaller = exact(two_signs())
    assert [round(mode.theta[0], 1) for mode in found.modes] == [0.8, -0.8]
    assert found.shares[1] == pytest.approx(smaller, abs=2e-3)
    assert np.logaddexp(*(mode.log_evidence for mode in found.modes)) == pytest.approx(
        evidence, abs=0.01
    )
    assert any("has 2 modes" in warning for warning in found.warnings)


def test_ends_on_one_hill_are_one_mode():
    found = smcpn.laplace(decay_problem(), solver=RK4(steps=4), starts=6)
    assert found.maximum.agreeing > 1
    assert len(found.modes) == 1
    assert not found.warnings


@pytest.mark.parametrize("start", ["auto", "laplace"])
def test_every_mode_has_its_weight(start):
    """Weight and evidence within 5 sd; the weight of a component's draws has sd .01 at most."""
    problem = two_signs()
    given = start if start == "auto" else smcpn.laplace(problem, solver=SOLVER, seed=3)
    posterior = smcpn.identify(problem, start=given, **OPTIONS)
    evidence, smaller = exact(problem)
    assert abs(share_below_zero(posterior) - smaller) < 0.05
    assert abs(posterior.log_evidence - evidence) < 5 * posterior.log_evidence_se
    assert posterior.warnings == ()


def test_auto_is_the_approximation_of_the_same_seed():
    problem = decay_problem()
    options = {"particles": 100, "seed": 2, "progress": False}
    given = smcpn.laplace(problem, solver=SOLVER, seed=2)
    first = smcpn.identify(problem, start=given, **options)
    second = smcpn.identify(problem, solver=SOLVER, start="auto", **options)
    np.testing.assert_array_equal(first.theta, second.theta)
    assert first.log_evidence == second.log_evidence


def test_a_start_that_misses_is_given_up_for_the_prior(narrow):
    """The run is then that without a start, to the byte, and says so."""
    problem = narrow.problem
    with pytest.warns(smcpn.SamplerWarning, match=r"misses a part .* began again at the prior"):
        posterior = smcpn.identify(problem, start=narrow, **OPTIONS)
    plain = smcpn.identify(problem, method="tempering", **OPTIONS)
    np.testing.assert_array_equal(posterior.theta, plain.theta)
    assert posterior.log_evidence == plain.log_evidence
    assert abs(share_below_zero(posterior) - exact(problem)[1]) < 0.15


@pytest.fixture(scope="module")
def loose() -> smcpn.Laplace:
    """An approximation at the only mode, with an eighth of the standard deviations."""
    found = smcpn.laplace(decay_problem(), solver=SOLVER)
    [mode] = found.modes
    return replace(found, modes=(replace(mode, covariance=mode.covariance / 64),))


def test_a_start_that_is_imperfect_is_widened(loose):
    """The evidence and the means are those of a run from the prior, within 5 standard errors."""
    posterior = smcpn.identify(loose.problem, start=loose, **OPTIONS)
    plain = smcpn.identify(loose.problem, method="tempering", **OPTIONS)
    assert posterior.method.pareto_k > largest_k(OPTIONS["particles"])
    assert "from the modes 3 times as wide" in posterior.method.details
    assert posterior.warnings == ()
    error = np.hypot(posterior.log_evidence_se, plain.log_evidence_se)
    assert abs(posterior.log_evidence - plain.log_evidence) < 5 * error
    for name in loose.problem.names:
        error = posterior.sd[name] * np.sqrt(1 / posterior.ess + 1 / plain.ess)
        assert abs(posterior.mean[name] - plain.mean[name]) < 5 * error


def test_a_start_of_few_effective_draws_is_widened_whatever_their_k():
    """Given a third of the standard deviations, k is trusted, for no draw is in the tails."""
    found = smcpn.laplace(decay_problem(), solver=SOLVER)
    [mode] = found.modes
    start = replace(found, modes=(replace(mode, covariance=mode.covariance / 9),))
    posterior = smcpn.identify(found.problem, start=start, **OPTIONS)
    assert posterior.method.pareto_k < largest_k(OPTIONS["particles"])
    assert posterior.method.width == 3.0
    for name, sd in found.sd.items():
        assert posterior.sd[name] == pytest.approx(sd, rel=0.2)


@pytest.mark.nightly
def test_the_tail_that_the_gaussian_at_a_mode_misses_is_kept():
    """Absorption as slow as elimination has .06 of the mass, and the share is near 1 there.

    The standard deviation of the share by 300000 weighted draws is .0847 +- .0007; of eight runs
    the Gaussian had let four have .059 to .067. Within 3 standard errors by their scatter.
    """

    @smcpn.ode
    def compartments(gut, blood, *, ka, ke):
        return -ka * gut, ka * gut - ke * blood

    t = [0, 0.5, 1, 2, 3, 4, 6, 8, 12]
    y = [-0.38, -0.187, 2.037, np.nan, 3.642, 3.773, 3.626, 2.317, 0.829]
    doses = [
        smcpn.Dose(0.0, "gut", 10.0, lag="lag", fraction="share"),
        smcpn.Dose(3.0, "gut", 5.0, lag="lag", fraction="share"),
    ]
    prior = {
        "ka": stats.lognorm(0.5, scale=1.1), "ke": stats.lognorm(0.5, scale=0.25),
        "s": stats.lognorm(0.5, scale=0.3), "lag": stats.uniform(0, 1.5),
        "share": stats.uniform(0.1, 0.9),
    }  # fmt: skip
    record = smcpn.Record(t=t, y=y, doses=doses)
    problem = smcpn.Problem(compartments, record, observe="blood", noise="s", prior=prior)
    runs = [smcpn.identify(problem, solver=RK4(64), seed=s, progress=False) for s in range(8)]
    sds = np.array([run.sd["share"] for run in runs])
    error = np.hypot(sds.std(ddof=1) / np.sqrt(len(sds)), 0.0007)
    assert abs(sds.mean() - 0.0847) < 3.0 * error
    assert sds.min() > 0.8 * 0.0847


def test_a_wider_start_that_fails_is_given_up_for_the_prior(loose, monkeypatch):
    check = Tempering._check_spread

    def collapsing(sampler):
        if sampler.settings.start is not None:
            raise CollapsedError("few points are left")
        check(sampler)

    monkeypatch.setattr(Tempering, "_check_spread", collapsing)
    posterior = smcpn.identify(loose.problem, start=loose, **OPTIONS)
    plain = smcpn.identify(loose.problem, method="tempering", **OPTIONS)
    assert "began again at the prior" in posterior.warnings[0]
    np.testing.assert_array_equal(posterior.theta, plain.theta)


def test_a_wider_start_is_resumed(loose, tmp_path, monkeypatch):
    """Interrupted on the way from it, in the second of two populations."""
    problem, options = loose.problem, {**OPTIONS, "start": loose, "replicates": 2}
    whole = smcpn.identify(problem, **options)
    file = tmp_path / "run.h5"

    def second(snapshot, number):
        return len(snapshot.samplers) == 2 and snapshot.samplers[1].exponent is not None

    options["checkpoint"] = file
    assert interrupted_at(second, monkeypatch, smcpn.identify, problem, **options).widened
    resumed = smcpn.resume(file, progress=False)
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    assert repr(resumed.method) == repr(whole.method)


def test_a_start_given_up_stays_given_up_when_resumed(narrow, tmp_path, monkeypatch):
    """Interrupted after the prior was returned to, with two populations."""
    problem, options = narrow.problem, {**OPTIONS, "start": narrow, "replicates": 2}
    whole = smcpn.identify(problem, **options)
    assert "began again" in whole.warnings[0]
    file = tmp_path / "run.h5"
    options["checkpoint"] = file
    last = interrupted_at(lambda _, n: n == 12, monkeypatch, smcpn.identify, problem, **options)
    assert last.refused_k > largest_k(OPTIONS["particles"])
    resumed = smcpn.resume(file, progress=False)
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    assert resumed.log_evidence == whole.log_evidence
    assert resumed.warnings == whole.warnings


@pytest.mark.parametrize("part", [0, 1, 3])
def test_a_search_and_its_start_are_resumed(part, tmp_path, monkeypatch):
    """Interrupted before the search, after it, and when the start was judged."""
    problem, options = decay_problem(), {**OPTIONS, "method": "auto", "start": "auto"}
    whole = smcpn.identify(problem, **options)
    options["checkpoint"] = file = tmp_path / "run.h5"
    last = interrupted_at(lambda _, n: n == part, monkeypatch, smcpn.identify, problem, **options)
    assert (last.plan is None) == (part == 0)
    assert part < 3 or np.isfinite(last.samplers[-1].pareto_k)
    resumed = smcpn.resume(file, progress=False)
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    # As text, in which a number that is not known equals itself.
    assert repr(resumed.method) == repr(whole.method)
    again = smcpn.identify(problem, **options)
    np.testing.assert_array_equal(again.theta, whole.theta)


def test_few_searches_are_remarked(one_sided):
    both = replace(one_sided, modes=smcpn.laplace(two_signs(), solver=SOLVER).modes)
    posterior = smcpn.identify(two_signs(), start=both, **OPTIONS)
    few, higher = posterior.warnings
    assert few.startswith("searches for the modes to start from: 1")
    assert higher.startswith("particles reach a log posterior of ")


def test_no_mode_means_the_prior(monkeypatch):
    problem = decay_problem()
    from smcpn.run import plan as planning

    original = planning.laplace
    monkeypatch.setattr(
        planning, "laplace", lambda *a, **k: replace(original(*a, **k), reason="flat", modes=())
    )
    posterior = smcpn.identify(problem, start="auto", **OPTIONS)
    assert posterior.warnings[0].startswith("no Gaussian describes the posterior where searches")
    assert posterior.warnings[0].endswith("ended: flat: the run began at the prior")
    plain = smcpn.identify(problem, method="tempering", **OPTIONS)
    np.testing.assert_array_equal(posterior.theta, plain.theta)


@pytest.mark.parametrize("start", ["laplace", 3, np.zeros(3)])
def test_what_is_no_start_is_refused(start):
    with (
        warnings.catch_warnings(),
        pytest.raises(InputError, match=r"give smcpn\.laplace\(problem\) or 'auto'"),
    ):
        smcpn.identify(decay_problem(), start=start, **OPTIONS)


def test_a_configuration_asks_for_a_start():
    assert Settings(start="auto").given == {"start": "auto"}
    with pytest.raises(InputError, match=r"give smcpn\.laplace"):
        Settings(start="laplace")


def test_a_run_that_lost_what_the_searches_found_says_so(narrow, monkeypatch):
    """The mode is claimed to be higher than it is."""
    monkeypatch.setattr("smcpn.run.sample.share_beyond", lambda *_: 1.0)
    higher = replace(narrow.modes[0], log_evidence=narrow.modes[0].log_evidence + 20.0)
    start = replace(narrow, modes=(higher,))
    posterior = smcpn.identify(narrow.problem, start=start, **OPTIONS)
    assert "began again at the prior" in posterior.warnings[0]
    assert "missed the modes that the searches found" in posterior.warnings[1]


@pytest.mark.parametrize("lost", [False, True])
def test_a_spread_that_differs_from_the_start_is_remarked_where_particles_are_lost(
    lost, monkeypatch
):
    """A start of three times the standard deviation is right where its weighted draws say so."""
    monkeypatch.setattr("smcpn.run.sample.largest_k", lambda n: np.inf)
    if lost:
        combine = judge.combine

        def narrowed(samplers):
            populations = combine(samplers)
            centre = normalise(populations.log_weights) @ populations.theta
            return replace(populations, theta=centre + 0.3 * (populations.theta - centre))

        monkeypatch.setattr(judge, "combine", narrowed)
    problem = decay_problem()
    found = smcpn.laplace(problem, solver=SOLVER)
    wide = replace(found.modes[0], covariance=found.modes[0].covariance * 9.0)
    options = {**OPTIONS, "particles": 400}
    posterior = smcpn.identify(problem, start=replace(found, modes=(wide,)), **options)
    assert posterior.rejuvenations
    told = [text for text in posterior.warnings if "times as wide as the start" in text]
    assert bool(told) == lost
    if told:
        assert any(name in told[0] for name in problem.names)
