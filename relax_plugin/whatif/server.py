"""A server for the page: on this machine only, until Ctrl-C."""

import errno
import logging
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from relax_plugin.errors import InputError

HOST = "127.0.0.1"
LAST_SECONDS = 1  # for answers that are on their way when the server is stopped


def listening(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 is any that is free."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that was just stopped is no hindrance
        bound.bind((HOST, port))
        bound.listen()  # on some systems only this tells that another program listens there
    except OSError as error:
        bound.close()
        told = "is in use by another program" if error.errno == errno.EADDRINUSE else f"cannot be used: {error}"
        raise InputError(f"port {port} {told}; give another with --port, or 0 for any that is free.") from error
    return bound


def address_of(bound: socket.socket, token: str) -> str:
    """Where the page is."""
    return f"http://{HOST}:{bound.getsockname()[1]}/{token}/"


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """Browsers keep connections open without asking anything; that they are cut off at the end is no error."""
    return "timeout graceful shutdown exceeded" not in record.getMessage()


def run(app: ASGIApp, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C, which is how it is meant to end; `ready` is called once the page can be opened."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # its lines would hold the token
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_farewell)
    try:
        _Server(config, ready).run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn ends in order and then raises the signal again
        return
    finally:
        bound.close()
