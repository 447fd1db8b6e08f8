"""The problem that is linear in the weights of its networks, about a maximum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import checked
from smcpn.errors import InputError
from smcpn.model.functions.network import LinearisedNetwork, Network
from smcpn.model.problem import Problem
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import Maximum
from smcpn.results.simulation.function_domain import visited_by_records

Array = NDArray[np.float64]

MARGIN = 0.5
"""By which functions are told apart beyond the visited range and ``within``, on either side."""


def networks_of(problem: Problem) -> dict[str, Network]:
    """Networks of the model by name."""
    functions = {name: one.function for name, one in problem.ode.functions.items()}
    # One that is linear in its weights is a network as well, and needs no search.
    return {name: one for name, one in functions.items() if type(one) is Network}


@checked
def linearise_networks(maximum: Maximum) -> Problem:
    """Return the problem in which networks are linear in their weights about a maximum.

    Data determine the function that a network is, and leave most of its weights open, one by one:
    their posterior is a thin, bent sheet that no sampler explores. The problem that is linear in
    the weights has a posterior of functions that all of them do. See `LinearisedNetwork`: of some
    hundred weights about ten combinations remain.

    Parameters
    ----------
    maximum : Maximum
        Of the posterior of a problem with networks, or near it.

    Returns
    -------
    Problem
        With the same names of functions, data and priors.

    Raises
    ------
    InputError
        If the model has no network, or a prior of a weight is not that of its network, or the
        maximum was not found.

    Examples
    --------
    >>> maximum = smcpn.maximise(problem, search="lifted", starts=1)  # doctest: +SKIP
    >>> posterior = smcpn.identify(smcpn.linearise_networks(maximum))  # doctest: +SKIP
    """
    problem = maximum.problem
    networks = networks_of(problem)
    if not networks:
        raise InputError(f"model '{problem.ode.name}' has no network: linearise nothing")
    if not maximum.found:
        raise InputError(f"there is no maximum: {maximum.reason}")
    _check_priors(problem, networks)
    values = maximum.values[None, :]
    step = (maximum.solver.interval or problem.records[0].interval) / int(maximum.solver.steps)
    visited = visited_by_records(
        problem, maximum.solver, maximum.likelihood, values, step
    )  # fmt: skip
    return problem.with_functions(
        {
            name: LinearisedNetwork(
                network.arguments, network.hidden, network.activation, network.within, network.size,
                tuple(float(one) for one in np.atleast_1d(maximum[name])),
                _domain(network, visited[name].range),
            )
            for name, network in networks.items()
        }
    )  # fmt: skip


def is_of(start: Laplace, problem: Problem) -> bool:
    """True if an approximation is of a problem, or of that with its networks linear in weights."""
    if start.problem is problem:
        return True
    linear = is_linear_in_networks(start.problem, problem)
    return linear and problem.differs_in_functions(start.problem)


def is_linear_in_networks(linear: Problem, problem: Problem) -> bool:
    """True if all networks of a problem are linear in their weights in another."""
    others, networks = linear.ode.functions, networks_of(problem)
    return bool(networks) and all(
        name in others
        and isinstance(other := others[name].function, LinearisedNetwork)
        and other.network == network
        for name, network in networks.items()
    )


def start_of(problem: Problem, maximum: Maximum) -> Array:
    """Parameter values (1, d) of a linearised problem at the maximum about which it is."""
    values = dict(zip(maximum.names, maximum.values, strict=True))
    for name, one in problem.ode.functions.items():
        if isinstance(one.function, LinearisedNetwork):
            parameters = zip(one.function.priors, one.function.maximum, strict=True)
            values |= {name + of: value for of, value in parameters}
    return np.array([[values[name] for name in problem.names]])


def _check_priors(problem: Problem, networks: dict[str, Network]) -> None:
    """Refuse priors of single weights."""
    given, default = problem.prior.distributions, problem.ode.priors
    for name, network in networks.items():
        for of in network.priors:
            if of != ".scale" and given.get(name + of) is not default[name + of]:
                raise InputError(
                    f"prior '{name}{of}' is not that of its network, which becomes linear in its "
                    "weights: leave it out, or keep the network itself by method='tempering'",
                    argument="prior",
                )


def _domain(network: Network, visited: Array) -> tuple[tuple[float, float], ...]:
    """Intervals in which functions are told apart."""
    low, high = visited.T
    if network.within:
        lower, upper = np.array(network.within).T
        low, high = np.minimum(low, lower), np.maximum(high, upper)
    margin = MARGIN * np.where(high > low, high - low, 1.0)
    ends = zip((low - margin).tolist(), (high + margin).tolist(), strict=True)
    return tuple(ends)
