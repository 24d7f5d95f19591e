"""The pages of the dashboard: who may see which, what their forms do, and their headers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote

import jinja2
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from umab_service import administration
from umab_service.dashboard import data, words
from umab_service.dashboard.sessions import Session, Sessions, header, is_own_origin, set_cookie
from umab_service.history import SPANS
from umab_service.keys import Key, Keys, Role
from umab_service.problems import Problem, invalid, not_found
from umab_service.service import Answer, Service

MOST_FORM = 1 << 14
"""The largest form, in bytes."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""What a browser lets a page do: nothing but what this server sends, and nothing inside the page itself."""
OWN = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
"""Headers that differ from those of the API. Without a referrer, browsers would not tell the origin of forms."""
FOREVER = "public, max-age=31536000, immutable"

Admit = Callable[[Scope, str], Key]
"""Returns the key with a text, or raises a problem; it slows down who guesses."""
Read = Callable[[], Awaitable[bytes]]
"""Reads the body of a request."""


class Asked(NamedTuple):
    """A request for a page."""

    scope: Scope
    read: Read
    query: QueryParams
    session: Session
    name: str

    async def form(self) -> dict[str, str]:
        """Return the fields of a form that this session has sent."""
        found = _fields(await self.read())
        if not is_own_origin(self.scope) or not hmac.compare_digest(
            found.get("token", "").encode(), self.session.token.encode()
        ):
            raise Problem(403, "a form must come from a page of this session, but this one does not; load it again")
        return found


Handler = Callable[["Dashboard", Asked], Awaitable[Response]]


class Page(NamedTuple):
    """A path with a method: who may use it, and what it does."""

    method: str
    path: str
    role: Role
    handler: Handler


class Dashboard:
    """Answers requests for pages."""

    visitor: str | None = None
    """The id of the key of who has shown none; only a demonstration has one."""
    says: Callable[[], str] | None = None
    """What a demonstration says about its world."""

    def __init__(self, service: Service, keys: Keys, admit: Admit) -> None:
        self.service, self._keys, self._admit = service, keys, admit
        self.sessions, self.summaries = Sessions(service, keys), data.Summaries(service)
        self._files = _static()
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("umab_service.dashboard"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(plain=words.plain, clock=words.clock, count=words.count, part=_part)
        self._templates.globals.update(file={_bare(path): path for path in self._files}, life=len(SPANS) - 1)

    def covers(self, path: str) -> bool:
        """Whether a path is one of a page."""
        return path in ("/", "/live", "/login", "/logout") or path.startswith(("/experiments/", "/static/"))

    async def answer(self, scope: Scope, read: Read) -> tuple[str, Response]:
        """Return the label of a request, for metrics, and its answer."""
        method, path = "GET" if scope["method"] == "HEAD" else scope["method"], scope["path"]
        if path.startswith("/static/"):
            return "GET /static", self._file(scope)
        label, response = "other", None
        try:
            if path == "/login":
                label = f"{method} /login"
                return label, await self._login(method, scope, read)
            session, response = await self._session(scope)
            if session is None:
                return label, _to_login(scope, path)
            page, name = _find(method, path)
            label = f"{method} {page.path}"
            if not session.key.may("read", name or None):
                raise not_found("an experiment", name)  # as if it did not exist
            if not session.key.may(page.role, name or None):
                raise Problem(403, f"a key must have the role {page.role!r} here, but yours is {session.key.role!r}")
            asked = Asked(scope, read, QueryParams(scope["query_string"]), session, name)
            answer = await page.handler(self, asked)
        except Problem as problem:
            answer = self.failed(problem)
        if response is not None:
            answer.headers["set-cookie"] = response
        return label, answer

    def failed(self, problem: Problem) -> Response:
        """Return the page that tells of a problem."""
        answer = self.page("error.html", None, problem.status, problem=problem, title=problem.body()["title"])
        answer.headers.update(problem.headers)
        return answer

    def experiment_in(self, path: str) -> str | None:
        """Return the name of the experiment that a page is about, if it is about one."""
        found = re.match("/experiments/([^/]+)", path)
        return None if found is None else found[1]

    def page(self, template: str, session: Session | None, status: int = 200, **more: object) -> Response:
        """Return a page made of a template."""
        says = None if self.says is None else self.says()
        text = self._templates.get_template(template).render(session=session, says=says, **more)
        return Response(text, status, OWN, "text/html")

    def _file(self, scope: Scope) -> Response:
        found = self._files.get(scope["path"])
        if found is None:
            return self.page("error.html", None, 404, problem=not_found("a file", scope["path"]), title="Not Found")
        content, kind = found
        tag = f'"{_hash(content)}"'
        headers = {**OWN, "Cache-Control": FOREVER, "ETag": tag}
        if header(scope, b"if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, 200, headers, kind)

    async def _session(self, scope: Scope) -> tuple[Session | None, str | None]:
        """Return the session of a request; in a demonstration a new one, with the header that sets its cookie."""
        session = await self.sessions.find(scope)
        visitor = None if self.visitor is None or session is not None else self._keys.get(self.visitor)
        if visitor is not None and scope["method"] == "GET" and _is_local(scope):
            value, session = await self.sessions.begin(visitor)
            return session, set_cookie(scope, value)
        return session, None

    async def _login(self, method: str, scope: Scope, read: Read) -> Response:
        """Show the form, or take a key from it."""
        onward = QueryParams(scope["query_string"]).get("next", "/")
        onward = onward if re.fullmatch(r"/(experiments/[A-Za-z0-9._-]+)?", onward) else "/"
        if method == "GET":
            return self.page("login.html", None, onward=onward, problem=None)
        if method != "POST":
            raise Problem(405, f"the method must be one of GET, POST, but got {method}", {"Allow": "GET, POST"})
        given = _fields(await read()).get("key", "").strip()
        if not is_own_origin(scope):
            raise Problem(403, "a form must come from a page of this server, but this one does not")
        try:
            key = self._admit(scope, given)
        except Problem as problem:
            detail = "This key is not valid." if problem.status == 401 else problem.detail
            answer = self.page("login.html", None, problem.status, onward=onward, problem=detail)
            answer.headers.update({each: text for each, text in problem.headers.items() if each == "Retry-After"})
            return answer
        value, _ = await self.sessions.begin(key)
        return RedirectResponse(onward, 303, {**OWN, "set-cookie": set_cookie(scope, value)})


async def _index(dashboard: Dashboard, asked: Asked) -> Response:
    return await _list(dashboard, asked, "list.html")


async def _index_live(dashboard: Dashboard, asked: Asked) -> Response:
    return await _list(dashboard, asked, "list_live.html")


async def _list(dashboard: Dashboard, asked: Asked, template: str) -> Response:
    search, number = asked.query.get("search", "")[:128].replace("\0", ""), asked.query.get("page", "1")
    page = int(number) if re.fullmatch("[1-9][0-9]{0,6}", number) else 1
    found = await data.listed(dashboard.service, asked.session.key, search, page)
    host = f"{asked.scope['scheme']}://{header(asked.scope, b'host') or '127.0.0.1:8080'}"
    return dashboard.page(template, asked.session, found=found, host=host, title="Experiments")


async def _experiment(dashboard: Dashboard, asked: Asked) -> Response:
    return await _show(dashboard, asked, "experiment.html")


async def _experiment_live(dashboard: Dashboard, asked: Asked) -> Response:
    return await _show(dashboard, asked, "experiment_live.html")


async def _show(dashboard: Dashboard, asked: Asked, template: str) -> Response:
    found = dashboard.service.experiment(asked.name)
    number = asked.query.get("span", "")
    span = int(number) if number in [str(each) for each in range(len(SPANS))] else None
    shown = await data.shown(dashboard.service, dashboard.summaries, found, span)
    return dashboard.page(template, asked.session, shown=shown, title=found.name)


async def _changed(dashboard: Dashboard, asked: Asked, answer: Answer) -> Response:
    await dashboard.service.stored()
    return RedirectResponse(f"/experiments/{quote(asked.name, safe='')}", 303, OWN)


async def _add_arm(dashboard: Dashboard, asked: Asked) -> Response:
    arm = (await asked.form()).get("arm", "")
    if not 1 <= len(arm) <= 200:
        raise invalid(f"the name of an arm must have 1 to 200 characters, but got {len(arm)}")
    return await _changed(dashboard, asked, administration.add_arm(dashboard.service, asked.name, arm))


async def _remove_arm(dashboard: Dashboard, asked: Asked) -> Response:
    arm = unquote((await asked.form()).get("arm", ""))
    return await _changed(dashboard, asked, administration.remove_arm(dashboard.service, asked.name, arm))


async def _archive(dashboard: Dashboard, asked: Asked) -> Response:
    await asked.form()
    return await _changed(dashboard, asked, administration.archive(dashboard.service, asked.name))


async def _logout(dashboard: Dashboard, asked: Asked) -> Response:
    await asked.form()
    await dashboard.sessions.finish(asked.session)
    return RedirectResponse("/login", 303, {**OWN, "set-cookie": set_cookie(asked.scope, "")})


PAGES = (
    Page("GET", "/", "read", _index),
    Page("GET", "/live", "read", _index_live),
    Page("GET", "/experiments/{name}", "read", _experiment),
    Page("GET", "/experiments/{name}/live", "read", _experiment_live),
    Page("POST", "/experiments/{name}/arms", "admin", _add_arm),
    Page("POST", "/experiments/{name}/arms/remove", "admin", _remove_arm),
    Page("POST", "/experiments/{name}/archive", "admin", _archive),
    Page("POST", "/logout", "read", _logout),
)
_PATTERNS = [(re.compile(page.path.replace("{name}", "(?P<name>[^/]+)")), page) for page in PAGES]


def _find(method: str, path: str) -> tuple[Page, str]:
    """Return a page, and the name of the experiment in its path."""
    found = [(page, match.groupdict().get("name", "")) for form, page in _PATTERNS if (match := form.fullmatch(path))]
    for page, name in found:
        if page.method == method:
            return page, name
    if found:
        allowed = ", ".join(page.method for page, _ in found)
        raise Problem(405, f"the method must be one of {allowed}, but got {method}", {"Allow": allowed})
    raise not_found("a page", path)


def _to_login(scope: Scope, path: str) -> Response:
    """Return the way to the login; a script that asks for a part of a page is told so by a status."""
    if path.endswith("/live"):
        return Response(status_code=401, headers=OWN)
    onward = f"?next={quote(path, safe='/')}" if scope["method"] in ("GET", "HEAD") and path != "/" else ""
    return RedirectResponse(f"/login{onward}", 303, OWN)


def _fields(content: bytes) -> dict[str, str]:
    """Return the fields of a form."""
    try:
        found = parse_qs(content.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=10)
    except ValueError:
        raise Problem(400, "a form must be as a browser sends it, with up to 10 fields, but this one is not") from None
    return {name: values[0] for name, values in found.items()}


def _is_local(scope: Scope) -> bool:
    """Whether a browser was told to ask this machine: a name elsewhere may lead here too, and could then look."""
    return re.fullmatch(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", header(scope, b"host")) is not None


def _part(text: str) -> str:
    """Return a text as a part of an address, or of a form that must not change it."""
    return quote(text, safe="")


def _static() -> dict[str, tuple[bytes, str]]:
    """Return the files that pages use, each at an address that changes with its content."""
    found = {}
    for file in sorted((resources.files("umab_service.dashboard") / "static").iterdir(), key=lambda each: each.name):
        stem, _, kind = file.name.rpartition(".")
        content = file.read_bytes()
        media = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[kind]
        found[f"/static/{stem}.{_hash(content)}.{kind}"] = content, media
    return found


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest())[:16].decode()


def _bare(path: str) -> str:
    """Return the name of a file without what stands for its content."""
    stem, _, kind = path.rpartition("/")[2].split(".")
    return f"{stem}.{kind}"
