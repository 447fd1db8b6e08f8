"""A topic of a real broker, which is started and stopped here."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from small_stream import CHANNELS, SAMPLES, Server, everything, online

import smcpn
from smcpn.base.signals import Stop
from smcpn.errors import InputError
from smcpn.io import Stream, open_source
from smcpn.io.events import Event

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


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

    def __init__(self, address: str, live: smcpn.Online, count: int, name: str = "s") -> None:
        super().__init__(daemon=True)
        self.live, self.events, self._count = live, [], count
        self.connected = threading.Event()
        self._stop_request = Stop()
        source = open_source(address, CHANNELS, session=name)
        self._stream = Stream(live, source, self._report, stop=self._stop_request)
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


def test_the_broker_keeps_what_comes_while_we_are_away(broker, publish):
    live = online()
    first = Session(broker.address, live, count=20)
    assert first.connected.wait(5)
    publish(SAMPLES[:20])
    assert first.finish() == ["connected"]
    publish(SAMPLES[20:])
    assert "gap" not in Session(broker.address, live, count=60).finish()
    assert everything(live)


def test_what_was_sent_and_not_assimilated_is_sent_again(broker, publish):
    """Twenty messages are under way when the process stops; none is lost."""
    live = online(wait=lambda: time.sleep(0.02))
    first = Session(broker.address, live, count=10)
    assert first.connected.wait(5)
    publish(SAMPLES)
    first.finish()
    assert live.sample == 10
    events = Session(broker.address, live, count=60).finish()
    assert everything(live)
    assert "gap" not in events


def test_a_broker_that_dies_and_comes_back(broker, publish):
    live = online()
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


REFUSED = b"\x20\x02\x00\x05"
"""CONNACK of MQTT 3.1.1: not authorised."""


def connect_packet(address: str, **options) -> tuple[bytes, str]:
    """What a broker that refuses everybody is sent, and what the user is told."""
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    sent = []

    def refuse(connection, number):
        sent.append(connection.recv(4096))
        connection.sendall(REFUSED)
        connection.recv(1)

    with Server(refuse) as server:
        source = open_source(address.format(server.port), CHANNELS, **options)
        with pytest.raises(InputError) as told:
            list(source.items(threading.Event()))
    return sent[0], str(told.value)


def test_user_and_password_are_percent_decoded_and_told_to_nobody():
    packet, told = connect_packet("mqtt://us%40er:pass%23word@127.0.0.1:{}/rig/7")
    assert b"us@er" in packet
    assert b"pass#word" in packet
    assert "Not authorized" in told
    assert "word" not in told.replace("password", "")


def test_a_login_may_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_USER", "known")
    monkeypatch.setenv("SMCPN_PASSWORD", "from outside")
    packet, _ = connect_packet("mqtt://127.0.0.1:{}/rig/7")
    assert b"known" in packet
    assert b"from outside" in packet
    file = tmp_path / "login"
    file.write_text("other\nfrom a file\n")
    packet, _ = connect_packet("mqtt://127.0.0.1:{}/rig/7", credentials=str(file))
    assert b"other" in packet
    assert b"from a file" in packet


@pytest.mark.parametrize(
    ("path", "topic"),
    [("rig/7", "rig/7"), ("rig/%23", "rig/#"), ("rig/#", "rig/#"), ("#", "#"), ("a?b", "a?b")],
)
def test_a_topic_may_hold_every_mark(path, topic):
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    assert open_source(f"mqtt://host/{path}", CHANNELS).name == f"mqtt://host:1883/{topic}"
    assert open_source(f"mqtts://host/{path}", CHANNELS).name == f"mqtts://host:8883/{topic}"
