"""Tests of a posterior: innovations, frequency response, error budget, correlated parameters."""

from smcpn.results.validation.correlation import ParameterPair
from smcpn.results.validation.frequency import FrequencyResponse, frequency_response
from smcpn.results.validation.innovations import Innovations, Whiteness, whiteness
from smcpn.results.validation.reweighting import ReweightedPosterior
from smcpn.results.validation.validation import Validation, validate
from smcpn.results.validation.verdict import Verdict

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
