"""What all tests of executors share: every batch is sent, and no worker knows anything yet."""

import pytest
from executors import UnreliableExecutor

from smcpn.smc.distributed import tasks, workers
from smcpn.smc.distributed.parts import Store


@pytest.fixture(autouse=True)
def always_away(monkeypatch):
    """Every batch is sent, and no worker knows anything yet."""
    monkeypatch.setattr(workers, "HOME_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "RECEIVED", Store())


@pytest.fixture
def executor():
    with UnreliableExecutor(seed=1, loses=0.1, forgets=0.2) as made:
        yield made
