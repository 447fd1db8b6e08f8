"""Bridges to other libraries. Tests that need `particles` run in tox -e oracle."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4, InputError, Prior
from smcpn.model.distribution import draw, support
from smcpn.results.exports.arviz import arviz_groups
from tests.models import decay_problem, duffing_problem


class GlobalNormal:
    """The interface of `particles.distributions.Normal`: no generator, no support."""

    def __init__(self, loc=0.0, scale=1.0):
        self.loc, self.scale = loc, scale

    def rvs(self, size=None):
        return np.random.normal(self.loc, self.scale, size)  # noqa: NPY002

    def logpdf(self, x):
        return stats.norm.logpdf(x, self.loc, self.scale)

    def ppf(self, u):
        return stats.norm.ppf(u, self.loc, self.scale)


class GlobalGamma(GlobalNormal):
    def rvs(self, size=None):
        return np.random.gamma(2.0, 1.0, size)  # noqa: NPY002

    def logpdf(self, x):
        return stats.gamma(2.0).logpdf(x)

    def ppf(self, u):
        return stats.gamma(2.0).ppf(u)


class NoQuantile(GlobalNormal):
    def ppf(self, u):
        raise NotImplementedError


class Counts(GlobalNormal):
    def rvs(self, size=None):
        return np.random.poisson(3.0, size)  # noqa: NPY002


class Pairs(GlobalNormal):
    def rvs(self, size=None):
        return np.random.normal(size=(size, 2))  # noqa: NPY002


def global_state() -> bytes:
    return np.random.get_state()[1].tobytes()  # noqa: NPY002


def test_distributions_that_draw_from_the_global_generator():
    before = global_state()
    first, second = (draw(GlobalNormal(1.0), np.random.default_rng(4), 2000) for _ in range(2))
    assert global_state() == before
    assert first.tobytes() == second.tobytes()
    other = draw(GlobalNormal(1.0), np.random.default_rng(5), 2000)
    assert (first != other).any()
    assert stats.kstest(first, stats.norm(1.0).cdf).pvalue > 1e-3


def test_global_generator_is_put_back_after_an_error():
    class Broken(GlobalNormal):
        def rvs(self, size=None):
            np.random.normal()  # noqa: NPY002
            raise RuntimeError

    before = global_state()
    with pytest.raises(RuntimeError):
        draw(Broken(), np.random.default_rng(0), 3)
    assert global_state() == before


def test_supports():
    assert support(GlobalNormal()) == (-np.inf, np.inf)
    assert support(GlobalGamma()) == (0.0, np.inf)
    assert support(NoQuantile()) == (-np.inf, np.inf)
    assert support(stats.uniform(2, 3)) == (2.0, 5.0)
    assert [c.name for c in Prior({"a": GlobalGamma(), "b": GlobalNormal()}).maps] == [
        "log",
        "identity",
    ]


@pytest.mark.parametrize(
    ("wrong", "sentence"), [(Counts(), "is discrete"), (Pairs(), "of one number")]
)
def test_distributions_that_cannot_serve(wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        Prior({"a": wrong}).sample(np.random.default_rng(0), 5)


def test_identification_with_such_priors_leaves_the_global_generator_alone():
    prior = {"rate": GlobalGamma(), "sigma": 0.05, "start": GlobalNormal(0.0, 3.0)}
    before = global_state()
    runs = [
        smcpn.identify(decay_problem(prior=prior), solver=RK4(2), particles=300, seed=1)
        for _ in range(2)
    ]
    assert global_state() == before
    assert runs[0].theta.tobytes() == runs[1].theta.tobytes()
    own = {"rate": stats.gamma(2.0), "sigma": 0.05, "start": stats.norm(0.0, 3.0)}
    other = smcpn.identify(decay_problem(prior=own), solver=RK4(2), particles=300, seed=2)
    # Means of some 150 effective draws each: 5 standard errors.
    assert abs(runs[0].mean["rate"] - other.mean["rate"]) < 5 * other.sd["rate"] / np.sqrt(75)


@pytest.fixture(scope="module")
def posterior():
    return smcpn.identify(decay_problem(), solver=RK4(2), particles=400, seed=1, replicates=2)


def test_arviz_groups(posterior):
    groups = arviz_groups(posterior, posterior.problem, seed=3)
    assert set(groups) == {"posterior", "sample_stats", "observed_data"}
    assert set(groups["posterior"]) == set(posterior.names)
    for group in ("posterior", "sample_stats"):
        assert {array.shape for array in groups[group].values()} == {(2, 400)}
    again = arviz_groups(posterior, posterior.problem, seed=3)
    rate = groups["posterior"]["rate"]
    assert rate.tobytes() == again["posterior"]["rate"].tobytes()
    for chain in range(2):
        members = posterior.replicate == chain
        assert np.isin(rate[chain], posterior["rate"][members]).all()
        weights = posterior.weights[members] / posterior.weights[members].sum()
        # Systematic resampling: the mean moves by less than a multinomial standard error.
        gap = abs(rate[chain].mean() - weights @ posterior["rate"][members])
        assert gap < posterior.sd["rate"] / np.sqrt(400)
    assert groups["observed_data"]["y_0"].shape == posterior.problem.records[0].y.shape


def test_to_arviz_without_the_package(posterior, monkeypatch):
    for name in ("arviz_base", "arviz"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"arviz-base.*pip install smcpn\[arviz\]"):
        posterior.to_arviz()


def test_to_arviz_hands_over_groups_and_attributes(posterior, monkeypatch):
    """With a stand-in for arviz_base.from_dict(data, *, attrs)."""
    seen = SimpleNamespace()

    def from_dict(data, *, attrs):
        seen.data, seen.attrs = data, attrs
        return "tree"

    monkeypatch.setitem(sys.modules, "arviz_base", SimpleNamespace(from_dict=from_dict))
    assert posterior.to_arviz() == "tree"
    assert set(seen.data) == {"posterior", "sample_stats", "observed_data"}
    assert seen.attrs["/"]["log_evidence"] == posterior.log_evidence


def test_arviz_itself(posterior):
    pytest.importorskip("arviz_base")
    tree = posterior.to_arviz()
    assert dict(tree["posterior"].sizes) == {"chain": 2, "draw": 400}


class TestParticles:
    """The package as an oracle."""

    @pytest.fixture(autouse=True)
    def package(self):
        self.particles = pytest.importorskip("particles")

    def test_its_distributions_as_priors(self):
        from particles import distributions as d

        laws = {
            "a": d.Normal(1.0, 2.0),
            "b": d.Gamma(2.0, 3.0),
            "c": d.Beta(2.0, 5.0),
            "d": d.Uniform(2.0, 5.0),
            "e": d.LogNormal(0.0, 0.5),
            "f": d.InvGamma(3.0, 2.0),
        }
        prior = Prior(laws)
        names = [c.name for c in prior.maps]
        assert names == ["identity", "log", "logit", "logit", "log", "log"]
        before = global_state()
        theta = prior.sample(np.random.default_rng(0), 2000)
        assert global_state() == before
        values = prior.natural(theta)
        exact = [
            stats.norm(1, 2), stats.gamma(2, scale=1 / 3), stats.beta(2, 5), stats.uniform(2, 3),
            stats.lognorm(0.5), stats.invgamma(3, scale=2),
        ]  # fmt: skip
        for column, law in zip(values.T, exact, strict=True):
            assert stats.kstest(column, law.cdf).pvalue > 1e-3
        own = Prior(dict(zip(laws, exact, strict=True)))
        np.testing.assert_allclose(prior.log_density(theta), own.log_density(theta), rtol=1e-9)

    def test_static_model_has_the_same_likelihood(self):
        from smcpn.likelihood.registry import build_likelihood
        from smcpn.results.exports.static_model import static_model

        problem = decay_problem()
        model = static_model(problem, RK4(2))
        theta = model.prior.rvs(size=50)
        plain = model.prior.columns(theta)
        likelihood = build_likelihood(problem, RK4(2))
        exact = likelihood.evaluate(problem.prior.natural(plain), 30)[1]
        np.testing.assert_allclose(model.loglik(theta), exact, rtol=1e-10)
        streamed = sum(model.logpyt(theta, t) for t in range(30))
        np.testing.assert_allclose(streamed, exact, rtol=1e-10)
        moved = theta[::-1].copy()
        np.testing.assert_allclose(
            model.logpyt(moved, 7), model.loglik(moved, 7) - model.loglik(moved, 6), rtol=1e-8,
            atol=1e-8,
        )  # fmt: skip
        assert model.T == 30

    @pytest.mark.parametrize("path", ["IBIS", "AdaptiveTempering"])
    def test_same_posterior_and_evidence(self, path):
        """Five runs of each: means within 5 combined standard errors, estimated from the runs."""
        from particles import smc_samplers

        from smcpn.results.exports.static_model import static_model

        problem = decay_problem()
        ours = [smcpn.identify(problem, solver=RK4(2), seed=s) for s in range(5)]
        model, theirs = static_model(problem, RK4(2)), []
        np.random.seed(1)  # noqa: NPY002
        for _ in range(5):
            kind = getattr(smc_samplers, path)(model=model, wastefree=False, len_chain=20)
            run = self.particles.SMC(fk=kind, N=1000)
            run.run()
            values = problem.prior.natural(model.prior.columns(run.X.theta))
            theirs.append([run.logLt, *(run.W @ values)])
        mine = [[p.log_evidence, *p.mean.values()] for p in ours]
        gap = np.mean(mine, axis=0) - np.mean(theirs, axis=0)
        error = np.sqrt((np.var(mine, axis=0, ddof=1) + np.var(theirs, axis=0, ddof=1)) / 5)
        assert (np.abs(gap) < 5 * error).all()


def test_static_model_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "particles.smc_samplers", None)
    monkeypatch.delitem(sys.modules, "smcpn.results.exports.static_model", raising=False)
    with pytest.raises(InputError, match=r"pip install --no-deps particles==0\.4"):
        __import__("smcpn.results.exports.static_model")


def test_arviz_itself_takes_the_groups():
    pytest.importorskip("arviz_base", reason="arviz-base needs Python 3.12")
    problem = duffing_problem(30)
    posterior = smcpn.identify(problem, solver=RK4(2), particles=100, seed=0, replicates=2)
    tree = posterior.to_arviz()
    assert dict(tree.posterior.sizes) == {"chain": 2, "draw": 100}
    assert set(tree.posterior.data_vars) == set(problem.names)
    assert tree.attrs["log_evidence"] == posterior.log_evidence
    assert tree.observed_data["y_0"].shape == (30, 1)
