"""Parallel searches whose points are evaluated in one call.

A kernel takes a lane for every parameter vector and direction, and lanes cost little by the dozen:
twenty searches that are evaluated one by one leave most of them empty. Each search runs in a thread
of its own and waits until all the others have a point to evaluate too; one call then serves all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Result = TypeVar("Result")


class Differentiable(Protocol):
    """A function of many points at once, with its derivatives."""

    def value_and_gradient(self, theta: Array, /) -> tuple[Array, Array]:
        """Values (n,) and gradients (n, d) at points (n, d)."""
        ...

    def hessian(self, theta: Array, /) -> Array:
        """Second derivatives, (n, d, d)."""
        ...


class AbandonedError(Exception):
    """Another search has failed, or the user has interrupted."""


class BatchedEvaluation:
    """Evaluates a function at one point of each of several searches, in one call.

    Which points make a call depends on the searches alone, not on the threads' timing.

    The result of ``function`` at a point must not depend on the other points; ``searches`` is the
    number of those that have not ended.
    """

    def __init__(self, function: Differentiable, searches: int) -> None:
        self._function, self._searches = function, searches
        self._changed = Condition()
        self._requests: dict[int, tuple[str, Array]] = {}
        self._results: dict[int, Any] = {}
        self._failure: BaseException | None = None

    def result(self, number: int, method: str, point: Array) -> Any:
        """Return a method of the function at a point (d,) of a search, after all have one."""
        with self._changed:
            self._requests[number] = (method, point)
            self._evaluate_if_complete()
            self._changed.wait_for(lambda: number in self._results or self._failure is not None)
            if self._failure is not None:
                raise self._failure
            return self._results.pop(number)

    def end(self) -> None:
        """Remove a search that has ended from those that an evaluation waits for."""
        with self._changed:
            self._searches -= 1
            self._evaluate_if_complete()

    def release(self) -> None:
        """Let every search that waits go on, and wait no longer in those to come."""
        with self._changed:
            self._searches = 0
            self._evaluate_if_complete()

    def abandon(self, failure: BaseException) -> None:
        """Raise ``failure`` in every search, where it waits or evaluates next."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _evaluate_if_complete(self) -> None:
        if not self._requests or len(self._requests) < self._searches:
            return
        requests, self._requests = sorted(self._requests.items()), {}
        for method in ("value_and_gradient", "hessian"):
            numbers = [number for number, (wanted, _) in requests if wanted == method]
            points = [point for _, (wanted, point) in requests if wanted == method]
            if not numbers:
                continue
            try:
                result = getattr(self._function, method)(np.stack(points))
            except BaseException as failure:
                self._failure = failure
                break
            rows = result if method == "hessian" else zip(*result, strict=True)
            self._results.update(zip(numbers, rows, strict=True))
        self._changed.notify_all()


class Caller:
    """The function for one search: a point at a time."""

    def __init__(self, batch: BatchedEvaluation, number: int) -> None:
        self._batch, self._number = batch, number

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """Value and gradient (d,) at a point (d,)."""
        value, gradient = self._batch.result(self._number, "value_and_gradient", point)
        return float(value), gradient

    def hessian(self, point: Array) -> Array:
        """Second derivatives (d, d) at a point (d,)."""
        return self._batch.result(self._number, "hessian", point)


def run_batched(
    function: Differentiable, searches: Sequence[Callable[[Caller], Result]]
) -> list[Result]:
    """Run searches in parallel, each with a `Caller` of ``function``, and return their results.

    Results come in the order of the searches. The first exception ends all of them.
    """
    batch = BatchedEvaluation(function, len(searches))

    def run(number: int) -> Result:
        try:
            return searches[number](Caller(batch, number))
        finally:
            batch.end()

    if len(searches) == 1:
        return [run(0)]
    with ThreadPoolExecutor(len(searches), "search") as pool:
        futures = [pool.submit(run, number) for number in range(len(searches))]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # An interrupt reaches this thread alone; the others would search on.
            batch.abandon(AbandonedError())
            raise
