"""Tests of a posterior: innovations, frequency response, error budget, correlated parameters."""

from smcpn.validation.correlation import ParameterPair
from smcpn.validation.frequency import FrequencyResponse, frequency_response
from smcpn.validation.innovations import Innovations, Whiteness, whiteness
from smcpn.validation.reweighting import ReweightedPosterior
from smcpn.validation.validation import Validation, validate
from smcpn.validation.verdict import Verdict

__all__ = [
    "FrequencyResponse",
    "Innovations",
    "ParameterPair",
    "ReweightedPosterior",
    "Validation",
    "Verdict",
    "Whiteness",
    "frequency_response",
    "validate",
    "whiteness",
]
