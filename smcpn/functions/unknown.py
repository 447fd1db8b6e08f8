"""An unknown function in an equation: a family of functions with parameters that have priors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import casadi as ca

from smcpn.arguments import check_fields

FUNCTIONS: dict[str, type[UnknownFunction]] = {}
"""Every kind of unknown function by the name of its class, which is its name in files."""


@dataclass(frozen=True)
class UnknownFunction(ABC):
    """A function of one or more variables that is known up to a vector of parameters.

    As an argument of a model, ``friction(v)`` puts its graph there, and its parameters become
    parameters of the model: ``friction[0]``, ``friction[1]``, ..., ``friction.scale``.

    Attributes
    ----------
    arguments : tuple of str
        Labels of its variables, for figures and messages.
    """

    arguments: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        FUNCTIONS[cls.__name__] = cls

    def __post_init__(self) -> None:
        check_fields(self, *(field.name for field in fields(self)))

    @property
    @abstractmethod
    def priors(self) -> Mapping[str, Any]:
        """Default prior of each parameter; ``[0]`` or ``.scale`` follows the function's name."""

    @property
    def scales(self) -> Mapping[str, str]:
        """Parameters whose prior is that of x / s, with the parameter s."""
        return {}

    @abstractmethod
    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        """Value at scalar arguments for parameters (p, 1) in the order of `priors`, (1, 1)."""
