"""Numbers with their uncertainty, and equations."""

import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smcpn.discovery.results.notation import DIGITS, WrittenTerm, equation_text, with_uncertainty

NUMBER = re.compile(r"(-?[\d.]+)(?:\(([\d.]+)\))?(?:e([+-]\d+))?")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def read(text):
    """Value, standard deviation and the unit of the last digit of a text."""
    value, deviation, exponent = NUMBER.fullmatch(text).groups()
    power = Decimal(1).scaleb(int(exponent or 0))
    unit = Decimal(1).scaleb(-len(value.partition(".")[2]))
    if "." not in value and deviation:
        # Of a whole number the zeros at the end of its uncertainty are none of its digits.
        unit *= 10 ** (len(deviation) - max(len(deviation.rstrip("0")), 1))
    last = 1 if "." in (deviation or ".") else Decimal(1).scaleb(-len(value.partition(".")[2]))
    deviation = Decimal(deviation or 0) * last
    return Decimal(value) * power, deviation * power, unit * power


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (-8.9123, 0.041, "-8.91(4)"),
        (-8.9123, 0.0354, "-8.912(35)"),
        (-8.9123, 0.0356, "-8.91(4)"),
        (8.9, 0.0951, "8.90(10)"),
        (0.827, 0.119, "0.83(12)"),  # the three examples of the Particle Data Group
        (0.827, 0.367, "0.8(4)"),
        (8.9, 2.3, "8.9(2.3)"),
        (1234, 52, "1230(50)"),
        (12345, 340, "12340(340)"),
        (0.01, 0.2, "0.01(20)"),
        (0.01, 0.5, "0.0(5)"),
        (-0.01, 0.5, "0.0(5)"),
        (-0.0, 0.5, "0.0(5)"),
        (-0.0, 0.0, "0"),
        (1.5, 0.0, "1.5"),
        (100000.0, 0.0, "100000"),
        (9.999, 0.5, "10.0(5)"),
        (1.2e-5, 4e-7, "1.20(4)e-05"),
        (1e6, 1e3, "1.0000(10)e+06"),
        (1.0, 4e9, "0(4)e+09"),
        (1.0, 1e-30, "1"),
        (float("nan"), 0.5, "nan(0.5)"),
        (3.0, float("inf"), "3(inf)"),
    ],
)
def test_digits_are_those_that_the_standard_deviation_leaves(value, sd, text):
    assert with_uncertainty(value, sd) == text


@given(FLOATS, FLOATS.map(abs))
@example(5e-324, 5e-324)
@example(1.7e308, 1.7e308)
@example(1.7e308, 5e-324)
@example(5e-324, 1.7e308)
@example(1.0, 36.0)
def test_a_text_is_read_back_as_the_number_to_its_digits(value, sd):
    text = with_uncertainty(value, sd)
    assert not re.match(r"-[0.]+([(e]|$)", text)
    read_value, read_sd, unit = read(text)
    if sd and read_sd:
        assert abs(read_value - Decimal(value)) <= unit / 2
        assert abs(read_sd - Decimal(sd)) <= max(unit / 2, Decimal(sd) * Decimal("0.16"))
        digits = text.split("(")[1].split(")")[0].replace(".", "").lstrip("0")
        assert len(digits.rstrip("0")) <= 2
    else:
        assert sd <= abs(value) * 10.0 ** (1 - DIGITS)
        tolerance = Decimal("1e-5") if sd == 0 else Decimal(10) ** (1 - DIGITS)
        assert abs(read_value - Decimal(value)) <= abs(Decimal(value)) * tolerance


def test_an_equation_is_written_with_signs_probabilities_and_known_parts():
    terms = [
        WrittenTerm("sin(x)", -8.91, 0.041),
        WrittenTerm("1", 0.2, 0.004, 0.996),
        WrittenTerm("x v", -0.01, 0.06, 0.04),
    ]
    assert equation_text("v", "", terms) == (
        "v' = -8.91(4) sin(x) [1.00]  + 0.200(4) [1.00]  - 0.01(6) x v [.04]"
    )
    assert equation_text("v", "u", terms[:1], probability=False) == "v' = u  - 8.91(4) sin(x)"
    assert equation_text("v", "", []) == "v' = 0"


def test_a_long_equation_breaks_between_terms_only():
    lines = equation_text("v", "", [WrittenTerm("x^2 y", 1.0, 0.04)] * 9, width=60).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 60 and line.count("x^2 y") >= 2 for line in lines[:-1])
    assert all(line.startswith("     + ") for line in lines[1:])
