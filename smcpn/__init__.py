"""Identify continuous-time dynamical systems from data, counting the solver's own error."""

from smcpn import datasets, models
from smcpn.checkpoint.keeper import CheckpointWarning
from smcpn.density import Bernoulli, LogNormal, Poisson, StudentT
from smcpn.errors import InputError
from smcpn.estimate.laplace import Laplace, laplace
from smcpn.estimate.maximise import maximise
from smcpn.estimate.maximum import Maximum
from smcpn.identification import ibis
from smcpn.likelihood.log_likelihood import LogLikelihood
from smcpn.model_comparison import ModelComparison, compare
from smcpn.ode import ODE, ode
from smcpn.online import Online
from smcpn.pn.solution import Solution
from smcpn.pn.solve import solve
from smcpn.posterior import Posterior
from smcpn.prior import Prior
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.resumption import load, resume
from smcpn.simulation.particles import Simulation
from smcpn.simulation.prediction import StateFilter
from smcpn.simulation.simulator import simulate
from smcpn.smc.diagnostics import SamplerWarning
from smcpn.smc.moves import IndependentMetropolis, RandomWalkMetropolis, WasteFree
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.solver import EKF0, EKF1, RK4
from smcpn.validation import Validation

__version__ = "0.1.0"

__all__ = [
    "EKF0",
    "EKF1",
    "ODE",
    "RK4",
    "Bernoulli",
    "CheckpointWarning",
    "IndependentMetropolis",
    "InputError",
    "Laplace",
    "LogLikelihood",
    "LogNormal",
    "Maximum",
    "ModelComparison",
    "MoveSettings",
    "Online",
    "Poisson",
    "Posterior",
    "Prior",
    "Problem",
    "RandomWalkMetropolis",
    "Record",
    "SamplerWarning",
    "Simulation",
    "Solution",
    "StateFilter",
    "StudentT",
    "Validation",
    "WasteFree",
    "compare",
    "datasets",
    "ibis",
    "laplace",
    "load",
    "maximise",
    "models",
    "ode",
    "resume",
    "simulate",
    "solve",
]
