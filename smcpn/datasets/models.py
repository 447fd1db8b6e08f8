"""The equations of the benchmarks, each written once."""

# Models are written as users write them, without types.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np

from smcpn.model.functions.spline import spline
from smcpn.model.ode import ode


@ode
def duffing(x, v, u, *, m, c, k, k3):
    """Forced Duffing oscillator: m x'' + c x' + k x + k3 x^3 = u."""
    return v, (u - c * v - k * x - k3 * x**3) / m


@ode
def duffing_offset(x, v, u, *, m, c, k, k3, u0):
    """Duffing oscillator whose input is measured with an offset ``u0``."""
    return v, (u - u0 - c * v - k * x - k3 * x**3) / m


@ode
def duffing_damping(x, v, u, *, m, c, c2, k, k3, u0):
    """Duffing oscillator with an offset ``u0`` and a damping that grows with the displacement.

    m x'' + (c + c2 x^2) x' + k x + k3 x^3 = u - u0.
    """
    return v, (u - u0 - (c + c2 * x**2) * v - k * x - k3 * x**3) / m


SILVERBOX_FORCE = spline("x", knots=12, within=(-0.22, 0.22), odd=True, size=0.2)
SILVERBOX_FRICTION = spline("v", knots=12, within=(-90, 90), odd=True, size=0.02)
"""In volts, over the displacements and velocities of the official training record."""


@ode
def duffing_force(x, v, u, *, m, c, c2, k3, u0, force=SILVERBOX_FORCE):
    """Duffing oscillator whose restoring force is an odd spline beside the cubic term.

    m x'' + (c + c2 x^2) x' + force(x) + k3 x^3 = u - u0. The spline holds the linear stiffness;
    beyond its knots it goes on in a line, and so the whole force as a cubic.
    """
    return v, (u - u0 - (c + c2 * x**2) * v - force(x) - k3 * x**3) / m


@ode
def duffing_splines(x, v, u, *, m, k3, u0, force=SILVERBOX_FORCE, friction=SILVERBOX_FRICTION):
    """Duffing oscillator whose friction is an odd spline as well.

    m x'' + friction(x') + force(x) + k3 x^3 = u - u0; see `duffing_force`.
    """
    return v, (u - u0 - friction(v) - force(x) - k3 * x**3) / m


@ode
def bouc_wen(x, v, z, u, *, m, c, k, alpha, beta, gamma, delta):
    """Bouc-Wen hysteresis with nu = 1 (PN-SMC eq. 26).

    m x'' + c x' + k x + z = u,  z' = alpha x' - beta (gamma |x'| z + delta x' |z|).
    """
    hysteresis = gamma * np.abs(v) * z + delta * v * np.abs(z)
    return v, (u - c * v - k * x - z) / m, alpha * v - beta * hysteresis


EMPS_WIDTH = 1e-3
"""Width of the smoothed sign of `emps`, m/s; the joint moves at up to 0.13 m/s."""


@ode
def emps(q, v, force, *, M, Fv, Fc, offset, width=EMPS_WIDTH):
    """Prismatic joint with viscous and Coulomb friction (PN-SMC eq. 28).

    M q'' + Fv q' + Fc sign(q') + offset = force, in newtons, metres and seconds.

    Stiction: sign(v) is smoothed to v / sqrt(v^2 + width^2), so that sticking becomes creeping
    at a velocity below ``width``. The friction then relaxes at the rate Fc / (M width), a quarter
    per millisecond at the default, which a solver resolves at two steps per millisecond.
    ``python -m benchmarks.case_studies`` prints what identifying with a tenth of the width
    changes.
    """
    friction = Fv * v + Fc * v / np.sqrt(v * v + width * width)
    return v, (force - friction - offset) / M


EMPS_FRICTION = spline("v", knots=9, within=(-0.13, 0.13), monotone="increasing", size=20.0)
"""In newtons, over the velocities of both records."""


@ode
def emps_spline(q, v, force, *, M, Fc, friction=EMPS_FRICTION, width=EMPS_WIDTH):
    """Prismatic joint whose friction is an increasing spline beside the Coulomb term.

    M q'' + friction(q') + Fc sign(q') = force. friction(0) is a constant force. The jump at rest,
    which no spline follows, is the smoothed sign of `emps`. A free run for 25 s leaves errors of
    millimetres that are no friction; a spline that may fall bends at the speed at which the joint
    mostly moves until it corrects them, into a law that is none.
    """
    coulomb = Fc * v / np.sqrt(v * v + width * width)
    return v, (force - friction(v) - coulomb) / M


RIM = 10.0
"""Level at which a tank overflows, volts. The level of the upper tank is not measured: its unit is
such that its rim is there too."""
OVERFLOW_RATE = 0.5
"""1/s: how fast a level above the rim falls to it."""
RIM_WIDTH = 0.2
"""Volts."""


def _outflow(full, power):
    """Outflow relative to a full tank's, ``full`` ** ``power``; smooth and odd where it is empty.

    full (full^2 + 0.01^2)^((power - 1) / 2): a level below zero, of rounding or of noise, is
    drawn back to it, and the slope at zero is finite.
    """
    # The derivative of exp costs nothing more, that of a power another power.
    return full * np.exp((power - 1) / 2 * np.log(full * full + 1e-4))


def _overflow(level):
    """Flow over the rim, V/s: `OVERFLOW_RATE` times the excess, 0 below the rim.

    Within `RIM_WIDTH` of the rim it is a parabola that joins both.
    """
    near = np.minimum(np.maximum(level - RIM + RIM_WIDTH, 0.0), 2 * RIM_WIDTH)
    above = np.maximum(level - RIM - RIM_WIDTH, 0.0)
    return OVERFLOW_RATE * (near * near / (4 * RIM_WIDTH) + above)


@ode
def cascaded_tanks(h1, h2, u, *, pump, out1, out2, ratio, share, zero, power):
    """Two tanks in cascade with overflow, levels in volts of the level sensor.

    h1' = pump u - q1 - w1,  h2' = ratio (q1 + share w1) - q2 - w2, where

    q1 = out1 (h1 / 10)^(1/2)                     the upper tank's outflow after Bernoulli,
    q2 = out2 ((h2 - zero) / (10 - zero))^power   the lower tank's, whose sensor reads ``zero``
                                                  when it is empty,
    w  = max(h - 10, 0) / (2 s)                   what flows over a rim.

    Parameters: the pump's rise per volt (1/s), the outflows of full tanks (V/s), volts of the
    lower tank per volt of the upper one, and the share of the upper overflow that falls into the
    lower tank. The kinks of q and w are rounded: `_outflow`, `_overflow`.
    """
    q1 = out1 * _outflow(h1 / RIM, 0.5)
    q2 = out2 * _outflow((h2 - zero) / (RIM - zero), power)
    w1, w2 = _overflow(h1), _overflow(h2)
    return pump * u - q1 - w1, ratio * (q1 + share * w1) - q2 - w2


@ode
def lotka_volterra(hare, lynx, *, birth, predation, growth, death):
    """Prey and predator (Lotka 1925, Volterra 1926), rates per unit of time.

    hare' = birth hare - predation hare lynx,  lynx' = growth hare lynx - death lynx.
    """
    return birth * hare - predation * hare * lynx, growth * hare * lynx - death * lynx


@ode
def quadrotor(
    p,
    q,
    s,
    gust_x,
    gust_y,
    trim_x,
    trim_y,
    m1,
    m2,
    m3,
    m4,
    vx,
    vy,
    *,
    roll,
    pitch,
    yaw,
    flap_x,
    flap_y,
    damp_x,
    damp_y,
    damp_z,
    rotor,
    memory,
):
    """Body rates of a quadrotor by the speeds of its motors, rad/s and krad/s.

    p' = roll (-m1^2 - m2^2 + m3^2 + m4^2) + flap_x vy - damp_x p + gust_x + trim_x,
    q' = pitch (-m1^2 + m2^2 + m3^2 - m4^2) - flap_y vx - damp_y q + gust_y + trim_y,
    s' = yaw (-m1^2 + m2^2 - m3^2 + m4^2) - damp_z r,  r = s + rotor (-m1 + m2 - m3 + m4).

    Moments over inertias: of thrusts, of the rotors' flapping in a sideways wind (vx, vy, m/s), of
    damping; r is the yaw rate, s what is left of it without the angular momentum of the rotors.
    Gusts with a memory (s) and trims that drift stand for all other moments: they are meant for
    process noise. Gyroscopic terms, a few per cent of the thrusts' moments, are left out.
    """
    a, b, c, d = m1 * m1, m2 * m2, m3 * m3, m4 * m4
    r = s + rotor * (m2 + m4 - m1 - m3)
    return (
        roll * (c + d - a - b) + flap_x * vy - damp_x * p + gust_x + trim_x,
        pitch * (b + c - a - d) - flap_y * vx - damp_y * q + gust_y + trim_y,
        yaw * (b + d - a - c) - damp_z * r,
        -gust_x / memory,
        -gust_y / memory,
        0.0,
        0.0,
    )  # fmt: skip


@ode
def oral_dose(gut, blood, absorption, clearance, volume):
    """One compartment with absorption of the first order; amounts in mg per kg, times in hours.

    gut' = -absorption gut,  blood' = absorption gut - clearance / volume blood.

    A subject's absorption (1/h), clearance (L/h/kg) and volume (L/kg) are states that do not
    change, so that each record's initial state holds its own.
    """
    absorbed = absorption * gut
    return -absorbed, absorbed - clearance / volume * blood, 0.0, 0.0, 0.0
