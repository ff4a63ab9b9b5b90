"""The app behind the page: who may ask, what is too much, and a sentence for whatever goes wrong.

It is for one person on one machine. The address holds a token that only this person was told; a request without it, or
under another host's name (which is how a page elsewhere would reach a server here), is refused before anything is read.
"""

import asyncio
import errno
import json
import logging
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relax_plugin.errors import InputError, ModelError, ReLAXError
from relax_plugin.pages.html import script_data, template
from relax_plugin.whatif.form import read_tab
from relax_plugin.whatif.session import WhatIf

T = TypeVar("T")

SIDE_BY_SIDE = 8  # questions that are answered at the same time


class TooSlowError(ReLAXError):
    """The model has not answered in time, or too many questions before this one are still open."""


class Waiting:
    """Answers questions in threads of their own, some at the same time, and waits for each `patience` seconds at most.

    A thread cannot be stopped, so that a question that takes too long goes on in the background and keeps its place
    until it is done. The threads do not keep the program from ending.
    """

    def __init__(self, patience: float, side_by_side: int = SIDE_BY_SIDE) -> None:
        self.patience = patience
        self.side_by_side = side_by_side
        self._places = threading.BoundedSemaphore(side_by_side)

    async def answer(self, function: Callable[..., T], *arguments: Any) -> T:
        """What the function returns or raises, unless that takes too long."""
        if not self._places.acquire(blocking=False):
            raise TooSlowError(
                f"{self.side_by_side} questions are still waiting for the model; ask again when some are answered."
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def work() -> None:
            result, error = None, None
            try:
                result = function(*arguments)
            except BaseException as raised:  # it is raised again where the answer is waited for
                error = raised if isinstance(raised, Exception) else RuntimeError(f"{type(raised).__name__} {raised}")
            finally:
                self._places.release()
            with suppress(RuntimeError):  # the server was stopped in the meantime: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=work, name="what-if question", daemon=True).start()
        try:
            return await asyncio.wait_for(done, self.patience)
        except TimeoutError as error:
            if not done.cancelled():
                raise
            raise TooSlowError(
                f"the model has not answered within {self.patience:g} seconds; this question is no longer waited for."
            ) from error


logger = logging.getLogger(__name__)

MOST_BYTES = 256_000  # of a question
MOST_LETTERS = 200  # of a search
PATIENCE = 30.0  # seconds
POSITION = re.compile("[0-9]{1,18}")  # of a row
HTTP_PORT = 80
HOSTS = ("127.0.0.1", "localhost", "[::1]")

# The card brings styles of its own; scripts come from this server alone, and nothing at all from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def new_token() -> str:
    """A token that nobody can guess, for the address."""
    return secrets.token_urlsafe(24)


class Doorkeeper:
    """Refuses requests under another host's name, from another page, or without the token; and keeps pages in."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{host}:{port}".encode() for host in HOSTS}
        if port == HTTP_PORT:  # which browsers leave out
            self.hosts |= {host.encode() for host in HOSTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # of the server itself
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"a {scope['type']} is no question of the page.")

        async def send_kept_in(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        why = self.refusal(scope)
        app = self.app if why is None else PlainTextResponse(why, status_code=403)
        await app(scope, receive, send_kept_in)

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused; None if it is not."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return "This page is reached as 127.0.0.1 or localhost only, with its port."
        if any(origin != b"http://" + hosts[0] for origin in headers.get(b"origin", [])):
            return "This page answers no other page."
        given = scope["path"].removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            return "The address lacks the token: open the one that the command printed."
        return None


def what_if_app(session: WhatIf, token: str, port: int, patience: float = PATIENCE) -> ASGIApp:
    """The app for a session, below `/token/` (see `new_token`).

    Requests must name the `port`. After `patience` seconds an answer of the model, or the rest of a question, is no
    longer waited for.
    """
    page = Page(session, Waiting(patience))
    routes = [
        Route("/", page.whole),
        Route("/whatif.js", page.script),
        Route("/whatif.css", page.style),
        Route("/rows", page.rows),
        Route("/row/{position}", page.row),
        Route("/answers", page.answers, methods=["POST"]),
        Route("/predict", page.predict, methods=["POST"]),
        Route("/explain", page.explain, methods=["POST"]),
        Route("/history", page.history),
        Route("/history.json", page.history_json),
        Route("/history.csv", page.history_csv),
    ]
    below = [Route(f"/{token}{route.path}", route.endpoint, methods=list(route.methods or ())) for route in routes]
    handlers: Any = {ReLAXError: _refused, HTTPException: _not_there, ClientDisconnect: _gone}
    return Doorkeeper(Starlette(routes=below, exception_handlers=handlers), token, port)


class Page:
    """What each address answers."""

    def __init__(self, session: WhatIf, waiting: Waiting) -> None:
        self.session, self.waiting = session, waiting

    async def whole(self, request: Request) -> Response:
        told = self.session.describe()
        text = template("whatif.html.jinja").render(title=told["title"], data=script_data(told), setup=told["setup"])
        return Response(text, media_type="text/html")

    async def script(self, request: Request) -> Response:
        return Response(template("whatif.js").render(), media_type="text/javascript")

    async def style(self, request: Request) -> Response:
        return Response(template("whatif.css").render(), media_type="text/css")

    async def rows(self, request: Request) -> Response:
        text = request.query_params.get("search", "")
        if len(text) > MOST_LETTERS:
            raise InputError(f"the search has {len(text)} letters; at most {MOST_LETTERS} are looked for.")
        return await self._told(self.session.find, text)

    async def row(self, request: Request) -> Response:
        position = request.path_params["position"]
        if not POSITION.fullmatch(position):
            raise HTTPException(404)
        return await self._told(self.session.row, int(position))

    async def answers(self, request: Request) -> Response:
        sent = await self._json(request)
        if not isinstance(sent, list):
            raise InputError("a list of rows is needed.")
        return await self._told(self.session.answers, sent)

    async def predict(self, request: Request) -> Response:
        return await self._told(self.session.predict, await self._json(request))

    async def explain(self, request: Request) -> Response:
        return await self._told(self.session.explain, await self._json(request))

    async def history(self, request: Request) -> Response:
        return JSONResponse(self.session.tried(request.query_params.get("tab", "")))

    async def history_json(self, request: Request) -> Response:
        return self._file(request, self.session.history.json, "application/json", "json")

    async def history_csv(self, request: Request) -> Response:
        return self._file(request, self.session.history.csv, "text/csv", "csv")

    def _file(self, request: Request, made: Callable[[str], str], kind: str, ending: str) -> Response:
        text = made(read_tab(request.query_params.get("tab", "")))
        attached = {"Content-Disposition": f'attachment; filename="what-if.{ending}"'}
        return Response(text, media_type=kind, headers=attached)

    async def _json(self, request: Request) -> Any:
        try:
            async with asyncio.timeout(self.waiting.patience):
                return await _json(request)
        except TimeoutError as error:
            told = f"the question was not sent within {self.waiting.patience:g} seconds."
            raise HTTPException(408, told, headers={"Connection": "close"}) from error

    async def _told(self, function: Callable[..., Any], *arguments: Any) -> Response:
        try:
            return JSONResponse(await self.waiting.answer(function, *arguments))
        except ReLAXError:
            raise
        except Exception as error:  # what nobody foresaw: the page says so, the terminal shows where it happened
            logger.error("A question could not be answered.", exc_info=error)
            return _sentence(f"this could not be answered: {type(error).__name__} {error}", 500)


async def _json(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"what is sent is {kind or 'of no kind'}; application/json is needed.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the question is longer than {MOST_BYTES} bytes.")
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # texts that are no UTF-8 and numbers of many digits are ValueErrors
        raise InputError(f"what was sent is no JSON: {error}.") from error


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


async def _refused(request: Request, error: Exception) -> Response:
    status = 502 if isinstance(error, ModelError) else 503 if isinstance(error, TooSlowError) else 400
    return _sentence(str(error), status)


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = "there is nothing at this address." if error.status_code == 404 else error.detail
    return _sentence(told, error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    """The browser went away before it had sent its question: nobody reads this."""
    return Response(status_code=400)


def _sentence(text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": text[:1].upper() + text[1:]}, status_code=status, headers=headers)


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
