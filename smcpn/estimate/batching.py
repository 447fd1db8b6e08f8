"""Searches that run side by side and have their evaluations made together.

A kernel takes a lane for every parameter vector and direction, and lanes cost little by the dozen:
twenty searches that ask one by one leave most of them empty. Each search runs in a thread of its
own and waits until all the others have asked too; one call then serves them all.
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


class Seat:
    """The function as one search sees it: a point at a time."""

    def __init__(self, rendezvous: Rendezvous, number: int) -> None:
        self._rendezvous, self._number = rendezvous, number

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """Value and gradient (d,) at a point (d,)."""
        value, gradient = self._rendezvous.ask(self._number, "value_and_gradient", point)
        return float(value), gradient

    def hessian(self, point: Array) -> Array:
        """Second derivatives (d, d) at a point (d,)."""
        return self._rendezvous.ask(self._number, "hessian", point)


class AbandonedError(Exception):
    """The searches are not to go on."""


class Rendezvous:
    """Where searches meet to have their points evaluated in one call.

    Who takes part in a call depends on the searches alone, not on the threads' timing.

    Parameters
    ----------
    function : Differentiable
        Its result at a point must not depend on the other points.
    members : int
        Number of searches that have not ended.
    """

    def __init__(self, function: Differentiable, members: int) -> None:
        self._function, self._members = function, members
        self._meeting = Condition()
        self._asked: dict[int, tuple[str, Array]] = {}
        self._answers: dict[int, Any] = {}
        self._failure: BaseException | None = None

    def ask(self, number: int, method: str, point: Array) -> Any:
        """Wait for the others, and return what ``method`` of the function gives at a point."""
        with self._meeting:
            self._asked[number] = (method, point)
            self._answer_if_complete()
            self._meeting.wait_for(lambda: number in self._answers or self._failure is not None)
            if self._failure is not None:
                raise self._failure
            return self._answers.pop(number)

    def leave(self) -> None:
        """Tell that one search has ended; the others no longer wait for it."""
        with self._meeting:
            self._members -= 1
            self._answer_if_complete()

    def abandon(self, failure: BaseException) -> None:
        """End all searches at their next question, or the one they wait with."""
        with self._meeting:
            self._failure = failure
            self._meeting.notify_all()

    def _answer_if_complete(self) -> None:
        if not self._asked or len(self._asked) < self._members:
            return
        asked, self._asked = sorted(self._asked.items()), {}
        for method in ("value_and_gradient", "hessian"):
            numbers = [number for number, (wanted, _) in asked if wanted == method]
            points = [point for _, (wanted, point) in asked if wanted == method]
            if not numbers:
                continue
            try:
                answer = getattr(self._function, method)(np.stack(points))
            except BaseException as failure:
                self._failure = failure
                break
            rows = answer if method == "hessian" else zip(*answer, strict=True)
            self._answers.update(zip(numbers, rows, strict=True))
        self._meeting.notify_all()


def side_by_side(
    function: Differentiable, searches: Sequence[Callable[[Seat], Result]]
) -> list[Result]:
    """Run searches that each evaluate ``function`` through a seat of their own.

    Results come in the order of the searches. The first exception ends all of them.
    """
    rendezvous = Rendezvous(function, len(searches))

    def take_part(number: int) -> Result:
        try:
            return searches[number](Seat(rendezvous, number))
        finally:
            rendezvous.leave()

    if len(searches) == 1:
        return [take_part(0)]
    with ThreadPoolExecutor(len(searches), "search") as pool:
        futures = [pool.submit(take_part, number) for number in range(len(searches))]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # An interrupt reaches this thread alone; the others would search on.
            rendezvous.abandon(AbandonedError())
            raise
