import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcpn.smc.state import TRACED, Trace


def trace_of(values, blocks):
    trace, begin = Trace.empty(), 0
    for end in [*blocks, len(values)]:
        trace = trace.extended(values[begin:end], -values[begin:end])
        begin = end
    return trace


def test_short_runs_are_remembered_whole():
    values = np.arange(10.0)
    trace = trace_of(values, [3, 4, 4])
    assert trace.samples.tolist() == list(range(1, 11))
    assert trace.ess.tolist() == values.tolist()
    assert trace.log_evidence.tolist() == (-values).tolist()


@given(
    length=st.integers(1, 5 * TRACED),
    cuts=st.lists(st.integers(0, 5 * TRACED), max_size=12),
)
@settings(max_examples=50, deadline=None)
def test_what_is_kept_depends_on_the_number_of_samples_only(length, cuts):
    values = np.arange(float(length))
    blocks = sorted(cut for cut in cuts if cut <= length)
    trace, at_once = trace_of(values, blocks), trace_of(values, [])
    np.testing.assert_array_equal(trace.samples, at_once.samples)
    np.testing.assert_array_equal(trace.ess, at_once.ess)
    # Every entry is the value of its sample, and the last one is always there.
    np.testing.assert_array_equal(trace.ess, trace.samples - 1.0)
    assert trace.samples[-1] == length
    assert len(trace.samples) <= TRACED + 1


def test_a_path_known_at_its_end():
    trace = Trace.of_end(30, 400.0, -12.0)
    assert (trace.samples.tolist(), trace.ess.tolist()) == ([30], [400.0])
    assert trace.log_evidence == pytest.approx([-12.0])


def test_a_path_known_at_its_end_goes_on():
    trace = Trace.of_end(30, 29.0, -12.0)
    for n in (1, 3, 9000):
        begin = trace.length
        ess = np.arange(begin, begin + n, dtype=float)
        trace = trace.extended(ess, -ess)
    # Every entry is the value of its sample.
    np.testing.assert_array_equal(trace.ess, trace.samples - 1.0)
    assert (trace.samples[0], trace.samples[-1]) == (30, 9034)


def test_nothing_before_the_first_sample():
    assert Trace.empty().samples.size == Trace.empty().ess.size == 0
