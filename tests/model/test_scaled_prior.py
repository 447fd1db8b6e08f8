"""Priors whose scale is a parameter: p(x | s) = p(x / s) / s."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.errors import InputError
from smcpn.model.prior import Prior, prior_expansion

PRIOR = Prior(
    {
        "a": stats.norm(0.3, 2.0),
        "s": stats.gamma(3.0),
        "b": stats.t(5),
        "c": stats.norm(),
        "l": stats.uniform(0.0, 3.0),
        "d": stats.laplace(),
    },
    scales={"a": "s", "b": "l", "c": 2.5, "d": "s"},
)


def test_density_is_that_of_the_quotient() -> None:
    theta = PRIOR.sample(np.random.default_rng(1), 20)
    a, s, b, c, l, d = PRIOR.natural(theta).T  # noqa: E741
    by_hand = (
        stats.norm(0.3 * s, 2.0 * s).logpdf(a)
        + stats.gamma(3.0).logpdf(s) + np.log(s)
        + stats.t(5, scale=l).logpdf(b)
        + stats.norm(0.0, 2.5).logpdf(c)
        + stats.uniform(0.0, 3.0).logpdf(l) + np.log(l * (3.0 - l) / 3.0)
        + stats.laplace(scale=s).logpdf(d)
    )  # fmt: skip
    np.testing.assert_allclose(PRIOR.log_density(theta), by_hand, rtol=1e-12)


def test_draws_have_the_moments_of_the_product() -> None:
    # E (s z)^2 = E s^2 E z^2 = 12 * 4.09; the standard error of 40000 draws is 1.5 %, times 4.
    values = PRIOR.natural(PRIOR.sample(np.random.default_rng(2), 40_000))
    assert np.square(values[:, 0]).mean() == pytest.approx(12.0 * 4.09, rel=0.06)
    assert values[:, 3].std() == pytest.approx(2.5, rel=0.02)


def test_derivatives_are_those_of_the_density() -> None:
    theta, units = PRIOR.sample(np.random.default_rng(3), 6), np.ones(6)
    found, step = prior_expansion(PRIOR, theta, units), 1e-4
    np.testing.assert_allclose(found.value, PRIOR.log_density(theta), rtol=1e-12)
    hessian = found.diagonal[:, :, None] * np.eye(6)
    found.add_mixed(hessian)
    for j, shift in enumerate(step * np.eye(6)):
        up, down = (prior_expansion(PRIOR, theta + k * shift, units) for k in (1, -1))
        slope = (up.value - down.value) / (2.0 * step)
        np.testing.assert_allclose(found.gradient[:, j], slope, rtol=1e-5, atol=1e-6)
        bend = (up.gradient - down.gradient) / (2.0 * step)
        np.testing.assert_allclose(hessian[:, j], bend, rtol=1e-5, atol=1e-5)


def test_density_of_one_parameter_is_averaged_over_its_scale() -> None:
    grid = np.linspace(-200.0, 200.0, 4001)
    density = PRIOR.density("a", grid)
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"e": "s"}, "names 'e'"),
        ({"s": "l"}, "has bounds"),
        ({"a": "b"}, "and a scale is positive: give a distribution of positive numbers"),
        ({"a": "n"}, "and a scale is positive: give a distribution of positive numbers"),
        ({"a": "nobody"}, "name a parameter with a positive prior"),
        ({"a": -1.0}, "give a positive number"),
        ({"a": float("nan")}, "scales is"),
    ],
)
def test_scale_must_be_positive(scales: dict[str, str | float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Prior({**PRIOR.distributions, "n": stats.weibull_max(2.0, loc=5.0)}, scales=scales)


def test_scale_of_a_function_is_learned_or_given() -> None:
    friction = smcpn.spline("v", knots=6, within=(-1, 1))

    @smcpn.ode
    def slide(v, *, f=friction):
        return -f(v)

    record = smcpn.Record(y=np.ones(20), dt=0.1)
    given = {"observe": "v", "noise": 0.1, "initial": [1.0]}
    learned = smcpn.Problem(slide, record, prior={}, **given)
    assert learned.prior.scales["f[2]"] == "f.scale"
    fixed = smcpn.Problem(slide, record, prior={"f": {"scale": 0.5}}, **given)
    assert "f.scale" not in fixed.names
    assert fixed.prior.scales["f[2]"] == 0.5
    own = smcpn.Problem(slide, record, prior={"f[2]": stats.norm(0.0, 3.0)}, **given)
    assert "f[2]" not in own.prior.scales
    assert own.prior.scales["f[3]"] == "f.scale"


@pytest.mark.filterwarnings("error")
def test_scale_beyond_floating_point_has_no_density() -> None:
    theta = PRIOR.sample(np.random.default_rng(1), 2)
    theta[:, PRIOR.names.index("s")] = -800.0, 800.0
    assert (PRIOR.log_density(theta) == -np.inf).all()
