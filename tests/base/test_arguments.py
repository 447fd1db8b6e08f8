"""Arguments of public calls: each kind refuses what it is not, in one sentence."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import smcpn
from smcpn.base.arguments import (
    Count,
    FileName,
    Index,
    Numbers,
    Positive,
    Probabilities,
    Probability,
    Seed,
    checked,
    whole,
)
from smcpn.base.units import quantity, unit
from smcpn.errors import LONGEST, InputError, listed, shown, visible

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.dates(),
    st.lists(st.floats()),
    st.dictionaries(st.text(), st.text()),
    st.sets(st.integers()),
    st.functions(),
    st.sampled_from([np.float64(0.5), np.int64(3), np.array(3), np.array([None]), np.True_, int]),
)


@checked
def everything(
    count: Count = 1,
    number: float = 0.0,
    flag: bool = False,
    name: str = "",
    table: Mapping[str, float] | None = None,
    groups: Sequence[Sequence[str]] = (),
    array: NDArray[np.float64] | None = None,
    file: FileName = "run.h5",
    seed: Seed | None = None,
    index: Index = 0,
    positive: Positive = 1.0,
    share: Probability = 0.5,
    shares: Probabilities = 0.5,
    values: Numbers = 0.0,
    record: smcpn.Record | None = None,
    bounded: Annotated[int, whole(2, 9)] = 2,
) -> dict[str, object]:
    return dict(locals())


PARAMETERS = sorted(everything())


@given(st.sampled_from(PARAMETERS), ANYTHING)
def test_an_argument_is_read_or_refused_in_one_sentence(name, value):
    refusal = None
    try:
        read = everything(**{name: value})[name]
    except InputError as error:
        refusal = error
    if refusal is not None:
        assert str(refusal).startswith(f"{name} is ")
        assert ": give " in str(refusal)
        assert str(refusal).isprintable()
        assert refusal.argument == name
    else:
        if name in ("number", "positive", "share"):
            assert type(read) is float and np.isfinite(read)  # noqa: PT018
        if name in ("count", "index", "bounded"):
            assert type(read) is int


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", True),
        ("count", 10**400),
        ("number", "1.0"),
        ("number", 10**400),
        ("number", np.True_),
        ("table", {1: 2.0}),
        ("table", {"a": None}),
        ("groups", ["ab"]),
        ("file", "a\0b"),
        ("file", ""),
        ("array", [1.0]),
        ("array", np.array(["a"])),
        ("share", 1.5),
        ("shares", [0.1, np.nan]),
        ("values", ["1"]),
        ("values", [1, None]),
        ("record", smcpn.Record),
        ("bounded", 10),
    ],
)
def test_what_is_no_argument_is_refused(name, value):
    with pytest.raises(InputError, match=f"^{name} is "):
        everything(**{name: value})


def test_numbers_of_numpy_become_those_of_python():
    read = everything(np.int64(3), np.float32(0.5), table={"a": np.float64(1.0)})
    assert (read["count"], read["number"], read["table"]) == (3, 0.5, {"a": 1.0})
    assert type(read["count"]) is int
    with pytest.raises(TypeError, match="unexpected keyword"):
        everything(other=1)


def test_methods_and_constructors_of_a_class_are_checked():
    assert smcpn.StateFilter(1, (0.1,), (0.2,)).sensor == 1.0
    with pytest.raises(InputError, match=r"^disturbance is 0\.1: give a tuple"):
        smcpn.StateFilter(1.0, 0.1, (0.1,))
    record = smcpn.Record(y=[1.0, 2.0], dt=0.1)
    with pytest.raises(InputError, match=r"^more is None: give a smcpn\.Record"):
        record.followed_by(None)


@given(st.text(max_size=3000))
def test_a_message_has_one_line_and_a_bounded_length(text):
    message = str(InputError(f"name is {text}: correct it"))
    assert message.isprintable()
    assert len(message) <= LONGEST
    assert visible(text, keep="\n").replace("\n", "").isprintable()


def test_any_value_can_be_shown():
    circular: list[object] = []
    circular.append(circular)
    for value in (circular, 10**5000, ["\x1b"] * 10**5, np.array([circular], dtype=object)):
        assert shown(value).isprintable()
        assert len(shown(value)) <= 60
    assert listed(f"c{k}" for k in range(1_000_010)).endswith("c19 and 999990 more")


@pytest.mark.parametrize(
    "text", ["mm**9**9**9**9", "m^2^9", "(9**9)**9", "x" * 100, "\x1b", "m**99"]
)
def test_what_is_no_unit_is_refused_at_once(text):
    with pytest.raises(InputError, match="is no unit"):
        unit(text)


def test_units():
    assert quantity("1.5 ms").m_as("s") == pytest.approx(0.0015)
    assert unit("m/s^2") == unit("m s**-2")
