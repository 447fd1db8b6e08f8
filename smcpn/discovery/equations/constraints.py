"""Linear relations between unknown coefficients, written as text, and what they leave free.

``"x'[x] = -x'[y]"`` relates the coefficient of the term x in the equation of x to that of y,
``"v'[v] < 0"`` gives a sign, and ``"s' + i' + r' = 0"`` conserves a sum, term by term.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from smcpn.discovery.equations.candidates import Candidates
from smcpn.discovery.equations.known import KnownPart
from smcpn.errors import InputError, nearest, shown

NEGLIGIBLE = 1e-9
"""What is left of a weight in an elimination, as a part of the largest, is rounding."""

Sum = tuple[float, dict[int, float]]
"""A number, and weights of coefficients."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RELATION = re.compile(r"(<=|>=|[=<>])")
_ITEM = re.compile(
    rf"\s*(?P<sign>[-+]?)\s*(?:(?:(?P<weight>{_NUMBER})\s*\*?\s*)?"
    rf"(?P<state>[^\W\d]\w*)'(?:\[(?P<term>[^\[\]]*)\])?|(?P<number>{_NUMBER}))\s*"
)
_FORMS = 'write "x\'[y] = -y\'[x]", "v\'[v] < 0" or "x\' + y\' = 0"'


def coefficient_name(state: str, term: str) -> str:
    """Return how a coefficient is called: ``"x'[x y]"``."""
    return f"{state}'[{term}]"


@dataclass(frozen=True, eq=False)
class Freedom:
    """Coefficients theta = basis phi + offset, of free ones phi.

    places: (q, 2), equation and term of each coefficient, those of an equation together.
    basis: (q, K), the identity where nothing is constrained.
    offset: (q,), values of coefficients that are given; 0 elsewhere.
    free_places: (K, 2), equation and term of the coefficient that each phi is.
    names: Of phi, by `coefficient_name`.
    signs: (K,), 1 or -1 where phi has a sign, else 0.
    """

    places: NDArray[np.int64]
    basis: Any
    offset: NDArray[np.float64]
    free_places: NDArray[np.int64]
    names: tuple[str, ...]
    signs: NDArray[np.int64]

    @classmethod
    def of(cls, candidates: Candidates, constraints: Sequence[str], known: KnownPart) -> Freedom:
        """Solve constraints for as many coefficients as they determine.

        Raises `InputError` if one cannot be read, names a coefficient that is not there,
        contradicts others or the known part, or gives a sign to a sum of several.
        """
        if isinstance(constraints, str) or not all(isinstance(one, str) for one in constraints):
            raise InputError(
                f"constraints is {shown(constraints)}: give a list of texts; {_FORMS}",
                argument="constraints",
            )
        system = _LinearSystem(candidates)
        for text in constraints:
            system.add(text)
        for weights in system.conserved:
            known.check_conserved(weights, candidates.states)
        return system.solve(constraints)

    def coefficients(self, free: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[Any]:
        """Coefficients (..., n, p) of free ones (..., K); 0 where a term is not allowed."""
        free = np.asarray(free, dtype=float)
        found = np.zeros((*free.shape[:-1], *shape))
        flat = free.reshape(-1, free.shape[-1])
        theta = (self.basis @ flat.T).T + self.offset
        rows, columns = self.places.T
        found[..., rows, columns] = theta.reshape(*free.shape[:-1], len(self.offset))
        return found


@dataclass
class _Relation:
    """A sum of coefficients, of whole equations, and a number, compared with 0."""

    comparison: str
    number: float = 0.0
    parts: list[tuple[float, str, str | None]] = field(default_factory=list)

    @classmethod
    def parsed(cls, text: str) -> _Relation:
        """Read a text as (left - right) compared with 0."""
        sides = _RELATION.split(text)
        if len(sides) != 3:
            raise _unread(text)
        found = cls(sides[1])
        for factor, side in ((1.0, sides[0]), (-1.0, sides[2])):
            found._add(factor, side, text)
        if not found.parts or not np.isfinite([found.number, *(p[0] for p in found.parts)]).all():
            raise _unread(text)
        return found

    def _add(self, factor: float, side: str, text: str) -> None:
        place = 0
        while place < len(side) or not place:
            match = _ITEM.match(side, place)
            if match is None or (place and not match["sign"]):
                raise _unread(text)
            sign = -factor if match["sign"] == "-" else factor
            if match["number"]:
                self.number += sign * float(match["number"])
            else:
                term = match["term"] and " ".join(match["term"].split())
                self.parts.append((sign * float(match["weight"] or 1.0), match["state"], term))
            place = match.end()


def _substituted(total: Sum, solved: Mapping[int, Sum]) -> Sum:
    """Replace coefficients in a sum by what they are."""
    number, weights = total
    found: dict[int, float] = {}
    for k, weight in weights.items():
        offset, others = solved.get(k, (0.0, {k: 1.0}))
        number += weight * offset
        for other, factor in others.items():
            found[other] = found.get(other, 0.0) + weight * factor
    return number, {k: weight for k, weight in found.items() if weight}


def _unread(text: str) -> InputError:
    return InputError(f"constraint {shown(text)} cannot be read: {_FORMS}", argument="constraints")


class _LinearSystem:
    """Rows A theta = d over the allowed coefficients, and signs of some."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.places = np.argwhere(candidates.allowed)
        self.index = {(int(i), int(j)): k for k, (i, j) in enumerate(self.places)}
        self.rows: list[dict[int, float]] = []
        self.values: list[float] = []
        self.signs: dict[int, int] = {}
        self.conserved: list[dict[int, float]] = []

    def add(self, text: str) -> None:
        side = _Relation.parsed(text)
        whole = [term is None for _, _, term in side.parts]
        if side.comparison != "=":
            return self._add_sign(text, side)
        if not any(whole):
            row: dict[int, float] = {}
            for weight, state, term in side.parts:
                place = self._coefficient(text, state, term or "")
                row[place] = row.get(place, 0.0) + weight
            self.rows.append(row)
            self.values.append(-side.number)
            return None
        if not all(whole) or side.number:
            raise InputError(
                f"constraint {shown(text)} mixes equations with coefficients or numbers: {_FORMS}",
                argument="constraints",
            )
        weights: dict[int, float] = {}
        for weight, state, _ in side.parts:
            equation = self._equation(text, state)
            weights[equation] = weights.get(equation, 0.0) + weight
        self.conserved.append(weights)
        for term in range(len(self.candidates.names)):
            row = {
                self.index[i, term]: weight
                for i, weight in weights.items()
                if (i, term) in self.index
            }
            self.rows.append(row)
            self.values.append(0.0)
        return None

    def _add_sign(self, text: str, side: _Relation) -> None:
        if len(side.parts) != 1 or side.number or not side.parts[0][0] or side.parts[0][2] is None:
            raise InputError(
                f"constraint {shown(text)} is no sign of one coefficient: compare one with 0, as "
                '"v\'[v] < 0"',
                argument="constraints",
            )
        weight, state, term = side.parts[0]
        place = self._coefficient(text, state, term or "")
        sign = int(np.sign(weight)) * (1 if side.comparison.startswith(">") else -1)
        if self.signs.setdefault(place, sign) != sign:
            raise InputError(
                f"constraint {shown(text)} contradicts another of the same coefficient: remove one",
                argument="constraints",
            )

    def _equation(self, text: str, state: str) -> int:
        states = self.candidates.states
        if state not in states:
            raise InputError(
                f"constraint {shown(text)} names '{state}', which is no state: "
                f"{nearest(state, states)}",
                argument="constraints",
            )
        return states.index(state)

    def _coefficient(self, text: str, state: str, term: str) -> int:
        equation, names = self._equation(text, state), self.candidates.names
        if term not in names:
            raise InputError(
                f"constraint {shown(text)} names the term {shown(term)}, which the library does "
                f"not have: {nearest(term, names)}",
                argument="constraints",
            )
        if (equation, names.index(term)) not in self.index:
            raise InputError(
                f"constraint {shown(text)} names '{term}' in the equation of '{state}', where it "
                "is not allowed: remove the constraint, or allow the term",
                argument="constraints",
            )
        return self.index[equation, names.index(term)]

    def solve(self, constraints: Sequence[str]) -> Freedom:
        size = len(self.places)
        solved = self._eliminated(constraints)
        free = [k for k in range(size) if k not in solved]
        column = {k: c for c, k in enumerate(free)}
        basis = sparse.lil_array((size, len(free)))
        offset = np.zeros(size)
        for k in free:
            basis[k, column[k]] = 1.0
        for k, (value, others) in solved.items():
            offset[k] = value
            for other, weight in others.items():
                basis[k, column[other]] = weight
        basis = basis.tocsr()
        names, states = self.candidates.names, self.candidates.states
        return Freedom(
            places=self.places,
            basis=basis,
            offset=offset,
            free_places=self.places[free],
            names=tuple(coefficient_name(states[i], names[j]) for i, j in self.places[free]),
            signs=self._free_signs(basis, offset, len(free)),
        )

    def _eliminated(self, constraints: Sequence[str]) -> dict[int, Sum]:
        """Coefficients that others determine, as sums of the free ones."""
        solved: dict[int, Sum] = {}
        for row, value in zip(self.rows, self.values, strict=True):
            # The row says that this sum is zero.
            number, weights = _substituted((-value, row), solved)
            size = NEGLIGIBLE * max([abs(value), *(abs(weight) for weight in row.values())])
            weights = {k: weight for k, weight in weights.items() if abs(weight) > size}
            if not weights:
                if abs(number) > size:
                    raise InputError(
                        f"constraints {shown(list(constraints))} contradict one another: "
                        "remove one",
                        argument="constraints",
                    )
                continue
            # Coefficients with a sign stay free where they can, for a sign holds for one only.
            pivot = min(weights, key=lambda k: (k in self.signs, k))
            of_pivot = -weights.pop(pivot)
            own = {pivot: (number / of_pivot, {k: w / of_pivot for k, w in weights.items()})}
            solved = {k: _substituted(one, own) for k, one in solved.items()} | own
        return solved

    def _free_signs(self, basis: Any, offset: NDArray[np.float64], n_free: int) -> NDArray[Any]:
        signs = np.zeros(n_free, dtype=np.int64)
        for k, sign in self.signs.items():
            start, end = basis.indptr[k : k + 2]
            weights, columns = basis.data[start:end], basis.indices[start:end]
            equation, term = self.places[k]
            name = coefficient_name(self.candidates.states[equation], self.candidates.names[term])
            if not len(columns) and sign * offset[k] >= 0:
                continue
            if len(columns) != 1 or offset[k]:
                raise InputError(
                    f"the sign of {name} cannot hold with the other constraints: remove it, or "
                    "give signs to the coefficients that it is the sum of",
                    argument="constraints",
                )
            wanted = sign * int(np.sign(weights[0]))
            if signs[columns[0]] not in (0, wanted):
                raise InputError(
                    f"the sign of {name} contradicts the other constraints: remove one",
                    argument="constraints",
                )
            signs[columns[0]] = wanted
        return signs
