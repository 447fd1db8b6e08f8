"""Chains of `nutpie` on a log density: in machine code, or by Python, whose chains wait.

They run in coordinates, and from points, in which a posterior that a search found is simple.
"""

from __future__ import annotations

import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.status import Say
from smcpn.errors import InputError
from smcpn.estimate.batching import BatchedEvaluation
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts.native import DATA, NativeDensity, native_density
from smcpn.estimate.shift import bounded_root
from smcpn.likelihood.contract import Arrays, Batch, Batchable
from smcpn.likelihood.gradient import FORWARD
from smcpn.results.laplace import Laplace
from smcpn.results.nuts import ChainStatistics
from smcpn.smc.distributed.workers import WITNESSES, Workers, distributed
from smcpn.smc.start import Modes

Array = NDArray[np.float64]

NAME = "theta"
"""Of the coordinates of a draw among the variables of nutpie."""


GRADIENTS = 7.0
"""That a draw takes, by which the cost of a chain is foreseen."""
TICK_SECONDS = 0.002
"""How often the chains are looked at."""
STATISTICS: dict[str, tuple[str, Any]] = {
    "divergent": ("diverging", np.bool_),
    "depth": ("depth", np.int64),
    "steps": ("n_steps", np.int64),
    "at_greatest_depth": ("maxdepth_reached", np.bool_),
    "step_size": ("step_size", np.float64),
    "energy": ("energy", np.float64),
    "log_density": ("logp", np.float64),
}
"""Columns of nutpie that make the fields of `ChainStatistics`, and their type."""


@dataclass(frozen=True)
class Chains:
    """Draws of C chains and what the sampler did for them.

    theta: (C, D, d), unconstrained coordinates.
    interrupted: Whether there are fewer than were asked for.
    """

    theta: Array
    statistics: ChainStatistics
    interrupted: bool


@dataclass(frozen=True)
class ChainSettings:
    """Numbers of draws and of simultaneous chains, and a seed for each chain."""

    draws: int
    tune: int
    seeds: NDArray[np.uint64]
    threads: int


def nutpie() -> Any:
    """The package of the sampler.

    Raises `InputError` if it is not installed.
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


def sampled(
    density: LogDensity,
    coordinates: Coordinates,
    settings: ChainSettings,
    workers: Workers | None = None,
    say: Say = lambda text: None,
) -> Chains:
    """Run the chains, side by side or on workers; the same draws wherever they run.

    An interrupt ends them with the draws that all have; those on workers are lost.
    """
    chains, tune, draws = len(settings.seeds), settings.tune, settings.draws
    native = native_density(density, coordinates.centre, coordinates.factor)
    if native is not None:
        home = NativeChains(native, coordinates, settings.threads, say)
        found = distributed(home, workers).sampled(settings.seeds, tune, draws)
    else:
        batch = BatchedEvaluation(_Positions(density, coordinates), chains)
        models = [_PythonModel(batch, coordinates, number) for number in range(chains)]
        # A chain that waits for one that has not begun would wait for ever: all run at once.
        found = _run(models, replace(settings, threads=chains), say, batch.release)
    theta, tune_steps, *columns = found
    interrupted = theta.shape != (draws, len(coordinates.centre), chains)
    statistics: dict[str, Any] = {
        name: np.ascontiguousarray(column.T)
        for name, column in zip(STATISTICS, columns, strict=True)
    }
    return Chains(
        np.ascontiguousarray(theta.transpose(2, 0, 1)),
        ChainStatistics(**statistics, tune=tune, tune_steps=int(tune_steps.sum())),
        interrupted,
    )


@dataclass(frozen=True)
class NativeChains(Batchable):
    """Chains on a log density in machine code, each of which is a run of its own.

    threads: Chains that run at the same time.
    """

    density: NativeDensity
    coordinates: Coordinates
    threads: int = 1
    say: Say | None = None

    batches: ClassVar = ("sampled",)
    # One chain takes as long as all, each with a worker of its own.
    one_tells_form: ClassVar = False
    lanes = 1

    @override
    def detached(self) -> NativeChains:
        """Copy for one chain at a time, which can be pickled."""
        return NativeChains(self.density, self.coordinates)

    @override
    def work(self, batch: Batch) -> float:
        """Return the log densities that are foreseen for each chain."""
        draws = batch.arguments.get("tune", 0) + batch.arguments.get("draws", 0)
        return GRADIENTS * draws if draws else 1.0

    @override
    def trial(self, batch: Batch) -> Batch:
        """Return the log densities of a few positions."""
        d = len(self.coordinates.centre)
        positions = np.linspace(0.0, 1.0, WITNESSES)[:, None] * np.ones(d)
        return Batch("value", {"positions": positions})

    def value(self, positions: Array) -> Array:
        """Log density at positions (n, d), (n,)."""
        return self.density.value(positions)

    def sampled(self, seeds: NDArray[np.uint64], tune: int, draws: int) -> Arrays:
        """Run a chain from each seed; return what `arrays_of` does."""
        models = [_NativeModel(self.density, self.coordinates) for _ in seeds]
        settings = ChainSettings(int(draws), int(tune), seeds, self.threads)
        return _run(models, settings, self.say or (lambda text: None))


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

    nutpie makes one for the chain and one that it does not call, and drops it at the chain's end.
    """

    def __init__(self, batch: BatchedEvaluation, number: int) -> None:
        self._batch, self._number, self._called = batch, number, False

    def __call__(self, position: Array) -> tuple[float, Array]:
        if not self._called:
            self._called = True
            weakref.finalize(self, self._batch.end)
        value, gradient = self._batch.result(self._number, "value_and_gradient", position)
        return float(value), gradient


class _NativeModel:
    """Density that nutpie calls for a chain in machine code.

    Attributes
    ----------
    compiled
        The model as nutpie knows it.
    """

    def __init__(self, native: NativeDensity, coordinates: Coordinates) -> None:
        d, self._data = len(coordinates.centre), native.data
        kind = import_module("nutpie.compile_pymc").CompiledPyMCModel
        given: dict[str, Any] = {
            "dims": None,
            "compiled_logp_func": SimpleNamespace(address=native.log_density),
            "compiled_expand_func": SimpleNamespace(address=native.coordinates),
            "initial_point_func": coordinates.start,
            "shared_data": {},
            "shared_var_keys": {},
            "user_data": self._data,
            "n_expanded": d,
            "shape_info": ([NAME], None, [(d,)]),
            "logp_func": None,
            # What nutpie keeps as long as the chain runs.
            "expand_func": native,
            "_n_dim": d,
            "_shapes": {NAME: (d,)},
            "_coords": None,
        }
        # Which of them there are depends on the version.
        known = {field.name for field in fields(kind)} & given.keys()
        self.compiled = kind(**{name: given[name] for name in known})

    @property
    def drawn(self) -> int:
        """Draws so far, those of tuning included."""
        return int(self._data[DATA.index("drawn")])


class _PythonModel:
    """Density that nutpie calls for a chain, evaluated with that of the others.

    Attributes
    ----------
    compiled
        The model as nutpie knows it.
    drawn : int
        Draws so far, those of tuning included.
    """

    def __init__(self, batch: BatchedEvaluation, coordinates: Coordinates, number: int) -> None:
        d, self.drawn = len(coordinates.centre), 0

        def expanded(position: Array) -> dict[str, Array]:
            self.drawn += 1
            return {NAME: coordinates.theta(position[None, :])[0]}

        self.compiled = import_module("nutpie.compiled_pyfunc").from_pyfunc(
            ndim=d,
            make_logp_fn=lambda: _Caller(batch, number),
            make_expand_fn=lambda *seeds: expanded,
            expanded_dtypes=[np.dtype(np.float64)],
            expanded_shapes=[(d,)],
            expanded_names=[NAME],
            make_initial_point_fn=coordinates.start,
        )


def _run(
    models: Sequence[_NativeModel | _PythonModel],
    settings: ChainSettings,
    say: Say,
    release: Callable[[], None] = lambda: None,
) -> Arrays:
    """Run nutpie for every model; ``release`` lets chains go on that wait for each other."""
    waiting = deque(zip(models, settings.seeds, strict=True))
    begun, running = list[Any](), list[Any]()
    total = len(models) * (settings.tune + settings.draws)
    try:
        while waiting or running:
            while waiting and len(running) < settings.threads:
                running.append(_begun(*waiting.popleft(), settings))
                begun.append(running[-1])
            say(f"nuts: {sum(model.drawn for model in models)} of {total} draws")
            time.sleep(TICK_SECONDS)
            running = [one for one in running if not _has_ended(one)]
        traces = [one.wait() for one in begun]
    except KeyboardInterrupt:
        release()
        traces = [one.abort() for one in begun]
    except BaseException:
        release()
        raise
    return arrays_of(traces, settings.tune)


def _begun(model: _NativeModel | _PythonModel, seed: np.uint64, settings: ChainSettings) -> Any:
    """A chain that has begun: nutpie numbers those of a run, and each is a run of its own."""
    return nutpie().sample(
        model.compiled, draws=settings.draws, tune=settings.tune, chains=1, cores=1,
        seed=int(seed), progress_bar=False, return_raw_trace=True, blocking=False,
    )  # fmt: skip


def _has_ended(chain: Any) -> bool:
    try:
        return chain.is_finished
    except TimeoutError:
        return False


def arrays_of(traces: Sequence[Any], tune: int) -> Arrays:
    """Draws (D, d, C), steps of tuning (C,), and each of `STATISTICS`, (D, C), after tuning.

    An interrupt leaves chains of different lengths: as many are kept as make most draws.

    Raises `KeyboardInterrupt` if there are no draws after tuning.
    """
    tables = [(draws[0], stats[0]) for draws, stats in (one.get_arrow_trace() for one in traces)]
    lengths = sorted((stats.num_rows for _, stats in tables), reverse=True)
    made = [(k + 1) * max(rows - tune, 0) for k, rows in enumerate(lengths)]
    if not made or max(made) == 0:
        raise KeyboardInterrupt("smcpn.nuts was interrupted before the first draw after tuning")
    length = lengths[int(np.argmax(made))]
    kept = [(draws, stats) for draws, stats in tables if stats.num_rows >= length]
    pyarrow = import_module("pyarrow")

    def column(name: str, kind: Any) -> Any:
        found = [np.asarray(stats.column(name).to_numpy())[:length] for _, stats in kept]
        return np.stack(found, axis=-1).astype(kind)

    theta = [
        pyarrow.array(draws.column(NAME)).flatten().to_numpy().reshape(draws.num_rows, -1)[:length]
        for draws, _ in kept
    ]
    columns = {name: column(*found) for name, found in STATISTICS.items()}
    tune_steps = columns["steps"][:tune].sum(axis=0)
    after = [column[tune:] for column in columns.values()]
    return np.stack(theta, axis=-1)[tune:], tune_steps, *after


BENT = 1e4
"""Mean curvature between the mode and draws of the Gaussian about it, which should be one, from
which chains are not begun: steps would be a hundred times as short, or far shorter where it is
uneven, and no trajectory of nutpie's 1023 would lead anywhere."""
JUDGED = 16
"""Draws that judge it, above as many parameters as have gradients by a reverse pass."""


@dataclass(frozen=True)
class Coordinates:
    """Positions x with theta = centre + factor x: near a normal posterior they have unit variance.

    So the metric of a sampler that begins with the identity, and adapts a diagonal one, begins as
    that of the Gaussian about the mode, its correlations included.

    centre: (d,)
    factor: (d, d), lower triangular.
    modes: Modes that the chains start about.
    """

    centre: Array
    factor: Array
    modes: Modes

    def start(self, seed: int) -> Array:
        """Draw a start, (d,), from the Gaussian about one of the modes."""
        rng = np.random.default_rng(seed)
        k = rng.choice(len(self.modes.shares), p=self.modes.shares)
        theta = self.modes.means[k] + self.modes.factors[k] @ rng.standard_normal(len(self.centre))
        return np.asarray(np.linalg.solve(self.factor, theta - self.centre), dtype=np.float64)

    def theta(self, positions: Array) -> Array:
        """Unconstrained coordinates of positions, both (n, d)."""
        # Row by row: the rounding of a product of matrices depends on how many rows there are.
        return np.stack([self.centre + self.factor @ position for position in positions])

    def along(self, gradients: Array) -> Array:
        """Gradients by positions of gradients by the unconstrained coordinates, both (n, d)."""
        return np.stack([gradient @ self.factor for gradient in gradients])


def coordinates_of(found: Laplace, density: LogDensity) -> Coordinates:
    """Coordinates about the highest mode, scaled by its covariance.

    Where the posterior has no Gaussian there, as on a ridge, no direction is wider than the prior.

    Raises `InputError` if no search found a point at all.
    """
    if found.modes:
        top = found.modes[0]
        return Coordinates(top.theta, top.factor, found.start)
    if not found.maximum.found:
        raise InputError(f"there is no point to start at: {found.reason}")
    centre, function = found.maximum.theta, density.log_likelihood
    precision = np.diag(density.scale**-2.0)
    if function.expands:
        precision = density.expansion(centre[None, :])[2][0]
    root = bounded_root(precision, density.scale)
    covariance = root @ root.T
    if not np.isfinite(covariance).all():
        covariance = np.diag(density.scale**2)
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    one = Modes(
        shares=np.ones(1),
        means=centre[None, :],
        factors=factor[None, :, :],
        searches=len(found.maximum.starts),
        log_evidence=float("nan"),
    )
    return Coordinates(centre, factor, one)


def check_bend(coordinates: Coordinates, density: LogDensity) -> None:
    """Refuse a posterior of many parameters that the Gaussian about its mode is no picture of.

    Of functions of many weights data determine a few combinations, exactly, which differ from place
    to place: steps that are short enough take no chain through such a shell.

    Raises `InputError` with what there is instead.
    """
    d = len(coordinates.centre)
    if d <= FORWARD:
        return
    drawn = coordinates.theta(np.random.default_rng(0).standard_normal((JUDGED, d)))
    fall = density.value(coordinates.centre[None, :])[0] - np.median(density.value(drawn))
    if 2.0 * fall / d > BENT:
        raise InputError(
            f"the posterior of {d} parameters is bent: draws of the Gaussian about its mode are "
            f"less likely than it by {fall:.2g} nats, where {d / 2:.0f} are usual, and chains "
            "would hardly move; take fewer parameters, or give start= to run all the same"
        )
