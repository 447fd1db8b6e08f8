"""A validation as text: a figure, what was expected of it, and what a deviation means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smcpn.columns import align
from smcpn.validation.halving import StepHalving
from smcpn.validation.whiteness import LAGS, Whiteness

if TYPE_CHECKING:
    from smcpn.validation.validation import Validation

NOTABLE_SHIFT = 0.5
"""Posterior standard deviations that a mean may move, when the step is halved, unremarked."""


def validation_text(validation: Validation) -> str:
    """Render a validation for a person."""
    records = ", ".join(part.record.name for part in validation.innovations)
    lines = [f"validation of {validation.model} on {records}, at the posterior mean", ""]
    for number, output in enumerate(validation.outputs):
        label = "" if len(validation.outputs) == 1 else f", output {number + 1}"
        lines += [f"normalised innovations{label}", *_innovation_lines(output), ""]
    lines += ["error budget", *_budget_lines(validation), ""]
    if validation.responses:
        lines += ["frequency response (H1), simulation against data"]
        lines += [
            f"  {one.name}: error {one.error:.2%} rms over {one.frequency[0]:.3g} to "
            f"{one.frequency[-1]:.3g} Hz, lowest coherence {one.coherence.min():.3f}"
            for one in validation.responses
        ]
        lines.append("")
    pair = validation.pair
    if pair is not None:
        lines.append(
            f"worst-correlated pair: {pair.first} and {pair.second}, {pair.correlation:+.3f}"
            + (": a combination of the two is known better than each" if pair.ridge else "")
        )
    return "\n".join(lines).rstrip()


def _innovation_lines(output: Whiteness) -> list[str]:
    rows = [
        ["  mean", f"{output.mean:+.3f}", "expected 0"],
        ["  variance", f"{output.variance:.4g}", "expected 1"],
        ["  chi^2", f"{output.chi2:.5g}", f"of {output.samples} samples, {_p(output.chi2_p)}"],
        ["  whiteness", "", f"Ljung-Box, {LAGS} lags, {_p(output.whiteness_p)}"],
    ]
    if output.cross_correlation.size:
        remark = f"worst of all lags, {_p(output.independence_p)}"
        rows.append(["  independence of u", "", remark])
    table = align(rows, left=(0, 2)).splitlines()
    return [*table, *(f"  - {remark}" for remark in _verdicts(output))]


def _verdicts(output: Whiteness) -> list[str]:
    """What the tests that failed mean."""
    remarks = []
    if not output.calibrated:
        size = "larger than" if output.variance > 1 else "smaller than"
        remarks.append(f"the errors are {size} the noise and the solver explain")
    if not output.white:
        remarks.append("not white: model error, or noise that is not white")
    if not output.independent:
        remarks.append("depends on the input: the model misses something the input does")
    return remarks or ["no test fails at 1 %"]


def _budget_lines(validation: Validation) -> list[str]:
    lines = [
        f"  solver error in the innovation variance: {validation.solver_share:.3%} in the mean, "
        f"{validation.largest_solver_share:.3%} at most"
    ]
    halving = validation.halving
    if halving is None:
        return [*lines, "  the step cannot be halved further"]
    name, shift = max(halving.shift.items(), key=lambda item: abs(item[1]))
    step = f"  halving the step ({halving.steps} per sample)"
    if halving.reliable:
        lines.append(f"{step} moves no posterior mean by more than {abs(shift):.2g} sd ({name})")
    else:
        lines.append(
            f"{step} moves {name} by at least {abs(shift):.2g} sd; "
            f"weight is left on {halving.ess:.0f} particles only"
        )
    return [*lines, *_halving_verdict(halving, abs(shift))]


def _halving_verdict(halving: StepHalving, shift: float) -> list[str]:
    if halving.reliable and shift <= NOTABLE_SHIFT:
        return []
    return [f"  - the step matters: identify again with steps={halving.steps}"]


def _p(value: float) -> str:
    return "p < 1e-6" if value < 1e-6 else f"p = {value:.2g}"
