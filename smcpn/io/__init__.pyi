"""Where each name of the package is."""

from .address import open_source
from .channels import Channels, Sample
from .events import Event
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
