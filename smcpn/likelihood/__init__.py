"""Log-likelihoods of a whole population of parameters, sample by sample.

`contract` is what the sampler relies on, `registry` what a likelihood provides and how it is found
by name, and `lanes` runs it as a compiled kernel. `marginal` and `classical` integrate the ODE
whatever the data are; `filtering`, `dalton` and `fenrir` learn its solution from the data too, and
are three schemes of `conditioned`, on the graphs of `conditioning`; `adaptive` takes stiff
problems, with steps of each particle's own; `kalman` takes models with process noise. `growing`
follows a stream with any of them; `solver_choice` says which solver suits a problem, and with
which steps.
"""

# Each registers itself, in the order in which they are listed to a user. The first of those with
# process noise that goes with a solver is the default there.
from smcpn.likelihood import marginal as marginal  # isort: skip
from smcpn.likelihood import conditioned as conditioned  # isort: skip
from smcpn.likelihood import adaptive as adaptive  # isort: skip
from smcpn.likelihood import classical as classical  # isort: skip
from smcpn.likelihood import rosenbrock as rosenbrock  # isort: skip
from smcpn.likelihood import kalman as kalman  # isort: skip
from smcpn.likelihood.particle import likelihood as likelihood  # isort: skip
