"""The live page: who may read it, that nobody slows the stream, that it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

import smcpn
from smcpn.io.events import Event
from smcpn.report.live.page import RECENT, Address, LivePage, extremes
from tests import models

pytest.importorskip("uvicorn", reason="the extra web is not installed")
import uvicorn

from smcpn.report.live import server
from smcpn.report.live.server import HISTORY, Board, application

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
RECORD = smcpn.Record(y=np.ones(2), dt=1.0, t_unit="h", y_unit="bar")
HOSTILE = """</script><script>document.title = "taken"</script>"""


def state(k: int, budget: float = np.inf) -> SimpleNamespace:
    return SimpleNamespace(
        prediction=np.array([[1.0], [1e-9]]), latency=1e-4, late=False, t=0.1 * k,
        names=("k",), mean={"k": 4.0}, sd={"k": 0.1}, ess=100.0, degraded=False, lag=0,
        approximate="", quantile=lambda name, q: np.array([3.8, 4.2]), budget=budget,
    )  # fmt: skip


def feed(page: LivePage, begin: int, end: int, budget: float = np.inf) -> None:
    for k in range(begin, end):
        page.sample(SimpleNamespace(y=np.array([1.0])), 0.1 * k, state(k, budget), 0)


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("8000", "127.0.0.1", 8000, True),
        (":8000", "127.0.0.1", 8000, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:8000", "::1", 8000, True),
        ("0.0.0.0:8000", "0.0.0.0", 8000, False),
        ("rig.example:80", "rig.example", 80, False),
    ],
)
def test_addresses(text, host, port, loopback):
    address = Address.of(text)
    assert (address.host, address.port, address.loopback) == (host, port, loopback)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rig",
        "rig:",
        "rig:70000",
        "http://rig:80",
        "80a",
        "-1",
        "9" * 5000,
        "\udcff:0",
        "x" * 99 + ":0",
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(smcpn.InputError, match="--serve"):
        Address.of(text)


def answer(settings, path="/", query="", **headers) -> tuple[int, dict[str, str]]:
    """Status and headers of a request to the application."""
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }  # fmt: skip
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    async def ask():
        await application(settings, Board("run"))(scope, receive, send)

    asyncio.run(ask())
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}


LOCAL = {"host": "127.0.0.1", "port": 80, "token": "", "page": "the page"}
PUBLIC = {"host": "0.0.0.0", "port": 80, "token": "s" * 43, "page": "the page"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:80", "LOCALHOST:80"])
def test_this_machine_reads_without_a_token(host):
    status, headers = answer(LOCAL, host=host)
    assert status == 200
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example:80", "10.0.0.1"])
def test_a_foreign_name_that_leads_here_is_refused(host):
    assert answer(LOCAL, host=host)[0] == 400


def test_others_need_the_token():
    assert answer(PUBLIC, host="10.0.0.1")[0] == 403
    assert answer(PUBLIC, path="/events", host="10.0.0.1")[0] == 403
    assert answer(PUBLIC, query="token=ä", host="10.0.0.1")[0] == 403
    assert answer(PUBLIC, host="10.0.0.1", cookie="smcpn-80=wrong")[0] == 403
    assert answer(PUBLIC, host="evil.example", cookie=f"smcpn-80={'s' * 43}")[0] == 400
    status, headers = answer(PUBLIC, query=f"token={'s' * 43}", host="10.0.0.1")
    assert status == 303
    assert headers["location"] == "/"
    assert "HttpOnly" in headers["set-cookie"]
    cookie = headers["set-cookie"].partition(";")[0]
    assert answer(PUBLIC, host="10.0.0.1", cookie=cookie)[0] == 200


def test_a_reader_takes_what_is_new_and_a_slow_one_misses_the_oldest():
    async def read() -> list[str]:
        board = Board("run")
        for k in range(1, HISTORY + 11):
            board.put(json.dumps({"frame": k}))
        slow = board.follow("")
        taken = [await anext(slow), await anext(slow)]
        board.put(json.dumps({"frame": 1000}))
        taken.append(await anext(slow))
        again = board.follow("run:1000")
        board.put(json.dumps({"frame": 1001}))
        await anext(again)
        taken.append(await anext(again))
        return taken

    hello, history, new, resumed = asyncio.run(read())
    assert "data: run" in hello
    frames = json.loads(history.split("data: ")[1])
    assert [frames[0]["frame"], len(frames)] == [11, HISTORY]
    assert new == 'id: run:1000\ndata: [{"frame": 1000}]\n\n'
    assert resumed == 'id: run:1001\ndata: [{"frame": 1001}]\n\n'


async def _held(sent: bytes, board: Board) -> None:
    """Send something, read nothing, and return once the server closes the connection."""
    config = uvicorn.Config(
        application(LOCAL, board), ws="none", lifespan="off", log_level="critical"
    )
    config.load()
    state, loop = uvicorn.server.ServerState(), asyncio.get_running_loop()
    listening = await loop.create_server(lambda: server.Patient(config, state, {}), "127.0.0.1", 0)
    with contextlib.closing(socket.create_connection(listening.sockets[0].getsockname())) as one:
        one.sendall(sent)
        async with asyncio.timeout(5.0):
            while not state.connections:
                await asyncio.sleep(0.01)
            for k in itertools.count(1):
                if not state.connections:
                    break
                board.put(json.dumps({"frame": k, "y": "x" * 100_000}))
                await asyncio.sleep(0.01)
    listening.close()


ASKED = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
REFUSED = ASKED.replace(b"events", b"nothing")


@pytest.mark.parametrize(
    "sent", [b"", b"G", ASKED[:-2], ASKED.replace(b"events", b"x") + b"G", ASKED]
)
def test_who_only_holds_a_connection_loses_it(sent, monkeypatch):
    """Silent, with a part of a request, with one and a part, and without reading the frames."""
    monkeypatch.setattr(server, "PATIENCE", 0.05)
    monkeypatch.setattr(server, "READING", 0.05)
    asyncio.run(_held(sent, Board("run")))


def test_dns_is_not_asked_where_requests_are_answered(monkeypatch):
    here, asked = threading.get_ident(), []
    monkeypatch.setattr(socket, "getfqdn", lambda: asked.append(threading.get_ident()) or "x")
    answer(PUBLIC, host="evil.example")
    assert here not in asked


@pytest.mark.parametrize("sent", [b"G", ASKED])
def test_strangers_do_not_hold_the_page_shut(sent):
    problem = models.oscillator_problem(models.oscillator_record())
    with contextlib.closing(LivePage("0.0.0.0:0", "held", problem)) as page, ExitStack() as held:
        port = int(page.url.split(":")[2].split("/")[0])
        for _ in range(2 * server.MOST_CONNECTIONS):
            one = held.enter_context(socket.create_connection(("127.0.0.1", port), 5.0))
            one.sendall(sent)
            if sent == ASKED:
                one.recv(4096)
                with contextlib.suppress(OSError):
                    one.sendall(b"G")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(page.url.replace("0.0.0.0", "127.0.0.1"), timeout=5) as shown:
            assert shown.status == 200


@pytest.fixture
def page():
    page = LivePage("127.0.0.1:0", HOSTILE, models.oscillator_problem(models.oscillator_record()))
    yield page
    page.close()


def test_the_stream_does_not_wait_for_a_server_that_stands_still(page):
    os.kill(page.server_process, signal.SIGSTOP)
    try:
        feed(page, 0, 4 * RECENT)
    finally:
        os.kill(page.server_process, signal.SIGCONT)
    with urllib.request.urlopen(page.url) as response:
        text = response.read().decode()
    assert HOSTILE not in text
    page.event(Event("alarm", HOSTILE))
    with urllib.request.urlopen(page.url + "events") as response:
        line = next(line for line in response if line.startswith(b"data: ["))
    assert json.loads(line[6:])[-1]["samples"] <= 4 * RECENT


def test_a_port_that_is_taken_is_refused(page):
    problem = SimpleNamespace(observe=("x",), records=[RECORD])
    with pytest.raises(smcpn.InputError, match="cannot be listened on"):
        LivePage(page.url.split("/")[2], "second", problem)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_sees_the_server_die_and_come_back(page, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    shots = os.environ.get("SMCPN_SCREENSHOTS") or tmp_path
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        view = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
        tab, said = view.new_page(), []
        tab.on("pageerror", lambda error: said.append(str(error)))
        feed(page, 0, 50)
        page.event(Event("alarm", HOSTILE))
        tab.goto(page.url)
        status = tab.locator("#status")
        playwright.expect(status).to_have_text("live", timeout=20000)
        playwright.expect(tab.locator("#events")).to_contain_text(HOSTILE)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.screenshot(path=f"{shots}/live-390-dark.png", full_page=True)
        dead = page.server_process
        os.kill(dead, signal.SIGKILL)
        playwright.expect(status).to_contain_text("connection lost", timeout=20000)
        feed(page, 50, 99)
        playwright.expect(status).to_have_text("live", timeout=20000)
        assert page.server_process != dead
        playwright.expect(tab.locator("#facts")).to_contain_text("samples99", timeout=20000)
        assert tab.title().startswith(HOSTILE)
        assert not said
        page.close()
        playwright.expect(status).to_have_text("stream ended", timeout=20000)
        browser.close()


def test_a_sample_is_compared_with_what_was_predicted_of_it():
    problem = models.oscillator_problem(models.oscillator_record())
    live, record = smcpn.Online(problem, particles=100, seed=1), problem.records[0]
    live.update(record.u[0], record.y[0])
    for k in range(1, 40):
        ahead = live.predict(record.u[k : k + 1])
        missing = k == 30
        found = live.update(record.u[k], None if missing else record.y[k])
        mean, sd = found.prediction
        np.testing.assert_allclose([mean, sd], [ahead.mean[0], ahead.sd[0]], rtol=1e-9)
        expected = np.nan if missing else (record.y[k] - mean) / sd
        np.testing.assert_allclose(found.innovation, expected, rtol=1e-9)


def test_extremes_are_kept_in_order():
    values = np.random.default_rng(0).normal(size=(60, 2))
    values[[7, 8]] = np.nan
    kept = extremes(values).tolist()
    assert kept == sorted({f(values[:, j]) for f in (np.nanargmin, np.nanargmax) for j in (0, 1)})
    assert extremes(values[:4]).tolist() == [0, 1, 2, 3]
    assert 0 < len(extremes(np.full((60, 2), np.nan))) <= 4


@pytest.mark.parametrize(("budget", "in_time"), [(np.inf, None), (1.0, 1.0)])
def test_frames_hold_every_sample_with_its_prediction(page, budget, in_time):
    feed(page, 0, 4, budget)
    time.sleep(0.8)
    with urllib.request.urlopen(page.url + "events") as response:
        frames = json.loads(next(line for line in response if line.startswith(b"data: ["))[6:])
    assert [t for frame in frames for t in frame["t"]] == pytest.approx(0.1 * np.arange(4))
    shown = next(frame for frame in frames if frame["t"])
    assert (shown["predicted"][0], shown["sd"][0]) == ([1.0], [1e-9])
    state = next(frame["state"] for frame in reversed(frames) if frame.get("state"))
    assert state["parameters"] == [["k", 4.0, 0.1, 3.8, 4.2]]
    assert state["in_time"] == in_time


def test_a_frame_of_many_samples_holds_the_ends_of_all_curves(page):
    page._done.set()
    page._thread.join()
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, 100))
    for k in range(100):
        one = state(k)
        one.prediction = np.array([[mean[k]], [0.1]])
        page.sample(SimpleNamespace(y=y[k : k + 1]), 0.1 * k, one, 0)
    shown = page._shown_samples()
    assert shown["thinned"]
    assert len(shown["t"]) <= 10
    assert (shown["y"].min(), shown["y"].max()) == (y.min(), y.max())
    assert (shown["predicted"].min(), shown["predicted"].max()) == (mean.min(), mean.max())
    assert not page._shown_samples()["thinned"]
