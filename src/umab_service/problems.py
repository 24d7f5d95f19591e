"""Errors as RFC 9457 wants them: a status, a title, and a detail that states the rule and the value.

Also the headers of every answer, which errors have as well wherever they are found.
"""

from __future__ import annotations

from http import HTTPStatus

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer."""
RAW_HEADERS = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in HEADERS.items()]
ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


class Problem(Exception):
    """A request that is not answered as asked."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    def body(self) -> dict[str, object]:
        """Return the problem as JSON can hold it."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }


def not_found(what: str, name: str) -> Problem:
    """Return the problem of something that is not there."""
    return Problem(404, f"{what} must exist, but there is none named {name!r:.150}")


def conflict(detail: str) -> Problem:
    """Return the problem of a request that does not fit what is there."""
    return Problem(409, detail)


def gone(detail: str) -> Problem:
    """Return the problem of a request that comes too late."""
    return Problem(410, detail)


def invalid(detail: str) -> Problem:
    """Return the problem of a request whose content is wrong."""
    return Problem(422, detail)


def failure() -> Problem:
    """Return the problem of a request that has met a bug of the server."""
    return Problem(500, "the server failed; its log says why")


def unavailable(detail: str) -> Problem:
    """Return the problem of a server that cannot store anything at the moment."""
    return Problem(503, detail, {"Retry-After": "1"})
