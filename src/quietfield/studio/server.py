"""The server: on the loopback address alone, for one folder, until it is stopped in the terminal or from the page."""

import os
import socket
import threading
import tomllib
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import uvicorn
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from quietfield.curator.ledger import Charge, Ledger
from quietfield.curator.ledger_words import describe_ledger
from quietfield.errors import Error, FileError
from quietfield.files import parse_json
from quietfield.output.report.pages import format_percent, mark_up_name
from quietfield.privacy.accounting import format_number
from quietfield.studio.guard import Guard, Session
from quietfield.studio.jobs import Jobs
from quietfield.text import plural, printable

HERE = Path(__file__).parent
#: The most bytes of one request: pasted lists of labels are the longest.
MOST_BYTES = 4_000_000
#: What may be downloaded: what the commands write for others, and a draft's own files.
SUFFIXES = (".qfr", ".qfm", ".html", ".csv", ".parquet", ".svg", ".json", ".pub.pem", ".card.md")
#: A report may run its own script, and nothing else; it cannot see the page that opened it.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
)


class _Templates(Environment):
    """Templates in which ``texts.copy`` is the text of that name, and not the method of a dictionary."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return obj[attribute] if isinstance(obj, dict) and attribute in obj else super().getattr(obj, attribute)


@dataclass
class Studio:
    """What the pages share: tokens, jobs, texts, and the way to stop."""

    session: Session = field(default_factory=Session)
    jobs: Jobs = field(default_factory=lambda: Jobs(Path()))
    stop: Callable[[], None] = lambda: None

    @cached_property
    def texts(self) -> dict[str, Any]:
        """All texts of the pages, by page and name."""
        return tomllib.loads((HERE / "texts.toml").read_text(encoding="utf-8"))

    @cached_property
    def environment(self) -> Environment:
        """The templates, and the few filters that they use."""
        found = _Templates(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        found.filters.update(
            name=mark_up_name,
            shown=printable,
            percent=format_percent,
            many=plural,
            number=format_number,
            in_words=describe_ledger,
            spent_share=spent_share,
            paid=self.describe_payment,
        )
        found.globals["t"] = self.texts
        found.globals["m"] = found.get_template("macros.html").module
        return found

    def describe_payment(self, charge: Charge, ledger: str) -> str:
        """What a charge took from a ledger: epsilon, or a share of a budget that is kept in what few have heard of."""
        book = Ledger(ledger)
        if book.accounting == "pure":
            return format_number(charge.cost)
        return str(self.texts["publish"]["charge_share"] % format_percent(float(charge.cost / book.limit)))

    def render(self, template: str, **content: Any) -> str:
        """A page, or a part of one, from its template."""
        return self.environment.get_template(template).render(**content)


def spent_share(ledger: Ledger) -> float:
    """How much of what a ledger may spend is spent, from 0 to 1."""
    limit = ledger.limit
    return float(ledger.spent / limit) if limit else 1.0


#: What answers a request: given the fields that were sent, HTML to show, or what the page is to do.
Handler = Callable[[Studio, dict[str, Any]], "str | dict[str, Any]"]


def create_app(studio: Studio, port: int) -> Guard:
    """The application that a server of one folder, which is the current one, runs.

    Args:
        studio: What its pages share.
        port: The port that it is asked at, which requests have to name.

    Returns:
        An ASGI application.
    """
    from quietfield.studio import analyst, curator

    def answer(handler: Handler) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                sent = await _read(request) if request.method == "POST" else {}
            except Error as error:
                return JSONResponse({"error": str(error)}, 400)
            asked = {**request.query_params, **sent, **request.path_params}
            return await run_in_threadpool(_reply, handler, studio, asked)

        return endpoint

    async def shell(request: Request) -> Response:
        return HTMLResponse(studio.render("shell.html"))

    def exchange(studio: Studio, asked: dict[str, Any]) -> dict[str, Any]:
        token = studio.session.exchange(str(asked.get("once", "")))
        if token is None:
            raise Error(studio.texts["shell"]["used"])
        return {"token": token}

    def opened(request: Request) -> Response:
        path = studio.session.tickets.pop(request.path_params["ticket"], None)
        if path is None or not Path(path).is_file():
            return JSONResponse({"error": studio.texts["shell"]["gone"]}, 404)
        headers = {"Content-Security-Policy": REPORT_POLICY} if path.endswith(".html") else {}
        kind = "inline" if path.endswith(".html") else "attachment"
        return FileResponse(path, headers=headers, filename=Path(path).name, content_disposition_type=kind)

    routes = [
        Route("/", shell),
        Route("/session", answer(exchange), methods=["POST"]),
        Route("/file/{ticket}", opened),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        *(Route(f"/page/{path}", answer(handler)) for path, handler in (curator.PAGES | analyst.PAGES).items()),
        *(
            Route(f"/do/{path}", answer(handler), methods=["POST"])
            for path, handler in (curator.ACTIONS | analyst.ACTIONS | {"stop": _stop, "ticket": _ticket}).items()
        ),
    ]
    return Guard(Starlette(routes=routes), studio.session, port)


def _reply(handler: Handler, studio: Studio, asked: dict[str, Any]) -> Response:
    try:
        found = handler(studio, asked)
        return JSONResponse({"html": found} if isinstance(found, str) else found)
    except Error as error:
        return JSONResponse({"error": str(error)}, 400)
    except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a record: its kind alone is told
        said = f"something unforeseen happened ({type(error).__name__}), which is a fault in quietfield; report it."
        return JSONResponse({"error": said}, 500)


async def _read(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise FileError(f"the page sent more than {MOST_BYTES:,} bytes; paste fewer labels at a time.")
    found = parse_json(bytes(body), "the request")
    if not isinstance(found, dict):
        raise FileError("the page sent no fields; reload it.")
    return found


def _stop(studio: Studio, asked: dict[str, Any]) -> dict[str, Any]:
    studio.stop()
    return {"html": studio.render("stopped.html", running=studio.jobs.running())}


def _ticket(studio: Studio, asked: dict[str, Any]) -> dict[str, Any]:
    path = Path(str(asked.get("path", "")))
    if not path.name.endswith(SUFFIXES) or not path.resolve().is_relative_to(Path.cwd()) or not path.is_file():
        raise FileError(f"{path} is not a file of this folder that can be downloaded; look at the page again.")
    return {"open": f"/file/{studio.session.ticket(str(path))}"}


def _prepare(studio: Studio) -> None:
    """Load what takes a while before somebody waits for it."""
    for name in studio.environment.list_templates():
        studio.environment.get_template(name)
    for name in ("quietfield.schema.form", "duckdb", "pyarrow.parquet", "scipy.special", "opendp.measurements", "ibis"):
        with suppress(ModuleNotFoundError):  # an analyst has not all of them, and needs not
            import_module(name)


def serve(folder: Path, *, port: int = 0, browse: bool = True, say: Callable[[str], None]) -> None:
    """Serve the studio for a folder until it is stopped.

    Args:
        folder: Where data, drafts and releases lie; the process works there from now on.
        port: The port, or 0 for any that is free.
        browse: Whether to open the address in the browser.
        say: What is told the address, and how to stop.

    Raises:
        FileError: The folder is not there, or the port is taken.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be entered: {error.strerror}; name another.") from None
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
            listening.listen()  # now: whoever opens the address at once waits, and is not refused
        except OSError as error:
            raise FileError(f"port {port} cannot be had: {error.strerror}; name another, or none for any.") from None
        number = listening.getsockname()[1]
        studio = Studio()
        config = uvicorn.Config(
            create_app(studio, number), log_level="error", access_log=False, server_header=False, lifespan="off",
            ws="none", timeout_graceful_shutdown=3,
        )  # fmt: skip
        server = uvicorn.Server(config)

        def stop() -> None:
            server.should_exit = True

        studio.stop = stop
        address = f"http://127.0.0.1:{number}/#token={studio.session.once}"
        say(f"studio      {Path.cwd()}\nopen        {address}\nstop        Ctrl-C, or from the page")
        threading.Thread(target=_prepare, args=(studio,), daemon=True).start()
        if browse:
            webbrowser.open(address)
        server.run(sockets=[listening])
        for command in studio.jobs.running():
            say(f"still runs  {command}")
