"""Dead times of linear systems, by exact responses of their own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import signal

import smcpn
from smcpn.estimate.dead_time import _Family

DT = 0.5
U = np.repeat(np.random.default_rng(0).normal(size=25), 6)
T = np.arange(len(U)) * DT
FIRST, SECOND = ([2.0], [1.5, 1.0]), ([2.0], [1.5, 1.2, 1.0])


def delayed(system, hold: str, delay: float, noise: float = 0.02, cells: int = 100) -> smcpn.Record:
    """Simulate a system by scipy over a fine grid, on which the delayed input is known."""
    fine = np.arange(len(U) * cells) * DT / cells
    if hold == "foh":
        u = np.interp(fine - delay, T, U, left=U[0])
    else:
        u = U[np.clip(np.floor((fine - delay) / DT + 1e-9), 0, None).astype(int)]
    y = signal.lsim(signal.lti(*system), u - U[0], fine, interp=hold == "foh")[1][::cells]
    y = 3.0 + y + noise * np.random.default_rng(1).normal(size=len(U))
    return smcpn.Record(u=U, y=y, dt=DT, hold=hold, t_unit="min")


@cache
def estimated(hold: str) -> smcpn.DelayEstimate:
    return smcpn.estimate_delay(delayed(FIRST if hold == "zoh" else SECOND, hold, 1.37))


@pytest.mark.parametrize(("hold", "system", "order"), [("zoh", FIRST, 1), ("foh", SECOND, 2)])
def test_dead_time_between_samples_is_found_with_gain_and_poles(hold, system, order):
    found = estimated(hold)
    assert found.low < 1.37 < found.high
    assert found.high - found.low < 2 * DT
    assert found.gain == pytest.approx(2.0, rel=0.02)
    assert found.order == order
    np.testing.assert_allclose(
        np.sort_complex(found.poles), np.sort_complex(np.roots(system[1])), rtol=0.1
    )
    assert str(found).startswith("dead time 1.")
    assert not found.warnings


def test_exact_responses_are_those_of_a_fine_simulation():
    record = delayed(([1.0], [1.5, 1.2, 1.0]), "foh", 1.37, noise=0.0)
    family = _Family(record, 2, False)
    rate = np.sqrt(1.0 / 1.5) * DT
    damping = 1.2 / (2.0 * np.sqrt(1.5))
    (response,) = family._responses(np.array([1.37 / DT]), family._rates(np.log([rate, damping])))
    np.testing.assert_allclose(rate**2 * response[0], record.y[:, 0] - 3.0, atol=1e-3)


def test_missing_outputs_and_an_output_that_the_input_does_not_move():
    record = delayed(FIRST, "foh", 1.0).hide(20, 40)
    found = smcpn.estimate_delay(record, longest=4.0)
    assert found.low < 1.0 < found.high
    noise = record.with_outputs(np.random.default_rng(2).normal(size=len(U)))
    found = smcpn.estimate_delay(noise, longest=2.0)
    assert found.warnings[0].startswith("a linear model explains only")


def test_figure_has_the_profile_and_the_record():
    above, below = estimated("zoh").plot().axes
    assert above.get_xlabel() == "dead time (min)"
    assert below.get_xlabel() == "time (min)"
    assert above.get_title().startswith("dead time 1")


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        (smcpn.Record(u=U, y=U, t=T**1.1), {}, "uniform"),
        (smcpn.Record(y=U, dt=DT), {}, "record has no input: give the input"),
        (smcpn.Record(u=U, y=U, dt=DT), {"input": 1}, "input is 1: give one of the 1 inputs"),
        (smcpn.Record(u=U, y=U, dt=DT), {"output": 1}, "output is 1"),
        (smcpn.Record(u=0 * U, y=U, dt=DT), {}, "the input does not move"),
        (smcpn.Record(u=U, y=0 * U, dt=DT), {}, "the output does not move"),
        (smcpn.Record(u=U[:9], y=U[:9], dt=DT), {}, "give 20 or more"),
        (smcpn.Record(u=U, y=U, dt=DT), {"longest": 99.0}, "longest is 99.0"),
        (
            smcpn.Record(u=U, y=U, y_sd=U**2 + 1, dt=DT),
            {},
            "has y_sd, which estimate_delay does not",
        ),
    ],
)
def test_mistakes_are_refused(record, options, message):
    with pytest.raises(smcpn.InputError, match=message):
        smcpn.estimate_delay(record, **options)
