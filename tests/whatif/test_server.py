"""The server of the what-if page: on this machine only, on a port that is free, until it is stopped."""

import socket
import threading
import urllib.error
import urllib.request

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router

from relax_plugin.errors import InputError
from relax_plugin.whatif.server import HOST, address_of, listening, run


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
