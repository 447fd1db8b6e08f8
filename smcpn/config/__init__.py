"""A user's own system: a TOML configuration beside a model file and data."""

from smcpn.config.case import configured_case
from smcpn.config.document import configuration_path, is_configuration
from smcpn.config.script import is_script, scripted_case

__all__ = [
    "configuration_path",
    "configured_case",
    "is_configuration",
    "is_script",
    "scripted_case",
]
