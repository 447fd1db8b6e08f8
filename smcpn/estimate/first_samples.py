"""Searches given the first samples of records, of which sequential samplers know no more.

Each is a few searches, from hills of the prior and from where the particles are most likely. They
use what was compiled once for all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.estimate.laplace import modes_near
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.multistart import likely_hills
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.model.record import Record
from smcpn.model.scaled_columns import learned_scales
from smcpn.smc.start import MixtureStart

Array = NDArray[np.float64]


class SearchesOfFirstSamples:
    """Starts near the posterior given so many samples, as `smcpn.smc.looks.Searches`.

    Parameters
    ----------
    function : callable
        Returns the log-likelihood of all records; called at the first search.
    records : callable
        From a number of samples to records of these; none where they are not at hand.
    """

    def __init__(
        self,
        function: Callable[[], LogLikelihood],
        records: Callable[[int], Sequence[Record]],
    ) -> None:
        self._make, self._records = function, records

    @cached_property
    def function(self) -> LogLikelihood:
        """The log-likelihood of all records."""
        return self._make()

    def prepare(self) -> None:
        """Compile all that a search needs; what has no gradient is told at the first one."""
        with suppress(InputError):
            self.function.prepare()

    def __call__(self, samples: int, points: Array) -> MixtureStart | None:
        """Mixture that searches on the first samples find, or None."""
        records = self._records(samples)
        if not records:
            return None
        density = LogDensity(self.function.of_samples(records))
        hills = likely_hills(density, np.random.default_rng(samples))
        modes = modes_near(density, np.concatenate([hills, points]))
        problem = density.log_likelihood.problem
        return MixtureStart(problem.prior, modes, learned_scales(problem)) if len(modes) else None


def first_samples(records: Sequence[Record], samples: int) -> list[Record]:
    """Return records of the first samples of those that follow each other."""
    begins = np.cumsum([0, *map(len, records)])
    left = takewhile(lambda one: one[1] > 0, zip(records, samples - begins[:-1], strict=True))
    return [record[: int(count)] if count < len(record) else record for record, count in left]
