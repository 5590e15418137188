"""The routes of `sangam ui`, the headers of all answers, and the pages of errors."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, NoReturn

from aiohttp import web

from sangam.pipelines.ui.access import COOKIE, TOKEN_FIELD, Access
from sangam.pipelines.ui.events import Events
from sangam.pipelines.ui.pages import RUN_ID, NotHere, Pages, Shown
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RUN = f"{{run:{RUN_ID}}}"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_COOKIE_S = 30 * 86400
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
"""Policy of self-contained pages: they have inline styles and no scripts."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
}
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_STATIC = ("report.css", "ui.css", "live.js", "refresh.js")


def application(root: Root, access: Access) -> web.Application:
    """Returns the server's routes over one root."""
    pages = Pages(root)
    events = Events(pages.find, pages.before)
    app = web.Application(middlewares=[_explained(pages), _allowed(access, pages)], client_max_size=1)
    app.on_response_prepare.append(_add_headers)

    async def close(_: web.Application) -> None:
        pages.close()

    app.on_cleanup.append(close)
    routes: dict[str, Callable[[web.Request], Shown]] = {
        "/": lambda request: pages.runs(request.query),
        f"/runs/{RUN}": lambda request: pages.run(request.match_info["run"]),
        f"/runs/{RUN}/live": lambda request: pages.live(request.match_info["run"]),
        "/compare": lambda request: pages.compare(request.query),
        "/overview": lambda _: pages.overview(),
        "/searches": lambda _: pages.searches(),
        f"/searches/{{ranker:{_NAME}}}/{{search:{_NAME}}}": lambda request: pages.search(**request.match_info),
        "/backfills": lambda _: pages.backfills(),
    }
    for path, make in routes.items():
        app.router.add_get(path, _page(pages, make))
    app.router.add_get(f"/runs/{RUN}/events", events.stream, allow_head=False)
    app.router.add_get("/static/{name}", _static)
    return app


def _page(pages: Pages, make: Callable[[web.Request], Shown]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        shown = await pages.work(make, request)
        if shown.address:
            raise web.HTTPSeeOther(shown.address)
        headers = {"Content-Security-Policy": REPORT_POLICY} if shown.is_report else {}
        tag = hashlib.sha256(shown.text.encode()).hexdigest()[:24]
        if any(each.value == tag for each in request.if_none_match or ()):
            return web.Response(status=304, headers={**headers, "ETag": f'"{tag}"'})
        response = web.Response(text=shown.text, content_type="text/html", headers=headers)
        response.etag = tag
        return response

    return handle


async def _static(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    if name not in _STATIC:
        raise web.HTTPNotFound
    return web.Response(
        body=_file(name),
        content_type=_TYPES[name[name.rindex(".") :]],
        charset="utf-8",
        headers={"Cache-Control": "no-cache"},
    )


@cache
def _file(name: str) -> bytes:
    """Returns a static file of the pages; `report.css` is the style of the report."""
    if name == "report.css":
        return (resources.files("sangam.components.page") / "templates" / name).read_bytes()
    return (resources.files("sangam.pipelines.ui") / "static" / name).read_bytes()


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _allowed(access: Access, pages: Pages) -> Any:
    """Returns the middleware that rejects requests that write, are for another host, or lack the token."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD"))
        if not access.knows_host(request.host):
            _refuse(
                web.HTTPMisdirectedRequest, "This server answers to names of its own machine alone, such as localhost."
            )
        given = request.query.get(TOKEN_FIELD)
        if access.token is not None and given is not None:
            if not access.is_token(given):
                _refuse(web.HTTPUnauthorized, "The token is wrong.", "Open the address that `sangam ui` has printed.")
            return _welcome(request, access, pages)
        authorization, cookie = request.headers.get("Authorization"), request.cookies.get(_cookie_name(request))
        # Static files are no secret, and the page of a rejection needs them.
        if not request.path.startswith("/static/") and not access.allows(authorization=authorization, cookie=cookie):
            _refuse(
                web.HTTPUnauthorized,
                "This server requires a token.",
                f"Open the address that `sangam ui` has printed, or add ?{TOKEN_FIELD}=TOKEN to this one.",
            )
        return await handler(request)

    return middleware


def _welcome(request: web.Request, access: Access, pages: Pages) -> web.Response:
    """Replaces the token in the address by a cookie."""
    left = {name: value for name, value in request.query.items() if name != TOKEN_FIELD}
    # A single slash: browsers would treat `//name/` as another host.
    address = "/" + str(request.rel_url.with_query(left)).lstrip("/")
    # Not a redirect: after a link from another site, browsers would not send a strict cookie with it.
    response = web.Response(
        text=pages.message("Welcome", "You may look now.", "", link=(address, "Go on")),
        content_type="text/html",
        headers={"Refresh": f"0; url={address}"},
    )
    response.set_cookie(
        _cookie_name(request), access.cookie, max_age=_COOKIE_S, httponly=True, samesite="Strict", path="/"
    )
    return response


def _cookie_name(request: web.Request) -> str:
    # Browsers send a cookie to all ports of a host, which may serve other roots.
    return f"{COOKIE}_{request.url.port}"


def _refuse(kind: type[web.HTTPException], sentence: str, advice: str = "") -> NoReturn:
    raise kind(text=f"{sentence}\n{advice}".strip())


_TITLES: Mapping[int, str] = {
    401: "Token required",
    404: "Not found",
    405: "Read only",
    421: "Unknown host",
    500: "This could not be read",
    503: "Too many requests",
}


def _explained(pages: Pages) -> Any:
    """Returns the middleware that renders errors as pages."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPSeeOther:
            raise
        except web.HTTPException as error:
            told = error.text if error.text and not error.text.startswith(f"{error.status}:") else ""
            sentence, _, advice = (told or _default(error.status, request)).partition("\n")
            headers = {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
            return _error(pages, error.status, sentence, advice, headers)
        except NotHere as error:
            return _error(pages, 404, str(error), "It may have been removed. The list has what there is.", {})
        except UserError as error:
            return _error(pages, 500, str(error), "", {})
        except Exception:  # noqa: BLE001 - an error of one page must not stop the server
            _LOG.exception("event=page_failed path=%s", request.path)
            return _error(
                pages,
                500,
                "A file of the root is not as this version writes it.",
                "The terminal of `sangam ui` has the error.",
                {},
            )

    return middleware


def _default(status: int, request: web.Request) -> str:
    if status == 405:
        return f"Nothing can be changed here (got {request.method}): use the command line."
    return f"There is no such page (got {request.path})." if status == 404 else "The request cannot be answered."


def _error(pages: Pages, status: int, sentence: str, advice: str, headers: Mapping[str, str]) -> web.Response:
    title = _TITLES.get(status, f"Error {status}")
    text = pages.message(title, sentence, advice, link=("/", "All runs"))
    if status == 401:
        headers = {**headers, "WWW-Authenticate": 'Bearer realm="sangam ui"'}
    return web.Response(text=text, status=status, content_type="text/html", headers=dict(headers))
