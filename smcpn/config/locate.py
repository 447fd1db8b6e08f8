"""Which texts name a configuration."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".toml"
USUAL_NAME = "config.toml"


def is_configuration(text: str) -> bool:
    """Whether a text names a TOML file, or a folder that holds one of the usual name."""
    return text.endswith(SUFFIX) or (Path(text) / USUAL_NAME).is_file()


def configuration_path(text: str) -> Path:
    """Return the TOML file that a text names."""
    return Path(text) if text.endswith(SUFFIX) else Path(text) / USUAL_NAME
