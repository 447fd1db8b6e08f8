"""Identify continuous-time dynamical systems from data, counting the solver's own error."""

import lazy_loader

from smcpn.base import late_binding
from smcpn.version import __version__ as __version__

# The public names are those of `__init__.pyi`; each is imported when it is first used, since all
# of them together, with numba and scipy.stats, take a second.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# What draws a result, writes a file of it or reads it, by the method that it is called for.
late_binding.FUNCTIONS |= {
    "DelayEstimate.plot": "smcpn.report.profile:delay_figure",
    "Discovery.plot": "smcpn.report.discovery:path_figure",
    "Discovery.plot_inclusion": "smcpn.report.discovery:inclusion_figure",
    "Discovery.report": "smcpn.report.discovery:write_discovery",
    "FrequencyResponse.plot": "smcpn.report.residuals:frequency_figure",
    "IdentifiedFunction.plot": "smcpn.report.functions:function_figure",
    "ModelComparison.plot": "smcpn.report.comparison:comparison_figure",
    "NutsPosterior.plot_run": "smcpn.report.sampler:chains_figure",
    "Posterior.plot_corner": "smcpn.report.parameters:corner_figure",
    "Posterior.plot_parameters": "smcpn.report.parameters:parameters_figure",
    "Posterior.plot_run": "smcpn.report.sampler:run_figure",
    "Posterior.report": "smcpn.report.html:write_report",
    "Posterior.save": "smcpn.checkpoint.posterior:save_posterior",
    "PriorPrediction.plot": "smcpn.report.trajectories:prior_figure",
    "Profiles.plot": "smcpn.report.profile:profile_figure",
    "Record.from_dataframe": "smcpn.io.dataframe:records_of",
    "Record.plot": "smcpn.report.trajectories:record_figure",
    "Simulation.picture": "smcpn.report.trajectories:outputs_figure",
    "Simulation.plot": "smcpn.report.trajectories:simulation_figure",
    "Solution.plot": "smcpn.report.trajectories:solution_figure",
    "StateSpace.plot_bode": "smcpn.report.responses:bode_figure",
    "StateSpace.plot_step": "smcpn.report.responses:step_figure",
    "States.plot": "smcpn.report.trajectories:states_figure",
    "Validation.plot": "smcpn.report.residuals:innovations_figure",
    "Validation.plot_error_budget": "smcpn.report.residuals:error_budget_figure",
}
