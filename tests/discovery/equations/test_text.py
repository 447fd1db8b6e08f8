"""Libraries written as text."""

from __future__ import annotations

import pytest

import smcpn
from smcpn.discovery.equations.library import read_library


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("poly(1)", "1, x, v, u"),
        ("polynomials(2, x) + sin", "1, x, x^2, sin(x), sin(v), sin(u)"),
        ("sin(x, v)*(1 + u)", "sin(x), u sin(x), sin(v), u sin(v)"),
        ("fourier(1, 0.5, x)", "sin(0.5 x), cos(0.5 x)"),
        ("abs(v)*v + x**3", "v abs(v), x^3"),
        ("cos(t)", "cos(t)"),
    ],
)
def test_a_text_is_a_library(text: str, names: str) -> None:
    found = read_library(text).candidates(["x", "v"], ["u"])
    assert sorted(found.names) == sorted(names.split(", "))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "cannot be read"),
        ("poly", "write poly(3)"),
        ("poly()", "cannot be read"),
        ("poly(x)", "cannot be read"),
        ("poly(3.5)", "degree is 3.5"),
        ("poly(99)", "degree is 99"),
        ("sine(x)", "did you mean 'sin'?"),
        ("sin(2)", "cannot be read"),
        ("x - v", "cannot be read"),
        ("x**99", "cannot be read"),
        ("__import__('os').system('true')", "cannot be read"),
        ("sin(x", "cannot be read"),
        ("(" * 400 + "x" + ")" * 400, "cannot be read"),
        ("x+" * 2000 + "x", "cannot be read"),
    ],
)
def test_what_is_none_is_said_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(smcpn.InputError) as caught:
        read_library(text)
    assert sentence in str(caught.value)
