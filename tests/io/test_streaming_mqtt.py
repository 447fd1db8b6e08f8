"""A topic of a real broker, which is started and stopped here."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from streaming_standin import StandIn

from smcpn.errors import InputError
from smcpn.io import Channels, Stream, open_source
from smcpn.io.events import Event
from smcpn.signals import Stop
from tests.models import oscillator_problem, oscillator_record

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
PROBLEM = oscillator_problem(oscillator_record(samples=40))
CHANNELS = Channels.of(PROBLEM)
SAMPLES = [(round(0.1 * k, 1), float(k % 7), 0.25 * k) for k in range(60)]


def needs_broker() -> None:
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")


class Broker:
    """A mosquitto with a folder of its own, that may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.address = f"mqtt://127.0.0.1:{self.port}/rig/7"
        self._settings = folder / "mosquitto.conf"
        self._settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\npersistence true\n"
            f"persistence_location {folder}/\nautosave_on_changes true\nautosave_interval 1\n"
        )
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [str(MOSQUITTO), "-c", str(self._settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("mosquitto does not answer")

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture
def broker(tmp_path):
    needs_broker()
    broker = Broker(tmp_path)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def publish(broker):
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    def publish(rows) -> None:
        client = Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        for t, u, y in rows:
            client.publish("rig/7", f"{t},{u},{y}", qos=1).wait_for_publish(10)
        client.disconnect()
        client.loop_stop()

    return publish


class Session(threading.Thread):
    """A stream in a thread; ends after ``count`` samples."""

    def __init__(self, address: str, live: StandIn, count: int, name: str = "s") -> None:
        super().__init__(daemon=True)
        self.live, self.events, self._count = live, [], count
        self.connected = threading.Event()
        self._stop_request = Stop()
        source = open_source(address, CHANNELS, session=name)
        self._stream = Stream(
            live, source, PROBLEM, self._report, last=live.t, stop=self._stop_request
        )
        self.start()

    def _report(self, event: Event) -> None:
        self.events.append(event)
        if event.kind == "connected":
            self.connected.set()

    def run(self) -> None:
        for _ in self._stream:
            if self.live.sample >= self._count:
                self._stop_request.request()

    def finish(self) -> list[str]:
        self.join(20)
        assert not self.is_alive()
        return [event.kind for event in self.events]


def everything(live: StandIn) -> bool:
    return list(zip(live.times, live.inputs, live.outputs, strict=True)) == SAMPLES


def test_the_broker_keeps_what_comes_while_we_are_away(broker, publish):
    live = StandIn()
    first = Session(broker.address, live, count=20)
    assert first.connected.wait(5)
    publish(SAMPLES[:20])
    assert first.finish() == ["connected"]
    publish(SAMPLES[20:])
    assert "gap" not in Session(broker.address, live, count=60).finish()
    assert everything(live)


def test_what_was_sent_and_not_assimilated_is_sent_again(broker, publish):
    """Twenty messages are under way when the process stops; none is lost."""
    live = StandIn(wait=lambda: time.sleep(0.02))
    first = Session(broker.address, live, count=10)
    assert first.connected.wait(5)
    publish(SAMPLES)
    first.finish()
    assert live.sample == 10
    events = Session(broker.address, live, count=60).finish()
    assert everything(live)
    assert "gap" not in events


def test_a_broker_that_dies_and_comes_back(broker, publish):
    live = StandIn()
    session = Session(broker.address, live, count=60)
    assert session.connected.wait(5)
    publish(SAMPLES[:30])
    broker.stop()
    broker.start()
    publish(SAMPLES[30:])
    events = session.finish()
    assert everything(live)
    assert events.count("connected") >= 2
    assert "disconnected" in events
    assert "gap" not in events


def test_without_paho_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "paho.mqtt.client", None)
    with pytest.raises(InputError, match=r"pip install smcpn\[mqtt\]"):
        open_source("mqtt://localhost/rig", CHANNELS)
