"""Tests of a posterior: innovations, frequency response, error budget, correlated parameters."""

from smcpn.simulation.validation.correlation import ParameterPair
from smcpn.simulation.validation.frequency import FrequencyResponse, frequency_response
from smcpn.simulation.validation.innovations import Innovations, Whiteness, whiteness
from smcpn.simulation.validation.reweighting import ReweightedPosterior
from smcpn.simulation.validation.validation import Validation, validate
from smcpn.simulation.validation.verdict import Verdict

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
