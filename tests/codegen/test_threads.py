from threading import Event, Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from smcpn.codegen.threads import one_blas_thread


def blas_threads() -> set[int]:
    """Numbers of threads that the libraries of BLAS in this process may take."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has one thread only")
        yield


def test_nested_limits_end_with_the_outer_one(two_threads):
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_overlapping_limits_of_two_threads_leave_what_was_before(two_threads):
    entered, leave = Event(), Event()

    def work() -> None:
        with one_blas_thread():
            entered.set()
            assert leave.wait(60.0)

    other = Thread(target=work)
    with one_blas_thread():
        other.start()
        assert entered.wait(60.0)
    leave.set()
    other.join()
    assert blas_threads() == {2}


def test_an_error_ends_the_limit(two_threads):
    with pytest.raises(ValueError, match="inside"), one_blas_thread():
        raise ValueError("inside")
    assert blas_threads() == {2}
