"""Where each name of the package is."""

from .address import open_source
from .events import Event
from .parse import Channels, Sample
from .sources import Lines, Samples, Source
from .stream import Stream

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
