"""Vector states, inputs and parameters: every function of numpy as on numbers, names, problems."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

import smcpn

MATRIX = np.arange(9.0).reshape(3, 3) - 4.0
NUMBERS = {"x": np.array([0.7, -1.3, 0.2]), "k": np.array([1.0, 2.0, 0.5, -0.3]), "u": 0.4}


law = smcpn.spline("v", knots=6, within=(-1, 1))


def in_place(x, k, u):
    z = np.zeros_like(x)
    z[0] = u
    z[1:] += k[2:]
    return z


def loop(x, k, u):
    rates = []
    for j in range(3):
        rates.append(k[j] * x[j] + (x[j - 1] if j else u))
    return rates


BODIES = {
    "loop": loop,
    "in place": in_place,
    "ends": lambda x, k, u: [x[-1], k[3], x[0]],
    "slices": lambda x, k, u: k[1:] * x[::-1] - x[[2, 0, 1]],
    "diff": lambda x, k, u: np.diff(k * np.diff(np.concatenate([[0.0], x, [u]]))),
    "prepend": lambda x, k, u: np.diff(x, prepend=u),
    "matrix": lambda x, k, u: MATRIX @ x + np.dot(MATRIX, x) + x @ MATRIX,
    "sums": lambda x, k, u: x * np.sum(k) + sum(x) + x.mean() + np.sum(MATRIX * x, axis=1),
    "sin": lambda x, k, u: np.sin(x) + np.sin(u) * x + np.exp(-(x**2)) * np.tanh(x / 2),
    "where": lambda x, k, u: np.where(x > 0, x**2, -u) + np.where(u > 0, x, 1.0),
    "table": lambda x, k, u: (
        np.interp(x, [-1.0, 0.0, 1.0], [2.0, 0.0, 1.0]) + np.interp(x[0], [0, 1], [0, 2])
    ),
    "where of numbers": lambda x, k, u: np.where(MATRIX[0] > -3.0, x, u),
    "maximum": lambda x, k, u: np.maximum(x, 0) + np.minimum(np.sin(u), x) + np.max(k) + x.min(),
    "roots": lambda x, k, u: np.sqrt(np.abs(x)) + abs(x) + np.linalg.norm(k) + np.sign(x),
    "clip": lambda x, k, u: np.clip(x, -1, 0.5) + x.clip(0, u) + np.hypot(x, u),
    "distances": lambda x, k, u: np.linalg.norm(np.outer(x, x) + 1.0, axis=1),
    "logic": lambda x, k, u: np.where(np.logical_and(x > -1, x < 0.5), 1.0, x) + np.any(x > 1),
    "numbers": lambda x, k, u: np.array([1.0, 0.0, 2.0]) * u + np.ones(3) * np.cos(u) * x,
    "more": lambda x, k, u: np.roll(x, 1) + np.cumsum(x) + np.convolve(x, [1, -2, 1], "same"),
    "scatter": lambda x, k, u: x - np.var(x) + np.append(x[:2], u) + np.hstack([x[1:], u]),
}


@pytest.mark.parametrize("name", BODIES)
def test_body_gives_what_numpy_gives(name):
    body = BODIES[name]
    model = smcpn.ode(lambda x, u, *, k: body(x, k, u), sizes={"x": 3, "k": 4})
    found = np.array(model.rhs(NUMBERS["x"], NUMBERS["u"], 0.0, NUMBERS["k"])).ravel()
    np.testing.assert_allclose(found, np.array(body(**NUMBERS), dtype=float), rtol=1e-14)


@smcpn.ode(sizes={"x": 12, "v": 12, "k": 13})
def masses(x, v, u, *, k, c=0.1, m=12 * (2.0,)):
    """Masses between two walls, a force on the first."""
    spring = k * np.diff(np.concatenate([[0.0], x, [0.0]]))
    force = np.diff(spring) - c * v
    return v, np.concatenate([[force[0] + u], force[1:]]) / m


def test_names_sizes_and_chains():
    assert masses.states == tuple(f"{s}[{k}]" for s in "xv" for k in range(12))
    assert masses.inputs == ("u",)
    assert masses.parameters[12:15] == ("k[12]", "c", "m[0]")
    assert masses.sizes == {"x": 12, "v": 12, "k": 13, "m": 12}
    assert masses.defaults["m[11]"] == 2.0
    assert masses.chains == {f"x[{k}]": f"v[{k}]" for k in range(12)}
    again = pickle.loads(pickle.dumps(masses))
    assert (again.sizes, again.wholes["k"]) == (masses.sizes, masses.wholes["k"])


def test_twelve_masses_move_as_the_matrix_exponential_says():
    k, start = np.linspace(1.0, 3.0, 13), np.linspace(-1.0, 1.0, 12)
    record = smcpn.Record(u=np.zeros(40), dt=0.1)
    y = smcpn.simulate(masses, record, {"k": k}, observe=["x", "v[3]"], initial={"x": start})
    between = np.diff(np.eye(14), axis=0)[:, 1:-1]
    stiffness, damping = -between.T @ np.diag(k) @ between / 2.0, -0.1 * np.eye(12) / 2.0
    system = np.block([[np.zeros((12, 12)), np.eye(12)], [stiffness, damping]])
    exact = expm(3.9 * system) @ np.r_[start, np.zeros(12)]
    assert y.shape == (40, 13)
    np.testing.assert_allclose(y[-1], exact[[*range(12), 15]], atol=1e-5)


@smcpn.ode(sizes={"x": 3, "v": 3, "k": 4})
def three(x, v, u, *, k):
    return v, np.diff(k * np.diff(np.concatenate([[0.0], x, [0.0]]))) - 0.1 * v + u


RECORD = smcpn.Record(u=np.sin(0.3 * np.arange(30)), y=np.ones((30, 3)), dt=0.1)
FINE = {"observe": "x", "noise": 0.1, "prior": {"k": stats.lognorm(1.0)}}


@pytest.mark.numerics
def test_solve_takes_vectors():
    @smcpn.ode(sizes={"x": 2, "rate": 2})
    def decay(x, *, rate):
        return -rate * x

    solution = smcpn.solve(
        decay, [0.0, 1.0], parameters={"rate": [1.0, 2.0]}, initial={"x": 1.0, "x[1]": 3.0},
        solver=smcpn.EKF0(order=3), rtol=1e-6, atol=1e-8,
    )  # fmt: skip
    np.testing.assert_allclose(solution.mean[-1], [np.exp(-1), 3 * np.exp(-2)], atol=1e-5)


def test_problem_takes_vectors_apart():
    def energy(x, v, *, k):
        return v @ v / 2.0 + np.sum(k[:-1] * x**2)

    first = stats.lognorm(0.5)
    problem = smcpn.Problem(
        three, smcpn.Record(u=RECORD.u, y=np.ones((30, 7)), dt=0.1),
        observe=["x", "v'", energy], noise=0.1, coordinates={"k": "identity"},
        prior={"k[2]": 3.0, "k": [first, stats.lognorm(1.0), 1.0, 2.0]},
        initial={"x": stats.norm(0.0, 0.1), "v": [1.0, 2.0, 3.0], "x[1]": 0.5},
    )  # fmt: skip
    assert problem.observe == ["x[0]", "x[1]", "x[2]", "v[0]'", "v[1]'", "v[2]'", "energy"]
    assert problem.names == ("k[0]", "k[1]", "x[0](0)", "x[2](0)")
    assert problem.fixed == {"k[2]": 3.0, "k[3]": 2.0}
    assert problem.prior.distributions["k[0]"] is first
    assert problem.prior.coordinates == {"k[0]": "identity", "k[1]": "identity"}
    start = problem.model.initial_states(np.array([[1.0, 1.0, 7.0, 8.0]]))
    np.testing.assert_array_equal(start, [[7.0, 0.5, 8.0, 1.0, 2.0, 3.0]])


def test_process_noise_of_a_vector():
    problem = smcpn.Problem(
        three, RECORD, observe="x", noise=0.1, process_noise={"v": "q", "v[1]": 0.3},
        prior={"k": stats.lognorm(1.0), "q": stats.halfnorm()},
    )  # fmt: skip
    assert problem.process_noise == {"v[0]": "q", "v[1]": 0.3, "v[2]": "q"}


def test_diffusion_of_vectors():
    @smcpn.sde(sizes={"x": 2, "v": 2})
    def driven(x, v, *, q):
        return (v, -x), (np.zeros(2), q * np.maximum(v, 0.0))

    found = np.array(driven.diffusion([0, 0, 3, -4], [], 0, 0.5))
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [1.5, 0], [0, 0]])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"prior": {"k": [1.0, 2.0]}}, r"prior of 'k' has 2 entries: give 4"),
        ({"prior": {"k": stats.norm(), "k[4]": 1.0}}, r"'k' has k\[0\], k\[1\], k\[2\], k\[3\]"),
        ({"observe": "x[3]"}, r"observe names 'x\[3\]'"),
        ({"observe": ["x[0]", "k", "x[1]"]}, "'k', which is no state"),
        ({"initial": {"x": [1.0, 2.0]}}, "initial of 'x' has 2 entries: give 3"),
        ({"initial": {"y": 1.0}}, "initial names 'y'"),
        ({"process_noise": {"v": [0.1, 0.2]}}, "process_noise of 'v' has 2 entries"),
        ({"noise": [0.1, 0.2]}, "noise has 2 entries but observe has 3"),
        ({"coordinates": {"k": ["log"]}}, "coordinates of 'k' has 1 entries"),
        ({"observe": [lambda x, *, k=1.0: x[0] * k] * 3}, "'k' has a default, but it is a vector"),
    ],
)
def test_wrong_sizes_and_names_of_a_problem(wrong, sentence):
    with pytest.raises(smcpn.errors.InputError, match=sentence):
        smcpn.Problem(three, RECORD, **(FINE | wrong))


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"x": 0}, "size of 'x' is 0: give a whole number from 1"),
        ({"x": 2.0}, "size of 'x' is 2.0"),
        ({"z": 2}, "sizes names 'z', which is no state"),
        (3, "sizes is 3: give a dict"),
        ({"k": 3}, "default of parameter 'k' has 2 entries: give 3"),
        ({"x": 3}, "which end within the 3 entries of 'x'"),
    ],
)
def test_wrong_sizes(sizes, sentence):
    with pytest.raises(smcpn.errors.InputError, match=sentence):

        @smcpn.ode(sizes=sizes)
        def model(x, u, *, k=(1.0, 2.0)):
            return x[:2] if isinstance(x, np.ndarray) else x


def test_a_branch_on_a_vector_is_refused():
    with pytest.raises(smcpn.errors.InputError, match="branches on a traced value"):

        @smcpn.ode(sizes={"x": 2})
        def model(x):
            return x if (x > 0).all() else -x


@pytest.mark.slow
def test_unknown_function_of_a_vector():
    @smcpn.ode(sizes={"v": 3})
    def model(v, *, law):
        return -law(v)

    @smcpn.ode
    def one(v, *, law):
        return -law(v)

    names = model.wholes["law"]
    given = {name: 0.1 * k for k, name in enumerate(names)}
    v = np.array([-0.3, 0.2, 3.0])
    values = [given[name] for name in names]
    found = np.array(model.rhs(v, [], 0.0, values)).ravel()
    np.testing.assert_array_equal(found, [float(one.rhs(x, [], 0.0, values)) for x in v])
    record = smcpn.Record(y=np.zeros((5, 1)), dt=0.1)
    start = {"v": v}
    by_name = smcpn.simulate(model, record, given, observe="v", initial=start)
    as_array = smcpn.simulate(model, record, {"law": values}, observe="v", initial=start)
    np.testing.assert_array_equal(by_name, as_array)
    seen = smcpn.simulate(
        model, record, {"law": values}, observe=lambda v, *, law: law(v[1]), initial=start
    )
    assert seen[0, 0] == pytest.approx(-found[1])
    with pytest.raises(smcpn.errors.InputError, match="it has 11 parameters: give a dict"):
        smcpn.simulate(model, record, {"law": 1.0}, observe="v")
    other = smcpn.spline("v", within=(-7, 7))
    with pytest.raises(smcpn.errors.InputError, match="it is a function of model 'model'"):
        smcpn.simulate(
            model, record, given, observe=lambda v, *, law=other: law(v[1]), initial=start
        )


def test_lengths_of_a_process_of_two_variables():
    process = smcpn.gaussian_process("v", "h", within=[(0, 1), (0, 1)], features=4)

    @smcpn.ode
    def falling(v, h, *, drag=process):
        return 9.81 - drag(v, h), -v

    record = smcpn.Record(y=np.ones((9, 1)), dt=0.1)
    given = {"lengthscale": [stats.lognorm(0.5), 0.3], "[3]": 0.0, 4: 1.0}
    problem = smcpn.Problem(falling, record, observe="v", noise=0.1, prior={"drag": given})
    assert problem.fixed == {"drag.lengthscale[1]": 0.3, "drag[3]": 0.0, "drag[4]": 1.0}
    assert problem.prior.distributions["drag.lengthscale[0]"] is given["lengthscale"][0]
    with pytest.raises(smcpn.errors.InputError, match=r"'drag\.lengths', and it has"):
        smcpn.Problem(falling, record, observe="v", noise=0.1, prior={"drag": {"lengths": 1.0}})
