"""Where each public name is; `smcpn/__init__.py` imports it when it is first used."""

from . import datasets as datasets
from . import sindy as sindy
from .checkpoint.container import CheckpointWarning
from .datasets import models as models
from .discovery.equations.library import Library, fourier, polynomials, terms
from .discovery.results.discovery import Discovery
from .errors import ExecutorError, InputError
from .estimate.dead_time import DelayEstimate, estimate_delay
from .estimate.laplace import laplace
from .estimate.linearise import linearise_networks
from .estimate.maximise import maximise
from .estimate.nuts.nuts import nuts
from .estimate.profile import Profiles, profile
from .io.doses import read_doses
from .io.read import read_record, read_records
from .likelihood.gradient import LogLikelihood
from .model.dose import Dose
from .model.events import event
from .model.functions.gaussian_process import gaussian_process
from .model.functions.network import network
from .model.functions.spline import spline
from .model.gaussian_noise import AR1
from .model.initial import SteadyState
from .model.noise import Bernoulli, LogNormal, NegativeBinomial, Normal, Poisson, StudentT
from .model.ode import ODE, ode
from .model.prior import Prior
from .model.problem import Problem
from .model.record import Record
from .model.sde import sde
from .model.solver import EKF0, EKF1, RK4, AdaptiveEKF1, Rosenbrock
from .online import NestedFilter, Online
from .pn.solution import Solution
from .results.compare import ModelComparison, compare
from .results.functions import IdentifiedFunction
from .results.laplace import Laplace
from .results.maximum import Maximum
from .results.nuts import NutsPosterior
from .results.posterior import Posterior, Robust
from .results.simulation.closed_loop import StateFilter
from .results.simulation.linearise import linearise
from .results.simulation.numerical_solution import NumericalSolution
from .results.simulation.prior_drawn import PriorPrediction
from .results.simulation.simulate import simulate
from .results.simulation.simulation import Simulation
from .results.simulation.solve import solve
from .results.simulation.state_space import StateSpace
from .results.simulation.states import States
from .results.validation import Validation
from .run.discover import discover
from .run.identify import identify
from .run.resume import load, resume
from .smc.hamiltonian import HamiltonianMonteCarlo, LangevinMetropolis
from .smc.measured_moves import MeasuredMoves
from .smc.moves import IndependentMetropolis, RandomWalkMetropolis, WasteFree
from .smc.rejuvenation import MoveSettings
from .smc.replicates import SamplerWarning

__version__: str

__all__ = [
    "AR1",
    "EKF0",
    "EKF1",
    "ODE",
    "RK4",
    "AdaptiveEKF1",
    "Bernoulli",
    "CheckpointWarning",
    "DelayEstimate",
    "Discovery",
    "Dose",
    "ExecutorError",
    "HamiltonianMonteCarlo",
    "IdentifiedFunction",
    "IndependentMetropolis",
    "InputError",
    "LangevinMetropolis",
    "Laplace",
    "Library",
    "LogLikelihood",
    "LogNormal",
    "Maximum",
    "MeasuredMoves",
    "ModelComparison",
    "MoveSettings",
    "NegativeBinomial",
    "NestedFilter",
    "Normal",
    "NumericalSolution",
    "NutsPosterior",
    "Online",
    "Poisson",
    "Posterior",
    "Prior",
    "PriorPrediction",
    "Problem",
    "Profiles",
    "RandomWalkMetropolis",
    "Record",
    "Robust",
    "Rosenbrock",
    "SamplerWarning",
    "Simulation",
    "Solution",
    "StateFilter",
    "StateSpace",
    "States",
    "SteadyState",
    "StudentT",
    "Validation",
    "WasteFree",
    "compare",
    "datasets",
    "discover",
    "estimate_delay",
    "event",
    "fourier",
    "gaussian_process",
    "identify",
    "laplace",
    "linearise",
    "linearise_networks",
    "load",
    "maximise",
    "models",
    "network",
    "nuts",
    "ode",
    "polynomials",
    "profile",
    "read_doses",
    "read_record",
    "read_records",
    "resume",
    "sde",
    "simulate",
    "sindy",
    "solve",
    "spline",
    "terms",
]
