"""Is a posterior to be believed: innovations, frequency response, error budget, ridges."""

from smcpn.validation.correlation import ParameterPair
from smcpn.validation.frequency import FrequencyResponse, frequency_response
from smcpn.validation.halving import StepHalving
from smcpn.validation.innovations import Innovations, Whiteness, whiteness
from smcpn.validation.validation import Validation, validate

__all__ = [
    "FrequencyResponse",
    "Innovations",
    "ParameterPair",
    "StepHalving",
    "Validation",
    "Whiteness",
    "frequency_response",
    "validate",
    "whiteness",
]
