"""Kernels are compiled once, kept as object files, and run from these in every process alike."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import smcpn
from smcpn.codegen import native, store
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.target import Target, compiling_for, target
from smcpn.codegen.weights import write_weigh
from smcpn.likelihood.registry import build_likelihood
from tests.models import decay_problem


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty cache folder, and no kernel in memory."""
    place = tmp_path / "kernels"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(store, "folder", lambda: place)
    monkeypatch.setattr(native, "_LOADED", {})
    return place


def built(steps: int = 2):
    return build_likelihood(decay_problem(), smcpn.EKF0(order=2, steps=steps))


def compilations(work) -> int:
    before = replace(CLOCK)
    work()
    return CLOCK.since(before).compiled


def test_a_kernel_is_compiled_once_for_all_steps_and_threads(folder):
    assert compilations(built) == 1
    assert compilations(lambda: built(steps=5)) == 0
    native._LOADED.clear()
    assert compilations(built) == 0
    for entry in folder.glob("*.object"):
        entry.unlink()
    native._LOADED.clear()

    def at_once() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: built(), range(8)))

    assert compilations(at_once) == 1


def test_a_damaged_object_file_is_compiled_again(folder):
    built()
    (entry,) = folder.glob("*.object")
    entry.write_bytes(entry.read_bytes()[:-1])
    native._LOADED.clear()
    assert compilations(built) == 1
    native._LOADED.clear()
    assert compilations(built) == 0


@pytest.mark.slow
def test_a_search_and_a_run_compile_few_kernels(folder):
    """The prediction that chooses the steps, the likelihood, its derivative, second derivatives."""
    problem = decay_problem()
    assert compilations(lambda: smcpn.laplace(problem, starts=2, seed=1)) <= 3
    assert compilations(lambda: smcpn.laplace(problem, starts=3, seed=2)) == 0

    def identified() -> None:
        smcpn.identify(problem, particles=50, seed=1, method="ibis", progress=False)

    assert compilations(identified) <= 1
    assert compilations(lambda: smcpn.Online(problem, particles=50, seed=1)) <= 1


@pytest.mark.nightly
def test_the_bytes_are_those_of_the_object_file(tmp_path):
    """A process that compiles, and one that finds what is compiled."""
    script = (
        "import smcpn\n"
        "from smcpn.codegen.clock import CLOCK\n"
        "from tests.models import decay_problem\n"
        "found = smcpn.laplace(decay_problem(), starts=2, seed=1)\n"
        "print(CLOCK.compiled > 0, found.maximum.log_density.hex(), found.log_evidence.hex())"
    )

    def start() -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", script],
            env={
                **os.environ,
                "SMCPN_CACHE": str(tmp_path),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

    first, second = start(), start()
    assert (first[0], second[0]) == ("True", "False")
    assert first[1:] == second[1:]


def test_loops_are_short(folder):
    """What is around the statements is a part of the machine code, not most of it."""
    built()
    (entry,) = folder.glob("*.object")
    assert len(entry.read_bytes()) < 20_000


def test_arrays_of_another_type_are_refused():
    likelihood = built()
    kernel, rows = likelihood._kernel, likelihood._rows[0]
    theta = np.ones((kernel.program.theta.numel(), 3))
    with pytest.raises(TypeError, match="cannot read"):
        kernel.start(np.asfortranarray(np.ones((len(theta), 3)))[:, ::2], rows)
    with pytest.raises(TypeError, match="cannot read"):
        kernel.start(theta.astype(np.float32), rows)


def test_the_environment_says_what_is_compiled_for(monkeypatch):
    monkeypatch.setenv("SMCPN_CPU", "portable")
    assert target() == Target.portable()
    with compiling_for("native"):
        assert target() == Target.portable()
    assert built().detached()._kernel.code.target == Target.portable()
    monkeypatch.setenv("SMCPN_CPU", "native")
    assert target() == Target.host()
    with compiling_for("portable"):
        assert target() == Target.portable()
    monkeypatch.setenv("SMCPN_CPU", "fast")
    with pytest.raises(smcpn.InputError, match="SMCPN_CPU is 'fast': choose one of native, port"):
        target()


@pytest.mark.skipif(not Target.host().triple.startswith("x86_64"), reason="of x86 only")
def test_what_is_written_depends_on_the_target_and_not_on_this_processor(monkeypatch):
    """Sums over weights run in vectors, whose width is that of the target."""
    with compiling_for("portable"):
        here = native.compiled(write_weigh)
    wide = Target.host()._replace(features=f"{Target.portable().features},+avx512f")
    narrow = wide._replace(features="+sse4.2")
    assert (wide.doubles, Target.portable().doubles, narrow.doubles) == (8, 4, 2)
    assert (wide.fused, narrow.fused) == (True, False)
    monkeypatch.setattr(Target, "host", lambda: wide)
    with compiling_for("portable"):
        assert native.compiled(write_weigh) == here
