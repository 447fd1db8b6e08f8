"""Files that grow, pipes, and TCP servers that die, stutter and lie."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from small_stream import CHANNELS, SAMPLES, TEXT, Server, everything, online, samples_in

import smcpn
from smcpn.base.signals import Stop
from smcpn.errors import InputError
from smcpn.io import Lines, Sample, Samples, Stream, open_source
from smcpn.io.events import Event
from smcpn.io.network import FIRST_SECONDS, LONGEST_SECONDS, Backoff
from smcpn.io.parse import LineParser
from smcpn.io.sources import Reader, StandardInput


def run(source, live: smcpn.Online | None = None, count: int = 60):
    """Assimilate until ``count`` samples are in or the source ends."""
    live, events, stop = live or online(), [], Stop()
    for _ in Stream(live, source, events.append, stop=stop):
        if live.sample >= count:
            stop.request()
    return live, events


def kinds(events: list[Event], *without: str) -> list[str]:
    return [e.kind for e in events if e.kind not in without]


def test_a_file_from_beginning_to_end(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"".join(TEXT))
    live, events = run(open_source(str(path), CHANNELS), count=10**9)
    assert everything(live)
    assert kinds(events) == ["end"]


class Author(threading.Thread):
    """Does things to a file, step by step."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._steps = steps
        self.start()

    def run(self) -> None:
        for step in self._steps:
            time.sleep(0.25)
            step()


def test_a_file_that_comes_late_and_grows_by_halves_of_lines(tmp_path):
    path = tmp_path / "log.csv"

    def append(content: bytes) -> None:
        with path.open("ab") as file:
            file.write(content)

    content = b"".join(TEXT)
    author = Author(
        lambda: append(content[:100]),
        lambda: append(content[100:101]),
        lambda: append(content[101:]),
    )
    live, events = run(open_source(str(path), CHANNELS, follow=True))
    author.join()
    assert everything(live)
    assert events == []


def test_a_followed_file_that_is_replaced_or_cut_short(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"".join(TEXT[:20]))

    def rotate() -> None:
        with path.open("ab") as old:
            path.rename(tmp_path / "log.1")
            old.write(b"".join(TEXT[20:30]) + b"3.0,0,9")
            old.flush()
            (tmp_path / "new").write_bytes(b"".join(TEXT[30:40]))
            (tmp_path / "new").rename(path)

    def cut_short() -> None:
        path.write_bytes(b"".join(TEXT[40:45]))

    def go_on() -> None:
        with path.open("ab") as file:
            file.write(b"".join(TEXT[45:]))

    author = Author(rotate, cut_short, go_on)
    live, events = run(open_source(str(path), CHANNELS, follow=True))
    author.join()
    assert everything(live)
    assert kinds(events) == ["bad-line", "restarted", "restarted"]
    assert "cut off" in events[0].message


def test_standard_input_is_a_pipe_or_a_file(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_bytes(b"".join(TEXT))
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as pipe:
            for text in TEXT:
                pipe.write(text)
                pipe.flush()

    for file, replays in ((reading, False), (path, True)):
        with open(file) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            writer = threading.Thread(target=write)
            if not replays:
                writer.start()
            source = Lines(StandardInput(), LineParser(CHANNELS))
            assert source.replays is replays
            assert everything(run(source, count=10**9)[0])


def test_a_server_that_is_killed_and_replays_from_the_start():
    def script(connection: socket.socket, number: int) -> None:
        # Each connection dies in the middle of a line; the fourth gets through.
        content = b"".join(TEXT)
        connection.sendall(content[: 170 * (number + 1)] if number < 3 else content)

    with Server(script) as server:
        live, events = run(open_source(server.address, CHANNELS))
    assert everything(live)
    assert kinds(events, "duplicate") == ["connected", "bad-line", "disconnected"] * 3 + [
        "connected"
    ]
    duplicates = [e.count for e in events if e.kind == "duplicate"]
    whole = [b"".join(TEXT)[: 170 * k].count(b"\n") for k in (1, 2, 3)]
    assert duplicates == whole


def test_a_server_that_goes_on_where_it_was_and_one_that_loses_some():
    def script(connection: socket.socket, number: int) -> None:
        # The client may connect once more before it has taken the last samples.
        pieces = [TEXT[:20], TEXT[20:30], TEXT[35:]]
        connection.sendall(b"".join(pieces[min(number, 2)]))

    with Server(script) as server:
        live, events = run(open_source(server.address, CHANNELS))
    found = samples_in(live)
    assert np.flatnonzero(np.isnan(found[:, 2])).tolist() == [30, 31, 32, 33, 34]
    np.testing.assert_allclose(found[:30], SAMPLES[:30], atol=1e-12)
    np.testing.assert_allclose(found[35:], SAMPLES[35:], atol=1e-12)
    gaps = [(e.count, e.t) for e in events if e.kind == "gap"]
    assert gaps == [(5, 3.5)]
    assert "duplicate" not in kinds(events)


def test_a_willing_server_is_told_where_to_go_on():
    told: list[dict] = []

    def script(connection: socket.socket, number: int) -> None:
        line = connection.makefile().readline()
        told.append(json.loads(line))
        after = told[-1]["resume_after"]
        rest = [
            text for text, row in zip(TEXT, SAMPLES, strict=True) if after is None or row[0] > after
        ]
        connection.sendall(b"".join(rest[:25]))

    with Server(script) as server:
        live, events = run(open_source(server.address, CHANNELS, announce=True))
    assert everything(live)
    assert told[:3] == [
        {"resume_after": None, "resume_after_n": None},
        {"resume_after": 2.4, "resume_after_n": None},
        {"resume_after": 4.9, "resume_after_n": None},
    ]
    assert "duplicate" not in kinds(events)


def test_after_a_checkpoint_a_willing_server_is_told_its_time():
    told: list[bytes] = []

    def script(connection: socket.socket, number: int) -> None:
        told.append(connection.makefile("rb").readline())
        connection.sendall(b"".join(TEXT))

    with Server(script) as server:
        source = open_source(server.address, CHANNELS, announce=True)
        live, _ = run(source, online(begin=21))
    assert json.loads(told[0]) == {"resume_after": 2.0, "resume_after_n": 20}
    assert everything(live)


def test_a_server_that_stutters_and_sends_noise():
    def script(connection: socket.socket, number: int) -> None:
        for k, text in enumerate(TEXT):
            connection.sendall(text[:5])
            if k % 20 == 10:
                time.sleep(0.3)  # longer than the client waits at a time
            connection.sendall(text[5:])
            if k % 20 == 15:
                connection.sendall(b"\xff\xfe garbage \x1b[31m\n" + b"z" * 70000 + b"\n")

    with Server(script) as server:
        live, events = run(open_source(server.address, CHANNELS))
    assert everything(live)
    bad = [e.line for e in events if e.kind == "bad-line"]
    assert bad == [17, 18, 39, 40, 61, 62]


def test_samples_without_time_are_all_taken_and_it_is_said():
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(b"1,2\n" * 10)

    with Server(script) as server:
        live, events = run(open_source(server.address, CHANNELS), count=20)
    assert live.sample == 20
    assert kinds(events) == ["connected", "untimed", "disconnected", "connected"]


def test_sequence_numbers_stand_in_for_times():
    lines = [json.dumps({"n": k, "u": u, "y": y}).encode() + b"\n" for k, (_, u, y) in
             enumerate(SAMPLES)]  # fmt: skip

    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(b"".join(lines[: 40 if number == 0 else 60]))

    with Server(script) as server:
        live, events = run(open_source(server.address, CHANNELS))
    assert everything(live)
    assert [e.count for e in events if e.kind == "duplicate"] == [40]


def test_no_server_is_tried_until_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    source = open_source(f"tcp://127.0.0.1:{port}", CHANNELS, give_up=0.25)
    live, events = run(source)
    assert live.sample == 0
    assert kinds(events) == ["disconnected"] * 3 + ["end"]
    assert "given up" in events[2].message


def test_a_server_that_is_silent_is_given_up():
    def silent(connection, number):
        connection.sendall(b"".join(TEXT[:3]))
        with contextlib.suppress(ConnectionError):
            connection.recv(1)

    with Server(silent) as server:
        source = open_source(server.address, CHANNELS, give_up=0.5)
        live, events = run(source)
    assert live.sample == 3
    assert "no data for" in events[-2].message
    assert "given up" in events[-2].message


def test_a_server_over_tls_is_believed_by_its_certificate():
    folder = Path(__file__).parent / "tls"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")

    def encrypted(connection, number):
        secured = partial(context.wrap_socket, connection, server_side=True)
        with contextlib.suppress(ssl.SSLError), secured() as secure:
            secure.sendall(b"".join(TEXT))
            secure.unwrap()

    with Server(encrypted) as server:
        address = server.address.replace("tcp", "tls")
        trusted = str(folder / "server.pem")
        live, events = run(open_source(address, CHANNELS, give_up=0.3, ca_file=trusted))
        assert everything(live)
        assert server.address not in str(events)
        live, events = run(open_source(address, CHANNELS, give_up=0.3))
        assert live.sample == 0
        assert "certificate" in str(events[0])


def test_waiting_times_double_up_to_a_limit_until_data_come():
    backoff = Backoff()
    waits = [backoff.wait() for _ in range(9)]
    assert waits[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert max(waits) == waits[-1] == LONGEST_SECONDS
    backoff.reset()
    assert backoff.wait() == FIRST_SECONDS


@pytest.mark.slow
def test_a_slow_identification_holds_the_sender_back():
    """Nothing is dropped, and what waits between the two is bounded."""
    sent = 0
    line = b'{"n": %d, "u": 1, "y": 2, "more": "' + b"x" * 16000 + b'"}\n'
    go_on = threading.Event()

    def script(connection: socket.socket, number: int) -> None:
        nonlocal sent
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        for k in range(1500):
            connection.sendall(line % k)
            sent += 1

    live, events, stop = online(wait=go_on.wait), [], Stop()
    with Server(script) as server:
        source = open_source(server.address, CHANNELS)
        stream = Stream(live, source, events.append, stop=stop, ahead=32)
        consumer = threading.Thread(
            target=lambda: [stop.request() for _ in stream if live.sample == 1500]
        )
        consumer.start()
        held = -1
        while held != sent or sent == 0:
            held = sent
            time.sleep(0.3)
        assert live.sample == 0
        assert 32 <= held < 1200
        go_on.set()
        consumer.join(20)
    assert live.sample == 1500
    assert "gap" not in kinds(events)


def test_reading_ahead_is_bounded_and_ends_with_the_reader():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield (1.0, 2.0)

    reader = Reader(Samples(endless()), ahead=8)
    while reader.waiting < 8:
        time.sleep(0.01)
    time.sleep(0.1)
    assert taken <= 10
    assert isinstance(reader.take(), Sample)
    reader.close()
    assert not any(thread.name == "smcpn-source" for thread in threading.enumerate())


def test_what_reading_raises_reaches_the_user():
    def broken():
        yield (1.0, 2.0)
        raise InputError("the rig is on fire")

    with pytest.raises(InputError, match="on fire"):
        run(Samples(broken()))


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("nowhere.csv", {}, "'nowhere.csv' is no file"),
        (".", {}, "is no file"),
        (".", {"follow": True}, "no regular file"),
        ("-", {"follow": True}, "follow is for files"),
        ("-", {"announce": True}, "announce is for tcp"),
        ("udp://host:1", {}, "'udp://' is no source"),
        ("tcp://host", {}, "the port of tcp://host is none"),
        ("tcp://host:99999", {}, "the port of tcp://host is none"),
        ("tcp://:5000", {}, "no host"),
        ("mqtt://host", {}, "no topic"),
        ("tcp://[host:1", {}, "is none"),
        ("tcp://host:1", {"ca_file": "ca.pem"}, "ca_file is for tls"),
        ("tls://host:1", {"ca_file": "no.pem"}, "ca_file 'no.pem' cannot be used"),
        ("mqtt://host/t", {"credentials": "none"}, "credentials 'none' cannot be read"),
    ],
)
def test_addresses_that_cannot_be(address, options, message):
    with pytest.raises(InputError, match=message):
        open_source(address, CHANNELS, **options)
