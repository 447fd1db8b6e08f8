"""The logistic regression of `benchmarks.targets` on other samplers, where they are installed.

Each gets the same data, prior, number of particles, and a likelihood in its own best form. The
first run of each is not timed: it compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.installed import installed
from benchmarks.targets import LogisticRegression

Run = Callable[[int], float]
"""From a seed to a log-evidence."""


def peers(target: LogisticRegression, particles: int) -> dict[str, Run | str]:
    """Samplers by name; a sentence instead of one that is not installed."""
    return installed(
        (
            ("particles_ibis", "particles", lambda: particles_ibis(target, particles)),
            ("particles_tempering", "particles", lambda: particles_tempering(target, particles)),
            ("blackjax_tempering", "blackjax", lambda: blackjax_tempering(target, particles)),
        )
    )


def _static_model(target: LogisticRegression) -> Any:
    samplers = import_module("particles.smc_samplers")
    distributions = import_module("particles.distributions")
    names = target.prior.names

    class Model(samplers.StaticModel):
        def logpyt(self, theta: Any, t: int) -> Any:
            z = np.stack([theta[name] for name in names], axis=1) @ self.data[t]
            return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))

        def loglik(self, theta: Any, t: int | None = None) -> Any:
            values = np.stack([theta[name] for name in names], axis=1)
            return target.evaluate(values, self.T if t is None else t + 1)[1]

    prior = distributions.StructDist(
        {name: distributions.Normal(loc=0.0, scale=5.0) for name in names}
    )
    return Model(data=target.signed, prior=prior)


def _particles_run(target: LogisticRegression, particles: int, kind: str, **options: Any) -> Run:
    package = import_module("particles")
    samplers = import_module("particles.smc_samplers")
    model = _static_model(target)

    def run(seed: int) -> float:
        np.random.seed(seed)  # noqa: NPY002  (it has no other seed)
        feynman_kac = getattr(samplers, kind)(model=model, wastefree=False, **options)
        algorithm = package.SMC(fk=feynman_kac, N=particles, ESSrmin=0.5, verbose=False)
        algorithm.run()
        return float(algorithm.logLt)

    return run


def particles_ibis(target: LogisticRegression, particles: int) -> Run:
    """IBIS with three independent moves, about as many as ours."""
    samplers = import_module("particles.smc_samplers")
    move = samplers.AdaptiveMCMCSequence
    return _particles_run(
        target,
        particles,
        "IBIS",
        move=move(mcmc=samplers.ArrayIndependentMetropolis(), len_chain=3),
    )


def particles_tempering(target: LogisticRegression, particles: int) -> Run:
    """Adaptive tempering with its default random walk."""
    return _particles_run(target, particles, "AdaptiveTempering", len_chain=10)


def blackjax_tempering(target: LogisticRegression, particles: int) -> Run:
    """Adaptive tempering with random walks scaled by the particles."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = import_module("jax.numpy")
    blackjax = import_module("blackjax")
    resampling = import_module("blackjax.smc.resampling")
    tuning = import_module("blackjax.smc.tuning.from_particles")
    random_walk = import_module("blackjax.mcmc.random_walk")
    signed = jnp.asarray(target.signed)
    d = signed.shape[1]

    def log_prior(theta: Any) -> Any:
        return jax.scipy.stats.norm.logpdf(theta, 0.0, 5.0).sum()

    def log_likelihood(theta: Any) -> Any:
        return jax.nn.log_sigmoid(signed @ theta).sum()

    kernel = random_walk.build_additive_step()

    def step(key: Any, state: Any, log_density: Any, factor: Any) -> Any:
        def move(key: Any, position: Any) -> Any:
            return factor @ jax.random.normal(key, position.shape)

        return kernel(key, state, log_density, move)

    def parameters(key: Any, state: Any, info: Any) -> Any:
        covariance = tuning.particles_covariance_matrix(state.particles)
        scaled = 2.38**2 / d * covariance + 1e-8 * jnp.eye(d)
        return {"factor": jnp.linalg.cholesky(scaled)[None]}

    algorithm = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=log_prior,
        loglikelihood_fn=log_likelihood,
        mcmc_step_fn=step,
        mcmc_init_fn=random_walk.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=parameters,
        initial_parameter_value={"factor": (2.38 / jnp.sqrt(d) * 5.0 * jnp.eye(d))[None]},
        target_ess=0.5,
        num_mcmc_steps=10,
    )
    advance = jax.jit(algorithm.step)

    def run(seed: int) -> float:
        key = jax.random.key(seed)
        key, first = jax.random.split(key)
        state = algorithm.init(5.0 * jax.random.normal(first, (particles, d)))
        total = 0.0
        while state.sampler_state.tempering_param < 1.0:
            key, now = jax.random.split(key)
            state, info = advance(now, state)
            total += float(info.log_likelihood_increment)
        return total

    return run
