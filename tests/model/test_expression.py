from __future__ import annotations

import copy
import inspect
import pickle

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smcpn
from smcpn import InputError, models
from smcpn.codegen.machine_code import FUNCTIONS, INSTRUCTIONS
from smcpn.model.expression import BINARY, OPERANDS, UNARY, ExpressionTable, instructions

A, B = ca.SX.sym("a"), ca.SX.sym("b")
POINTS = np.array([[0.0, 1.0, -0.5, 2.5, -3.0, 0.7], [0.0, -1.0, 0.5, 2.5, 4.0, np.inf]])
CODES = {name: getattr(ca, f"OP_{name.upper()}") for name in UNARY | BINARY}


@smcpn.ode
def kinks(x, v, u, t, *, a, b, c=2.0):
    slope = np.where(x > a, np.sign(v), np.maximum(x, b)) + np.heaviside(v, 0.5)
    bounded = np.clip(v, -1, c) + np.minimum(abs(x), 3) + np.mod(t, 0.5)
    powers = np.abs(x) ** 2.5 + v**3 + np.abs(v) ** a + 2**x + x**-2 + np.sqrt(np.abs(v)) + x**0
    logic = np.where(np.logical_and(x > 0, np.logical_not(v < b)), np.hypot(x, v), u)
    return v, slope + bounded + powers + logic + np.round(x) + 1e-300 * u


MODELS = [value for value in vars(models).values() if isinstance(value, smcpn.ODE)] + [kinks]


def bits(function: ca.Function, points: np.ndarray = POINTS) -> bytes:
    """Every result at every point; a NaN is a NaN."""
    arguments = [np.resize(points, (function.size1_in(k), 6)) for k in range(function.n_in())]
    results = [
        np.array(r, dtype=float) for r in function.map(6).call([ca.DM(a) for a in arguments])
    ]
    return b"".join(np.where(np.isnan(r), np.nan, r).tobytes() for r in results)


def round_trip(function: ca.Function) -> None:
    table = ExpressionTable.of(function)
    again = table.function(function.name())
    assert ExpressionTable.of(again).same_as(table)
    assert bits(again) == bits(function)
    assert [again.size_in(k) for k in range(again.n_in())] == [
        function.size_in(k) for k in range(function.n_in())
    ]


@pytest.mark.parametrize("ode", MODELS, ids=lambda ode: ode.name)
def test_models(ode):
    round_trip(ode.rhs)


@pytest.mark.parametrize("name", sorted(UNARY | BINARY))
def test_every_operation(name):
    expression = ca.SX.unary(CODES[name], A) if name in UNARY else ca.SX.binary(CODES[name], A, B)
    if name == "constpow":
        expression = A**2.5
    function = ca.Function("f", [A, B], [expression])
    assert name in {instruction.operation for instruction in instructions(function)}
    round_trip(function)


def test_compiled_operations_have_a_name_and_as_many_operands():
    assert FUNCTIONS.keys() <= OPERANDS.keys()
    for name, write in INSTRUCTIONS.items():
        assert OPERANDS[name] == len(inspect.signature(write).parameters) - 1


@st.composite
def graphs(draw) -> ca.Function:
    constants = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.0, 1e-300, np.inf, 0.1])
    values = [A, B]
    for _ in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from(["constant", *sorted(UNARY | BINARY)]))
        if name == "constant":
            values.append(ca.SX(draw(constants)))
        operands = [values[draw(st.integers(0, len(values) - 1))] for _ in range(2)]
        if name in UNARY:
            values.append(ca.SX.unary(CODES[name], operands[0]))
        elif name in BINARY:
            values.append(ca.SX.binary(CODES[name], *operands))
    known = [value for value in values if not any(map(np.isnan, constants_of(value)))]
    return ca.Function("f", [A, B], [ca.densify(ca.vertcat(*known)), ca.densify(values[-2])])


def constants_of(expression: ca.SX) -> list[float]:
    function = ca.Function("f", [A, B], [expression])
    return [instruction.constant for instruction in instructions(function)]


@settings(max_examples=150, deadline=None)
@given(graphs())
@pytest.mark.slow
def test_any_graph(function):
    if not any(np.isnan(row.constant) for row in instructions(function)):
        round_trip(function)


def test_matrices_and_nothing():
    x, nothing = ca.SX.sym("x", 2, 3), ca.SX.sym("n", 0, 1)
    round_trip(ca.Function("f", [x, nothing], [x.T @ x, ca.SX(0, 1), ca.SX.ones(2, 2), x]))
    round_trip(ca.Function("f", [], []))


def test_sparse_and_unnamed_are_refused():
    with pytest.raises(InputError, match="sparse"):
        ExpressionTable.of(ca.Function("f", [A], [ca.SX.eye(2) * A]))
    printed = ca.SX.binary(ca.OP_PRINTME, A, B)
    with pytest.raises(InputError, match=r"the operation printme .*cannot be stored"):
        ExpressionTable.of(ca.Function("f", [A, B], [printed]))


def changed(place: tuple[str, object], value: object) -> dict[str, np.ndarray]:
    name, index = place
    arrays = {k: v.copy() for k, v in TABLE.arrays().items()}
    arrays[name][index] = value
    return arrays


TABLE = ExpressionTable.of(ca.Function("f", [A, B], [ca.sin(A * B + 2.5), A]))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (changed(("operation", 2), b"system"), r"the operation system \(row 2\)"),
        (changed(("operation", 2), b""), "the operation without a name"),
        (changed(("operation", 2), b"\xff\xfe"), "the operation"),
        (changed(("operands", (2, 0)), 2), r"row 2 \(mul\) has operands \[2, 1, -1\]"),
        (changed(("operands", (2, 0)), 4), r"row 2 \(mul\)"),
        (changed(("operands", (2, 0)), -1), r"row 2 \(mul\)"),
        (changed(("operands", (2, 2)), 0), r"row 2 \(mul\)"),
        (changed(("operands", (0, 0)), 7), r"row 0 \(input\)"),
        (changed(("operands", (0, 1)), 1), r"row 0 \(input\)"),
        (changed(("operands", (-1, 1)), 5), r"\(output\)"),
        (changed(("operands", (-1, 1)), 0), "not computed once"),
        (changed(("constant", 3), np.nan), "constant of row 3 is NaN"),
        (changed(("input_shapes", (0, 0)), -1), "input_shapes"),
        (changed(("input_shapes", (0, 0)), 2**62), "input_shapes"),
        (changed(("output_shapes", (0, 0)), 2), "not computed once"),
        (TABLE.arrays() | {"input_shapes": np.array([[0, 2**62]])}, "input_shapes"),
        (TABLE.arrays() | {"operands": np.zeros((3, 3), int)}, "operands has shape"),
        (TABLE.arrays() | {"operands": TABLE.operands.astype(float)}, "type float64"),
        (TABLE.arrays() | {"constant": TABLE.constant.astype("S8")}, "constant has shape"),
        (TABLE.arrays() | {"input_shapes": np.ones(3, int)}, "input_shapes has shape"),
        (TABLE.arrays() | {"operation": np.array("add")}, "operation has shape"),
        (TABLE.arrays() | {"operation": np.full(len(TABLE.constant), "\N{SNOWMAN}")}, "plain text"),
    ],
)
def test_damaged_tables_are_refused(arrays, message):
    with pytest.raises(InputError, match=message) as caught:
        ExpressionTable(**arrays)
    assert "\n" not in str(caught.value)


SHORT = st.integers(-2, 6)
NAMES = [name.encode() for name in OPERANDS] + [b"call", b""]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(NAMES), SHORT, SHORT, SHORT, st.floats(allow_nan=True, width=64)),
        max_size=8,
    ),
    inputs=st.lists(st.tuples(SHORT, SHORT), max_size=3),
    outputs=st.lists(st.tuples(SHORT, SHORT), max_size=3),
)
def test_garbage_is_refused_or_a_function(rows, inputs, outputs):
    try:
        table = ExpressionTable(
            np.array([row[0] for row in rows], dtype="S16"),
            np.array([row[1:4] for row in rows], dtype=int).reshape(-1, 3),
            np.array([row[4] for row in rows], dtype=float),
            np.array(inputs, dtype=int).reshape(-1, 2),
            np.array(outputs, dtype=int).reshape(-1, 2),
        )
    except InputError:
        return
    table.function("f").call([ca.DM.ones(*shape) for shape in inputs])


@settings(max_examples=200, deadline=None)
@given(row=st.integers(0, 6), change=st.tuples(st.sampled_from(NAMES), SHORT, SHORT, SHORT))
def test_one_wrong_row_is_refused_or_a_function(row, change):
    arrays = {k: v.copy() for k, v in TABLE.arrays().items()}
    arrays["operation"][row], arrays["operands"][row] = change[0], change[1:]
    try:
        table = ExpressionTable(**arrays)
    except InputError:
        return
    table.function("f").call([ca.DM.ones(1), ca.DM.ones(1)])


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda o: pickle.loads(pickle.dumps(o))]
)
def test_an_ode_can_be_copied(copied):
    again = copied(kinks)
    names = ["name", "states", "inputs", "parameters", "defaults", "chains", "doc"]
    assert [getattr(again, n) for n in names] == [getattr(kinks, n) for n in names]
    assert ExpressionTable.of(again.rhs).same_as(ExpressionTable.of(kinks.rhs))
