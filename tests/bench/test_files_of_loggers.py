"""Files in dialects of loggers, of which none is read as anything but what was written."""

import numpy as np

from benchmarks.files import Logger, outcome


def test_no_dialect_is_silently_misread(tmp_path):
    found = []
    for seed in range(300, 340):
        logged = Logger(np.random.default_rng(seed)).logged()
        found.append(outcome(logged, tmp_path / "a.csv")[0])
    assert set(found) <= {"right", "refused", "told"}
    assert found.count("right") >= 34
