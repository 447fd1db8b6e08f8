"""The version of this package, which files and workers that belong together share."""

__version__ = "0.2.0"
