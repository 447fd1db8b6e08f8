"""The verdict of a validation: usable, look again, or wrong, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from smcpn.validation.innovations import LargestError, Whiteness

FALSE_ALARMS = 0.05
"""Share of right models that some test rejects; the tests share it equally (Bonferroni)."""
OVERWHELMING = 1e-3
"""The same, for a structure to be called wrong."""
USABLE, LOOK_AGAIN, WRONG = "usable", "look again", "wrong"


@dataclass(frozen=True)
class Verdict:
    """Judgement of a validation with its reasons; ``str()`` gives it in one line.

    Attributes
    ----------
    level : {"usable", "look again", "wrong"}
        Wrong is a model that misses structure in the data beyond doubt.
    reasons : tuple of str
        What to look at, or why it is wrong; empty where it is usable.
    """

    level: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return self.level + (f": {'; '.join(self.reasons)}" if self.reasons else "")


def number_of_tests(outputs: Sequence[Whiteness], learned: Sequence[bool]) -> int:
    """Tests that have power: whiteness, of the variance where it is not learned, and others.

    These are independence where there is an input, and that of the largest error of normal noise.
    """
    return sum(
        1 + (not own) + (output.cross_correlation.size > 0) + (output.largest is not None)
        for output, own in zip(outputs, learned, strict=True)
    )


def judge(
    outputs: Sequence[Whiteness],
    learned: Sequence[bool],
    others: Sequence[str] = (),
    names: Sequence[str] = (),
) -> Verdict:
    """Judge the tests of all outputs together.

    Parameters
    ----------
    outputs : sequence of Whiteness
    learned : sequence of bool
        Of each output, whether its noise was learned: the variance then fits whatever the model.
    others : sequence of str
        What else is to be looked at, such as the steps of the solver.
    names : sequence of str
        Of the outputs; by default their numbers.
    """
    tests = number_of_tests(outputs, learned)
    reasons: list[str] = []
    wrong = False
    for number, (output, own) in enumerate(zip(outputs, learned, strict=True)):
        name = names[number] if names else f"output {number + 1}"
        label = "" if len(outputs) == 1 else f" of {name}"
        structure = [*_structure(output, FALSE_ALARMS / tests)]
        wrong |= min(_structural(output)) * tests < OVERWHELMING
        reasons += [f"{reason}{label}" for reason in structure]
        # Errors that have structure have its variance too.
        if not own and not structure and output.chi2_p * tests < FALSE_ALARMS:
            size = "larger" if output.variance > 1 else "smaller"
            reasons.append(f"the noise{label}: errors are {size} than it explains")
        largest = output.largest
        if largest is not None and not structure and largest.p * tests < FALSE_ALARMS:
            reasons.append(f"{outlier(largest)}{label}")
    reasons += others
    level = WRONG if wrong else LOOK_AGAIN if reasons else USABLE
    return Verdict(level, tuple(reasons))


def outlier(largest: LargestError) -> str:
    """Name an error that does not belong to the others, and what can be done about it."""
    return (
        f"an error of {abs(largest.size):.3g} standard deviations of the others, at {largest}: an "
        "outlier, to be hidden (record.hide), or noise with heavy tails (smcpn.StudentT)"
    )


def _structural(output: Whiteness) -> list[float]:
    independent = [output.independence_p] if output.cross_correlation.size else []
    return [output.whiteness_p, *independent]


def _structure(output: Whiteness, level: float) -> Iterator[str]:
    if output.whiteness_p < level:
        yield "errors are correlated in time (model error, or noise that is not white)"
    if output.cross_correlation.size and output.independence_p < level:
        yield "errors depend on the input (the model misses what the input does)"
