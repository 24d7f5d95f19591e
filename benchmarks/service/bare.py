"""What the service is compared with: an endpoint of Starlette that reads a body and returns a constant."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

DECISION = (
    b'{"id":"019a8c1d2e3f0123456789abcdef0123","arm":"b","probability":0.5,"state":"open",'
    b'"expires_at":"2026-01-31T12:00:00.000000Z"}'
)


async def decide(request: Request) -> Response:
    """Return a constant decision."""
    await request.body()
    return Response(DECISION, 201, media_type="application/json")


async def learn(request: Request) -> Response:
    """Return a constant answer to feedback."""
    await request.body()
    return Response(b'{"state":"learned"}', media_type="application/json")


app = Starlette(
    routes=[
        Route("/v1/experiments/{name}/decisions", decide, methods=["POST"]),
        Route("/v1/experiments/{name}/decisions/{decision:path}/feedback", learn, methods=["PUT"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        log_level="warning",
        access_log=False,
        loop="uvloop",
        http="httptools",
        proxy_headers=False,
    )
