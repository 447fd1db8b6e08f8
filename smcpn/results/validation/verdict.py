"""The verdict on a result: usable, look again, or wrong, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smcpn.base.tables import fact_lines
from smcpn.results.validation.innovations import LargestError, Whiteness

FALSE_ALARMS, OVERWHELMING = 0.045, 1e-3
"""Bounds on the share of right models that some test rejects, and that are called wrong, which the
tests share equally (Bonferroni); the first is some .04, for they reject a little less."""
OTHER_NOISE = 3.0
"""Factor between the errors and the noise that was stated from which it is said before all else."""
USABLE, LOOK_AGAIN, WRONG, NOT_JUDGED = "usable", "look again", "wrong", "not judged"
WARNED = "read the warnings (.warnings in Python)"
"""Reason to look again at a result whose run has warned."""
TOLD = 3
"""Most reasons that a summary gives."""


@dataclass(frozen=True)
class Verdict:
    """Judgement of a result with its reasons; ``str()`` gives it in one line.

    Attributes
    ----------
    level : {"usable", "look again", "wrong", "not judged"}
        Wrong is a model that misses structure in the data beyond doubt.
    reasons : tuple of str
        What to look at, or why it is wrong, the weightiest first; empty where it is usable.
    fit : tuple of float
        Of each output, 100 (1 - rms error / std(y)) on the record.
    reduced_chi2 : tuple of float or None
        Of each output, mean square of the errors in standard deviations of the noise; None where
        the noise was learned, for it is about 1 then whatever the model.
    tests : tuple of str
        What there is to say of records that were not learned from.
    measure : str
        What ``fit`` is one of.
    """

    level: str
    reasons: tuple[str, ...] = ()
    fit: tuple[float, ...] = ()
    reduced_chi2: tuple[float | None, ...] = ()
    tests: tuple[str, ...] = ()
    measure: str = "fit"

    @property
    def figures(self) -> str:
        """Fit of the outputs, and reduced chi^2 where their noise is known, as text."""
        fit = f"{self.measure} {_listed(self.fit, '.3g')} %" if self.fit else ""
        known = any(one is not None for one in self.reduced_chi2)
        chi2 = f"reduced chi^2 {_listed(self.reduced_chi2, '.3g')}" if known else ""
        on_record = ", ".join(part for part in (fit, chi2) if part)
        return "; ".join(part for part in (on_record, *self.tests) if part)

    def __str__(self) -> str:
        return self.head + (f": {'; '.join(self.reasons)}" if self.reasons else "")

    def document(self) -> dict[str, Any]:
        """Return the attributes and the whole as a ``sentence``, as JSON can hold them."""
        return {**vars(self), "sentence": str(self)}

    @property
    def head(self) -> str:
        """The level and the figures in one line."""
        return f"{self.level}{', ' if self.figures else ''}{self.figures}"

    @property
    def lines(self) -> list[str]:
        """The last lines of a summary: the level with its figures, and a line for each reason."""
        told = list(self.reasons[:TOLD])
        if (rest := len(self.reasons) - TOLD) > 0:
            told.append(f"and {rest} more: validate(), or the report")
        return fact_lines([("verdict", self.head), *(("", f"- {one}") for one in told)])


def _listed(values: Sequence[float | None], form: str) -> str:
    return ", ".join("noise learned" if one is None else _figure(one, form) for one in values)


def _figure(value: float, form: str = ".2g") -> str:
    """Round a number, and write it without an exponent unless it is large."""
    return f"{float(format(value, form)):.7g}"


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
    first: Sequence[str] = (),
    fit: Sequence[float] = (),
    suspected: Sequence[str] = (),
    misses_mean: Sequence[bool] = (),
    taken_for: Sequence[str] = (),
) -> Verdict:
    """Judge the tests of all outputs together.

    learned: Of each output, whether its noise was learned: the variance then fits whatever the
        model.
    others: What else is to be looked at, such as the steps of the solver.
    names: Of the outputs; by default their numbers from 0.
    first: What is to be looked at before the errors are, such as a unit.
    fit: Of each output, see `Verdict`.
    suspected: What is to be looked at first where the errors have structure, and else not at all.
    misses_mean: Of each output, whether its mean is nearer to it than the model.
    taken_for: Of each output, what its noise takes it for: to be looked at where something is
        wrong.
    """
    tests = number_of_tests(outputs, learned)
    noise, reasons, wrong, structured = list[str](), list[str](), False, False
    for number, (output, own) in enumerate(zip(outputs, learned, strict=True)):
        name = names[number] if names else f"output {number}"
        label = "" if len(outputs) == 1 else f" of {name}"
        missed, before = structure(output, FALSE_ALARMS / tests), len(reasons)
        if misses_mean and misses_mean[number]:
            reasons.append(f"the mean of y{label} is nearer to y than the model")
        structured |= bool(missed)
        wrong |= min(_structural(output)) * tests < OVERWHELMING
        reasons += [f"{reason}{label}" for reason in missed]
        other = "" if own else _other_noise(output, label)
        if other:
            noise.append(other)
        # Errors that have structure have its variance too.
        elif not own and not missed and output.chi2_p * tests < FALSE_ALARMS:
            reasons.append(f"the noise{label}: errors are {_times(output)} than it explains")
        largest = output.largest
        if largest is not None and not missed and largest.p * tests < FALSE_ALARMS:
            reasons.append(f"{outlier(largest)}{label}")
        if taken_for and taken_for[number] and (first or other or len(reasons) > before):
            reasons.append(f"look at the output{label}: {taken_for[number]}")
    reasons = [*noise, *(suspected if structured else ()), *first, *reasons, *others]
    level = WRONG if wrong else LOOK_AGAIN if reasons else USABLE
    chi2 = (None if own else one.reduced_chi2 for one, own in zip(outputs, learned, strict=True))
    return Verdict(level, tuple(reasons), tuple(fit), tuple(chi2))


def _times(output: Whiteness) -> str:
    size = output.reduced_chi2**0.5
    return f"{size:.2f} times larger" if size > 1.0 else f"{1 / size:.2f} times smaller"


def _other_noise(output: Whiteness, label: str) -> str:
    """Say that noise was stated of quite another size than the errors have, "" where it was not.

    Errors of a model that change slowly say nothing of noise that is too small.
    """
    begin, whole = f"look at the noise{label}: errors are", output.reduced_chi2**0.5
    if output.successive > OTHER_NOISE:
        size = _figure(output.successive)
        return f"{begin} {size} times larger than noise= says, or y is in another unit"
    return f"{begin} {_figure(1 / whole)} times smaller than noise= says" * (
        0.0 < whole < 1 / OTHER_NOISE
    )


def outlier(largest: LargestError) -> str:
    """Name an error that does not belong to the others, and what can be done about it."""
    return (
        f"an error of {abs(largest.size):.3g} standard deviations of the others, at {largest}: an "
        "outlier, to be hidden (record.hide), or noise with heavy tails (smcpn.StudentT)"
    )


def _structural(output: Whiteness) -> list[float]:
    independent = [output.independence_p] if output.cross_correlation.size else []
    return [output.whiteness_p, *independent]


def structure(output: Whiteness, level: float) -> list[str]:
    """Say how the errors of an output are correlated, by the tests that fail at a level."""
    found = []
    if output.whiteness_p < level:
        found.append("errors are correlated in time (model error, or noise that is not white)")
    if output.cross_correlation.size and output.independence_p < level:
        found.append("errors depend on the input (the model misses what the input does)")
    return found
