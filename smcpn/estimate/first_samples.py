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
from smcpn.model.learned_scales import learned_scales
from smcpn.model.record import Record
from smcpn.smc.start import MixtureStart

Array = NDArray[np.float64]
Hills = Callable[[LogDensity, np.random.Generator], Array]


class SearchesOfFirstSamples:
    """Starts near the posterior given so many samples, as `smcpn.smc.looks.Searches`.

    ``function`` returns the log-likelihood of all records, and is called at the first search;
    ``records`` makes records of a number of samples, or none where they are not at hand; ``hills``
    makes of a log posterior and a generator the draws from the prior that are searched from.
    """

    def __init__(
        self,
        function: Callable[[], LogLikelihood],
        records: Callable[[int], Sequence[Record]],
        hills: Hills = likely_hills,
    ) -> None:
        self._make, self._records, self._hills = function, records, hills

    @cached_property
    def function(self) -> LogLikelihood:
        """The log-likelihood of all records."""
        return self._make()

    def prepare(self) -> None:
        """Compile all that a search needs; what has no gradient is told at the first one."""
        with suppress(InputError):
            self.function.prepare()

    def hills(self, samples: int) -> Array:
        """Return draws from the prior on hills of the posterior given so many samples, (S, d)."""
        density = self._density(samples)
        if density is None:
            return np.empty((0, len(self.function.names)))
        return self._hills(density, np.random.default_rng(samples))

    def __call__(self, samples: int, points: Array) -> MixtureStart | None:
        """Mixture that searches from points on the first samples find, or None."""
        density = self._density(samples)
        if density is None:
            return None
        modes = modes_near(density, points)
        problem = density.log_likelihood.problem
        return MixtureStart(problem.prior, modes, learned_scales(problem)) if len(modes) else None

    def _density(self, samples: int) -> LogDensity | None:
        """Log posterior given so many samples; None where these are not at hand."""
        records = self._records(samples)
        return LogDensity(self.function.of_samples(records)) if records else None


def first_samples(records: Sequence[Record], samples: int) -> list[Record]:
    """Return records of the first samples of those that follow each other."""
    begins = np.cumsum([0, *map(len, records)])
    left = takewhile(lambda one: one[1] > 0, zip(records, samples - begins[:-1], strict=True))
    return [record[: int(count)] if count < len(record) else record for record, count in left]
