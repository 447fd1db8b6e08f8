from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from smcpn import InputError, Prior

FAMILIES = {
    "normal": (stats.norm(1.0, 2.0), "identity"),
    "lognormal": (stats.lognorm(0.5, scale=3.0), "log"),
    "gamma": (stats.gamma(2.0), "log"),
    "shifted": (stats.expon(loc=-2.0), "log"),
    "negative": (stats.truncnorm(-np.inf, 4.0, loc=-1.3, scale=0.325), "log"),
    "uniform": (stats.uniform(-1.0, 3.0), "logit"),
    "beta": (stats.beta(2.0, 3.0), "logit"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_coordinate_follows_from_the_support(name):
    distribution, expected = FAMILIES[name]
    assert Prior({"a": distribution}).maps[0].name == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_density_in_coordinates_integrates_to_one(name):
    prior = Prior({"a": FAMILIES[name][0]})
    z = np.linspace(-40, 40, 200_001)
    density = np.exp(prior.log_density(z[:, None]))
    assert integrate.trapezoid(density, z) == pytest.approx(1.0, abs=1e-6)


@given(z=st.floats(-20, 20))
def test_round_trip(z):
    prior = Prior({name: distribution for name, (distribution, _) in FAMILIES.items()})
    theta = np.full((1, len(prior)), z / 2)
    np.testing.assert_allclose(
        prior.unconstrained(prior.natural(theta)), theta, rtol=1e-3, atol=1e-6
    )


def test_samples_follow_the_prior():
    prior = Prior({name: distribution for name, (distribution, _) in FAMILIES.items()})
    values = prior.natural(prior.sample(np.random.default_rng(0), 4000))
    for column, (distribution, _) in zip(values.T, FAMILIES.values(), strict=True):
        assert stats.kstest(column, distribution.cdf).pvalue > 1e-3


def test_refusals():
    with pytest.raises(InputError, match="no frozen distribution"):
        Prior({"a": object()})
    with pytest.raises(InputError, match="does not fit its prior"):
        Prior({"a": stats.norm()}, {"a": "log"})
    with pytest.raises(InputError, match="none of identity, log, logit"):
        Prior({"a": stats.norm()}, {"a": "cube"})
    with pytest.raises(InputError, match="names 'b', which has no prior"):
        Prior({"a": stats.norm()}, {"b": "log"})
    with pytest.raises(InputError, match="no valid support"):
        Prior({"a": stats.lognorm(-1.0)})
    for array in (stats.multivariate_normal([0.0, 1.0]), stats.dirichlet([1.0, 2.0])):
        with pytest.raises(InputError, match=r"prior of 'a'.*of one number"):
            Prior({"a": array})
    with pytest.raises(InputError, match="prior of 'a' cannot be used") as caught:
        Prior({"a": stats.norm([0.3, 1], 1)})
    assert "\n" not in str(caught.value)
    for unfit, said in (
        (stats.lognorm, r"family stats\.lognorm without its arguments"),
        (stats.poisson(3), r"poisson\(3\), which is discrete"),
        ({0: stats.norm()}, "it is one number"),
    ):
        with pytest.raises(InputError, match=said):
            Prior({"a": unfit})
    with pytest.raises(InputError, match="empty"):
        Prior({})


def test_named_coordinate_is_used():
    prior = Prior({"a": stats.lognorm(0.5)}, {"a": "identity"})
    assert prior.maps[0].name == "identity"
    assert prior.log_density(np.array([[-1.0]]))[0] == -np.inf


@pytest.mark.parametrize("distribution", [stats.gamma(0.005), stats.beta(0.01, 0.01)])
def test_draws_at_the_bound_have_a_finite_coordinate(distribution):
    prior = Prior({"a": distribution})
    theta = prior.sample(np.random.default_rng(0), 2000)
    assert np.isfinite(theta).all()
    assert np.isfinite(prior.log_density(theta)).all()


class Shifted(type(stats.norm)):
    """A family of the user's that bears the name of another one."""

    def _logpdf(self, x):
        return super()._logpdf(x - 1.0)


def test_densities_are_those_of_each_distribution():
    distributions = {
        "a": stats.lognorm(0.5, scale=2.0),
        "b": stats.lognorm(1.5, scale=3.0),
        "c": stats.lognorm(s=0.7),
        "d": stats.truncnorm(-1.0, 2.0),
        "e": stats.truncnorm(0.5, 3.0),
        "f": stats.norm(1.0, 2.0),
        "g": Shifted(name="norm")(1.0, 2.0),
        "h": stats.rv_histogram((np.array([1.0, 2.0]), np.array([0.0, 1.0, 2.0])))(),
        "i": stats.rv_histogram((np.array([3.0, 1.0]), np.array([0.0, 1.0, 2.0])))(),
    }
    prior = Prior(distributions)
    theta = prior.sample(np.random.default_rng(0), 50)
    values = prior.natural(theta)
    alone = [
        distribution.logpdf(values[:, j]) + prior.maps[j].log_jacobian(theta[:, j])
        for j, distribution in enumerate(distributions.values())
    ]
    np.testing.assert_allclose(prior.log_densities(theta), np.transpose(alone), rtol=1e-13)
    np.testing.assert_allclose(prior.log_density(theta), np.sum(alone, axis=0), rtol=1e-13)
