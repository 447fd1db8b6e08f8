"""`Posterior.save`, `smcpn.load`, and files changed by one who knows the format."""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass, replace

import h5py
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4, InputError
from smcpn.checkpoint.container import POSTERIOR
from smcpn.results.nuts import ChainStatistics
from tests.checkpoint.changed import changed, entry, number, put
from tests.models import decay_problem, oscillator_problem, oscillator_record

RECORD = oscillator_record(samples=40)


@pytest.fixture(scope="module")
def posterior():
    problem = oscillator_problem(RECORD)
    return smcpn.identify(problem, solver=RK4(1), method="ibis", particles=30, seed=1, replicates=2)


@pytest.fixture(scope="module")
def content(posterior, tmp_path_factory):
    return posterior.save(tmp_path_factory.mktemp("saved") / "p.h5").read_bytes()


def chained(posterior):
    some = np.arange(60.0).reshape(2, 30)
    made = ChainStatistics(
        some > 50, some.astype(int), some.astype(int), some > 58, some, some, some, 5, 10
    )
    d = len(posterior.names)
    same = {field.name: getattr(posterior, field.name) for field in fields(smcpn.Posterior)}
    return smcpn.NutsPosterior(
        **same | {"log_evidence": np.nan}, statistics=made, ess_bulk=np.ones(d), ess_tail=np.ones(d)
    )


def same(one, other):
    """Whether two results hold the same, to the last byte; the problem by its summary."""
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and (one.tobytes() == other.tobytes())
        )
    if isinstance(one, smcpn.Problem):
        return repr(one) == repr(other) and same(one.records[0].y, other.records[0].y)
    if is_dataclass(one) and type(one) is type(other):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and (one == other or (one != one and other != other))


@pytest.mark.slow
def test_a_posterior_is_loaded_as_it_was_saved(posterior, tmp_path):
    loaded = smcpn.load(posterior.save(tmp_path / "p.h5"))
    assert same(posterior, loaded)
    assert posterior.summary() == loaded.summary()
    simulated = [one.simulate(RECORD, steps=1).mean for one in (posterior, loaded)]
    assert simulated[0].tobytes() == simulated[1].tobytes()
    assert str(loaded.validate()) == str(posterior.validate())


def test_chains_are_loaded_as_they_were_saved(posterior, tmp_path):
    chains = chained(posterior)
    loaded = smcpn.load(chains.save(tmp_path / "p.h5"))
    assert isinstance(loaded, smcpn.NutsPosterior)
    assert same(chains, loaded)


def test_draws_of_a_laplace_approximation_are_saved(tmp_path):
    drawn = smcpn.laplace(decay_problem(), solver=RK4(2)).to_posterior(50)
    loaded = smcpn.load(drawn.save(tmp_path / "p.h5"))
    assert same(drawn, loaded)


def test_the_posterior_of_a_stream_is_saved(tmp_path):
    live = smcpn.Online(oscillator_problem(RECORD), solver=RK4(1), particles=30, seed=1)
    for u, y in zip(RECORD.u[:20], RECORD.y[:20], strict=True):
        live.update(u, y)
    known = live.posterior()
    assert same(known, smcpn.load(known.save(tmp_path / "p.h5")))


def test_the_version_before_is_kept(posterior, content, tmp_path):
    path = tmp_path / "p.h5"
    posterior.save(path)
    replace(posterior, log_evidence=1.0).save(path)
    assert smcpn.load(path).log_evidence == 1.0
    path.write_bytes(content[:-7])
    with pytest.warns(smcpn.CheckpointWarning, match="previous version"):
        assert smcpn.load(path).log_evidence == posterior.log_evidence
    path.unlink()
    with pytest.warns(smcpn.CheckpointWarning, match="previous version"):
        smcpn.load(path)


def test_other_files_are_told_apart(posterior, content, tmp_path):
    path = tmp_path / "p.h5"
    path.write_text("mine")
    with pytest.raises(InputError, match="is not overwritten"):
        posterior.save(path)
    assert path.read_text() == "mine"
    path.write_bytes(content)
    with pytest.raises(InputError, match="of kind 'smcpn posterior', not 'smcpn checkpoint'"):
        smcpn.resume(path)
    with pytest.raises(InputError, match="does not exist"):
        smcpn.load(tmp_path / "none.h5")
    with pytest.raises(InputError, match="the folder does not exist"):
        posterior.save(tmp_path / "no" / "p.h5")
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(InputError):
        posterior.save(tmp_path / "pipe.h5")


def test_a_problem_that_cannot_be_stored_is_refused(posterior, tmp_path):
    class Own:
        """A prior of a user's own class."""

        def __init__(self, law):
            self.law = law

        def __getattr__(self, name):
            return getattr(self.law, name)

    prior = {"rate": Own(stats.lognorm(0.5)), "sigma": 0.05, "start": 1.0}
    problem = decay_problem(prior=prior)
    with pytest.raises(InputError, match=r"p\.h5 cannot hold this posterior: .*prior"):
        replace(posterior, problem=problem).save(tmp_path / "p.h5")
    assert not (tmp_path / "p.h5").exists()


D = "posterior"
CHANGES = {
    "theta is NaN": number(f"{D}/theta", (7, 0), np.nan),
    "theta is huge": number(f"{D}/theta", (7, 0), 1e308),
    "theta of other parameters": put("posterior/theta", np.zeros((60, 3))),
    "theta is single": put("posterior/theta", np.zeros((60, 2), "f4")),
    "theta lies elsewhere": put("posterior/theta", h5py.ExternalLink("x.h5", "/x")),
    "no theta": put("posterior/theta", None),
    "weight is infinite": number(f"{D}/log_weights", 3, np.inf),
    "no weight": number(f"{D}/log_weights", slice(None), -np.inf),
    "fewer weights": put("posterior/log_weights", np.zeros(59)),
    "replicate is negative": number(f"{D}/replicate", 0, -1),
    "replicates of fewer": put("posterior/replicate", np.zeros(59, "i8")),
    "path does not rise": number(f"{D}/path_samples", 1, 0),
    "path is beyond the end": number(f"{D}/path_samples", -1, 41),
    "an evidence is infinite": number(f"{D}/log_evidences", 0, np.inf),
    "an evidence is huge": number(f"{D}/log_evidences", 0, -1e308),
    "an evidence on the path is infinite": number(f"{D}/log_evidence_path", 0, -np.inf),
    "an evidence on the path is huge": number(f"{D}/log_evidence_path", 3, 1e308),
    "R-hat is infinite": number(f"{D}/r_hat", 0, np.inf),
    "R-hat is huge": number(f"{D}/r_hat", 0, 1e308),
    "rejuvenations are numbers": entry(D, "rejuvenations", value=[0.0]),
    "a rejuvenation of no sample": entry(D, "rejuvenations", 0, "sample", value=41),
    "no rejuvenations": entry(D, "rejuvenations", value=None),
    "an array more": put("posterior/more", np.zeros(3)),
    "a part more": put("more/theta", np.zeros(3)),
    "chains of none": put("chains/depth", np.zeros((2, 30), "i8")),
    "a population": put("populations/0/theta", np.zeros(3)),
    "no records": put("records/0/y", None),
    "unknown likelihood": entry(D, "likelihood", value="magic"),
    "unknown solver": entry(D, "solver", "kind", value="os.system"),
    "many steps": entry(D, "solver", "steps", value=-1),
    "seed is a text": entry(D, "seed", value="1"),
    "power is negative": entry(D, "learning_rate", value=-1.0),
    "warnings are numbers": entry(D, "warnings", value=[1]),
    "chains without arrays": entry(D, "chains", value={"tune": 1, "tune_steps": 1}),
    "shift of others": entry(D, "shift", value={
        "solver": {"kind": "rk4", "steps": 1}, "finer": {"kind": "rk4", "steps": 2},
        "parameters": {"other": 0.0}, "worst": 0.0, "log_evidence": 0.0}),
    "an entry more": entry(D, "more", value=1),
    "another record": number("records/0/y", (3, 0), 1.0),
    "another likelihood": number(f"{D}/log_likelihood", slice(None), -1.0),
    "timing is huge": entry(D, "timing", "theta_steps", value=1 << 60),
    "prior is another": entry("problem", "priors", 0, "distribution", "family", value="ksone"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_changed_files_are_refused(content, case, tmp_path):
    path = tmp_path / "p.h5"
    path.write_bytes(changed(POSTERIOR, content, CHANGES[case]))
    with pytest.raises(InputError) as caught:
        smcpn.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_chains_that_do_not_fit_are_refused(posterior, tmp_path):
    chains = chained(posterior)
    short = replace(
        chains.statistics,
        **{name: getattr(chains.statistics, name)[:, :20] for name in (
            "divergent", "depth", "steps", "at_greatest_depth", "step_size", "energy",
            "log_density")},
    )  # fmt: skip
    path = replace(chains, statistics=short).save(tmp_path / "p.h5")
    with pytest.raises(InputError, match="the chains are not those of the draws"):
        smcpn.load(path)
