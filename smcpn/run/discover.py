"""`smcpn.discover`: which terms stand in the equations of measured records, with probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from smcpn.base.arguments import ANYTHING, Count, FileName, Positive, Seconds, Seed, checked
from smcpn.base.status import status
from smcpn.checkpoint.codec import plain
from smcpn.checkpoint.container import DAMAGED, DISCOVERY
from smcpn.checkpoint.discovery import (
    DiscoveryHeader,
    StoredDiscovery,
    StoredSystem,
    discovery_image,
    discovery_in,
    read_discovery,
    system_fingerprint,
)
from smcpn.checkpoint.fingerprint import data_fingerprint
from smcpn.checkpoint.run import (
    CheckpointWriter,
    Status,
    header_image,
    now,
    own_records,
    read_records,
)
from smcpn.codegen.threads import one_blas_thread
from smcpn.discovery.equations.known import Known
from smcpn.discovery.equations.library import Library
from smcpn.discovery.question import (
    SPIKE_AND_SLAB,
    DiscoverySettings,
    Question,
    check_alike,
    question_of,
)
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.search.supports import SLABS
from smcpn.discovery.shrinkage.priors import HorseshoePrior, LaplacePrior, Shrinkage
from smcpn.discovery.stages import DiscoveryProgress, DiscoveryRun, DiscoveryState
from smcpn.errors import InputError, one_of
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.run.progress import check_progress
from smcpn.run.restore import (
    GOES_ON,
    MOST_UNSEEN,
    InMemory,
    compare_processors,
    goes_on,
    locked,
    require_same,
    written_records,
)
from smcpn.smc.distributed.engines import checked_executor
from smcpn.smc.distributed.workers import Workers, workers_of
from smcpn.smc.replicates import SamplerWarning
from smcpn.smc.settings import EXISTING


@checked
def discover(
    records: Record | Sequence[Record],
    *,
    library: Library | Mapping[str, Library] | str,
    states: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    known: Known | None = None,
    constraints: Sequence[str] = (),
    observe: Sequence[str] | None = None,
    noise: str | Sequence[Positive] = "unknown",
    delay: Annotated[Mapping[str, Any] | None, ANYTHING] = None,
    method: str = "search",
    prior: Annotated[str | Shrinkage, ANYTHING] = SPIKE_AND_SLAB,
    slabs: Sequence[Positive] = SLABS,
    solver: Annotated[Solver | str | None, ANYTHING] = None,
    likelihood: str | None = None,
    particles: Count | None = None,
    replicates: Count | None = None,
    seed: Seed = 0,
    threads: Count | None = None,
    executor: Annotated[Executor | str | None, ANYTHING] = None,
    progress: Annotated[bool | Callable[[DiscoveryProgress], None] | None, ANYTHING] = None,
    checkpoint: FileName | None = None,
    checkpoint_every: Seconds = 60.0,
    existing: str = "resume",
) -> Discovery:
    """Return the equations that records obey, as probabilities of the terms of a library.

    Parameters
    ----------
    records : Record or sequence of Record
        Trajectories of one system, of any lengths and initial states; NaN where a sample is
        missing.
    library : Library, mapping of str to Library, or str
        Terms that the equations may have, of each equation or by state. A text is read as by the
        command line: ``"poly(3) + sin"``.
    states : sequence of str, optional
        Names. By default those of ``known``, or ``x0``, ``x1``, ... as many as there are outputs.
    inputs : sequence of str, optional
        Names; ``u``, or ``u0``, ``u1``, ... by default.
    known : mapping or ODE, optional
        What is known of the equations: ``{"x": "v"}`` for x' = v, see `CandidateSystem.of`.
    constraints : sequence of str
        Relations between coefficients: ``"x'[y] = -y'[x]"``, ``"v'[v] < 0"``.
    observe : sequence of str, optional
        State that each output measures; the first ones by default. The others are hidden.
    noise : {"unknown", "relative", "y_sd"} or sequence of float
        Its standard deviation for each output, where it is known, up to a common factor. That of
        ``"y_sd"`` is the records' own for each value, and learned of an output where that is NaN;
        what comes back is that of values of the mean precision. ``"relative"`` noise multiplies the
        outputs, all positive, by exp(e); what comes back is its standard deviation at their root
        mean square; it goes with prior ``"spike-and-slab"`` alone.
    delay : mapping of str to float, optional
        Dead times of inputs, ``{"u": 0.3}``: the equations have u(t - 0.3). They are known, as lags
        and fractions of doses.
    method : {"search"}
        How equations are looked for: a search for probable supports, each of which has its evidence
        by Laplace's method at its own maximum.
    prior : {"spike-and-slab", "laplace", "horseshoe"}, LaplacePrior or HorseshoePrior
        Of the coefficients, of which some are zero, or all are shrunk. With the first a term stands
        in an equation or not. With the others no coefficient is zero and most are small: where
        others have the probability of a term, these have the level of the widest credible interval
        of its coefficient that leaves out zero. Their posterior is sampled by sequential Monte
        Carlo with the likelihood of whole trajectories, from the best model of the search.
    slabs : sequence of float
        Prior standard deviations of a coefficient that is not zero, in units of
        rms(dx/dt) / rms(term); the evidence is averaged over them.
    solver, likelihood : optional
        Of the trajectories of draws, as of `identify`, with a prior that shrinks.
    particles : int, optional
        Draws from the posterior of a prior that shrinks, 1000 by default.
    replicates : int, optional
        Independent runs with a prior that shrinks, which are pooled.
    seed : int
        The same seed gives the same bytes, for any ``threads``.
    threads : int, optional
        Threads of the kernels of trajectories, with a prior that shrinks; all processors by
        default.
    executor : concurrent.futures.Executor or str, optional
        Workers that lead models to their maxima, or evaluate large batches of trajectories with a
        prior that shrinks, to the same bytes. As of `identify`.
    progress : bool or callable, optional
        A line of status on standard error, as of `maximise`. A function is called with a
        `DiscoveryProgress` after each part instead.
    checkpoint : path, optional
        HDF5 file in which the discovery is kept while it goes on, and when the process is
        interrupted or terminated. One that ended early goes on from it to the same bytes, by this
        same call or by `resume`.
    checkpoint_every : float
        Most seconds between two writes.
    existing : {"resume", "overwrite", "raise"}
        What to do where ``checkpoint`` exists: go on with it, if it is of the same question, begin
        anew, or refuse.

    Returns
    -------
    Discovery

    Raises
    ------
    InputError
        One sentence that names the argument, its value and the remedy.
    ExecutorError
        If workers are lost for good, or one computes other bytes than this process.

    Warns
    -----
    SamplerWarning
        If draws are few or far from Gaussian, with a prior that shrinks; kept in ``warnings``.
    CheckpointWarning
        If the checkpoint cannot be written, or is damaged and its previous version is used.

    Notes
    -----
    An interrupt (Ctrl-C, the stop button of a notebook) raises `KeyboardInterrupt`. The discovery
    is kept in its checkpoint, or without one in memory until another run is interrupted: `resume`
    goes on to the same bytes.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> t = np.linspace(0.0, 5.0, 200)
    >>> record = smcpn.Record(y=np.exp(-t) + 0.01 * np.random.default_rng(0).normal(size=200), t=t)
    >>> smcpn.discover(record, library=smcpn.polynomials(2), states=["x"]).models[0].names
    ("x'[x]",)
    """
    every_option: dict[str, Any] = {
        "solver": solver, "likelihood": likelihood, "particles": particles,
        "replicates": replicates, "threads": threads,
    }  # fmt: skip
    drawing = {name: value for name, value in every_option.items() if value is not None}
    checked_executor(executor)
    check_progress(progress)
    one_of("existing", existing, EXISTING)
    question = question_of(
        records, library=library, states=states, inputs=inputs, known=known,
        constraints=constraints, observe=observe, noise=noise, method=method, prior=prior,
        slabs=slabs, delay={} if delay is None else delay, seed=seed, drawing=drawing,
    )  # fmt: skip
    if checkpoint is None:
        with workers_of(executor) as workers:
            memory = InMemory(partial(InterruptedDiscovery, question))
            found = discovered(lambda: DiscoveryRun(question, threads, workers), progress, memory)
    else:
        file = Path(checkpoint)
        with locked(file), workers_of(executor) as workers:
            stored = _stored(file, question, existing)
            begin, writer = written_discovery(
                file, question, stored, checkpoint_every, threads, workers
            )
            found = discovered(begin, progress, writer)
    warn_of(found, stacklevel=4)
    return found


def discovered(
    begin: Callable[[], DiscoveryRun],
    progress: bool | Callable[[DiscoveryProgress], None] | None,
    kept: CheckpointWriter[DiscoveryState] | InMemory[DiscoveryState],
) -> Discovery:
    """Advance a discovery to its end and return what it found.

    ``begin`` makes the run, and ``kept`` receives a snapshot after every part.
    """
    report = progress if callable(progress) else None
    with status(False if report else cast(bool | None, progress)), kept, one_blas_thread():
        run = begin()
        kept.offer(run.snapshot())
        while not run.ended:
            run.proceed()
            kept.offer(run.snapshot())
            if report is not None:
                report(run.progress())
        found = run.result()
    return replace(found, warnings=(*found.warnings, *kept.warnings))


def warn_of(found: Discovery, stacklevel: int) -> None:
    """Warn of what is doubtful about draws, for the caller of a public function."""
    if found.posterior is not None:
        for doubt in dict.fromkeys(found.posterior.warnings):
            warnings.warn(doubt, SamplerWarning, stacklevel=stacklevel)


@dataclass(frozen=True)
class InterruptedDiscovery:
    """A discovery that was interrupted, with its question, from which it is resumed."""

    question: Question
    state: DiscoveryState

    @property
    def sentence(self) -> str:
        """Sentence on how far it came, and what can be done with it."""
        return f"interrupted at {self.state.place}: {GOES_ON}"


def _stored(path: Path, question: Question, existing: str) -> StoredDiscovery | None:
    """Return the checkpoint that a discovery goes on from; None where it begins.

    Raises `InputError` if the file is of another question, or exists and ``existing`` is
    ``"raise"``.
    """
    if not goes_on(path, existing, lambda: own_records(path, DISCOVERY, discovery_in)):
        return None
    stored = read_discovery(path)
    _require_same_question(stored.header, question, path)
    return stored


def _require_same_question(header: DiscoveryHeader, question: Question, path: Path) -> None:
    """Refuse a question that is not the one of a checkpoint."""
    anew = "use another file, or existing='overwrite' to begin anew"
    other = header.model_fingerprint != system_fingerprint(question.system)
    if other or not np.array_equal(header.observe, question.observe):
        raise InputError(f"{path} belongs to another library, or other equations: {anew}")
    require_same(plain(header.settings), plain(_storable(question.settings)), path)
    fingerprint = data_fingerprint(question.arrivals.prepared, _samples(question))
    if header.data_fingerprint != fingerprint or header.n_samples != _samples(question):
        raise InputError(f"{path} belongs to other data: {anew}")


def _samples(question: Question) -> int:
    return sum(len(record) for record in question.arrivals.prepared)


def written_discovery(
    path: Path,
    question: Question,
    stored: StoredDiscovery | None,
    every: float,
    threads: int | None,
    workers: Workers | None,
) -> tuple[Callable[[], DiscoveryRun], CheckpointWriter[DiscoveryState]]:
    """Return a function that begins or restores a discovery, and the writer of its checkpoint."""
    header = _header(path, question, now() if stored is None else stored.header.created)

    def begin() -> DiscoveryRun:
        if stored is None:
            return DiscoveryRun(question, threads, workers)
        compare_processors(stored.header, path)
        try:
            run = DiscoveryRun(question, threads, workers, stored.state)
            run.verify()
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        return run

    retired = own_records(path, DISCOVERY, discovery_in)
    retired.discard(path.with_name(header.data_file))
    first = header_image(header, DISCOVERY)

    def image(state: DiscoveryState, status: Status) -> bytes:
        return discovery_image(state, status, first)

    return begin, CheckpointWriter(path, image, "", every, retired)


def _storable(settings: DiscoverySettings) -> DiscoverySettings:
    """Return settings as a file can hold them: without a prior of one's own."""
    own = type(settings.prior) not in (LaplacePrior, HorseshoePrior)
    return replace(settings, prior=None) if own else settings


def _header(path: Path, question: Question, created: str) -> DiscoveryHeader:
    """Return the header of a discovery's checkpoint, and write its file of records."""
    settings, reason = _storable(question.settings), ""
    if settings.prior is None and question.settings.prior is not None:
        reason = f"the prior is a {type(question.settings.prior).__name__} of your own"
    fingerprint = data_fingerprint(question.arrivals.prepared, _samples(question))
    data_file, unwritten = written_records(path, fingerprint, question.records)
    return DiscoveryHeader(
        settings=settings,
        observe=question.observe,
        coefficients=len(question.system.coefficients),
        system=StoredSystem(question.system.candidates, question.system.known),
        not_stored=reason or unwritten,
        model_fingerprint=system_fingerprint(question.system),
        data_fingerprint=fingerprint,
        n_samples=_samples(question),
        data_file=data_file.name,
        created=created,
    )


def stored_question(stored: StoredDiscovery, path: Path) -> Question:
    """Return the question of a checkpoint, of plain data and its file of records.

    Raises `InputError` if a part could not be stored, the records are absent or others, or the file
    asks for more particles than it has evidence of.
    """
    header = stored.header
    if header.not_stored:
        raise InputError(
            f"{path} does not hold the whole discovery: {header.not_stored}. Run your script "
            f"again, discover(..., checkpoint='{path}') goes on from here"
        )
    records = read_records(path.with_name(header.data_file))
    try:
        check_alike(records)
        system = header.system.restored(header.settings.constraints)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    question = Question(records, system, header.observe, header.settings)
    outputs, inputs = header.observe.shape[0], len(system.candidates.inputs)
    if (records[0].n_outputs, records[0].n_inputs) != (outputs, inputs):
        raise InputError(f"{path}: the records have other outputs or inputs: {DAMAGED}")
    _require_same_question(header, question, path)
    particles = (header.settings.particles or 0) * (header.settings.replicates or 1)
    if particles > MOST_UNSEEN and stored.state.shrinkage is None:
        raise InputError(
            f"{path} holds none of its {particles} particles yet: run your script again in place "
            "of the file"
        )
    return question
