"""Unknown functions of a posterior: values, where the records visit them, and what is said."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.errors import InputError
from smcpn.results import functions
from smcpn.results.maximum import StartResult
from smcpn.results.simulation import function_domain
from smcpn.results.simulation.function_domain import _typical

force = smcpn.spline("x", knots=6, within=(-1, 1))
RATE, TRUTH = 0.7, np.array([0.3, -0.2, 0.5, 0.1, 0.4, 0.2, 0.1, 0.1, 0.2, -0.1, 1.0])


@smcpn.ode
def falling(x, v, *, rate, force):
    """Decay of x, and an oscillator of unit frequency about it that nothing is done to."""
    return -rate * x, 0.0 * force(x) - v


def posterior_at(problem, values):
    """Particles of equal weight at given parameter values (N, d)."""
    first = values[0]
    start = StartResult(first, first, 0.0, "", True, 1, first[None], np.zeros(1))
    theta = problem.prior.unconstrained(values)
    maximum = smcpn.Maximum(
        problem,
        smcpn.RK4(steps=2),
        "classical",
        "posterior",
        "l-bfgs-b",
        theta[0],
        0.0,
        0.0,
        (start,),
    )
    one = maximum.to_posterior()
    again = {"theta": theta, "log_weights": np.zeros(len(theta))}
    rest = {name: np.zeros(len(theta), int) for name in ("ancestor", "replicate")}
    return dataclasses.replace(one, **again, **rest, log_likelihood=np.zeros(len(theta)))


def record(length=21):
    t = 0.1 * np.arange(length)
    noise = 0.1 * np.random.default_rng(1).normal(size=length)
    return smcpn.Record(y=np.exp(-RATE * t) + noise, dt=0.1)


@pytest.fixture(scope="module")
def posterior():
    prior = {"rate": stats.lognorm(1.0)}
    problem = smcpn.Problem(
        falling, record(), observe="x", noise=0.1, prior=prior, initial=[1.0, 0.0]
    )
    spread = 1.0 + 0.1 * np.random.default_rng(0).normal(size=(40, 11))
    return posterior_at(problem, np.column_stack([TRUTH * spread, np.full(40, RATE)]))


def test_values_are_those_of_the_graph(posterior):
    at = np.linspace(-1.5, 1.5, 7)
    found = posterior.function("force", at)
    assert posterior.names[-1] == "rate"
    assert found.draws.shape == (40, 7)

    @smcpn.ode
    def alone(x, *, force):
        return force(x)

    for values, draw in zip(posterior.values, found.draws, strict=True):
        expected = [float(alone.rhs([x], [], 0.0, values[:-1])) for x in at]
        np.testing.assert_allclose(draw, expected, rtol=1e-13)
    lower, upper = found.interval(0.5)
    np.testing.assert_allclose([lower, upper], np.quantile(found.draws, [0.25, 0.75], axis=0))


def test_one_point_of_one_or_two_variables(posterior):
    found = posterior.function("force", 0.5)
    np.testing.assert_array_equal(found.draws, posterior.function("force", [0.5]).draws)


def test_figure_is_ruled_by_where_the_records_have_been(posterior):
    found = posterior.function("force")
    axes = found.plot().axes[0]
    lower, upper = (end[found.inside] for end in found.interval())
    span = upper.max() - lower.min()
    bottom, top = axes.get_ylim()
    assert lower.min() - 0.31 * span < bottom < lower.min()
    assert upper.max() < top < upper.max() + 0.31 * span


def test_records_that_leave_the_interval_of_a_function_are_told_of(posterior):
    problem = smcpn.Problem(
        falling, record(), observe="x", noise=0.1, prior={"rate": stats.lognorm(1.0)},
        initial=[1.5, 0.0],
    )  # fmt: skip
    found = posterior_at(problem, posterior.values[:2])
    assert found.function_lines()[0].endswith("; THAT LEAVES within=(-1, 1): widen it")
    assert "LEAVES" not in posterior.function_lines()[0]


def test_states_of_the_likelihood_stand_in_for_a_simulation_that_diverges(posterior, monkeypatch):
    def diverging(*_, **__):
        raise InputError("record: the simulation diverges for every draw")

    simulated = posterior.visited["force"]
    monkeypatch.setattr(function_domain, "_simulated", diverging)
    again = posterior_at(posterior.problem, posterior.values).visited["force"]
    np.testing.assert_allclose(again.range, simulated.range, rtol=1e-3)


def test_moments_of_a_function_and_of_a_vector_by_its_name(posterior):
    mean, sd = posterior.mean, posterior.sd
    np.testing.assert_array_equal(mean["force"][:-1], [mean[f"force[{k}]"] for k in range(10)])
    assert sd["force"].shape == mean["force"].shape == (11,)
    assert mean == dict(mean)
    with pytest.raises(InputError, match="did you mean 'rate'"):
        mean["rates"]


def test_visited_range_of_a_linear_system_is_exact(posterior):
    (low, high), *_ = posterior.function("force").visited
    assert high == 1.0
    assert low == pytest.approx(np.exp(-RATE * 2.0), rel=1e-5)
    default = posterior.function("force")
    np.testing.assert_array_equal(
        default.inside, (default.points >= low) & (default.points <= high)
    )
    assert default.inside.sum() == pytest.approx(len(default.points) / 1.6, abs=2)


def test_runs_that_diverge_are_not_typical():
    runs = np.array([[0.0, np.inf, 0.1, 0.3], [1.0, 2.0, 1.1, 9.0]])[:, None]
    assert _typical(iter(runs[:, None])) == 2
    assert _typical(iter(runs[:, None, :, [1]])) is None


def test_functions_stand_in_a_summary_in_place_of_their_parameters(posterior):
    text = posterior.summary()
    assert "force[" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("force(x)")]
    assert "visited x from 0.247 to 1, sd 0.0" in line
    assert posterior.function_lines() == posterior.function_lines()


def test_simulation_beyond_the_visited_range_says_so(posterior):
    assert posterior.simulate(posterior.problem.records[0]).warnings == ()
    assert posterior.simulate(record(15)).warnings == ()
    (said,) = posterior.simulate(record(41)).warnings
    assert "force is evaluated at x from 0.0608 to 1, but learned from x from 0.247 to 1" in said
    assert "0.49 of the samples" in said


def test_simulation_goes_on_where_the_visited_range_is_not_known(posterior, monkeypatch):
    def diverging(*_, **__):
        raise InputError("record: the simulation diverges for every draw")

    monkeypatch.setattr(functions, "visited_by", diverging)
    run = posterior.simulate(record(41))
    assert len(run.mean) == 41
    assert "is not known: record: the simulation diverges" in run.warnings[0]


def test_functions_that_are_not_there_are_refused(posterior):
    with pytest.raises(InputError, match="did you mean 'force'"):
        posterior.function("forces")
    for at in (np.zeros((3, 2)), np.zeros(0)):
        with pytest.raises(InputError, match="at has shape"):
            posterior.function("force", at)
    with pytest.raises(InputError, match="truth returns shape"):
        posterior.plot_function("force", lambda x: 1.0)
    with pytest.raises(InputError, match="at has NaN"):
        posterior.function("force", [0.0, np.nan])
    with pytest.raises(InputError, match="do not span an interval"):
        posterior.function("force", [0.5, 0.5]).plot()
    with pytest.raises(InputError, match="truth fails"):
        posterior.plot_function("force", lambda x, y: x)


def test_figure_says_where_the_records_end(posterior):
    drawing = posterior.plot_function("force", np.sin)
    curve, below = drawing.axes
    assert "visit x from 0.247 to 1" in curve.get_title()
    assert {"mean", "95 % band", "draws", "truth"} <= set(curve.get_legend_handles_labels()[1])
    assert below.get_xlabel() == "x"


@pytest.mark.slow
def test_report_has_a_section_for_each_function(posterior, tmp_path):
    run = posterior.simulate(record(41))
    path = posterior.report(tmp_path / "out.html", {"longer": run})
    text = path.read_text(encoding="utf-8")
    assert "<h2>Functions</h2>" in text
    assert "force(x) visited x from 0.247 to 1" in text
    assert "learned from x from 0.247 to 1" in text
    assert "force[0]" not in text


@dataclasses.dataclass(frozen=True)
class Product(smcpn.spline("x", within=(0, 1)).__class__.__mro__[1]):
    """f(x, v) = w x v."""

    @property
    def priors(self):
        return {"[0]": stats.norm()}

    def graph(self, arguments, parameters):
        return parameters[0] * arguments[0] * arguments[1]


product = Product(("x", "v"))


@smcpn.ode
def circle(x, v, *, product):
    """An oscillator, along which a function of both states is evaluated twice."""
    return v + 0.0 * product(x, v), -x + 0.0 * product(2 * x, v)


def test_two_variables_are_visited_along_a_curve():
    t = 0.1 * np.arange(70)
    problem = smcpn.Problem(
        circle, smcpn.Record(y=np.cos(t), dt=0.1), observe="x", noise=0.1, prior={},
        initial=[1.0, 0.0],
    )  # fmt: skip
    posterior = posterior_at(problem, np.array([[1.0], [3.0]]))
    found = posterior.function("product", np.array([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]))
    assert found.places.shape == (140, 2)
    np.testing.assert_allclose(found.visited, [[-2.0, 2.0], [-1.0, 1.0]], atol=2e-3)
    np.testing.assert_array_equal(found.inside, [True, False, True])
    grid = posterior.function("product")
    x, v = grid.points.T
    np.testing.assert_allclose(grid.mean, 2 * x * v, atol=1e-14)
    np.testing.assert_allclose(grid.sd, np.abs(x * v), atol=1e-14)
    assert len(posterior.plot_function("product", lambda x, v: x * v).axes) == 4
    assert "visited x from -2 to 2 and v from -1 to 1" in posterior.summary()
