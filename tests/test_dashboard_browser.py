"""The dashboard in a real browser: it lives, it works with the keyboard and on a phone, and nothing is refused."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import PATIENCE
from service_process import KEY, Server, free_port

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
"""
"""What notes each time that the browser refuses something for the sake of the page's policy."""


class Tab:
    """A page in a browser of its own, and all that went wrong in it."""

    def __init__(self, browser: Any, address: str, **more: Any) -> None:
        self.address = address
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **more)
        self.context.add_init_script(WATCH)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.wrong: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._answer)
        self.page.on("request", lambda sent: self._ask(sent.url))

    def _ask(self, url: str) -> None:
        if not url.startswith(self.address):
            self.elsewhere.append(url)

    def _hear(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.wrong.append(said.text)

    def _answer(self, dialog: Any) -> None:
        self.wrong.append(dialog.message)
        dialog.dismiss()

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path)
        return self.page

    def close(self, *expected: str) -> None:
        """Check that nothing went wrong but what was expected, and leave."""
        assert self.page.evaluate("violations") == []
        assert [each for each in self.wrong if not any(text in each for text in expected)] == []
        assert self.elsewhere == []
        self.context.close()


@pytest.fixture(scope="module")
def demo(browser: Any) -> Iterator[str]:
    """The address of a demonstration that runs."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "UMAB_ADMIN_KEY"}
    process = subprocess.Popen(
        [sys.executable, "-m", "umab.cli", "serve", "--demo", "--port", str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        folder = re.search(r"serving (\S+)/umab.db on (\S+)", lines[0])
        assert folder and Path(folder[1]).is_dir(), lines
        assert "no key is needed" in lines[1] and re.search(r"need a key: umab_\w+", lines[2])
        _until_answered(port)
        yield folder[2]
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=PATIENCE)
        process.stdout.close()
    assert status == 0 and not Path(folder[1]).exists()  # nothing is left behind


def _until_answered(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("browser") / "umab.db")
    found.start()
    found.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"], "seed": 1})
    yield found
    if found.process is not None and found.process.poll() is None:
        found.stop()


def shares(page: Any) -> list[str]:
    return list(page.locator("#arm-rows tbody tr td:nth-child(2)").all_inner_texts())


def test_in_the_demo_probabilities_move_and_the_outage_is_noticed(browser: Any, demo: str) -> None:
    tab = Tab(browser, demo)
    page = tab.open("/")
    assert page.locator("h1").inner_text() == "Experiments"
    assert "upstreams" in page.locator("#list").inner_text()
    page.locator(".spark").first.wait_for()  # it comes by itself
    page.get_by_role("link", name="upstreams").click()
    page.wait_for_selector("#arm-rows")
    before, chart = shares(page), page.locator("#chart").inner_html()
    assert len(before) == 4
    page.mouse.move(2, 2)
    page.wait_for_function(
        "before => document.querySelector('#chart').innerHTML !== before", arg=chart
    )  # it was not loaded again
    said: set[str] = set()
    end = time.monotonic() + PATIENCE
    while not (len(said) == 2 and page.locator(".chart.wide .change").count()):
        said.add(page.locator("#says").inner_text())
        assert time.monotonic() < end, (said, shares(page))
        page.wait_for_timeout(250)
    assert any("East is down" in each for each in said)
    assert "change noticed: east" in page.locator(".chart.wide .change title").first.text_content()
    assert "east" in page.locator("#change-rows").inner_text()
    page.wait_for_function("document.querySelector('.saving').textContent.includes('against choosing at random')")
    tab.close()


def test_in_the_demo_an_arm_is_added_even_if_it_is_a_script(browser: Any, demo: str) -> None:
    tab = Tab(browser, demo)
    page = tab.open("/experiments/checkout")
    for arm in ("a new button", "<script>alert(1)</script>", '"><img src=x onerror=alert(2)>'):
        page.get_by_label("New arm").fill(arm)
        page.get_by_role("button", name="Add").click()
        page.get_by_role("rowheader", name=arm, exact=True).wait_for()
    page.wait_for_timeout(2500)  # also when the parts that live are put in
    assert page.get_by_role("rowheader", name="<script>alert(1)</script>", exact=True).count() == 1
    page.get_by_label("Arm to remove").select_option(label="<script>alert(1)</script>")
    page.get_by_role("button", name="Remove").click()
    page.wait_for_load_state()
    assert page.get_by_role("rowheader", name="<script>alert(1)</script>", exact=True).count() == 0
    tab.close()


def test_the_demo_is_only_for_this_machine_and_only_who_asks_for_this_machine_is_let_in(demo: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "umab.cli", "serve", "--demo", "--host", "0.0.0.0", "--port", "0"],
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0 and "this machine only, but got the host '0.0.0.0'" in refused.stderr
    for host, status in (("evil.example", 303), (demo.partition("//")[2], 200)):
        connection = http.client.HTTPConnection(demo.partition("//")[2])
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()


def test_one_logs_in_with_a_key_and_out_again(browser: Any, server: Server) -> None:
    tab = Tab(browser, f"http://127.0.0.1:{server.port}")
    page = tab.open("/experiments/x")
    assert page.url.endswith("/login?next=/experiments/x")
    page.get_by_label("Key").fill("umab_wrong000_" + "x" * 40)
    page.get_by_role("button", name="Log in").click()
    assert "This key is not valid" in page.get_by_role("alert").inner_text()
    page.get_by_label("Key").fill(KEY)
    page.get_by_role("button", name="Log in").click()
    assert page.url.endswith("/experiments/x") and page.locator("h1").inner_text() == "x"
    (cookie,) = tab.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict") and "document.cookie" not in cookie["value"]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    assert page.url.endswith("/login") and tab.context.cookies() == []
    assert tab.open("/").url.endswith("/login")
    tab.close("401")


def test_everything_can_be_done_with_the_keyboard(browser: Any, server: Server) -> None:
    tab = Tab(browser, f"http://127.0.0.1:{server.port}")
    page = tab.open("/login")
    page.wait_for_function("document.activeElement.id === 'key'")  # the field gets the focus when it is first drawn
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{tab.address}/")  # and not /login?next=/, where a wrong key leads
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reach(page, "x")
    outline = (
        "getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth"
    )
    assert page.evaluate(outline) == "solid3px"
    before = page.locator("#list").inner_text()
    server.ask("POST", "/v1/experiments/x/decisions", {})
    page.wait_for_function("before => document.querySelector('#list').innerText !== before", arg=before)
    assert page.evaluate("document.activeElement.textContent") == "x"
    page.keyboard.press("Enter")
    page.wait_for_url("**/experiments/x")
    reach(page, "Dark")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("[document.documentElement.dataset.theme, document.getElementById('theme').textContent]") == [
        "dark",
        "Light",
    ]
    page.get_by_label("New arm").focus()
    page.keyboard.type("by hand")
    page.keyboard.press("Enter")
    page.get_by_role("rowheader", name="by hand", exact=True).wait_for()
    reach(page, "Log out")
    page.keyboard.press("Enter")
    page.wait_for_url("**/login")
    tab.close()


def reach(page: Any, text: str) -> None:
    """Press the key that goes on until something with this text has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            return
    raise AssertionError(f"{text!r} cannot be reached with the keyboard")


PATHS = ["/", "/experiments/upstreams", "/experiments/checkout?span=2", "/experiments/none", "/?search=none", "/login"]


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_no_page_is_wider_than_the_screen(browser: Any, demo: str, width: int) -> None:
    tab = Tab(browser, demo)
    tab.page.set_viewport_size({"width": width, "height": 740})
    for path in PATHS:
        page = tab.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if path.startswith("/experiments/up"):
            shown = page.locator(".chart:visible")
            assert shown.count() == 1
            size = page.evaluate("""() => { const found = [...document.querySelectorAll('.chart .tick')]
                .filter((each) => each.getBoundingClientRect().width); return Math.min(...found.map((each) =>
                parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a)); }""")
            assert size >= 9.5, "the text of the chart is too small to be read"
            cut = page.evaluate("""() => [...document.querySelectorAll('.chart text')].filter((each) => {
                const one = each.getBoundingClientRect(), all = each.closest('svg').getBoundingClientRect();
                return one.width && (one.left < all.left - 1 || one.right > all.right + 1);
                }).map((each) => each.textContent)""")
            assert cut == []
    tab.close("404")


LOOK = """() => {
  const wrong = [];
  const named = (each) => (each.getAttribute("aria-label") || each.textContent || each.alt || "").trim();
  for (const each of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (!each.labels.length && !each.getAttribute("aria-label")) wrong.push("no label: " + each.outerHTML);
  for (const each of document.querySelectorAll("a, button, svg[role=img]"))
    if (!named(each)) wrong.push("no name: " + each.outerHTML);
  for (const each of document.querySelectorAll("img")) if (!each.hasAttribute("alt")) wrong.push("no alt: " + each.src);
  for (const each of document.querySelectorAll("svg:not([role=img], [aria-hidden=true])")) wrong.push(each.outerHTML);
  for (const each of document.querySelectorAll("th")) if (!each.scope) wrong.push("no scope: " + each.textContent);
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("twice: " + id);
  for (const each of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const id of (each.getAttribute("aria-labelledby") || each.getAttribute("aria-describedby")).split(" "))
      if (!ids.includes(id)) wrong.push("labelled by nothing: " + id);
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  if (!document.documentElement.lang || !document.title) wrong.push("no language or title");
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (color) => { const [r, g, b] = rgb(color).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05); };
  const behind = (each) => { for (let at = each; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (rgb(color)[3] > 250 && !at.matches("svg *")) return color; } };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const each = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !each.getBoundingClientRect().width || each.closest("title, option")) continue;
    const style = getComputedStyle(each), color = each.closest("svg") ? style.fill : style.color;
    const found = ratio(color, behind(each));
    if (found < 4.5) wrong.push(`contrast ${found.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  const shapes = ".chart .area, .chart rect[class^=c], .dot, button:not(.quiet), input, select";
  for (const each of document.querySelectorAll(shapes)) {
    if (!each.getBoundingClientRect().width || each.type === "hidden") continue;
    const style = getComputedStyle(each);
    const drawn = each.closest("svg");
    const color = drawn ? style.fill : each.matches(".dot") ? style.backgroundColor : style.borderTopColor;
    const found = ratio(color, behind((drawn || each).parentElement));
    if (found < 3) wrong.push(`contrast ${found.toFixed(2)}: ${each.outerHTML.slice(0, 60)}`);
  }
  return wrong;
}"""
"""What a person who cannot see well would stumble over: missing names and labels, and too little contrast."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_labels_names_and_contrast(browser: Any, demo: str, scheme: str) -> None:
    tab = Tab(browser, demo, color_scheme=scheme)
    for path in PATHS:
        assert tab.open(path).evaluate(LOOK) == [], path
    background = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(background[4:].split(",")[0]) < 60) is (scheme == "dark")
    tab.close("404")


def test_the_page_says_when_the_server_does_not_answer_and_goes_on_when_it_does(browser: Any, tmp_path: Path) -> None:
    server = Server(tmp_path / "umab.db")
    server.start()
    try:
        server.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"], "seed": 1})
        tab = Tab(browser, f"http://127.0.0.1:{server.port}")
        page = tab.open("/login?next=/experiments/x")
        page.get_by_label("Key").fill(KEY)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="x", exact=True).wait_for()
        assert page.locator("#away").is_hidden()
        server.kill()
        page.locator("#away").wait_for(state="visible")
        assert "The server does not answer" in page.locator("#away").inner_text()
        server.start()
        page.locator("#away").wait_for(state="hidden")  # and the session goes on
        assert page.locator("h1").inner_text() == "x"
        tab.close("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()
