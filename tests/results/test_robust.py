"""`Posterior.robust` on an oscillator learned with the right model and with a wrong one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from smcpn.errors import InputError
from smcpn.results.posterior import Robust
from tests.models import oscillator_posterior


@cache
def robust(kind: str) -> Robust:
    return oscillator_posterior(kind).robust()


def test_the_right_model_keeps_its_width():
    found = robust("right")
    assert all(0.7 < factor < 1.4 for factor in found.factor.values())
    assert found.n_effective > 0.6 * found.samples == 0.6 * 400
    assert not found.remark


def test_a_wrong_model_is_wider_and_says_so():
    found = robust("wrong")
    assert found.factor["k"] > 2
    assert found.learning_rate < 0.3
    assert ", k " in found.remark
    assert found.remark in found.summary()


def test_the_posterior_at_the_learning_rate_is_wider_by_its_root():
    found, plain = robust("wrong"), oscillator_posterior("wrong")
    spread = found.posterior.sd
    expected = 1 / np.sqrt(found.learning_rate)
    ratios = [spread[name] / plain.sd[name] for name in plain.names]
    assert np.mean(ratios) == pytest.approx(expected, rel=0.25)
    assert "learning rate" in found.posterior.summary()
    assert "learning rate" not in plain.summary()


def test_bands_of_predictions_follow():
    found, plain = robust("wrong"), oscillator_posterior("wrong")
    record = plain.problem.records[0]
    narrow = plain.simulate(record).parameter_variance.mean()
    wide = found.posterior.simulate(record).parameter_variance.mean()
    assert wide > 2 * narrow


def test_bands_have_the_residuals_of_their_amplitude_and_no_less_than_the_noise():
    found = robust("wrong")
    record = found.posterior.problem.records[0]
    plain, counted = found.posterior.simulate(record), found.simulate(record)
    assert np.all(counted.sd >= plain.sd)
    assert counted.noise_variance.shape == counted.mean.shape
    inside = np.abs(record.y - counted.mean) <= counted.upper - counted.mean
    assert counted.coverage[0] == pytest.approx(inside.mean())
    assert counted.coverage[0] > 0.9 > oscillator_posterior("wrong").simulate(record).coverage[0]
    other = found.simulate(record, observe="v")
    assert other.noise_variance.shape == (1,)


def test_the_same_seed_gives_the_same_bytes_for_any_threads():
    first = oscillator_posterior("wrong").robust(threads=1)
    second = oscillator_posterior("wrong").robust(threads=2)
    assert first.posterior.theta.tobytes() == second.posterior.theta.tobytes()
    assert first.covariance.tobytes() == second.covariance.tobytes()


def test_the_summary_of_a_posterior_suspects_a_wrong_model_alone():
    from dataclasses import replace

    wrong, right = (replace(oscillator_posterior(kind)) for kind in ("wrong", "right"))
    assert "posterior.robust()" in wrong.summary()
    assert "posterior.robust()" not in right.summary()


def test_too_few_particles_are_refused():
    from dataclasses import replace

    posterior = oscillator_posterior("right")
    few = {name: getattr(posterior, name)[:5] for name in ("theta", "log_weights")}
    with pytest.raises(InputError, match="need 6 or more"):
        replace(posterior, **few).robust()


def test_a_likelihood_to_a_power_is_not_validated():
    with pytest.raises(InputError, match="validate the posterior whose robust"):
        robust("wrong").posterior.validate()
