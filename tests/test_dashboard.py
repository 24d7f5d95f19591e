"""The dashboard without a browser: who gets in, what pages say, what they weigh, and what they ask the database."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import umab
from service_app import ADMIN, Client, Reply
from toys import Breaker
from umab.algorithms import registry
from umab_service import history, throttle
from umab_service.dashboard import charts, data, sessions, words
from umab_service.dashboard.pages import PAGES, POLICY
from umab_service.history import LIFE, MOST_OF_LIFE, SPANS, Point
from umab_service.schema import Difference, Estimate, Estimates

HOST = "127.0.0.1:8080"
MOST_BYTES = 200_000


class Visitor:
    """A browser without a screen: it keeps its cookie, and sends forms with what their page has in them."""

    def __init__(self, client: Client, address: str = "10.0.0.1") -> None:
        self.client, self.address, self.cookie = client, address, ""

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> Reply:
        more = {"Host": HOST, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        body = None if form is None else urlencode(form).encode()
        reply = self.client.ask(method, path, body, key=None, headers=more, client=self.address)
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply

    def get(self, path: str) -> str:
        reply = self.ask("GET", path)
        assert reply.status == 200, (reply.status, reply.headers)
        return reply.content.decode()

    def login(self, key: str = ADMIN, **headers: str) -> Reply:
        return self.ask("POST", "/login", {"key": key}, **headers)

    def token(self, path: str = "/") -> str:
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.get(path))
        assert found
        return found[1]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path) as found:
        yield found


@pytest.fixture
def admin(client: Client) -> Visitor:
    found = Visitor(client)
    assert found.login().status == 303
    return found


def learned(client: Client, n_rounds: int = 60, name: str = "x", arms: Any = ("a", "b", "c"), **more: Any) -> None:
    """Create an experiment, and let it learn."""
    client.experiment(name, arms, **more)
    unit = "reward" if more.get("maximize") else "loss"
    for number in range(n_rounds):
        made = client.decide(f"d{number}", name)
        loss = 1.0 + list(arms).index(made["arm"]) + 0.1 * (number % 7)
        path = f"/v1/experiments/{name}/decisions/d{number}/feedback"
        assert client.ask("PUT", path, {unit: loss}).status == 200
        client.now += 1.0
        client.run(history.note(client.service))


# Sessions.


def test_a_key_opens_a_session_and_logging_out_ends_it(client: Client) -> None:
    visitor = Visitor(client)
    assert (visitor.ask("GET", "/").status, visitor.ask("GET", "/").headers["location"]) == (303, "/login")
    reply = visitor.login()
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert ADMIN not in reply.headers["set-cookie"] and "a" * 40 not in reply.headers["set-cookie"]
    parts = reply.headers["set-cookie"].split("; ")[1:]
    assert parts == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"]
    assert "Experiments" in visitor.get("/")
    reply = visitor.ask("POST", "/logout", {"token": visitor.token()})
    assert (reply.status, reply.headers["location"]) == (303, "/login") and visitor.cookie == "umab_session="
    assert visitor.ask("GET", "/").status == 303


def test_a_cookie_that_was_copied_is_worth_nothing_after_the_logout(client: Client) -> None:
    visitor, other, thief = Visitor(client), Visitor(client), Visitor(client, "10.0.0.9")
    visitor.login()
    other.login()
    thief.cookie = visitor.cookie
    assert thief.ask("GET", "/").status == 200
    token = thief.token()
    visitor.ask("POST", "/logout", {"token": visitor.token()})
    for _ in range(2):
        assert thief.ask("GET", "/").status == 303 and thief.ask("GET", "/live").status == 401
        assert thief.ask("POST", "/experiments/x/archive", {"token": token}).status == 303
        assert other.ask("GET", "/").status == 200  # another session of the same key goes on
        client.restart()
    client.now += sessions.SECONDS - 10
    visitor.login()
    visitor.ask("POST", "/logout", {"token": visitor.token()})
    assert ended(client) == 2
    client.now += 20
    visitor.login()
    visitor.ask("POST", "/logout", {"token": visitor.token()})
    assert ended(client) == 2  # the first one is over by itself


def ended(client: Client) -> int:
    names = [name for (name,) in client.run(client.service.read("SELECT name FROM secrets"))]
    return sum(name.startswith("ended ") for name in names)


def test_the_cookie_is_secure_under_tls(tmp_path: Path) -> None:
    with Client(tmp_path, tls=True) as client:
        assert Visitor(client).login().headers["set-cookie"].endswith("; Secure")


def test_after_the_login_one_comes_to_the_page_that_was_asked_for_and_nowhere_else(client: Client) -> None:
    visitor = Visitor(client)
    assert visitor.ask("GET", "/experiments/x").headers["location"] == "/login?next=/experiments/x"
    assert visitor.ask("POST", "/login?next=/experiments/x", {"key": ADMIN}).headers["location"] == "/experiments/x"
    for elsewhere in (
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/v1/keys",
        "/experiments/x\r\nX: y",
    ):
        path = f"/login?next={quote(elsewhere, safe='')}"
        assert visitor.ask("POST", path, {"key": ADMIN}).headers["location"] == "/"
        assert "evil" not in visitor.ask("GET", path).content.decode()


def test_a_wrong_key_is_refused_and_guessing_is_slowed_down(client: Client) -> None:
    visitor = Visitor(client)
    for _ in range(throttle.FREE + 1):
        reply = visitor.login("umab_testadmin_" + "b" * 40)
        assert reply.status == 401 and "This key is not valid" in reply.content.decode()
        assert not visitor.cookie and "www-authenticate" not in reply.headers
    reply = visitor.login("umab_testadmin_" + "b" * 40)
    assert reply.status == 429 and int(reply.headers["retry-after"]) >= 1
    assert visitor.login().status == 429 and not visitor.cookie  # the right one at that moment tells nothing either
    assert client.ask("GET", "/v1/experiments", key="wrong", client=visitor.address).status == 429  # it is one count
    assert Visitor(client, "10.0.0.2").login().status == 303


def test_a_session_ends_after_twelve_hours(client: Client, admin: Visitor) -> None:
    client.now += sessions.SECONDS - 1
    assert admin.ask("GET", "/").status == 200
    client.now += 1
    assert admin.ask("GET", "/").status == 303
    assert admin.ask("GET", "/live").status == 401


def test_a_session_ends_at_once_when_its_key_is_revoked(client: Client) -> None:
    key, visitor = client.key("read"), Visitor(client)
    assert visitor.login(key).status == 303 and visitor.ask("GET", "/").status == 200
    client.revoke(key)
    assert visitor.ask("GET", "/").status == 303
    assert visitor.login(key).status == 401


def test_a_session_outlives_the_server(client: Client, admin: Visitor) -> None:
    client.restart()
    assert admin.ask("GET", "/").status == 200
    names = [name for (name,) in client.run(client.service.read("SELECT name FROM secrets"))]
    assert names.count("session") == 1


@settings(max_examples=60)
@given(at=st.integers(0, 200), other=st.sampled_from("0aZ.-=+ \x7fé"))
def test_a_cookie_that_was_touched_is_worth_nothing(touched: Visitor, at: int, other: str) -> None:
    value = touched.cookie.partition("=")[2]
    at %= len(value) + 1
    for forged in (value[:at] + other + value[at + 1 :], value[:at] + other + value[at:], value[:at]):
        if forged.strip() != value:
            assert touched.ask("GET", "/", Cookie=f"umab_session={forged}").status == 303


@pytest.fixture(scope="module")
def touched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with Client(tmp_path_factory.mktemp("touched")) as client:
        visitor = Visitor(client)
        visitor.login()
        yield visitor


def test_a_cookie_for_another_key_cannot_be_made_from_ones_own(client: Client) -> None:
    visitor = Visitor(client)
    visitor.login(client.key("read"))
    _, end, number, mac = visitor.cookie.partition("=")[2].split(".")
    for forged in (
        f"testadmin.{end}.{number}.{mac}",
        f"testadmin.{end}.{mac}",
        f"testadmin.{end}.",
        "testadmin..",
        "testadmin",
        f"testadmin.{end}.{'0' * 64}",
    ):
        assert visitor.ask("GET", "/", Cookie=f"umab_session={forged}").status == 303
    assert visitor.ask("GET", "/", Cookie=f"umab_session=junk; other=1; {visitor.cookie}").status == 200


# Forms.


FORMS = [
    ("/experiments/x/arms", {"arm": "new"}),
    ("/experiments/x/arms/remove", {"arm": "a"}),
    ("/experiments/x/archive", {}),
    ("/logout", {}),
]


def test_every_page_that_changes_something_is_tried_here() -> None:
    posts = {page.path for page in PAGES if page.method == "POST"}
    assert posts == {path.replace("/x/", "/{name}/") for path, _ in FORMS}
    assert all(page.role == "admin" for page in PAGES if page.method == "POST" and page.path != "/logout")


@pytest.mark.parametrize(("path", "fields"), FORMS, ids=[path for path, _ in FORMS])
def test_a_form_of_another_site_changes_nothing(client: Client, admin: Visitor, path: str, fields: Any) -> None:
    client.experiment("x", ["a", "b"])
    token, before = admin.token(), client.state()
    other = Visitor(client, "10.0.0.3")
    client.now += 1.0  # else both sessions would be the same
    other.login()
    for forged in (fields, {**fields, "token": ""}, {**fields, "token": "0" * 64}, {**fields, "token": other.token()}):
        assert admin.ask("POST", path, forged).status == 403
    for origin in ("https://evil.example", "null", "http://127.0.0.1:8081", f"http://{HOST}.evil.example"):
        assert admin.ask("POST", path, {**fields, "token": token}, Origin=origin).status == 403
    assert client.state() == before and admin.cookie != "umab_session="
    assert admin.ask("POST", path, {**fields, "token": token}, Origin=f"http://{HOST}").status == 303


def test_a_login_from_another_site_is_refused(client: Client) -> None:
    assert Visitor(client).login(Origin="https://evil.example").status == 403
    assert Visitor(client).login(Origin=f"http://{HOST}").status == 303


def test_forms_add_and_remove_arms_and_archive(client: Client, admin: Visitor) -> None:
    client.experiment("x", ["a", "b"])
    token = admin.token("/experiments/x")
    odd = "<script>alert(1)</script> & 'ü' \u202e\r\n\t%41"
    for arm in ("new", odd):
        reply = admin.ask("POST", "/experiments/x/arms", {"arm": arm, "token": token})
        assert (reply.status, reply.headers["location"]) == (303, "/experiments/x")
    assert client.service.experiment("x").learner.arms == ("a", "b", "new", odd)
    value = re.findall(r'<option value="([^"]+)">', admin.get("/experiments/x"))[-1]
    assert admin.ask("POST", "/experiments/x/arms/remove", {"arm": html.unescape(value), "token": token}).status == 303
    assert client.service.experiment("x").learner.arms == ("a", "b", "new")
    assert admin.ask("POST", "/experiments/x/archive", {"token": token}).status == 303
    assert client.service.experiment("x").settings.archived
    assert "archived" in admin.get("/experiments/x") and "/archive" not in admin.get("/experiments/x")


def test_a_form_that_breaks_a_rule_is_told_the_rule(client: Client, admin: Visitor) -> None:
    client.experiment("x", ["a"])
    token = admin.token()
    for path, fields, status, text in (
        ("arms", {"arm": ""}, 422, "1 to 200 characters"),
        ("arms", {"arm": "x" * 201}, 422, "1 to 200 characters"),
        ("arms/remove", {"arm": "nobody"}, 404, "there is none named 'nobody'"),
        ("arms/remove", {"arm": "a"}, 409, "must keep at least one arm"),
    ):
        reply = admin.ask("POST", f"/experiments/x/{path}", {**fields, "token": token})
        assert reply.status == status and text in html.unescape(reply.content.decode())
    headers = {"Host": HOST, "Cookie": admin.cookie}
    for body, status in ((b"arm=%FF&token=x", 400), (b"\xff", 400), (b"a=1&" * 11, 400), (b"x" * 20_000, 413)):
        assert client.ask("POST", "/experiments/x/arms", body, key=None, headers=headers).status == status


# Roles and prefixes.


@pytest.mark.parametrize("role", ["read", "decide"])
def test_who_is_no_admin_sees_no_forms_and_may_send_none(client: Client, role: Any) -> None:
    client.experiment("x", ["a", "b"])
    visitor = Visitor(client)
    visitor.login(client.key(role))
    text = visitor.get("/experiments/x")
    assert re.findall(r'action="([^"]+)"', text) == ["/logout"]
    token, before = visitor.token(), client.state()
    for path, fields in FORMS[:-1]:
        assert visitor.ask("POST", path, {**fields, "token": token}).status == 403
    assert client.state() == before


def test_a_prefix_hides_all_other_experiments(client: Client) -> None:
    for name in ("shop-a", "Shop-b", "other", "shop_c"):
        client.experiment(name)
    visitor = Visitor(client)
    visitor.login(client.key("admin", "shop-"))
    for path in ("/", "/live", "/?search=o", "/?search=%25"):
        text = visitor.get(path)
        assert "Shop-b" not in text and "other" not in text and "shop_c" not in text
    assert "shop-a" in visitor.get("/") and "1 experiment<" in visitor.get("/")
    token = visitor.token()
    hidden = visitor.ask("GET", "/experiments/other"), visitor.ask("GET", "/experiments/nobody")
    assert [reply.status for reply in hidden] == [404, 404]
    assert hidden[0].content.decode().replace("other", "nobody") == hidden[1].content.decode()
    for path, fields in FORMS[:-1]:
        reply = visitor.ask("POST", path.replace("/x/", "/other/"), {**fields, "token": token})
        assert reply.status == 404
    assert visitor.ask("GET", "/experiments/shop-a").status == 200


# What pages are made of.


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            assert dict(attrs)["src"].startswith("/static/")  # type: ignore[union-attr]

    def handle_data(self, data: str) -> None:
        self.text += data


def check_markup(text: str) -> Tags:
    """Check that a page obeys its own policy: nothing inline, nothing from elsewhere."""
    found = Tags(text)
    for name, value in found.attributes:
        assert name != "style" and not name.startswith("on"), (name, value)
        if name in ("src", "href", "action"):
            assert re.match(r"/(?!/)|#|\?", value or ""), (name, value)
    assert "style" not in found.tags
    return found


ARMS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60), min_size=1, max_size=4, unique=True
)


@settings(max_examples=40)
@given(arms=ARMS)
@example(arms=["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "</title><svg onload=a>"])
@example(arms=["\x00", "\u202egnp", "]]>", "&lt;b&gt;"])
def test_arms_of_any_text_are_shown_and_do_nothing(hosting: tuple[Client, Visitor, list[int]], arms: list[str]) -> None:
    client, visitor, made = hosting
    made[0] += 1
    name = f"x{made[0]}"
    learned(client, 3, name, arms)
    plain = check_markup(visitor.get(f"/experiments/{name}"))
    expected = check_markup(visitor.get("/experiments/usual"))
    assert set(plain.tags) <= {*expected.tags, "path", "option"}
    for arm in arms:
        assert words.plain(arm) in plain.text
    assert all(each.isprintable() or each == "\n" for each in plain.text)  # nothing is hidden
    check_markup(visitor.get(f"/?search={name}"))


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Visitor, list[int]]]:
    with Client(tmp_path_factory.mktemp("hosting")) as client:
        visitor = Visitor(client)
        visitor.login()
        learned(client, 40, "usual")
        yield client, visitor, [0]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><b>', "%", "_", "\\", "x' OR 1=1 --", "\u202e"])
def test_what_is_searched_for_is_shown_and_does_nothing(client: Client, admin: Visitor, text: str) -> None:
    client.experiment("x")
    found = check_markup(admin.get(f"/?search={quote(text)}"))
    assert words.plain(text) in found.text and "No experiment found" in found.text


def test_search_finds_parts_of_names_in_either_case(client: Client, admin: Visitor) -> None:
    for name in ("Shop.a_b", "shop.acb", "other"):
        client.experiment(name)
    for text, names in {"SHOP": ["Shop.a_b", "shop.acb"], "a_b": ["Shop.a_b"], "the": ["other"]}.items():
        assert re.findall(r'id="to-([^"]+)"', admin.get(f"/live?search={text}")) == names


def test_paging_shows_every_experiment_once(client: Client, admin: Visitor) -> None:
    names = sorted(f"x{number:03d}" for number in range(2 * data.A_PAGE + 1))
    for name in names:
        client.experiment(name)
    found, path, pages = [], "/", []
    while path:
        text = admin.get(path)
        found += re.findall(r'id="to-([^"]+)"', text)
        pages.append(path)
        onward = re.search(r'rel="next" href="([^"]+)"', text)
        path = html.unescape(onward[1]) if onward else ""
    assert found == names and len(pages) == 3
    assert re.findall(r'id="to-([^"]+)"', admin.get("/?page=99")) == names[-1:]
    for wrong in ("0", "-1", "x", "9" * 30, ""):
        assert re.findall(r'id="to-([^"]+)"', admin.get(f"/?page={wrong}")) == names[: data.A_PAGE]


def test_every_page_carries_the_headers(client: Client, admin: Visitor) -> None:
    client.experiment("x")
    file = re.search(r'href="(/static/dashboard[^"]+)"', admin.get("/"))
    assert file
    for path, status in {
        "/": 200,
        "/live": 200,
        "/login": 200,
        "/experiments/x": 200,
        "/experiments/x/live": 200,
        "/experiments/none": 404,
        "/experiments/x/none": 404,
        "/logout": 405,
        "/static/none.css": 404,
        file[1]: 200,
    }.items():
        reply = admin.ask("GET", path)
        assert reply.status == status, path
        assert reply.headers["content-security-policy"] == POLICY
        assert reply.headers["referrer-policy"] == "same-origin"
        assert reply.headers["x-content-type-options"] == "nosniff" and reply.headers["x-frame-options"] == "DENY"
        kept = "public, max-age=31536000, immutable" if path == file[1] else "no-store"
        assert reply.headers["cache-control"] == kept
    assert Visitor(client).ask("GET", "/").headers["content-security-policy"] == POLICY
    assert "'unsafe" not in POLICY and "http" not in POLICY


def test_files_are_sent_once(admin: Visitor) -> None:
    files = set(re.findall(r'"(/static/[^"]+)"', admin.get("/")))
    assert {re.sub(r"\.[^.]+\.", ".", file) for file in files} == {
        "/static/dashboard.css",
        "/static/icon.svg",
        "/static/live.js",
        "/static/theme.js",
    }
    for file in files:
        reply = admin.ask("GET", file)
        again = admin.client.ask("GET", file, key=None, headers={"If-None-Match": reply.headers["etag"]})
        assert (reply.status, again.status, again.content) == (200, 304, b"")
        assert "http://" not in reply.content.decode().replace("http://www.w3.org/2000/svg", "")


def test_a_stranger_sees_nothing_but_the_login(client: Client) -> None:
    client.experiment("x")
    for page in PAGES:
        for name in ("x", "none"):
            reply = Visitor(client).ask(page.method, page.path.replace("{name}", name))
            assert reply.status == (401 if page.path.endswith("/live") else 303) and not reply.content
            assert reply.headers.get("location", "/login").startswith("/login")


# What pages say.


def test_an_empty_server_says_how_to_begin(client: Client, admin: Visitor) -> None:
    text = check_markup(admin.get("/")).text
    assert "No experiments yet" in text and f"curl http://{HOST}/v1/experiments" in text
    visitor = Visitor(client)
    visitor.login(client.key("read", "shop-"))
    assert '"name": "shop-search"' in check_markup(visitor.get("/")).text


def test_a_new_experiment_says_that_there_is_no_feedback(client: Client, admin: Visitor) -> None:
    client.experiment("x")
    text = check_markup(admin.get("/experiments/x")).text
    assert "there is no feedback yet" in text and "No change of the world was noticed" in text


def test_while_the_log_is_read_again_pages_say_so(
    client: Client, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.experiment("x")
    monkeypatch.setattr(client.service, "recovering", True)
    for path in ("/experiments/x", "/experiments/x/live"):
        reply = admin.ask("GET", path)
        assert reply.status == 503 and reply.headers["retry-after"] == "1"
        assert "reading its log again" in reply.content.decode()


def test_a_page_shows_what_the_report_has(client: Client, admin: Visitor) -> None:
    learned(client, 80)
    client.decide("open")
    report = client.ask("GET", "/v1/experiments/x/report").json
    text = check_markup(admin.get("/experiments/x")).text
    for arm in report["arms"]:
        estimate = report["estimates"]["always"][arm["arm"]]
        interval = f"{words.figure(estimate['low'])} to {words.figure(estimate['high'])}"
        assert all(each in text for each in (words.percent(arm["probability"]), str(arm["selected"]), interval))
        assert words.figure(estimate["mean"]) in text
    expected = words.saving(msgspec.convert(report["estimates"], Estimates), False)
    assert expected.number in text and expected.label in text and expected.interval in text
    numbers = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", admin.get("/experiments/x")))
    assert (numbers["Decisions"], numbers["Open"], numbers["Expired"]) == ("81", "1", "0")
    assert numbers["Decisions / min"] == "60"


def test_expired_and_forgotten_choices_are_counted(client: Client, admin: Visitor) -> None:
    client.experiment("e", wait="PT5S", default_loss=1.0)
    client.experiment("f", wait="PT5S", forget=True)
    for name in ("e", "f"):
        for number in range(3):
            client.decide(f"d{number}", name)
    client.sleep(6.0)
    for name, counted in {"e": ("3", "0"), "f": ("0", "3")}.items():
        numbers = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", admin.get(f"/experiments/{name}")))
        assert (numbers["Expired"], numbers["Forgotten"], numbers["Open"]) == (*counted, "0")


def test_a_noticed_change_is_listed_and_marked_in_the_chart(client: Client, admin: Visitor) -> None:
    client.experiment("x", ["a", "b"])
    for number in range(600):
        made = client.decide(f"d{number}")
        loss = 1.0 if (made["arm"] == "a") == (number < 300) else 2.0 + 0.01 * (number % 7)
        client.ask("PUT", f"/v1/experiments/x/decisions/d{number}/feedback", {"loss": loss})
        client.now += 0.2
        client.run(history.note(client.service))
    (change,) = client.service.experiment("x").learner.changes()
    text = admin.get("/experiments/x?span=0")
    when = client.now - 120.0 + 0.2 * (300 + change.round - 300)
    (marked,) = set(re.findall(r"<title>([0-9:]+) UTC: change noticed: (\w)</title>", text))
    assert marked[1] == change.arm and abs(seconds_of(marked[0]) - when % 86400) <= 5.0
    assert marked[0] in check_markup(text).text and text.count('class="change"') == len(charts.SIZES)
    for number in range(600, 660):  # minutes later it is behind the chart, but still in the list
        client.decide(f"d{number}")
        client.now += 5.0
        client.run(history.note(client.service))
    text = admin.get("/experiments/x?span=0")
    assert 'class="change"' not in text and "earlier" in check_markup(text).text


def test_paused_arms_are_shown_with_the_time(client: Client, admin: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))
    umab.register("breaker", Breaker())
    client.experiment("x", ["a", "<b>"], policy="breaker")
    began = None
    for number in range(400):
        made = client.decide(f"d{number}")
        began = began or (client.now if number >= 200 and made["arm"] == "<b>" else None)
        loss = 1000.0 if made["arm"] == "<b>" and number >= 200 else 1.0
        client.ask("PUT", f"/v1/experiments/x/decisions/d{number}/feedback", {"loss": loss})
        client.now += 0.2
        client.run(history.note(client.service))
    (pause,) = client.service.experiment("x").learner.pauses()
    assert began is not None and pause.arm == "<b>" and 200 < pause.round < 220
    page = admin.get("/experiments/x?span=0")
    found = re.findall(r"<b>: paused since ([0-9:]+) UTC, next probe is due", html.unescape(page))
    assert len(found) == 1 and -1.0 < seconds_of(found[0]) - began % 86400 <= 5.0
    assert "<b>: paused" not in page
    for number in range(400, 460):  # minutes later, its begin is not among the points any more
        client.decide(f"d{number}")
        client.now += 5.0
        client.run(history.note(client.service))
    later = html.unescape(admin.get("/experiments/x?span=0"))
    assert f"<b>: paused after {pause.round} losses, next probe is due" in later
    client.ask("DELETE", "/v1/experiments/x/arms/%3Cb%3E")
    assert ": paused" not in admin.get("/experiments/x?span=0")


def seconds_of(clock: str) -> int:
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def test_events_are_told_without_the_learner(client: Client, admin: Visitor) -> None:
    client.experiment("x", ["a", "b"], wait="PT5S", default_loss=7.0)
    client.decide("one")
    client.ask("PUT", "/v1/experiments/x/decisions/one/feedback", {"loss": 2.5})
    client.decide("two", n=3)
    client.sleep(6.0)
    client.ask("PUT", "/v1/experiments/x/arms/c")
    client.ask("PATCH", "/v1/experiments/x", {"default_loss": 8})
    exported = client.ask("GET", "/v1/experiments/x/export").content
    client.ask("POST", "/v1/experiments/x/import", exported)
    text = check_markup(admin.get("/experiments/x")).text
    for told in (
        "the experiment begins", "with probability 0.5", "loss 2.5 for", "and 2 more", "3 learned the default loss",
        "a, b, c", "settings changed", "another learner was imported",
    ):  # fmt: skip
        assert told in text, told
    assert "generator" not in text and "buffer" not in text


def difference(paid: float, mean: float, low: float | None, high: float | None, maximize: bool = False) -> Estimates:
    sign = -1.0 if maximize else 1.0
    ends = [None if end is None else sign * (end - paid) for end in (low, high)]
    saved = Difference(sign * (mean - paid), *(ends[::-1] if maximize else ends))
    return Estimates(9, paid, {}, Estimate(mean, low, high, 0.95, 9.0, []), None, None, saved)


@pytest.mark.parametrize(
    ("estimates", "maximize", "number", "label", "interval", "kind"),
    [
        (difference(59.0, 100.0, 95.0, 105.0), False, "41 %", "saved against", "38 to 44 %", "good"),
        (difference(110.0, 100.0, 95.0, 105.0), False, "10 %", "lost against", "−16 to −5 %", "bad"),
        (difference(99.0, 100.0, 90.0, 110.0), False, "1 %", "no clear difference", "−10 to 10 %", "unknown"),
        (difference(150.0, 100.0, 75.0, 125.0, True), True, "50 %", "gained against", "20 to 100 %", "good"),
        (difference(-3.0, -1.0, -2.0, 0.5), False, "2", "loss per decision saved", "1 to 3.5", "good"),
        (difference(1.0, 2.0, None, None), False, "1", "interval not known", "from 9 decisions", "unknown"),
        (Estimates(0), False, "–", "nothing saved yet", "no feedback", "unknown"),
        (Estimates(4, 1.0), False, "–", "not known yet", "too little", "unknown"),
        (None, False, "…", "estimating", "log", "unknown"),
    ],
)
def test_a_saving_is_a_number_with_its_interval(
    estimates: Any, maximize: bool, number: str, label: str, interval: str, kind: str
) -> None:
    found = words.saving(estimates, maximize)
    assert found.number == number and label in found.label and interval in found.interval and found.kind == kind


# Probabilities over time.


def noted(client: Client) -> list[Any]:
    """Return all points: of which experiment and span, when, and after how many draws."""
    return client.query("SELECT experiment, span, at, draws FROM history ORDER BY at")


@settings(max_examples=30)
@given(gaps=st.lists(st.floats(0.0, 1e5), min_size=1, max_size=60), repeats=st.integers(1, 8))
@example(gaps=[2.5] * 60, repeats=8)
def test_history_is_bounded_in_time_order_and_spans_the_life(tmp_path_factory: Any, gaps: Any, repeats: int) -> None:
    with Client(tmp_path_factory.mktemp("history")) as client:
        client.experiment("x")
        found = client.service.experiment("x")
        made = [client.now]
        client.run(history.note(client.service))
        for gap in gaps * repeats:
            client.now += gap
            found.seq += 1  # as if something had happened; what it was, points do not ask
            client.run(history.note(client.service))
            if gap > 2.0:
                made.append(client.now)
        rows = {span: [at for _, each, at, *_ in noted(client) if each == span] for span in range(len(SPANS))}
        assert len(rows[LIFE]) <= MOST_OF_LIFE and sum(map(len, rows.values())) <= 420
        assert min(rows[LIFE]) == made[0]  # the life is seen from its beginning
        for number, span in enumerate(SPANS):
            ordered = sorted(rows[number])
            assert all(later - sooner >= span.every for sooner, later in itertools.pairwise(ordered))
            if span.back is not None:
                assert all(at >= ordered[-1] - span.back for at in ordered)
                kept = [at for at in made if at >= made[-1] - span.back]
                assert not kept or ordered[-1] >= kept[-1] - span.every - history.LOOK_EVERY


@example(ats=[float(at) for at in range(MOST_OF_LIFE)], later=0.0)
@given(ats=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=400, unique=True), later=st.floats(0.0, 1e6))
def test_thinning_leaves_half_as_many_points_evenly(ats: list[float], later: float) -> None:
    now = max(ats) + later
    gone = history.thinned(ats, now)
    kept = sorted(set(ats) - set(gone))
    assert kept[0] == min(ats) and len(kept) <= MOST_OF_LIFE // 2 + 1 and set(gone) <= set(ats)
    gap = 2.0 * (now - kept[0]) / MOST_OF_LIFE
    for at in gone:  # nothing is deleted but what has a neighbour
        assert any(0.0 <= at - other < gap for other in kept)


def test_history_goes_on_after_a_restart_and_notes_only_what_had_events(client: Client) -> None:
    learned(client, 20)
    before = noted(client)
    client.restart()
    client.now += 100.0
    client.run(history.note(client.service))
    client.now += 100.0
    client.run(history.note(client.service))
    after = noted(client)
    assert {row for row in before if row[1] == LIFE} <= set(after)
    assert {at for _, _, at, *_ in after} - {at for _, _, at, *_ in before} == {client.now - 100.0}
    assert sorted(draws for _, span, _, draws, *_ in after if span == LIFE)[-1] == 20


def test_few_points_are_made_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "AT_ONCE", 2)
    for number in range(5):
        client.experiment(f"x{number}")
    counts = []
    for _ in range(4):
        client.run(history.note(client.service))
        counts.append(len({row[0] for row in noted(client)}))
    assert counts == [2, 4, 5, 5]


def test_draws_never_fall_when_an_arm_is_removed(client: Client) -> None:
    learned(client, 30)
    client.ask("DELETE", "/v1/experiments/x/arms/a")
    for number in range(30, 40):
        client.decide(f"d{number}")
        client.now += 3.0
        client.run(history.note(client.service))
    draws = [row[3] for row in sorted(noted(client), key=lambda row: row[2]) if row[1] == LIFE]
    assert draws == sorted(draws) and draws[-1] >= 38


# Charts.


def point(at: float, **shares: float) -> Point:
    return Point(at, 0, 0, 0, shares)


def test_an_arm_keeps_its_colour_when_another_one_comes(client: Client) -> None:
    before = charts.colors(["a", "b"], [point(0.0, a=0.5, b=0.5)])
    after = charts.colors(["a", "b", "c"], [point(0.0, a=0.5, b=0.5), point(1.0, a=0.2, b=0.2, c=0.6)])
    assert before.items() <= after.items()
    removed = charts.colors(["b"], [point(0.0, a=0.5, b=0.5)])
    assert set(removed) == {"a", "b"}


@given(n_arms=st.integers(1, 40))
def test_shares_in_a_chart_add_up_whatever_the_number_of_arms(n_arms: int) -> None:
    arms = [f"arm {number}" for number in range(n_arms)]
    points = [Point(float(at), 0, 0, 0, {arm: 1.0 / n_arms for arm in arms[:20]}) for at in range(3)]
    series = charts.series_of(points, arms)
    assert len(series) <= charts.MOST_SERIES
    assert len({each.color for each in series}) == len(series)
    for at in range(3):
        assert abs(sum(each.shares[at] for each in series) - 1.0) < 1e-9


@given(start=st.floats(1.5e9, 2e9), length=st.floats(1.0, 1e9), most=st.integers(2, 8))
def test_ticks_are_few_round_and_within_the_axis(start: float, length: float, most: int) -> None:
    ticks = charts.time_ticks(start, start + length, most)
    assert len(ticks) <= most + 1
    assert all(start <= at <= start + length and at % 5 == 0 for at, _ in ticks)
    steps = {round(b - a) for (a, _), (b, _) in itertools.pairwise(ticks)}
    assert len(steps) <= 1


@given(wanted=st.lists(st.floats(0.0, 300.0), max_size=12))
def test_labels_do_not_lie_on_each_other(wanted: list[float]) -> None:
    places = charts.apart(sorted(wanted), 17.0, 30.0, 280.0)
    assert all(b - a >= 17.0 - 1e-9 for a, b in itertools.pairwise(places))
    assert all(place <= 280.0 + 1e-9 for place in places)


# Weight and work.


def test_pages_are_light_and_queries_few_whatever_there_is(
    client: Client, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a summary that takes its time, on a busy machine, asks its last question during the next page.
    monkeypatch.setattr("umab_service.dashboard.data._PATIENCE", 60.0)
    arms = [f"a rather long name of an arm, number {number}" for number in range(1000)]
    client.experiment("a-large", arms)
    for number in range(40):
        client.experiment(f"x{number:03d}", [f"arm {each}" for each in range(12)])
    for _ in range(170):
        client.now += 30.0
        for each in client.service.by_id.values():
            each.seq += 1
        client.run(history.note(client.service))
    counted: list[str] = []
    read = client.service.read

    async def counting(query: str, parameters: Any = ()) -> Any:
        counted.append(query)
        return await read(query, parameters)

    client.service.read = counting  # type: ignore[method-assign]
    admin.get("/")
    for path, most in {"/": 4, "/live": 4, "/experiments/a-large": 5, "/experiments/x000/live?span=2": 4}.items():
        counted.clear()
        weight = len(admin.get(path))
        assert weight <= MOST_BYTES, (path, weight)
        assert len(counted) <= most, (path, counted)
    files = set(re.findall(r'"(/static/[^"]+)"', admin.get("/")))
    weights = [len(admin.ask("GET", file).content) for file in files]
    assert sum(weights) <= 40_000
