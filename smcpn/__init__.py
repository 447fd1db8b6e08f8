"""Identify continuous-time dynamical systems from data, counting the solver's own error."""

import lazy_loader

__version__ = "0.2.0"

# The public names are those of `__init__.pyi`; each is imported when it is first used, since all
# of them together, with numba and scipy.stats, take a second.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
