"""Samples from a running system: sources, their order in time, and the lines that come out.

Every source is a sequence of items in the order they came: samples, events (a bad line, a
connection lost) and receipts. A `Stream` reads one in a thread of its own behind a bounded queue
and updates an online identification, whose time axis (`smcpn.io.axis`) says which samples are new.
Policies are in ``docs/streaming.md``.
"""

import lazy_loader

# A command line that names a format or prints an event needs no source.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
