"""`smcpn.identify`: the posterior of a problem by tempering or IBIS."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from smcpn.base.arguments import (
    Count,
    FileName,
    Particles,
    Replicates,
    Seconds,
    Seed,
    Share,
    StateParticles,
    Threads,
)
from smcpn.base.status import status
from smcpn.codegen.target import compiling_for
from smcpn.estimate.linearise import networks_of
from smcpn.model.problem import Problem, check_problem
from smcpn.model.solver import Solver
from smcpn.results.laplace import Laplace
from smcpn.results.posterior import Posterior
from smcpn.run.plan import approximation_of, approximation_of_networks
from smcpn.run.restore import (
    InMemory,
    InterruptedRun,
    checkpoint_of,
    linearised_before,
    locked,
    written_run,
)
from smcpn.run.run import Run
from smcpn.run.stages import identified
from smcpn.smc.distributed.workers import Workers, workers_of
from smcpn.smc.moves import MoveStrategy
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.sampler import Progress
from smcpn.smc.settings import AUTO, with_defaults
from smcpn.smc.settings import Settings as CheckedSettings
from smcpn.smc.start import Modes

_log = logging.getLogger(__name__)


def identify(
    problem: Problem,
    *,
    solver: Solver | str | None = None,
    likelihood: str | None = None,
    particles: Particles = 1000,
    seed: Seed | None = None,
    ess: Share = 0.5,
    block: Count = 64,
    max_moves: Count = MoveSettings.max_moves,
    moves: MoveStrategy | str | None = None,
    method: str | None = None,
    start: Laplace | str | None = None,
    state_particles: StateParticles | None = None,
    resampling: str = "systematic",
    replicates: Replicates = 1,
    threads: Threads = None,
    executor: Executor | str | None = None,
    cpu: str = "native",
    progress: bool | Callable[[Progress], None] | None = None,
    checkpoint: FileName | None = None,
    checkpoint_every: Seconds = 60.0,
    existing: str = "resume",
) -> Posterior:
    """Return the posterior of the parameters of a problem, by sequential Monte Carlo.

    It is a set of weighted particles, each with a value of every unknown parameter: where they lie
    is what prior and data together say about the system. `EKF0` and `EKF1` have the numerical error
    of the integration count, too.

    Where the model has networks, it is that of the problem which is linear in their weights about a
    maximum, see `linearise_networks`; ``method="tempering"`` keeps the weights themselves, in which
    particles hardly move.

    Parameters
    ----------
    problem : Problem
    solver : {EKF0, EKF1, AdaptiveEKF1, RK4, Rosenbrock, "auto"}
        How the ODE is solved, where ``"auto"`` looks whether it is stiff. `EKF0` and `EKF1` count
        the numerical error of the integration in the posterior, `RK4` and `Rosenbrock` do not. By
        default ``"auto"``: ``EKF0(order=3, steps="auto")``, or `Rosenbrock` where draws from the
        prior show that the problem is stiff, or what goes with ``likelihood``. Automatic steps
        begin coarse; the particles are carried over to finer ones until that shifts no direction by
        .1 posterior sd, nor the log-evidence by .1 (`Posterior.shift`).
    likelihood : {"marginal", "filtering", "dalton", "fenrir", "adaptive", "classical", \
"rosenbrock", "kalman", "kalman-iterated", "particle", "particle-bootstrap"}, optional
        How data and solver meet. By default the one of the solver: marginal for `EKF0`, filtering
        for `EKF1`, adaptive for `AdaptiveEKF1`, classical for `RK4`, rosenbrock for `Rosenbrock`;
        kalman where the problem has process noise, which the others do not take. Filtering, dalton
        and fenrir learn the solution from the data too, so that coarse steps and chaos do less
        harm.
    particles : int
        Number of particles.
    seed : int, optional
        The same seed gives the same bytes, for any ``threads`` and ``block``.
    ess : float
        Rejuvenate when the effective sample size falls below this share of ``particles``.
    block : int
        Most samples of one kernel call.
    max_moves : int
        Most moves of one rejuvenation, where ``moves`` is not given; by default 20, and 40 more
        where these leave over a fifth of the posterior where it was.
    moves : MoveStrategy or its name, optional
        ``"independent"`` (`IndependentMetropolis`), the default up to 20 parameters;
        ``"random-walk"`` (`RandomWalkMetropolis`) or ``"waste-free"`` (`WasteFree`). Or, where
        ``method`` is ``"auto"`` or ``"tempering"``, along the gradient: ``"hmc"``
        (`HamiltonianMonteCarlo`) or ``"mala"`` (`LangevinMetropolis`, one step); or
        ``"measured"`` (`MeasuredMoves`), independent ones or ``"hmc"`` by their efficiency, the
        default above 20 parameters if neither ``max_moves`` is given nor the likelihood an
        estimate.
    method : {"auto", "ibis", "tempering", "diffusion-tempering"}
        How particles get from the prior to the posterior: search for the modes and temper from
        there; assimilate one sample after the other, the whole record at rising exponents, or the
        whole record at a falling diffusion, which a likelihood with local maxima calls for. By
        default ``"auto"``, or ``"tempering"`` with a ``start``. Auto weighs the record two to five
        times, where IBIS takes twenty or, on a long record, hundreds; it is IBIS itself where there
        is no gradient to search with, until that has cost what tempering from the prior does. Only
        ``"ibis"`` has a posterior after every sample; what its particles lose at the first samples
        and later ones make likely, searches give back at the end, and at numbers of samples that
        double. `Posterior.method` tells what was done.
    start : Laplace or "auto", optional
        Begin near the posterior, at the modes that searches find: draw the particles there and
        temper them, in place of from the prior, as ``method="auto"`` does: few rejuvenations, the
        same posterior and evidence. They come from a mixture of a multivariate t at each mode of a
        Laplace approximation of the same problem, and a tenth from the prior; ``"auto"`` makes
        ``smcpn.laplace(problem, seed=seed)`` first, 24 to 96 searches, or fewer where they would
        cost more than the run. Where the Pareto k of the importance weights says that the mixture
        is not near enough to the posterior, the run begins again at modes three times as wide; or
        at the prior, and a warning says so, if a few particles from there end where no mode is. An
        approximation brings its solver and likelihood, where none is given.
    state_particles : int or "auto", optional
        Particles of each filter of the particle likelihood: each particle has a filter with
        ``likelihood="particle"``, which is SMC^2. By default ``"auto"``: 32, doubled while the
        variance of the log-likelihood at the mean of the particles is above one half. The posterior
        is exact for any number. The particles come from the posterior of the Kalman likelihood, and
        are carried over at rising exponents; with ``method="ibis"`` they follow the samples from
        the prior on, and a variance of one will do.
    resampling : {"systematic", "ssp", "stratified", "residual", "multinomial"}
        How particles are drawn again where their weights have become uneven.
    replicates : int
        Independent populations of ``particles`` each, combined by their evidence; they give the
        error of the log-evidence and R-hat.
    threads : int, optional
        Threads of the kernel; all processors by default.
    executor : concurrent.futures.Executor or str, optional
        Workers that evaluate large batches of particles, to the same bytes: processes of loky, the
        ``get_executor()`` of a `dask.distributed.Client`, an `mpi4py.futures.MPIPoolExecutor`; or
        ``"loky:8"``, ``"dask:tcp://host:8786"``, ``"mpi"``. The particles stay here. It pays
        where a batch costs more than some tenth of a second; see the page on scaling out.
    cpu : {"native", "portable"}
        Compile for this processor, or for any of some ten years (x86-64-v3): workers with others
        need that, and a run that goes on elsewhere to the same bytes. The environment variable
        ``SMCPN_CPU=portable`` says so of everything that a process compiles.
    progress : bool or callable, optional
        A progress line on standard error; by default where that is a terminal. A function is
        called with a `Progress` after each block instead.
    checkpoint : path, optional
        HDF5 file in which the run is kept while it goes on: after rejuvenations, and when the
        process is interrupted or terminated. A run that ended early goes on from it to the same
        bytes, by this same call or by `resume`.
    checkpoint_every : float
        Most seconds between two writes.
    existing : {"resume", "overwrite", "raise"}
        What to do where ``checkpoint`` exists: go on with it, if it is of the same problem and
        settings (the data may have become longer), begin anew, or refuse.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError
        For settings out of range, or when the model diverges for every particle.
    ExecutorError
        If workers are lost for good, or one computes other bytes than this process.

    Warns
    -----
    SamplerWarning
        For what deserves a second look; `Posterior.warnings` keeps the sentences.
    CheckpointWarning
        If the checkpoint cannot be written, or is damaged and its previous version is used.

    References
    ----------
    Chopin, N. (2002). A sequential particle filter method for static models. Biometrika 89.
    Longbottom et al. (2024), arXiv:2404.12923, for the likelihood.
    Chopin, N., Jacob, P. E., Papaspiliopoulos, O. (2013). SMC^2. JRSS B 75.

    Notes
    -----
    An interrupt (Ctrl-C, the stop button of a notebook) raises `KeyboardInterrupt`. The run is kept
    in its checkpoint, or without one in memory until another is interrupted: `resume` goes on to
    the same bytes, and `load` returns the posterior of the samples so far where there is one.

    Examples
    --------
    >>> posterior = smcpn.identify(problem, seed=1)  # doctest: +SKIP
    >>> print(posterior.summary())  # doctest: +SKIP
    """
    options: dict[str, Any] = {
        name: value for name, value in locals().items() if name in Settings.model_fields
    }
    check_problem(problem)
    # Before a search of minutes; the start is made first.
    given = Settings(**{**options, "start": None})
    with compiling_for(given.cpu), workers_of(given.executor) as workers:
        if networks_of(problem) and method in (None, AUTO):
            given = given.model_copy(update={"method": None})
            problem, given = _linear_in_networks(problem, given, start, workers, progress)
        else:
            given = _starting(given, start, problem)
        settings = given.resolved(problem)
        if given.checkpoint is None:
            memory = InMemory(partial(InterruptedRun, problem, settings))
            return identified(
                lambda: Run(problem, settings, given.threads, workers), progress, memory
            )
        file = Path(given.checkpoint)
        with locked(file):
            stored = checkpoint_of(file, problem, settings, given.existing)
            every = given.checkpoint_every
            begin, writer = written_run(
                file, problem, settings, stored, every, given.threads, workers
            )
            return identified(begin, progress, writer)


@with_defaults({k: v.default for k, v in inspect.signature(identify).parameters.items()})
class Settings(CheckedSettings, frozen=True):
    """Options of `identify`, checked, with its defaults."""

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)


def _linear_in_networks(
    problem: Problem,
    given: CheckedSettings,
    start: Laplace | str | None,
    workers: Workers | None,
    progress: bool | Callable[[Progress], None] | None,
) -> tuple[Problem, CheckedSettings]:
    """Return the problem linear in the weights of its networks, and settings with a start.

    What a checkpoint holds of them is not searched for again.
    """
    open_start = start is None or (isinstance(start, str) and start == AUTO)
    if given.checkpoint is not None and given.existing == "resume" and open_start:
        before = linearised_before(Path(given.checkpoint), problem)
        if before is not None:
            problem, run = before
            return problem, _begun_at(given, run.start, run.solver, run.likelihood)
    with status(None if progress is None else progress is True):
        found = approximation_of_networks(start, problem, given, workers)
    return found.problem, _starting(given, found, found.problem)


def _starting(
    given: CheckedSettings, start: Laplace | str | None, problem: Problem
) -> CheckedSettings:
    """Return the settings with a start, and with its solver and likelihood where none is given."""
    near = approximation_of(start, problem)
    if near is None:
        return given.model_copy(update={"start": start})
    return _begun_at(given, near.start, near.solver, near.likelihood)


def _begun_at(
    given: CheckedSettings, start: Modes | str | None, solver: Solver, likelihood: str
) -> CheckedSettings:
    changed: dict[str, Any] = {"start": start}
    if given.solver is None and given.likelihood in (None, likelihood):
        changed |= {"solver": solver, "likelihood": likelihood}
    return given.model_copy(update=changed)
