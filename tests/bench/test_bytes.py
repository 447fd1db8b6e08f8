"""Digests of results: what they see, what a commit may change, and what is not compared."""

import numpy as np

from benchmarks.bytes import __main__ as bytes_command
from benchmarks.bytes.__main__ import QUICK, Expected, base_of, changed_on_purpose
from benchmarks.bytes.cases import CASES
from benchmarks.bytes.digest import digest
from benchmarks.bytes.outputs import without_times


def test_digests_see_values_shapes_and_texts():
    whole = np.arange(6.0)
    contents = [whole, whole[::-1], whole.reshape(2, 3), list(whole), ["a"], ["b"], [b"a", whole]]
    assert len({digest(content) for content in contents}) == len(contents)
    assert digest(whole) == digest(whole.astype(np.int64)) == digest(whole[::-1][::-1])
    assert digest([np.nextafter(1.0, 2.0)]) != digest([1.0])


def test_quick_cases_are_cases():
    assert set(QUICK) <= set(CASES)


def test_lines_of_messages_name_cases_by_how_they_begin():
    message = "Filters: another order\n\nBytes: kalman, stream delay\n\nBytes are not: dalton"
    kalman = {"kalman", "kalman tempering", "stream delay"}
    assert changed_on_purpose(message) == kalman
    assert changed_on_purpose("Bytes: all") == set(CASES)
    assert changed_on_purpose("Bytes: kal") == changed_on_purpose("") == set()


def test_rows_of_what_changed_what_should_not_and_what_did_not_run_there():
    expected = Expected({"kalman": "a", "dalton": "b", "fenrir": "not run: KeyError"}, {"kalman"})
    cases = (("kalman", "c"), ("dalton", "c"), ("dalton", "b"), ("fenrir", "c"), ("sindy", "c"))
    assert [expected.row(*case).met for case in cases] == [None, False, True, None, None]


def test_without_a_commit_before_nothing_is_compared(monkeypatch, capsys):
    monkeypatch.setattr(bytes_command, "git", lambda *arguments: None)
    assert base_of("parent") is None
    monkeypatch.setattr("sys.argv", ["bytes", "--against-commit", "--check"])
    assert bytes_command.main() == 0
    assert "no such commit" in capsys.readouterr().out


def test_times_and_dates_are_left_out_of_texts():
    one, other = "took 3.1 s\ntime 3 s of 4\non 2026-11-24 10:17 UTC", "took 12 s\ntime 9\non "
    assert without_times(one).split() == without_times(other).replace("on", "").split()
    assert without_times("mean 3.14 samples") == "mean 3.14 samples"
