"""Parts that a model may have, and the one way in which they are refused.

An equation has some (`ODE.parts`), a problem adds others (`Model.parts`). What cannot have all of
them says which it takes. A new part is a line in `PARTS` and a name in `Model.parts`, or in
`ODE.parts`: it is refused wherever nothing says that it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from smcpn.errors import InputError

PARTS = {
    "process_noise": "process noise",
    "delay": "delay of inputs",
    "doses": "doses",
    "accumulators": "accumulators",
    "algebraic": "algebraic equations",
    "events": "events of the state",
}
"""Arguments that give a model a part, and what an engineer calls it."""
STIFF_PARTS = frozenset({"algebraic", "events"})
"""Parts for which ``solver="auto"`` takes a solver that chooses its steps."""
SMOOTH_PARTS = frozenset({"doses", "accumulators"})
"""Parts with which a path is one of x' = f at the inputs of the samples."""
APART = {
    ("process_noise", "events"): "leave out one of them",
}
"""Pairs of parts that no model has, with the remedy: the first is the argument at fault."""


def check_parts(
    parts: AbstractSet[str],
    who: str,
    takes: AbstractSet[str] = frozenset(),
    instead: Mapping[str, str] | None = None,
    argument: str | None = None,
) -> None:
    """Refuse the parts of a model that ``who`` would pass over.

    parts: Those that the model has, of `PARTS`.
    who: Subject of the sentence.
    takes: Parts that it takes.
    instead: Remedy for a part; by default to leave it out.
    argument: The argument at fault; by default that which gives the part.
    """
    for part in (name for name in PARTS if name in parts - takes):
        remedy = (instead or {}).get(part, "leave it out")
        raise InputError(
            f"{who} takes no {PARTS[part]}, and the model has some: {remedy}",
            argument=argument or part,
        )


def check_pairs(parts: AbstractSet[str], name: str) -> None:
    """Refuse two parts that do not go together in the model of a name."""
    for (first, second), remedy in APART.items():
        if {first, second} <= parts:
            raise InputError(
                f"{PARTS[first]} and {PARTS[second]} do not go together in model '{name}': "
                f"{remedy}",
                argument=first,
            )
