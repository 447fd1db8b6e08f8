"""Frequency response of data and simulation, by the same estimator, with its standard error.

J. S. Bendat and A. G. Piersol (2010), Random Data, 4th ed., sections 6.1 and 9.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smcpn.base.late_binding import late_bound
from smcpn.base.units import frequency_unit
from smcpn.errors import InputError, output_number
from smcpn.model.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

AVERAGES = 8
"""Segments without overlap that a record is cut into."""
SHORTEST, LONGEST = 32, 8192
"""Samples of a segment."""
EXCITED = 1e-2
"""Input power, relative to the largest line, below which a line is left out."""
HANN_OVERLAP = 1.0 / 36.0
"""Squared correlation of neighbouring periodograms, Hann window, half overlap."""


@dataclass(frozen=True)
class FrequencyResponse:
    """H1 from one input to one output, of data and of a simulation, where the input has power.

    Both are Welch estimates over the same segments (Hann window, half overlap), so leakage and the
    nonlinear distortions that depend on the input are in both: equal models give equal curves.

    Attributes
    ----------
    name : str
        Of the record.
    frequency : ndarray, (F,)
        In ``unit``.
    measured, simulated : ndarray of complex, (F,)
        Output unit per input unit.
    coherence : ndarray, (F,)
        Of input and measured output, 0 to 1.
    standard_error : ndarray, (F,)
        Of |measured|, in its unit: |H| sqrt((1 - coherence) / (2 n coherence)), n the number of
        independent averages.
    unit : str
        Of frequencies: "Hz", or "cycles/h" where the record counts hours.
    """

    name: str
    frequency: Array
    measured: NDArray[np.complex128]
    simulated: NDArray[np.complex128]
    coherence: Array
    standard_error: Array
    unit: str = "Hz"

    @property
    def error(self) -> float:
        """Root mean square of |simulated - measured| relative to that of |measured|."""
        difference = np.abs(self.simulated - self.measured)
        return float(np.sqrt(np.square(difference).sum() / np.square(np.abs(self.measured)).sum()))

    @late_bound
    def plot(self) -> Figure:
        """Plot magnitude, phase and coherence, of the data and of the simulation."""
        ...


def frequency_response(record: Record, simulated: Array, output: int = 0) -> FrequencyResponse:
    """Estimate H1 over the longest run of samples without a missing sample.

    simulated: (T, q), simulated outputs over the record.
    output: Column of the outputs.
    """
    if record.n_inputs != 1:
        raise InputError(
            f"{record.name}: a frequency response needs one input, not {record.n_inputs}"
        )
    if not record.uniform:
        raise InputError(f"{record.name}: a frequency response needs uniform sampling; resample it")
    measured = record.y[:, output_number(output, record.n_outputs)]
    a, b = _longest_run(np.isfinite(measured))
    length = 2 ** int(np.log2(max(b - a, 1) / AVERAGES)) if b - a >= AVERAGES else 0
    if length < SHORTEST:
        raise InputError(
            f"{record.name}: {b - a} samples in a row are measured, and a frequency response needs "
            f"{AVERAGES * SHORTEST}: give a longer record"
        )
    from scipy import signal  # its import takes half a second

    length = min(length, LONGEST)
    rate = 1.0 / float(np.diff(record.t).mean())
    u, y, simulation = record.u[a:b, 0], record.y[a:b, output], simulated[a:b, output]

    def spectrum(first: Array, second: Array) -> NDArray[np.complex128]:
        spectra = signal.csd(first, second, fs=rate, nperseg=length, detrend="constant")
        return np.asarray(spectra[1], dtype=np.complex128)

    frequency = np.asarray(np.fft.rfftfreq(length, 1 / rate), dtype=np.float64)
    power = spectrum(u, u).real
    # The line at zero holds what detrending has left.
    lines = (power > EXCITED * power.max()) & (frequency > 0)
    frequency, uu, yy = frequency[lines], power[lines], spectrum(y, y).real[lines]
    uy, us = spectrum(u, y)[lines], spectrum(u, simulation)[lines]
    coherence = np.clip(np.square(np.abs(uy)) / (uu * yy), 1e-12, 1.0)
    segments = (b - a - length // 2) // (length - length // 2)
    averages = segments / (1 + 2 * HANN_OVERLAP * (segments - 1) / segments)
    measured = uy / uu
    return FrequencyResponse(
        name=record.name,
        frequency=frequency,
        measured=measured,
        simulated=us / uu,
        coherence=coherence,
        standard_error=np.abs(measured) * np.sqrt((1 - coherence) / (2 * averages * coherence)),
        unit=frequency_unit(record.t_unit),
    )


def _longest_run(measured: NDArray[np.bool_]) -> tuple[int, int]:
    """First and last + 1 of the longest run of True; (0, 0) without any."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], measured.astype(int), [0]])))
    if len(edges) == 0:
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])
