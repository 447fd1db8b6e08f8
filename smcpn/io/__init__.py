"""Samples from a running system: sources, their order in time, and the lines that come out.

Every source is a sequence of items in the order they came: samples, events (a bad line, a
connection lost) and receipts. A `Stream` reads one in a thread of its own behind a bounded queue
and updates an online identification, whose time axis (`smcpn.io.axis`) says which samples are new.
Policies are in ``docs/streaming.md``.
"""

from smcpn.io.address import open_source
from smcpn.io.events import Event
from smcpn.io.parse import Channels, Sample
from smcpn.io.sources import Lines, Samples, Source
from smcpn.io.stream import Stream

__all__ = [
    "Channels",
    "Event",
    "Lines",
    "Sample",
    "Samples",
    "Source",
    "Stream",
    "open_source",
]
