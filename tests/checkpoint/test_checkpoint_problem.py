from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from dataclasses import asdict, fields
from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import smcpn
from smcpn import EKF0, RK4, InputError, Problem, Record
from smcpn.checkpoint import (
    NotStorableError,
    data_fingerprint,
    model_fingerprint,
)
from smcpn.checkpoint.codec import read_again, written
from smcpn.checkpoint.problem import (
    ENDLESS,
    FAMILIES,
    StoredDistribution,
    StoredProblem,
    StoredRecord,
    restored_prior,
    stored_distribution,
)
from smcpn.cli.cases import CASES, load_case
from smcpn.codegen import kernel
from smcpn.codegen.loops import Plan
from smcpn.datasets.models import duffing
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.expression import ExpressionTable
from smcpn.report.html import settings as settings_of
from tests.checkpoint.changed import document_of, problem_of, read
from tests.checkpoint.closures import closure_problem
from tests.model.test_expression import kinks
from tests.models import PROBLEMS, duffing_problem, timed_problem


def as_json(document):
    return json.loads(json.dumps(document, allow_nan=False))


def stored_and_restored(problem: Problem) -> Problem:
    records = [read_again(StoredRecord.of(one)).restored() for one in problem.records]
    return read_again(StoredProblem.of(problem)).restored(records)


def kinks_problem() -> Problem:
    def shown_twice(x, *, gain=3.0):
        return gain * x

    n = 20
    return Problem(
        kinks,
        [Record(u=np.ones(n), y=np.ones((n, 2)), dt=0.1, name=name) for name in ("one", "two")],
        observe=["v'", shown_twice],
        noise=["b", np.float32(0.5)],
        prior={"a": stats.uniform(0.5, 1.0), "b": stats.expon(loc=0.1), "c": 7.5},
        initial=[{"x": stats.norm(0, 1), "v": 2.5}, "rest"],
        coordinates={"b": "identity"},
    )


@smcpn.sde
def stochastic(x, v, u, *, c, k, q):
    return (v, u - c * v - k * x), [[0.0, 0.0], [q * np.sqrt(1 + x**2), 0.3 * k]]


def stochastic_problem() -> Problem:
    """State-dependent noise of two Wiener processes."""
    record = Record(u=np.ones(30), y=np.zeros(30), dt=0.1)
    prior = {name: stats.lognorm(1.0) for name in ("c", "k", "q")}
    return Problem(stochastic, record, observe="x", noise=0.1, prior=prior)


def disturbed_problem() -> Problem:
    """Correlated noise of two states, a number and a parameter of two records."""
    given = duffing_problem(30)
    return Problem(
        given.ode,
        [given.records[0], given.records[0][:20]],
        observe="x",
        noise=0.1,
        prior={**given.prior.distributions, "q": stats.lognorm(1.0), "rho": stats.uniform(-1, 2)},
        process_noise={"x": 0.25, "v": "q", ("x", "v"): "rho"},
    )


ALL = PROBLEMS | {
    "kinks": kinks_problem,
    "stochastic": stochastic_problem,
    "disturbed": disturbed_problem,
    "closure": closure_problem,
}


@pytest.fixture(params=sorted(ALL), scope="module")
def pair(request) -> tuple[Problem, Problem]:
    problem = ALL[request.param]()
    return problem, stored_and_restored(problem)


@pytest.fixture
def sources(monkeypatch) -> list[str]:
    """The texts of the kernels asked for, none of them compiled."""
    texts: list[str] = []

    def native(plan: Plan) -> SimpleNamespace:
        texts.append(plan.text)
        return SimpleNamespace()

    monkeypatch.setattr(kernel, "native", native)
    return texts


@pytest.mark.parametrize("solver", [EKF0(order=3, steps=2), RK4(steps=2)], ids=str)
def test_the_same_kernels_are_generated(pair, sources, solver):
    likelihoods = [build_likelihood(problem, solver) for problem in pair]
    assert sources[0] == sources[1]
    rows = [likelihood._rows for likelihood in likelihoods]
    for mine, others in zip(*rows, strict=True):
        for part in fields(mine):
            np.testing.assert_array_equal(getattr(mine, part.name), getattr(others, part.name))
    programs = [likelihood._kernel.program for likelihood in likelihoods]
    assert programs[0].constant_values == programs[1].constant_values


def test_what_tables_show_is_the_same(pair):
    given, restored = pair
    for name in (
        "observe", "noise", "process_noise", "initial", "names", "fixed", "n_samples"
    ):  # fmt: skip
        assert getattr(restored, name) == getattr(given, name)
    for name in ("name", "states", "inputs", "parameters", "defaults", "chains", "doc", "sizes"):
        assert getattr(restored.ode, name) == getattr(given.ode, name)
    words = "RK4(steps=2)"
    run = {
        "solver": RK4(2),
        "solver_and_reason": words,
        "likelihood_name": "classical",
        "method": None,
        "theta": [],
        "seed": 1,
    }
    shown = [settings_of(SimpleNamespace(problem=p, **run)) for p in pair]
    assert shown[0] == shown[1]


def test_the_prior_is_the_same(pair):
    given, restored = (problem.prior for problem in pair)
    theta = [prior.sample(np.random.default_rng(3), 50) for prior in (given, restored)]
    np.testing.assert_array_equal(*theta)
    np.testing.assert_array_equal(given.log_density(theta[0]), restored.log_density(theta[0]))
    assert given.maps == restored.maps


def test_other_outputs_can_be_observed(pair):
    values = pair[0].prior.natural(pair[0].prior.sample(np.random.default_rng(0), 5))
    state, noise = pair[0].ode.states[0], pair[0].model.process_noise
    disturbed = noise is not None and noise.columns[0, :].nnz()
    for observe in (state, *([] if disturbed else [f"{state}'"])):
        given, restored = (problem.model_observing(observe) for problem in pair)
        assert given.table().same_as(restored.table())
    np.testing.assert_array_equal(*[p.model.noise_variances(values) for p in pair])
    np.testing.assert_array_equal(*[p.model.initial_states(values) for p in pair])


def test_fingerprints_are_kept(pair):
    assert len({model_fingerprint(problem) for problem in pair}) == 1
    assert len({data_fingerprint(problem.records, problem.n_samples) for problem in pair}) == 1


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.slow
def test_the_case_studies(name, request):
    try:
        problem = load_case(name).problem
    except InputError as error:
        pytest.skip(str(error))
    restored = stored_and_restored(problem)
    # Not before: generating data needs compiled kernels.
    sources = request.getfixturevalue("sources")
    solver = EKF0(order=2, steps=2) if problem.model.density is None else RK4(2)
    for one in (problem, restored):
        build_likelihood(one, solver)
    assert sources[0] == sources[1]
    assert model_fingerprint(problem) == model_fingerprint(restored)


@pytest.fixture(scope="module")
def posteriors():
    """A posterior, and the same run of the restored problem."""
    problem = duffing_problem()
    run = dict(solver=EKF0(order=3, steps=2), particles=60, seed=1)
    with pytest.warns(smcpn.SamplerWarning):
        return [smcpn.identify(p, **run) for p in (problem, stored_and_restored(problem))]


@pytest.mark.numerics
@pytest.mark.nightly
def test_a_restored_problem_is_identified_alike(posteriors):
    given, restored = posteriors
    for name in ("theta", "log_weights", "log_likelihood", "ess_path", "log_evidence_path"):
        np.testing.assert_array_equal(getattr(given, name), getattr(restored, name))


@pytest.mark.nightly
def test_a_restored_posterior_simulates_what_was_not_observed(posteriors):
    runs = [p.simulate(p.problem.records[0], observe="v'", steps=2) for p in posteriors]
    np.testing.assert_array_equal(runs[0].mean, runs[1].mean)
    np.testing.assert_array_equal(runs[0].sd, runs[1].sd)
    assert posteriors[0].table() == posteriors[1].table()


@pytest.mark.nightly
def test_a_restored_posterior_does_all_that_one_does(posteriors, tmp_path):
    records = [p.problem.records[0] for p in posteriors]
    state_filter = smcpn.StateFilter(sensor=0.1, disturbance=(0.0, 0.1), initial=(0.1, 1.0))
    for mine, others in (
        [p.simulate(r, initialise=20) for p, r in zip(posteriors, records, strict=True)],
        [p.predict(r, 5, state_filter) for p, r in zip(posteriors, records, strict=True)],
    ):
        np.testing.assert_array_equal(mine.mean, others.mean)
        np.testing.assert_array_equal(mine.sd, others.sd)
    assert str(posteriors[0].validate()) == str(posteriors[1].validate())
    assert posteriors[1].report(tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_posterior_can_be_pickled_and_copied(posteriors, copied):
    given = posteriors[0]
    again = copied(given)
    assert again.summary() == given.summary()
    record = given.problem.records[0]
    runs = [p.simulate(record, observe="v'", steps=2) for p in (given, again)]
    np.testing.assert_array_equal(runs[0].mean, runs[1].mean)


def test_a_problem_with_functions_can_be_pickled():
    problem = PROBLEMS["lotka-volterra"]()
    again = pickle.loads(pickle.dumps(problem))
    assert again.observe == ["x", "total"]
    assert model_fingerprint(again) == model_fingerprint(problem)


@pytest.mark.slow
def test_fingerprints_are_those_of_another_process():
    script = (
        "from tests.models import PROBLEMS\n"
        "from smcpn.checkpoint import data_fingerprint, model_fingerprint\n"
        "for name in sorted(PROBLEMS):\n"
        "    p = PROBLEMS[name]()\n"
        "    print(model_fingerprint(p), data_fingerprint(p.records, 20))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    problems = [PROBLEMS[name]() for name in sorted(PROBLEMS)]
    expected = [f"{model_fingerprint(p)} {data_fingerprint(p.records, 20)}" for p in problems]
    assert run.stdout.split("\n")[:-1] == expected


def test_the_model_fingerprint_tells_models_apart():
    def build(**changes):
        arguments = dict(observe="x", noise=0.1, prior={"a": stats.norm(), "b": 1.0}) | changes
        return Problem(kinks, Record(u=np.ones(9), y=np.ones(9), dt=0.1), **arguments)

    def renamed(x):
        return x

    same = [build(), build(observe=renamed), build(observe=lambda x: x)]
    other = [
        build(observe="v"),
        build(noise=0.2),
        build(prior={"a": stats.norm(0.0, 2.0), "b": 1.0}),
        build(prior={"a": stats.norm(), "b": 2.0}),
        build(prior={"a": stats.norm(), "b": 1.0, "c": 4.0}),
        build(prior={"b": stats.norm(), "a": 1.0}),
        build(initial={"x": 1.0}),
        build(prior={"a": stats.expon(), "b": 1.0}),
        build(prior={"a": stats.expon(), "b": 1.0}, coordinates={"a": "identity"}),
    ]
    assert len({model_fingerprint(problem) for problem in same}) == 1
    assert len({model_fingerprint(problem) for problem in other + same[:1]}) == len(other) + 1


def test_data_may_become_longer_but_not_other():
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=300), rng.normal(size=300)
    y[5] = np.nan

    def record(n=300, **changes):
        return Record(**(dict(u=u[:n], y=y[:n], dt=0.1) | changes))

    used = data_fingerprint([record(100)], 100)
    assert data_fingerprint([record()], 100) == used
    assert data_fingerprint([record(), record()], 100) == used
    assert data_fingerprint([record(name="other", y_unit="m")], 100) == used
    assert data_fingerprint([record(100), record()], 150) != used
    for changes in (dict(u=-u), dict(y=-y), dict(dt=0.2), dict(hold="zoh"), dict(start=1.0)):
        assert data_fingerprint([record(**changes)], 100) != used
    with pytest.raises(InputError, match="the records have 300 samples, 301 were used"):
        data_fingerprint([record()], 301)


def test_the_input_around_counts_where_it_is_interpolated():
    rng = np.random.default_rng(0)
    whole = Record(u=rng.normal(size=300), y=np.ones(300), dt=0.1, hold="bandlimited")
    alone = Record(u=whole.u[:100], y=whole.y[:100], dt=0.1, hold="bandlimited")
    assert data_fingerprint([whole[:100]], 100) == data_fingerprint([whole], 100)
    assert data_fingerprint([alone], 100) != data_fingerprint([whole], 100)
    assert data_fingerprint([alone], 30) == data_fingerprint([whole], 30)
    periods = [
        Record(u=whole.u[:n], y=whole.y[:n], dt=0.1, hold="bandlimited", periodic=True)
        for n in (200, 300)
    ]
    assert data_fingerprint(periods[:1], 50) != data_fingerprint(periods[1:], 50)


class Own:
    """A prior of the user's own."""

    def rvs(self, size, random_state=None):
        return np.random.default_rng(random_state).normal(size=size)

    def logpdf(self, x):
        return -0.5 * x**2


class OwnNorm(type(stats.norm)):
    """Called like a family of scipy's."""


def test_priors_of_the_users_own_are_named():
    problem = Problem(
        duffing,
        duffing_problem().records[0],
        observe="x",
        noise=0.1,
        prior={"m": Own(), "c": 0.4, "k": 2.0, "k3": 0.5},
    )
    message = "prior of 'm' is an object of class Own and cannot be stored in a file: give a frozen"
    with pytest.raises(NotStorableError, match=message):
        StoredProblem.of(problem)
    assert len(model_fingerprint(problem)) == 64


def with_results(arrays, owner, shapes):
    """The arrays with a table of ``owner`` whose results have these shapes, all zero."""
    arguments = [ca.SX.sym("a", *shape) for shape in arrays[f"{owner}/table/input_shapes"].tolist()]
    made = ca.Function("made", arguments, [ca.SX.zeros(*shape) for shape in shapes])
    return arrays | {f"{owner}/table/{k}": v for k, v in ExpressionTable.of(made).arrays().items()}


@pytest.mark.parametrize("shapes", [[], [[2, 1], [3, 1]], [[2, 1], [2, 1], [2, 1]], [[3, 1]]])
def test_an_equation_with_other_results_is_refused(shapes):
    problem = stochastic_problem()
    document, arrays = document_of(problem)
    arrays = with_results(arrays, "ode", shapes)
    with pytest.raises(InputError, match="does not fit its names"):
        problem_of(as_json(document), arrays, problem.records)


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_columns_of_noise_that_are_no_matrix_are_refused(rows):
    problem = stochastic_problem()
    document, arrays = document_of(problem)
    shapes = arrays["model/table/output_shapes"].tolist()
    assert shapes[6] == [4, 1]
    shapes[6] = [rows, 1]
    arrays = with_results(arrays, "model", shapes)
    with pytest.raises(InputError, match="not that of a model"):
        problem_of(as_json(document), arrays, problem.records)


def test_a_model_that_would_come_back_otherwise_is_refused():
    ca.GlobalOptions.setSimplificationOnTheFly(False)
    try:
        doubled = smcpn.ode(lambda x, *, a: a * (x + x))
    finally:
        ca.GlobalOptions.setSimplificationOnTheFly(True)
    record = Record(y=np.ones(9), dt=0.1)
    problem = Problem(doubled, record, observe="x", noise=0.1, prior={"a": stats.norm()})
    with pytest.raises(NotStorableError, match="would not be the same"):
        StoredProblem.of(problem)


@pytest.mark.parametrize(
    "distribution",
    [
        OwnNorm(name="norm")(),
        type(stats.norm)(a=0.0, name="norm")(),
        stats.gaussian_kde([1.0, 2.0, 4.0]),
        stats.rv_histogram(np.histogram([1.0, 2.0, 4.0])),
        stats.norm(np.float32(0.1)),
        stats.norm([0.5]),
        stats.norm(True),
        stats.norm(np.nan),
    ],
)
def test_priors_that_no_family_describes_are_refused(distribution):
    with pytest.raises(NotStorableError, match=r"prior of 'm' .*cannot be stored") as caught:
        stored_distribution("m", distribution)
    assert "\n" not in str(caught.value)


SHAPES = st.one_of(st.floats(0.1, 5.0), st.integers(1, 4), st.floats(0.1, 5.0).map(np.float64))


@settings(max_examples=100, deadline=None)
@given(
    family=st.sampled_from(["norm", "gamma", "lognorm", "beta", "t", "uniform", "truncnorm"]),
    shapes=st.lists(SHAPES, min_size=4, max_size=4, unique=True),
    by_name=st.booleans(),
)
def test_priors_round_trip(family, shapes, by_name):
    names = [] if FAMILIES[family].shapes is None else FAMILIES[family].shapes.split(", ")
    values = dict(zip([*names, "loc", "scale"], sorted(shapes), strict=False))
    frozen = FAMILIES[family](**values) if by_name else FAMILIES[family](*values.values())
    again = restored_prior("a", read_again(stored_distribution("a", frozen)))
    assert (again.args, again.kwds, again.dist.name) == (frozen.args, frozen.kwds, family)
    draws = [d.rvs(size=9, random_state=np.random.default_rng(1)) for d in (frozen, again)]
    np.testing.assert_array_equal(*draws)
    np.testing.assert_array_equal(frozen.logpdf(draws[0]), again.logpdf(draws[0]))


def test_every_family_of_scipy_is_known():
    assert len(FAMILIES) + len(ENDLESS & set(vars(stats))) > 100
    assert not ENDLESS & set(FAMILIES)
    for name, family in FAMILIES.items():
        frozen = family(*[1.5] * (len(family.shapes.split(",")) if family.shapes else 0))
        assert stored_distribution("a", frozen).family == name


def test_a_family_whose_arguments_do_not_tell_it_is_refused():
    with pytest.raises(NotStorableError):
        stored_distribution("a", stats.levy_stable(1.5, 0.5))


class TestParticles:
    @pytest.fixture(autouse=True)
    def laws(self):
        self.laws = pytest.importorskip("particles.distributions")

    def test_simple_laws_round_trip(self):
        for law in (self.laws.Normal(1.0, 2.0), self.laws.Gamma(2.0, 3.0), self.laws.Beta(2.0, 5)):
            again = restored_prior("a", read_again(stored_distribution("a", law)))
            assert type(again) is type(law)
            assert vars(again) == vars(law)

    def test_laws_of_laws_are_refused(self):
        with pytest.raises(NotStorableError, match="prior of 'a'"):
            stored_distribution("a", self.laws.LogD(self.laws.Normal()))

    def test_nothing_but_laws_is_made(self):
        document = {"library": "particles.distributions", "args": [], "kwds": {}}
        for name in ("np", "stats", "HilbertSort", "__doc__", "DistributionFromRV"):
            with pytest.raises(InputError):
                restored_prior("a", read(StoredDistribution, document | {"family": name}, {}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(library="os"), "of 'os', which is not known here"),
        (dict(family="system"), "'system' of 'scipy.stats', which is not known"),
        (dict(family="rv_continuous"), "which is not known"),
        (dict(args=["0.5"]), "has the argument '0.5'"),
        (dict(args=[True]), "has the argument True"),
        (dict(args=[1.0] * 9), "norm does not take"),
        (dict(kwds={"no": 1.0}), "norm does not take"),
        (dict(args=3), "stored 'args' is 3"),
        (dict(family=3), "stored 'family' is 3"),
    ],
)
def test_damaged_priors_are_refused(change, message):
    known = asdict(stored_distribution("a", stats.norm(0.0, 2.0)))
    with pytest.raises(InputError, match=message):
        restored_prior("a", read(StoredDistribution, known | change, {}))


RECORDS = {
    "sampled": Record(u=np.arange(9.0), y=np.arange(9.0), dt=0.1, start=3.3, y_unit="mm"),
    "missing": Record(u=np.ones((9, 2)), y=np.array([np.nan, -0.0, *range(7)]), dt=1 / 3),
    "timed": Record(y=np.ones((5, 3)), t=np.cumsum(np.arange(1, 6) / 7), name="irregular"),
    "no output": Record(u=np.arange(9.0), dt=0.1, hold="zoh"),
    "periodic": Record(u=np.arange(9.0), y=np.ones(9), dt=0.1, hold="bandlimited", periodic=True),
    "slice": Record(u=np.arange(300.0), y=np.ones(300), dt=0.1, hold="bandlimited")[100:200],
    "head": Record(u=np.arange(300.0), y=np.ones(300), dt=0.1)[:20].hide(0, 5),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_round_trip(name):
    given = RECORDS[name]
    again = read_again(StoredRecord.of(given)).restored()
    # A file has a part of a record without the whole.
    assert again.cut is None
    for part in (one for one in fields(given) if one.name != "cut"):
        mine, others = getattr(given, part.name), getattr(again, part.name)
        if isinstance(mine, np.ndarray):
            assert mine.tobytes() == others.tobytes()
            assert mine.shape == others.shape
        else:
            assert mine == others


def test_an_input_function_is_named():
    driven = Record(u=np.sin, y=np.ones(9), dt=0.1, name="sweep")
    with pytest.raises(NotStorableError, match="sweep: u is a function of time and cannot be"):
        StoredRecord.of(driven)
    assert data_fingerprint([driven], 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, a: d.pop("dt"), "lacks 'dt'"),
        (lambda d, a: d.update(hold=3), "stored 'hold' is 3"),
        (lambda d, a: d.update(hold="cubic"), "hold is 'cubic'"),
        (lambda d, a: d.update(periodic=1), "stored 'periodic' is 1"),
        (lambda d, a: a.pop("u"), "stored 'u' is no array"),
        (lambda d, a: a.update(u=np.ones(3)), "unequal numbers of samples"),
        (lambda d, a: a.update(u_before=np.ones((3, 5))), "beyond the ends does not fit"),
        (lambda d, a: a.update(u_before=np.ones((65, 1))), "beyond the ends does not fit"),
        (lambda d, a: a.update(v=np.ones(3)), "'v' is not known"),
    ],
)
def test_damaged_records_are_refused(change, message):
    document, arrays = written(StoredRecord.of(RECORDS["slice"]))
    change(document, arrays)
    with pytest.raises(InputError, match=message):
        read(StoredRecord, document, arrays).restored()


PLAIN = timed_problem()
DOCUMENT, ARRAYS = document_of(PLAIN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, a: d["ode"].update(states=["x", "y"]), "does not fit its names"),
        (lambda d, a: d["ode"].update(states=[1]), r"stored 'ode.states.0' is 1"),
        (lambda d, a: d["ode"].update(chains={"x": "q"}), "stored 'chains'"),
        (lambda d, a: d["priors"].pop(), "prior is empty"),
        (lambda d, a: d["priors"].append(d["priors"][0]), "stored priors"),
        (lambda d, a: d["given"]["observe"].append("x"), "not one of its names"),
        (lambda d, a: d.update(fixed={"a": np.inf}), "stored 'fixed.a' is inf"),
        (lambda d, a: d.update(fixed={"a": "1"}), "stored 'fixed.a' is '1'"),
        (lambda d, a: d.update(coordinates={"rate": "logit"}), "does not fit its prior"),
        (lambda d, a: a.pop("model/table/operation"), "model.table.operation' is no array"),
        (lambda d, a: d["model"]["table"].pop("operation"), "lacks 'model.table.operation'"),
        (lambda d, a: a.pop("model/constants"), "model.constants' is no array"),
        (lambda d, a: a.update({"model/constants": np.ones(7)}), "not one of its names"),
        (lambda d, a: swap(a), "does not fit|not one of its names"),
    ],
)  # fmt: skip
def test_damaged_problems_are_refused(change, message):
    document, arrays = as_json(DOCUMENT), dict(ARRAYS)
    change(document, arrays)
    with pytest.raises(InputError, match=message) as caught:
        problem_of(document, arrays, PLAIN.records)
    assert "\n" not in str(caught.value)


def swap(arrays):
    for name in [name for name in arrays if name.startswith("ode/table/")]:
        other = name.replace("ode/", "model/")
        arrays[name], arrays[other] = arrays[other], arrays[name]


def test_records_of_another_shape_are_refused():
    with pytest.raises(InputError, match="not one of its names and records"):
        problem_of(DOCUMENT, ARRAYS, PLAIN.records[:1])
    others = [Record(u=np.ones(9), y=np.ones(9), dt=0.1)] * 2
    with pytest.raises(InputError, match="u has 1 column "):
        problem_of(DOCUMENT, ARRAYS, others)


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


def paths(document, before=()):
    """Every place in a document."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*before, key)
        if isinstance(value, (dict, list)):
            yield from paths(value, (*before, key))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(path=st.sampled_from(list(paths(DOCUMENT))), value=ANYTHING)
def test_a_damaged_document_never_crashes(path, value):
    document = as_json(DOCUMENT)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    try:
        restored = problem_of(document, ARRAYS, PLAIN.records)
    except InputError:
        return
    model_fingerprint(restored)
