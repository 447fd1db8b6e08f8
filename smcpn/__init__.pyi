"""Where each public name is; `smcpn/__init__.py` imports it when it is first used."""

from . import datasets as datasets
from . import models as models
from .checkpoint.keeper import CheckpointWarning
from .density import Bernoulli, LogNormal, Poisson, StudentT
from .errors import InputError
from .estimate.laplace import Laplace, laplace
from .estimate.maximise import maximise
from .estimate.maximum import Maximum
from .identification import ibis
from .likelihood.log_likelihood import LogLikelihood
from .model_comparison import ModelComparison, compare
from .ode import ODE, ode
from .online import Online
from .pn.solution import Solution
from .pn.solve import solve
from .posterior import Posterior
from .prior import Prior
from .problem import Problem
from .record import Record
from .resumption import load, resume
from .simulation.particles import Simulation
from .simulation.prediction import StateFilter
from .simulation.simulator import simulate
from .smc.diagnostics import SamplerWarning
from .smc.moves import IndependentMetropolis, RandomWalkMetropolis, WasteFree
from .smc.rejuvenation import MoveSettings
from .solver import EKF0, EKF1, RK4
from .validation import Validation

__version__: str

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
