"""The server of the what-if page: on this machine only, on a port that is free, until it is stopped."""

import logging
import socket
import threading
import urllib.error
import urllib.request

import pytest
from reference.what_if import session
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router

from relax_plugin.errors import InputError
from relax_plugin.whatif.app import HOST, address_of, listening, run, what_if_app


def test_a_port_in_use_is_told_in_a_sentence():
    with listening(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is in use by another program; give another with --port"):
            listening(port)


def test_only_this_machine_can_connect_and_a_port_is_free_again_at_once():
    with listening(0) as bound:
        assert bound.getsockname()[0] == HOST == "127.0.0.1"
        port = bound.getsockname()[1]
        assert address_of(bound, "token") == f"http://127.0.0.1:{port}/token/"
    listening(port).close()


def test_it_says_when_it_is_ready_and_answers_then():
    bound, ready = listening(0), threading.Event()
    app = Router([Route("/token/", lambda request: PlainTextResponse("here"))])
    threading.Thread(target=run, args=(app, bound, ready.set), daemon=True).start()
    assert ready.wait(120)
    answer = urllib.request.urlopen(address_of(bound, "token"), timeout=120)
    assert answer.read() == b"here" and "server" not in {name.lower() for name in answer.headers}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address_of(bound, "other"), timeout=120)
    elsewhere = ("127.0.0.2", bound.getsockname()[1])  # any other address of this machine
    with pytest.raises(OSError, match=r"refused|unreachable|timed out|assign"):
        socket.create_connection(elsewhere, timeout=2)


class Page:
    """The what-if page on a real server, to which bytes are sent."""

    def __init__(self, patience):
        self.bound, ready = listening(0), threading.Event()
        self.port = self.bound.getsockname()[1]
        app = what_if_app(session(), "token", self.port, patience)
        threading.Thread(target=run, args=(app, self.bound, ready.set), daemon=True).start()
        assert ready.wait(120)

    def connected(self, first_line, *headers):
        connection = socket.create_connection((HOST, self.port), timeout=60)
        lines = [first_line, f"Host: {HOST}:{self.port}", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return connection

    def answer(self, connection):
        with connection:
            return connection.makefile("rb").read().decode()


POST = ("POST /token/predict HTTP/1.1", "Content-Type: application/json", "Content-Length: 100")


@pytest.fixture(scope="module")
def page():
    return Page(patience=1.0)


@pytest.fixture
def tracebacks(caplog):
    """What the server logs with a traceback; uvicorn keeps its records from the loggers above."""
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(caplog.handler)
    yield lambda: [record for record in caplog.records if record.exc_info]
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize("target", ["*", "nothing", "http://evil.example/token/rows"])
def test_strange_targets_are_refused_without_a_traceback(page, target, tracebacks):
    told = page.answer(page.connected(f"GET {target} HTTP/1.1", "Connection: close"))
    assert told.split()[1] in ("200", "400", "403", "404")
    assert target != "*" or told.split()[1] in ("400", "403")
    assert not tracebacks()


@pytest.mark.slow
def test_a_row_with_five_thousand_digits_is_not_there(page, tracebacks):
    told = page.answer(page.connected(f"GET /token/row/{'9' * 5000} HTTP/1.1", "Connection: close"))
    assert told.split()[1] == "404"
    assert not tracebacks()


@pytest.mark.slow
def test_a_browser_that_goes_away_while_it_sends_leaves_no_traceback(page, tracebacks):
    for _ in range(20):
        page.connected(*POST).close()
    told = page.answer(page.connected("GET /token/rows HTTP/1.1", "Connection: close"))
    assert told.startswith("HTTP/1.1 200")
    assert not tracebacks()


@pytest.mark.slow
def test_a_question_that_is_never_finished_is_no_longer_waited_for(page):
    told = page.answer(page.connected(*POST))  # read until the server closes the connection
    assert told.startswith("HTTP/1.1 408") and "was not sent within 1 seconds" in told
