"""Chains of `nutpie` on a log density: in machine code, or by Python, whose chains wait."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.estimate.batching import BatchedEvaluation
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts.coordinates import Coordinates
from smcpn.estimate.nuts.native import NativeDensity, native_density
from smcpn.results.nuts import ChainStatistics

Array = NDArray[np.float64]

NAME = "theta"
"""Of the coordinates of a draw among the variables of nutpie."""


@dataclass(frozen=True)
class Chains:
    """Draws of C chains and what the sampler did for them.

    Attributes
    ----------
    theta : ndarray, (C, D, d)
        Unconstrained coordinates.
    statistics : ChainStatistics
    interrupted : bool
        Whether there are fewer than were asked for.
    """

    theta: Array
    statistics: ChainStatistics
    interrupted: bool


@dataclass(frozen=True)
class ChainSettings:
    """How many chains and draws, and with which randomness; ``progress`` shows nutpie's bars."""

    draws: int
    tune: int
    chains: int
    seed: int
    threads: int
    progress: bool


def nutpie() -> Any:
    """The package of the sampler.

    Raises
    ------
    InputError
        If it is not installed.
    """
    with warnings.catch_warnings():
        # What it imports announces its next version.
        warnings.simplefilter("ignore")
        try:
            import_module("nutpie.compile_pymc")
            return import_module("nutpie")
        except ImportError:
            raise InputError(
                "smcpn.nuts needs the package nutpie: install it with pip install smcpn[nuts]"
            ) from None


def sampled(density: LogDensity, coordinates: Coordinates, settings: ChainSettings) -> Chains:
    """Run the chains, side by side; the same draws for any number of threads.

    An interrupt ends them with the draws that all have.
    """
    native = native_density(density, coordinates.centre, coordinates.factor)
    if native is not None:
        return _run(_native_model(native, coordinates), settings, settings.threads)
    batch = BatchedEvaluation(_Positions(density, coordinates), settings.chains)
    # A chain that waits for one that has not begun would wait for ever: all run at once.
    model = _python_model(batch, coordinates)
    return _run(model, settings, settings.chains, batch.release)


class _Positions:
    """A log density of positions, for `BatchedEvaluation`."""

    def __init__(self, density: LogDensity, coordinates: Coordinates) -> None:
        self._density, self._coordinates = density, coordinates

    def value_and_gradient(self, positions: Array) -> tuple[Array, Array]:
        """Values (n,) and gradients (n, d) at positions (n, d)."""
        value, gradient = self._density.value_and_gradient(self._coordinates.theta(positions))
        along = self._coordinates.along(gradient)
        return np.where(np.isfinite(along).all(axis=1), value, -np.inf), along

    def hessian(self, positions: Array) -> Array:
        """Not asked for."""
        raise NotImplementedError


class _Caller:
    """The log density for one chain: takes part in joint evaluations from its first call on.

    nutpie makes one for each chain and one that it does not call, and drops it at the chain's end.
    """

    def __init__(self, batch: BatchedEvaluation, numbers: Iterator[int]) -> None:
        self._batch, self._numbers, self._number = batch, numbers, -1

    def __call__(self, position: Array) -> tuple[float, Array]:
        if self._number < 0:
            self._number = next(self._numbers)
            weakref.finalize(self, self._batch.end)
        value, gradient = self._batch.evaluate(self._number, "value_and_gradient", position)
        return float(value), gradient


def _native_model(native: NativeDensity, coordinates: Coordinates) -> Any:
    d = len(coordinates.centre)
    kind = import_module("nutpie.compile_pymc").CompiledPyMCModel
    given: dict[str, Any] = {
        "dims": None,
        "compiled_logp_func": SimpleNamespace(address=native.log_density),
        "compiled_expand_func": SimpleNamespace(address=native.coordinates),
        "initial_point_func": coordinates.start,
        "shared_data": {},
        "shared_var_keys": {},
        "user_data": native.data,
        "n_expanded": d,
        "shape_info": ([NAME], None, [(d,)]),
        "logp_func": None,
        # What nutpie keeps as long as chains run.
        "expand_func": native,
        "_n_dim": d,
        "_shapes": {NAME: (d,)},
        "_coords": None,
    }
    # Which of them there are depends on the version.
    return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})


def _python_model(batch: BatchedEvaluation, coordinates: Coordinates) -> Any:
    d, numbers = len(coordinates.centre), itertools.count()

    def expanded(position: Array) -> dict[str, Array]:
        return {NAME: coordinates.theta(position[None, :])[0]}

    return import_module("nutpie.compiled_pyfunc").from_pyfunc(
        ndim=d,
        make_logp_fn=lambda: _Caller(batch, numbers),
        make_expand_fn=lambda *seeds: expanded,
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(d,)],
        expanded_names=[NAME],
        make_initial_point_fn=coordinates.start,
    )


def _run(
    model: Any, settings: ChainSettings, cores: int, release: Callable[[], None] = lambda: None
) -> Chains:
    """Run nutpie; ``release`` lets chains go on that wait for each other."""
    sampler = nutpie().sample(
        model, draws=settings.draws, tune=settings.tune, chains=settings.chains, cores=cores,
        seed=settings.seed, progress_bar=settings.progress, return_raw_trace=True, blocking=False,
    )  # fmt: skip
    interrupted = False
    try:
        trace = sampler.wait()
    except KeyboardInterrupt:
        release()
        trace, interrupted = sampler.abort(), True
    except BaseException:
        release()
        raise
    draws, stats = trace.get_arrow_trace()
    return _chains(draws, stats, settings.tune, interrupted)


def _chains(draws: list[Any], stats: list[Any], tune: int, interrupted: bool) -> Chains:
    """Cut the tables of the chains to draws that all of them have.

    An interrupt leaves chains of different lengths: as many are kept as make most draws.

    Raises
    ------
    KeyboardInterrupt
        If there are no draws after tuning.
    """
    longest = sorted((table.num_rows for table in stats), reverse=True)
    made = [(k + 1) * max(rows - tune, 0) for k, rows in enumerate(longest)]
    if max(made) == 0:
        raise KeyboardInterrupt("smcpn.nuts was interrupted before the first draw after tuning")
    length = longest[int(np.argmax(made))]
    kept = [k for k, table in enumerate(stats) if table.num_rows >= length]
    draws, stats = [draws[k] for k in kept], [stats[k] for k in kept]

    def column(name: str) -> Any:
        parts = [np.asarray(table.column(name).to_numpy())[:length] for table in stats]
        return np.stack(parts)

    pyarrow = import_module("pyarrow")
    theta = [
        pyarrow.array(table.column(NAME)).flatten().to_numpy().reshape(table.num_rows, -1)[:length]
        for table in draws
    ]
    steps = column("n_steps").astype(np.int64)
    statistics = ChainStatistics(
        divergent=column("diverging")[:, tune:].astype(np.bool_),
        depth=column("depth")[:, tune:].astype(np.int64),
        steps=steps[:, tune:],
        at_greatest_depth=column("maxdepth_reached")[:, tune:].astype(np.bool_),
        step_size=column("step_size")[:, tune:],
        energy=column("energy")[:, tune:],
        log_density=column("logp")[:, tune:],
        tune=tune,
        tune_steps=int(steps[:, :tune].sum()),
    )
    return Chains(np.stack(theta)[:, tune:], statistics, interrupted)
