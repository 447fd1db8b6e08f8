"""Samples as JSON objects, one a line."""

from __future__ import annotations

import json
from typing import Any

from smcpn.arguments import shown
from smcpn.streaming.channels import BadLineError, Channels, Kind, Slot
from smcpn.streaming.sample import Sample


class JsonLines:
    """Read lines like ``{"t": 0.1, "u": 1.5, "y": [0.2, null]}``.

    ``u`` and ``y`` are a number where there is one channel, else a list; or every channel goes by
    its own name. ``null`` and ``NaN`` mark a missing output. Other names are passed over.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._sizes: dict[str, int] = {"u": len(channels.inputs), "y": len(channels.outputs)}

    def parse(self, number: int, text: str) -> Sample:
        """Return the sample of a line.

        Raises
        ------
        BadLineError
            For anything that is no sample.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadLineError(f"not JSON: {error}") from None
        if not isinstance(content, dict):
            raise BadLineError("not a JSON object")
        values: dict[Slot, float] = {}
        for name, value in content.items():
            self._take(values, name, value)
        missing = self._channels.missing_from(set(values))
        if missing:
            raise BadLineError(missing)
        return self._channels.sample(number, values)

    def _take(self, values: dict[Slot, float], name: str, value: Any) -> None:
        size = self._sizes.get(name)
        if size is not None and isinstance(value, list):
            if len(value) != size:
                raise BadLineError(f"'{name}' has {len(value)} entries instead of {size}")
            kind: Kind = "u" if name == "u" else "y"
            values |= {(kind, j): _number(name, entry) for j, entry in enumerate(value)}
            return
        slot = self._channels.slots.get(name)
        if slot is None:
            return
        if value is None and slot[0] in "tn":
            return
        values[slot] = _number(name, value)


def _number(name: str, value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadLineError(f"'{name}' is {shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise BadLineError(f"'{name}' is too large") from None
