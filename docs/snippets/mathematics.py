"""Formulas as MathML, which browsers draw without a script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def with_mathml(page: str) -> str:
    """Replace the formulas that pymdownx.arithmatex marks in a page of HTML."""

    def mathml(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        formula = convert(html.unescape(match[2]).strip(), display=display)
        return f'<{match[1]} class="formula">{formula}</{match[1]}>'

    return FORMULA.sub(mathml, page)
