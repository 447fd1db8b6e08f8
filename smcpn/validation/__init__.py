"""Tests of a posterior: innovations, frequency response, error budget, correlated parameters."""

from smcpn.validation.correlation import ParameterPair
from smcpn.validation.frequency import FrequencyResponse, frequency_response
from smcpn.validation.innovations import Innovations, Whiteness, whiteness
from smcpn.validation.reweighting import Reweighted
from smcpn.validation.validation import Validation, validate

__all__ = [
    "FrequencyResponse",
    "Innovations",
    "ParameterPair",
    "Reweighted",
    "Validation",
    "Whiteness",
    "frequency_response",
    "validate",
    "whiteness",
]
