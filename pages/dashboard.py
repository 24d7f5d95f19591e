"""The pictures of `docs/serve/dashboard.md`: `python -m pages.dashboard docs` takes them in Chromium.

The world of `umab serve --demo` is played with a fixed seed and on a clock that is set by hand, and then stands still.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from playwright.async_api import async_playwright

from umab._support.files import write_atomically
from umab_service import demo, history, silence
from umab_service.app import Application
from umab_service.databases import opened
from umab_service.experiment import time_of
from umab_service.keys import ALL_KEYS, Keys, added, new_key
from umab_service.service import Service

FOLDER = "serve"
START = time_of("2026-01-31T12:00:00Z")
SECONDS = 207.0
"""How long the world is played: until the best upstream is down for the fourth time."""
LARGEST = 150_000
"""How many bytes a picture may have."""


class Picture(NamedTuple):
    """A picture of a page."""

    name: str
    path: str
    scheme: Any
    width: int
    height: int
    part: str = ""
    """A selector of the part of the page to take; else what is on the screen."""


PICTURES = (
    Picture("dashboard-light.png", "/experiments/upstreams", "light", 1200, 1010),
    Picture("dashboard-dark.png", "/experiments/upstreams", "dark", 1200, 1010),
    Picture("dashboard-phone.png", "/experiments/upstreams", "light", 390, 1010),
    Picture("dashboard-rewards.png", "/experiments/checkout?span=2", "light", 1200, 1010),
    Picture("dashboard-arms.png", "/experiments/upstreams", "light", 1200, 1010, "section[aria-labelledby=arms]"),
    Picture("dashboard-log.png", "/experiments/upstreams", "light", 1200, 1010, ".pair"),
    Picture("dashboard-manage.png", "/experiments/upstreams", "light", 1200, 1010, ".manage"),
    Picture("dashboard-list.png", "/", "light", 1200, 480),
    Picture("dashboard-login.png", "/login", "light", 1200, 520),
)


@contextlib.asynccontextmanager
async def played(folder: Path, seconds: float) -> AsyncIterator[tuple[Application, demo.World]]:
    """Play the world so long, and let time stand still."""
    now = [START]
    service = Service(opened(f"sqlite:///{folder}/umab.db"), clock=lambda: now[0])
    await service.start()
    try:
        _, key = new_key("admin", "", "the demo", START)
        await service.store([added(key)])
        world = demo.World(service)
        await world.begin()
        while now[0] < START + seconds:
            now[0] += demo.STEP
            await world.step()
            await silence.expire(service)
            await history.note(service)
        application = Application(service, Keys(await service.storage.soon(ALL_KEYS)))
        application.dashboard.visitor, application.dashboard.says = key.id, world.says
        yield application, world
    finally:
        await service.stop()


@contextlib.asynccontextmanager
async def serving(application: Application) -> AsyncIterator[str]:
    """Serve an application on some port of this machine, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off", ws="none"))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def taken(address: str, pictures: tuple[Picture, ...] = PICTURES) -> dict[str, bytes]:
    """Return the pictures of a server's pages."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise FileNotFoundError("pictures need Chromium, as Debian's package chromium has it, but there is none")
    found = {}
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for each in pictures:
            context = await opened.new_context(
                color_scheme=each.scheme, viewport={"width": each.width, "height": each.height}
            )
            page = await context.new_page()
            for _ in range(20):  # until what takes its time is there
                await page.goto(address + each.path)
                if "estimating the saving" not in await page.content():
                    break
                await page.wait_for_timeout(500)
            found[each.name] = await (page.locator(each.part) if each.part else page).screenshot()
            await context.close()
        await opened.close()
    return found


async def write(docs: Path) -> None:
    """Take the pictures, and write them."""
    with tempfile.TemporaryDirectory() as folder:
        async with played(Path(folder), SECONDS) as (application, _), serving(application) as address:
            pictures = await taken(address)
    for name, content in pictures.items():
        if len(content) > LARGEST:
            raise ValueError(f"a picture must have at most {LARGEST:,} bytes, but {name} has {len(content):,}")
        write_atomically(docs / FOLDER / name, content)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
