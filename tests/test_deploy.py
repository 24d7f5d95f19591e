"""The files in deploy/: what they name exists, and what can run without a container engine runs for real."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette")

import yaml
from pages.deploy_words import ALERTS, ROWS
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from helpers import PATIENCE
from pages import deploy
from postgres import needs_postgres, postgres
from service_app import Client
from service_process import KEY, free_port
from umab import cli
from umab_service.silence import MOST_SINCE_SNAPSHOTS

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
SERVERS = {name: each for name, each in SERVICES.items() if "build" in each}
(NETWORK,) = [each["subnet"] for each in COMPOSE["networks"]["default"]["ipam"]["config"]]
EXAMPLE = dict(
    line.split("=", 1)
    for line in (DEPLOY / "example.env").read_text().splitlines()
    if line and not line.startswith("#")
)
PROMETHEUS = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
DASHBOARD = json.loads((DEPLOY / deploy.DASHBOARD).read_text())
PANELS = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
QUERIES = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]


def program(name: str, needed: str) -> str:
    """Return a program of the system; without it, leave a test out, or let it fail where it must not be missing."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get(needed):
            pytest.fail(f"these tests need {name}, and {needed} is set; install Debian's package")
        pytest.skip(f"there is no {name}; install Debian's package to run these tests")
    return found


@pytest.fixture(scope="module")
def promtool() -> str:
    return program("promtool", "UMAB_PROMETHEUS_NEEDED")


def run(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, **more)


# The metrics.


class Series(NamedTuple):
    """A series of a server, and its value at two times."""

    name: str
    labels: dict[str, str]
    values: tuple[float, float]

    def __str__(self) -> str:
        labels = {**self.labels, "instance": "umab-1:8080", "job": "umab"}
        return f"{self.name}{{{', '.join(f'{name}={json.dumps(value)}' for name, value in labels.items())}}}"

    @property
    def notation(self) -> str:
        """The values as promtool reads them: from the first on, as many more each minute."""
        first, second = self.values
        return f"{first}{second - first:+}x60"


def traffic(client: Client, time: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Do something of everything, and return what Prometheus would read."""
    for number in range(20):
        for name in ("x", "y"):
            client.decide(f"{time}-{number}", name)
            if number % 4:
                path = f"/v1/experiments/{name}/decisions/{time}-{number}/feedback"
                assert client.ask("PUT", path, {"loss": number}).status == 200
    client.decide(f"{time}-sum", "sum")
    path = f"/v1/experiments/sum/decisions/{time}-sum/feedback"
    assert client.ask("PUT", path, {"loss": 1, "key": "a"}).status == 200
    client.sleep(100)
    assert client.ask("PUT", f"/v1/experiments/x/decisions/{time}-0/feedback", {"loss": 1}).status == 410
    assert client.ask("GET", "/healthz").status == client.ask("GET", "/readyz").status == 200
    assert client.ask("GET", "/v1/experiments", key="umab_no_key").status == 401
    client.app.metrics.answered("GET /readyz", 503, 0.01)
    client.app.metrics.answered("POST /v1/experiments/{name}/decisions", 503, 0.01)
    text = client.ask("GET", "/metrics").content.decode()
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return {(each.name, tuple(each.labels.items())): each.value for family in families for each in family.samples}


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> list[Series]:
    """What a real application has at /metrics, at two times."""
    with Client(tmp_path_factory.mktemp("deploy")) as client:
        client.experiment("x", wait="PT1M", default_loss=5.0)
        client.experiment("y", wait="PT1M", forget=True)
        client.experiment("sum", wait="PT1M", forget=True, aggregation="sum")
        first, second = traffic(client, "first"), traffic(client, "second")
    return [Series(name, dict(labels), (first.get((name, labels), 0.0), at)) for (name, labels), at in second.items()]


GIVEN = {"instance", "job"}
"""Labels that Prometheus adds."""
SELECTOR = re.compile(r'\b(umab_\w+|up)(?:\{((?:[^}"]|"[^"]*")*)\})?')
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def selectors(expression: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the series that an expression selects, with the conditions on their labels."""
    for name, matchers in SELECTOR.findall(expression):
        yield name, MATCHER.findall(matchers)


def grouped(expression: str) -> set[str]:
    """Return the labels that an expression adds up by."""
    found = re.findall(r"\b(?:by|ignoring|on) \(([^)]*)\)", expression)
    return {label.strip() for each in found for label in each.split(",")}


EXPRESSIONS = sorted(set(deploy.expressions()) - {deploy.VARIABLE})


def test_there_is_something_to_check() -> None:
    assert len(ALERTS) >= 8 and len(PANELS) >= 12 and len(EXPRESSIONS) > 25
    assert {each["expr"] for _, each in QUERIES} < set(EXPRESSIONS)
    assert all(list(selectors(each)) for each in EXPRESSIONS)
    found = 'sum by (route, le) (rate(umab_a{route=~"{x}", status!="2"}[5m])) / umab_b'
    assert list(selectors(found)) == [("umab_a", [("route", "=~", "{x}"), ("status", "!=", "2")]), ("umab_b", [])]
    assert grouped(found) == {"route", "le"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_series_and_labels_of_an_expression_are_those_of_a_server(expression: str, exposed: list[Series]) -> None:
    labels_of = {each.name: set(each.labels) for each in exposed} | {"up": set[str]()}
    for name, matchers in selectors(expression):
        assert name in labels_of
        for label, kind, value in matchers:
            assert label in labels_of[name] | GIVEN
            if value.startswith("$") or label in GIVEN:
                continue
            values = {each.labels[label] for each in exposed if each.name == name}
            pattern = value if "~" in kind else re.escape(value)
            assert any(re.fullmatch(pattern, each) for each in values), (label, value, values)
        assert grouped(expression) <= labels_of[name] | GIVEN


def test_the_experiments_to_choose_from_are_those_of_a_server(exposed: list[Series]) -> None:
    _, name, label = re.split(r"\(|, |\)", deploy.VARIABLE)[:3]
    assert {each.labels[label] for each in exposed if each.name == name} == {"x", "y", "sum"}


def test_a_metric_that_is_renamed_is_found() -> None:
    used = {name for each in deploy.expressions() for name, _ in selectors(each)} - {"up"}
    assert len(used) > 12
    deploy.check(used)
    for each in used:
        with pytest.raises(ValueError, match=rf"series that a server has, but got \['{each}'\]"):
            deploy.check(used - {each})


def test_every_metric_of_a_server_is_on_the_dashboard(exposed: list[Series]) -> None:
    shown = {name for _, each in QUERIES for name, _ in selectors(each["expr"])}
    unused = {each.name for each in exposed} - shown
    assert unused == {"umab_request_seconds_count", "umab_request_seconds_sum"}


def test_the_files_are_what_the_words_say() -> None:
    for path, text in deploy.files(DEPLOY, ROOT / "docs").items():
        assert path.read_text(encoding="utf-8") == text, "run python -m pages.deploy deploy docs"


# Prometheus.


def test_prometheus_takes_the_configuration_and_the_rules(promtool: str) -> None:
    checked = run(promtool, "check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yml")
    assert checked.returncode == 0, checked.stderr
    checked = run(promtool, "check", "rules", DEPLOY / deploy.RULES)
    assert checked.returncode == 0 and f"{len(ALERTS)} rules found" in checked.stdout, checked.stderr
    assert [DEPLOY / "prometheus" / each for each in PROMETHEUS["rule_files"]] == [DEPLOY / deploy.RULES]


class Question(NamedTuple):
    """What an expression must give at a time."""

    expression: str
    at: str
    value: float | None


def asked(promtool: str, folder: Path, series: dict[str, str], questions: list[Question], interval: str = "1m") -> str:
    """Return what is wrong with the answers of the real Prometheus about these series."""
    test = {
        "interval": interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": each.expression,
                "eval_time": each.at,
                "exp_samples": [] if each.value is None else [{"labels": "{}", "value": each.value}],
            }
            for each in questions
        ],
    }
    content = {"rule_files": [str(DEPLOY / deploy.RULES)], "evaluation_interval": interval, "tests": [test]}
    path = folder / "test.yml"
    path.write_text(json.dumps(content))  # which is YAML too
    found = run(promtool, "test", "rules", path)
    return "" if found.returncode == 0 else found.stdout + found.stderr


class Case(NamedTuple):
    """Series that make an alert fire, and series that are nearly so but do not."""

    at: str
    fires: dict[str, str]
    silent: list[dict[str, str]]
    interval: str = "1m"


def requests(route: str, status: int) -> str:
    return f'umab_requests_total{{instance="a", route="{route}", status="{status}"}}'


def bucket(route: str, bound: str) -> str:
    return f'umab_request_seconds_bucket{{instance="a", route="{route}", le="{bound}"}}'


def of_arm(metric: str, experiment: str, arm: str = "a", instance: str = "a") -> str:
    return f'{metric}{{experiment="{experiment}", arm="{arm}", instance="{instance}"}}'


DECIDE, REPORT, READY = "POST /v1/experiments/{name}/decisions", "GET /v1/experiments/{name}/report", "GET /readyz"
OPEN = 'umab_open_choices{instance="%s"}'
CASES = {
    "UmabDown": Case(
        "5m",
        {'up{job="umab", instance="a"}': "1 0x10", 'up{job="umab", instance="b"}': "1x10"},
        [{'up{job="umab", instance="a"}': "1x4 0", 'up{job="other", instance="b"}': "0x10"}],
    ),
    "UmabNotReady": Case(
        "10m",
        {requests(READY, 503): "0+10x10"},
        [{requests(READY, 503): "7x10", requests(READY, 200): "0+10x10", requests(DECIDE, 503): "0+10x10"}],
    ),
    "UmabCannotStore": Case(
        "8m",
        {'umab_failed_commits_total{instance="a"}': "0x5 1x5", 'umab_commits_total{instance="a"}': "0+9x10"},
        [{'umab_failed_commits_total{instance="a"}': "1x10", 'umab_commits_total{instance="a"}': "0+9x10"}],
    ),
    "UmabStoresNothing": Case(
        "10m",
        {'umab_failed_commits_total{instance="a"}': "0+3x10", 'umab_commits_total{instance="a"}': "100x10"},
        [
            {'umab_failed_commits_total{instance="a"}': "0+3x10", 'umab_commits_total{instance="a"}': "100+1x10"},
            {'umab_failed_commits_total{instance="a"}': "3x10", 'umab_commits_total{instance="a"}': "100x10"},
        ],
    ),
    "UmabFails": Case(
        "20m",
        {requests(DECIDE, 503): "0+2x20", requests(DECIDE, 201): "0+98x20", requests(READY, 200): "0+900x20"},
        [{requests(DECIDE, 503): "0+1x20", requests(DECIDE, 201): "0+199x20", requests(READY, 503): "0+900x20"}],
    ),
    "UmabSlow": Case(
        "20m",
        {
            bucket(DECIDE, "0.05"): "0+98x20",
            bucket(DECIDE, "0.1"): "0+100x20",
            bucket(DECIDE, "+Inf"): "0+100x20",
            bucket(REPORT, "0.05"): "0+9000x20",
            bucket(REPORT, "0.1"): "0+9000x20",
            bucket(REPORT, "+Inf"): "0+9000x20",
        },
        [
            {
                bucket(DECIDE, "0.05"): "0+100x20",
                bucket(DECIDE, "0.1"): "0+100x20",
                bucket(DECIDE, "+Inf"): "0+100x20",
                bucket(REPORT, "0.05"): "0x20",
                bucket(REPORT, "0.1"): "0x20",
                bucket(REPORT, "+Inf"): "0+9000x20",
            }
        ],
    ),
    "UmabMostlySilence": Case(
        "7h",
        {
            'umab_expired_total{instance="a"}': "0+2x500",
            'umab_forgotten_total{instance="b"}': "0+1x500",
            'umab_learned_total{instance="a"}': "0+2x500",
        },
        [
            {
                'umab_expired_total{instance="a"}': "0+1x500",
                'umab_forgotten_total{instance="b"}': "0+1x500",
                'umab_learned_total{instance="a"}': "0+3x500",
            },
            {name: "7x500" for name in ("umab_expired_total", "umab_forgotten_total", "umab_learned_total")},
        ],
    ),
    "UmabNoFeedback": Case(
        "2h",
        {
            of_arm("umab_draws_total", "x"): "1000+1x120",
            of_arm("umab_draws_total", "x", "b"): "1000+1x120",
            of_arm("umab_feedback_total", "x"): "500x120",
            of_arm("umab_feedback_total", "x", "b"): "0x120",
            of_arm("umab_feedback_total", "other"): "0+1x120",
        },
        [
            {of_arm("umab_draws_total", "goes-on"): "0+2x120", of_arm("umab_feedback_total", "goes-on"): "0+1x120"},
            {of_arm("umab_draws_total", "never-had"): "0+2x120", of_arm("umab_feedback_total", "never-had"): "0x120"},
            {of_arm("umab_draws_total", "seldom"): "0+1x120", of_arm("umab_feedback_total", "seldom"): "9x120"},
            {  # another server has taken over
                of_arm("umab_draws_total", "moved"): "1000x60 _x60",
                of_arm("umab_feedback_total", "moved"): "900x60 _x60",
                of_arm("umab_draws_total", "moved", instance="b"): "_x60 1000+1x60",
                of_arm("umab_feedback_total", "moved", instance="b"): "_x60 900+1x60",
            },
        ],
    ),
    "UmabOpenChoicesGrow": Case(
        "30h",
        {OPEN % "a": "6000x300 13100x100", OPEN % "b": "1000x400"},
        [
            {OPEN % "a": "6000x300 12900x100", OPEN % "b": "1000x400"},
            {OPEN % "a": "100x300 9000x100"},
            {OPEN % "a": "20000x300 _x100", OPEN % "b": "_x300 20000x100"},
        ],
        "5m",
    ),
    "UmabNoSnapshots": Case(
        "20m",
        {'umab_events_since_snapshots{instance="a"}': f"{2 * MOST_SINCE_SNAPSHOTS + 1}x30"},
        [{f'umab_events_since_snapshots{{instance="{each}"}}': f"{2 * MOST_SINCE_SNAPSHOTS}x30" for each in "ab"}],
    ),
    "UmabWrongKeys": Case(
        "30m",
        {requests("other", 401): "0+50x30", requests("other", 429): "0+20x30"},
        [{requests("other", 401): "0+30x30", requests("other", 429): "0+20x30", requests(DECIDE, 404): "0+900x30"}],
    ),
}


@pytest.mark.parametrize("name", [each.name for each in ALERTS])
def test_an_alert_fires_when_it_should_and_only_then(name: str, promtool: str, tmp_path: Path) -> None:
    case = CASES[name]
    fires = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
    assert not asked(promtool, tmp_path, case.fires, [Question(fires, case.at, 1.0)], case.interval)
    for series in case.silent:
        assert not asked(promtool, tmp_path, series, [Question(fires, case.at, None)], case.interval)


def test_an_alert_waits_before_it_fires(promtool: str, tmp_path: Path) -> None:
    """So a server that is away for one scrape wakes nobody."""
    state = 'count(ALERTS{alertname="UmabDown", alertstate="%s"})'
    questions = [Question(state % "firing", "5m", None), Question(state % "pending", "5m", 1.0)]
    assert not asked(promtool, tmp_path, {'up{job="umab", instance="a"}': "1x4 0x5"}, questions)


def test_every_alert_has_a_case_and_says_what_to_do() -> None:
    assert set(CASES) == {each.name for each in ALERTS}
    for rule in yaml.safe_load((DEPLOY / deploy.RULES).read_text())["groups"][0]["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert all(len(rule["annotations"][each]) > 15 for each in ("summary", "description"))


def test_every_query_of_the_dashboard_has_values(promtool: str, tmp_path: Path, exposed: list[Series]) -> None:
    series = {str(each): each.notation for each in exposed} | {'up{job="umab", instance="umab-1:8080"}': "1x60"}
    questions = []
    for _, target in QUERIES:
        expression = target["expr"].replace("$__rate_interval", "5m").replace("$experiment", ".*")
        questions.append(Question(f"count(({expression}) >= 0) > bool 0", "30m", 1.0))  # which leaves out NaN too
    assert not asked(promtool, tmp_path, series, questions)


def test_means_and_shares_of_the_dashboard_are_right(promtool: str, tmp_path: Path) -> None:
    series = {
        of_arm("umab_draws_total", "x"): "10+3x60",
        of_arm("umab_draws_total", "x", "b"): "10+1x60",
        of_arm("umab_draws_total", "y", "b"): "10+9x60",
        of_arm("umab_feedback_total", "x"): "10+2x60",
        of_arm("umab_feedback_sum", "x"): "100-5x60",
    }
    by_title = {title: target["expr"] for title, target in QUERIES}
    for title, arm, value in (
        ("Share of draws by arm", 'arm="a"', 0.75),
        ("Mean loss by arm, lately", 'arm="a"', -2.5),
        ("Mean loss by arm, of all feedback", 'arm="a"', (100 - 5 * 30) / (10 + 2 * 30)),
    ):
        expression = by_title[title].replace("$__rate_interval", "5m").replace("$experiment", "x")
        only = f"sum(({expression}) and on (arm) umab_draws_total{{{arm}}})"
        assert not asked(promtool, tmp_path, series, [Question(only, "30m", value)])


# Grafana.


def test_the_dashboard_is_laid_out_without_overlaps_and_gaps() -> None:
    ids = [each["id"] for each in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for each in DASHBOARD["panels"]:
        at = each["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert mine and not mine & cells, each["title"]
        cells |= mine
    assert {x for x, _ in cells} == set(range(24)) and len(cells) == 24 * (1 + max(y for _, y in cells))


@pytest.mark.parametrize("panel", PANELS, ids=[f"{each['id']}-{each['title']}" for each in PANELS])
def test_a_panel_can_be_understood(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 15 and panel["title"]
    assert panel["fieldConfig"]["defaults"]["unit"] in {"short", "s", "reqps", "ops", "percentunit", "none"}
    assert panel["type"] in ("stat", "timeseries")
    assert [each["refId"] for each in panel["targets"]] == list("ABCDE")[: len(panel["targets"])]
    for each in panel["targets"]:
        assert each["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert set(re.findall(r"{{(\w+)}}", each["legendFormat"])) == grouped(each["expr"]) - {"le"}, each
        assert set(re.findall(r"\$(\w+)", each["expr"])) <= {"experiment", "__rate_interval"}


def test_the_dashboard_has_a_data_source_and_experiments_to_choose() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "experiment"]
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    experiment = variables["experiment"]
    assert experiment["query"]["query"] == deploy.VARIABLE and experiment["includeAll"] and experiment["multi"]
    assert any("$experiment" in each["expr"] for _, each in QUERIES)
    assert len(ROWS) == sum(each["type"] == "row" for each in DASHBOARD["panels"])


# The files that compose reads.


KNOWN = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "ports", "profiles",
    "pull_policy", "restart", "secrets", "security_opt", "stop_grace_period", "volumes",
}  # fmt: skip
"""The keys of services that are used. Compose refuses one that it does not know; so does this."""


def test_the_compose_file_has_only_known_keys_and_names_that_exist() -> None:
    assert set(COMPOSE) - {"x-server", "x-network"} == {"name", "services", "secrets", "networks", "volumes"}
    assert set(SERVICES) == {"umab-1", "umab-2", "postgres", "proxy", "prometheus", "grafana"}
    for name, each in SERVICES.items():
        assert set(each) <= KNOWN, name
        assert set(each.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(each.get("depends_on", ())) <= set(SERVICES)
        assert each["restart"] == "unless-stopped"
        for volume in each.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith("./") else source in COMPOSE["volumes"], volume
        for value in each.get("environment", {}).values():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in each["secrets"]
    used = {each for service in SERVICES.values() for each in service.get("secrets", ())}
    assert used == set(COMPOSE["secrets"])


def test_every_variable_has_an_example_and_no_secret_has_a_value() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    secrets = {each["environment"] for each in COMPOSE["secrets"].values()}
    assert set(re.findall(r"\$\{?(\w+)", text)) | secrets == set(EXAMPLE)
    assert {name for name, value in EXAMPLE.items() if value} == set(EXAMPLE) - secrets
    assert re.findall(r"{\$(\w+)", (DEPLOY / "Caddyfile").read_text()) == list(SERVICES["proxy"]["environment"])
    for service in SERVICES.values():  # a secret is in a file, and only its place is in the environment
        for name, value in service.get("environment", {}).items():
            assert not re.search("PASSWORD|KEY|SECRET", name) or value.startswith("/run/secrets/"), name
    ignored = (ROOT / ".gitignore").read_text().splitlines() if (ROOT / ".gitignore").exists() else ["/deploy/.env"]
    assert "/deploy/.env" in ignored


def test_only_the_proxy_can_be_reached_from_elsewhere() -> None:
    for name, each in SERVICES.items():
        if name != "proxy":
            assert all(port.startswith("127.0.0.1:") for port in each.get("ports", ())), name
    assert SERVICES["proxy"]["ports"] == ["80:80", "443:443"]


def options_of(command: list[str]) -> Any:
    """Return what `umab` makes of a command: it ends if a flag does not exist."""
    return cli._parser().parse_args(command)


def test_the_servers_are_started_with_flags_that_exist_and_know_their_own_addresses() -> None:
    assert len(SERVERS) == 2
    for name, each in SERVERS.items():
        options = options_of(each["command"])
        assert options.host == "0.0.0.0" and options.port == 8080
        assert options.advertise == f"http://{name}:8080"
        assert options.proxy == NETWORK
        assert each["environment"]["UMAB_DATABASE"].startswith("postgresql://umab@postgres/")
        assert each["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]


def test_proxy_prometheus_and_grafana_look_where_the_others_are() -> None:
    addresses = [f"{name}:8080" for name in SERVERS]
    assert upstreams() == addresses
    (job,) = PROMETHEUS["scrape_configs"]
    assert job["job_name"] == "umab" and job["static_configs"] == [{"targets": addresses}]
    (secret,) = SERVICES["prometheus"]["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    mounted = dict(each.split(":")[:2] for each in SERVICES["grafana"]["volumes"])
    provisioning = DEPLOY / "grafana" / "provisioning"
    assert mounted["./grafana/provisioning"] == "/etc/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090" and source["isDefault"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "umab.yml").read_text())["providers"]
    assert mounted[f"./{deploy.DASHBOARD}"] == f"{provider['options']['path']}/umab.json"
    assert "./prometheus:/etc/prometheus:ro" in SERVICES["prometheus"]["volumes"]
    assert all(SERVICES[each]["profiles"] == ["monitoring"] for each in ("prometheus", "grafana"))


# The image.


class Step(NamedTuple):
    """An instruction of the container file."""

    kind: str
    text: str

    @property
    def words(self) -> list[str]:
        """What an instruction in the form of a list has."""
        found: list[str] = json.loads(self.text[self.text.index("[") :])
        return found


def stages() -> list[list[Step]]:
    """Return the steps of the container file, stage by stage."""
    lines = [each for each in (DEPLOY / "Containerfile").read_text().splitlines() if not each.startswith("#")]
    found: list[list[Step]] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line:
            kind, _, text = line.partition(" ")
            if kind == "FROM":
                found.append([])
            found[-1].append(Step(kind, text.strip()))
    return found


def only(steps: list[Step], kind: str) -> Step:
    (found,) = [each for each in steps if each.kind == kind]
    return found


def sources_of(steps: list[Step]) -> list[str]:
    """Return what is copied from the checkout."""
    copies = [shlex.split(each.text) for each in steps if each.kind == "COPY" and "--from" not in each.text]
    return [word for words in copies for word in words[:-1] if not word.startswith("--")]


def test_the_image_is_small_runs_as_nobody_special_and_tells_whether_it_lives() -> None:
    build, last = stages()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for stage in (build, last):
        base = re.match(r"docker.io/library/python:(3\.\d+)-slim\b", only(stage, "FROM").text)
        assert base and f"Programming Language :: Python :: {base[1]}" in project["classifiers"]
    (extras,) = re.findall(r"'\.\[(.+)\]'", only(build, "RUN").text)
    assert set(extras.split(",")) == {"serve", "postgres"} <= set(project["optional-dependencies"])
    assert not any(re.search(r"\b(pip|apt|apt-get|gcc)\b", each.text) for each in last)
    kinds = [each.kind for each in last]
    assert only(last, "USER").text == "umab" and kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert only(last, "EXPOSE").text == "8080"
    assert "127.0.0.1:8080/healthz" in only(last, "HEALTHCHECK").words[-1]
    options = options_of(only(last, "CMD").words)
    assert options.host == "0.0.0.0" and options.port == 8080
    found, volume = variables(last, {}), only(last, "VOLUME").text
    assert found["UMAB_DATABASE"] == f"sqlite:///{volume}/umab.db"
    assert not found["NUMBA_CACHE_DIR"].startswith(volume)  # an older volume would hide what was compiled


def test_the_image_gets_the_files_that_it_needs_and_no_others() -> None:
    copied = [each for stage in stages() for each in sources_of(stage)]
    assert all((ROOT / each).exists() for each in copied)
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    patterns = [each for each in lines if not each.startswith("#")]
    assert patterns == ["*", *(f"!{each}" for each in copied), "**/__pycache__"]


def variables(steps: list[Step], before: dict[str, str]) -> dict[str, str]:
    """Return the environment that the steps of a stage set."""
    found = dict(before)
    for each in steps:
        if each.kind == "ENV":
            for name, value in (word.split("=", 1) for word in shlex.split(each.text)):
                found[name] = re.sub(r"\$(\w+)", lambda used: found.get(used[1], ""), value)
    return found


def stub(folder: Path) -> dict[str, str]:
    """Make an umab that prints what it got; return the environment to find it in."""
    (folder / "umab").write_text('#!/bin/sh\nprintf "%s|" "$UMAB_ADMIN_KEY" "$PGPASSWORD" "$@"\n')
    (folder / "umab").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_secrets_come_from_files_or_from_the_environment(tmp_path: Path) -> None:
    environment = stub(tmp_path)
    (tmp_path / "key").write_text("umab_a_b\n")
    (tmp_path / "password").write_text('a "b" $c `d`\n')
    files = {"UMAB_ADMIN_KEY_FILE": str(tmp_path / "key"), "PGPASSWORD_FILE": str(tmp_path / "password")}
    entrypoint = DEPLOY / "entrypoint"
    assert os.access(entrypoint, os.X_OK)
    assert run(entrypoint, "serve", "a b", env={**environment, **files}).stdout == 'umab_a_b|a "b" $c `d`|serve|a b|'
    given = {"UMAB_ADMIN_KEY": "key", "PGPASSWORD": "password"}
    assert run(entrypoint, "serve", env={**environment, **given}).stdout == "key|password|serve|"
    missing = run(entrypoint, "serve", env={**environment, "PGPASSWORD_FILE": str(tmp_path / "no")})
    assert missing.returncode != 0 and missing.stdout == "" and "no" in missing.stderr
    read = {name for each in SERVERS.values() for name in each["environment"] if name.endswith("_FILE")}
    assert read == set(files)


@pytest.mark.slow
def test_the_steps_of_the_container_file_give_a_server_that_lives(tmp_path: Path) -> None:
    """All that needs no container engine: what is copied, installed, compiled, started and asked."""
    build, last = stages()

    def moved(text: str) -> str:
        """Return a text with folders of the image below a folder of this machine."""
        return re.sub(r"/(opt|var/lib|usr/local/bin)/", lambda found: f"{tmp_path}/{found[1]}/", text)

    for folder in ("build/deploy", "opt", "var/lib/umab", "usr/local/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for source in (*sources_of(build), *sources_of(last)):
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / "build" / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, tmp_path / "build" / source)
    shutil.copy(tmp_path / "build/deploy/entrypoint", tmp_path / "usr/local/bin/entrypoint")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UMAB", "NUMBA"))}
    clean["PATH"] = f"{Path(sys.executable).parent}:{tmp_path}/usr/local/bin:{clean['PATH']}"

    def shell(step: Step, environment: dict[str, str]) -> None:
        done = run("sh", "-ec", moved(step.text), env=environment, cwd=tmp_path / "build")
        assert done.returncode == 0, done.stderr

    shell(only(build, "RUN"), clean)
    assert not list((tmp_path / "opt/umab/bin").glob("pip*"))
    shutil.rmtree(tmp_path / "build")
    (tmp_path / "build").mkdir()
    environment = {name: moved(value) for name, value in variables(last, clean).items()}
    for step in last:
        if step.kind == "RUN" and not step.text.startswith("useradd"):
            shell(step, environment)
    compiled = machine_code(tmp_path)
    assert compiled
    port = free_port()
    environment |= {"UMAB_ADMIN_KEY": KEY, "UMAB_PORT": str(port)}
    command = [*only(last, "ENTRYPOINT").words, *only(last, "CMD").words]
    with started(command, environment, tmp_path, lambda: answer(port, "GET", "/readyz")[0] == 200) as process:
        alive = [each.replace(":8080", f":{port}") for each in only(last, "HEALTHCHECK").words]
        assert run(*alive, env=environment).returncode == 0
        assert answer(port, "GET", "/v1/experiments")[0] == 200
        assert (tmp_path / "var/lib/umab/data/umab.db").exists()
    assert process.returncode == 0  # SIGTERM reaches the server itself
    assert run(*alive, env=environment).returncode != 0
    assert machine_code(tmp_path) == compiled, "the server compiles at its start what the image should have"
    shutil.rmtree(tmp_path)  # a quarter of a gigabyte, which pytest would keep for three more runs


def machine_code(folder: Path) -> dict[str, int]:
    return {str(each): each.stat().st_mtime_ns for each in folder.rglob("*.nb[ic]")}


# Running.


@contextlib.contextmanager
def started(
    command: list[str], environment: dict[str, str], folder: Path, ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, from when it is ready until the end."""
    output = folder / f"{Path(command[0]).name}.txt"
    with output.open("ab") as file:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        end = time.monotonic() + PATIENCE
        while True:
            assert process.poll() is None and time.monotonic() < end, output.read_text()
            with contextlib.suppress(OSError, http.client.HTTPException):
                if ready():
                    break
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(timeout=PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it may have left behind


def answer(
    port: int, method: str, path: str, body: Any = None, *, key: str = KEY, tls: ssl.SSLContext | None = None
) -> tuple[int, Any, dict[str, str]]:
    """Return the status, the content and the headers of an answer."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        if tls is None
        else http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=tls)
    )
    with contextlib.closing(connection):
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        text = response.read()
        is_json = response.headers.get("content-type", "") == "application/json"
        return response.status, json.loads(text) if is_json else text, dict(response.headers.items())


def upstreams() -> list[str]:
    """Return the servers that the proxy passes requests to."""
    (found,) = re.findall(r"^\treverse_proxy ([^{]+) {$", (DEPLOY / "Caddyfile").read_text(), re.MULTILINE)
    return str(found).split()


@pytest.fixture(scope="module")
def caddy() -> str:
    return program("caddy", "UMAB_PROXY_NEEDED")


def test_the_proxy_takes_its_configuration(caddy: str, tmp_path: Path) -> None:
    environment = {**os.environ, "UMAB_SITE": EXAMPLE["UMAB_SITE"], "XDG_DATA_HOME": str(tmp_path)}
    command = [caddy, "adapt", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")]
    adapted = run(*command, "--validate", env={**environment, "HOME": str(tmp_path)})
    assert adapted.returncode == 0, adapted.stderr
    assert "not formatted" not in adapted.stderr
    configuration = adapted.stdout
    for each in (*upstreams(), "/readyz", '"host":["localhost"]', "Strict-Transport-Security"):
        assert each in configuration


def test_the_proxy_lets_go_of_connections_before_the_servers_do() -> None:
    """Else it would send a request into a connection that is being closed, and could not know whether it arrived."""
    (proxy,) = re.findall(r"\bkeepalive (\d+)s", (DEPLOY / "Caddyfile").read_text())
    sources = "".join(each.read_text() for each in (ROOT / "src" / "umab_service").glob("*.py"))
    (server,) = re.findall(r"\btimeout_keep_alive=(\d+)", sources)
    assert int(proxy) < int(server)


@contextlib.contextmanager
def server(name: str, port: int, folder: Path, database: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A server as compose starts it, but on this machine, by default with a database of its own."""
    there = {"0.0.0.0": "127.0.0.1", f"http://{name}:8080": f"http://127.0.0.1:{port}", NETWORK: "127.0.0.0/8"}
    command = ["umab", *(there.get(each, each) for each in SERVERS[name]["command"]), "--port", str(port)]
    environment = {**os.environ, "UMAB_ADMIN_KEY": KEY, "UMAB_DATABASE": database or f"sqlite:///{folder}/{name}.db"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with started(command, environment, folder, lambda: answer(port, "GET", "/readyz")[0] == 200) as process:
        yield process


class Proxy(NamedTuple):
    """Where the proxy is, and how to know it."""

    port: int
    tls: ssl.SSLContext

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
        return answer(self.port, method, path, body, tls=self.tls)


@contextlib.contextmanager
def proxy(caddy: str, ports: dict[str, int], folder: Path) -> Iterator[Proxy]:
    """The proxy as compose starts it, but on this machine."""
    found, http_port = free_port(), free_port()
    text = (DEPLOY / "Caddyfile").read_text()
    for name, port in ports.items():
        text = text.replace(f"{name}:8080", f"127.0.0.1:{port}")
    here = f"skip_install_trust\n\tadmin off\n\thttp_port {http_port}\n\thttps_port {found}"
    (folder / "Caddyfile").write_text(text.replace("skip_install_trust", here))
    environment = {**os.environ, "UMAB_SITE": "localhost", "XDG_DATA_HOME": str(folder), "HOME": str(folder)}
    command = [caddy, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    root = folder / "caddy/pki/authorities/local/root.crt"
    with started(command, environment, folder, lambda: root.exists() and is_open(found)):
        yield Proxy(found, ssl.create_default_context(cafile=root))


on_postgres: pytest.MarkDecorator = needs_postgres()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_the_proxy_passes_requests_to_servers_that_are_ready(caddy: str, tmp_path: Path) -> None:
    ports = {name: free_port() for name in SERVERS}
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(server(name, port, tmp_path)) for name, port in ports.items()}
        for name, port in ports.items():  # so that answers tell who has given them
            assert answer(port, "POST", "/v1/experiments", {"name": name, "arms": ["a", "b"]})[0] == 201
        found = stack.enter_context(proxy(caddy, ports, tmp_path))

        def answering() -> set[str]:
            """Return the servers that answer some requests, none of which may fail."""
            names = set()
            for _ in range(12):
                status, body, headers = found.ask("GET", "/v1/experiments")
                assert status == 200 and headers["Strict-Transport-Security"] == "max-age=31536000"
                names.add(body["experiments"][0]["name"])
            return names

        first, second = SERVERS
        eventually(lambda: answering() == {first, second})
        running[first].kill()  # no request fails: one that reached no server is tried again
        assert answering() == {second}
        with server(first, ports[first], tmp_path):
            eventually(lambda: answering() == {first, second})
            running[second].send_signal(signal.SIGSTOP)  # it takes connections, and says nothing
            time.sleep(5.0)  # a look every 2 s, each for 2 s
            assert answering() == {first}
            running[second].send_signal(signal.SIGCONT)
            eventually(lambda: answering() == {first, second})
        slowed_down_alone(found)


@pytest.mark.slow
@on_postgres
def test_two_servers_on_one_database_behind_the_proxy_are_one_service(caddy: str, tmp_path: Path) -> None:
    ports = {name: free_port() for name in SERVERS}
    decisions = "/v1/experiments/x/decisions"
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(postgres()).url()
        running = {name: stack.enter_context(server(name, port, tmp_path, url)) for name, port in ports.items()}
        found = stack.enter_context(proxy(caddy, ports, tmp_path))
        assert found.ask("POST", "/v1/experiments", {"name": "x", "arms": ["a", "b"]})[0] == 201
        made = {str(number): found.ask("POST", decisions, {"id": str(number)}) for number in range(12)}
        assert {status for status, _, _ in made.values()} == {201}
        kept = [
            name
            for name, port in ports.items()
            if b'umab_draws_total{arm="a",experiment="x"}' in answer(port, "GET", "/metrics")[1]
        ]
        assert len(kept) == 1  # so that sums over servers count nothing twice
        running[kept[0]].kill()
        eventually(lambda: found.ask("POST", decisions, {"id": "afterwards"})[0] == 201)
        for identity, (_, body, _) in made.items():
            assert found.ask("POST", decisions, {"id": identity})[:2] == (200, body)


def is_open(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port)):
        return True


def slowed_down_alone(found: Proxy) -> None:
    """One client guesses keys, and another one is answered: the servers believe the proxy who is who."""

    def status(client: str) -> int:
        with socket.create_connection(("127.0.0.1", found.port), 15, source_address=(client, 0)) as plain:
            with found.tls.wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(b"GET /v1/experiments HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return int(connection.recv(20).split()[1])

    assert 429 in [status("127.0.0.2") for _ in range(30)]
    assert status("127.0.0.3") == 401


@pytest.mark.slow
def test_prometheus_reads_a_real_server_with_a_key_that_may_only_read(tmp_path: Path) -> None:
    prometheus = program("prometheus", "UMAB_PROMETHEUS_NEEDED")
    port, own = free_port(), free_port()
    with server("umab-1", port, tmp_path):
        key = answer(port, "POST", "/v1/keys", {"role": "read"})[1]["key"]
        (tmp_path / "metrics-key").write_text(key)
        text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        for there, here in (
            ("/run/secrets/metrics-key", str(tmp_path / "metrics-key")),
            ("umab-1:8080", f"127.0.0.1:{port}"),
            ("umab-2:8080", "127.0.0.1:1"),
            ("interval: 15s", "interval: 1s"),
            ("alerts.yml", str(DEPLOY / deploy.RULES)),
        ):
            assert there in text
            text = text.replace(there, here)
        (tmp_path / "prometheus.yml").write_text(text)
        command = [prometheus, "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{own}"]
        command.append(f"--storage.tsdb.path={tmp_path / 'series'}")
        with started(command, dict(os.environ), tmp_path, lambda: answer(own, "GET", "/-/ready")[0] == 200):
            end = time.monotonic() + PATIENCE
            while len(found := query(own, 'up{job="umab"}')) < 2:
                assert time.monotonic() < end
                time.sleep(0.2)
            assert found == {f"127.0.0.1:{port}": 1.0, "127.0.0.1:1": 0.0}
            assert query(own, "umab_experiments") == {f"127.0.0.1:{port}": 0.0}
            with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/rules", timeout=PATIENCE) as response:
                (group,) = json.load(response)["data"]["groups"]
            assert [each["name"] for each in group["rules"]] == [each.name for each in ALERTS]


def query(port: int, expression: str) -> dict[str, float]:
    """Return the values of an expression by instance, as Prometheus has them."""
    given = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{given}", timeout=PATIENCE) as response:
        found = json.load(response)["data"]["result"]
    return {each["metric"]["instance"]: float(each["value"][1]) for each in found}


# The page.


def test_the_page_names_files_services_and_profiles_that_exist() -> None:
    page = (ROOT / "docs" / "serve" / "containers.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| `([\w./]+)` \|", page, re.MULTILINE)
    assert set(files) == {each.name + "/" * each.is_dir() for each in DEPLOY.iterdir()} - {
        "Containerfile.dockerignore",
        "entrypoint",
        ".env",
    }
    commands = re.findall(r"docker compose ((?:--profile \w+ )?)(\w+)([^\n]*)", page)
    assert {each for _, each, _ in commands} >= {"up", "kill", "cp", "exec"}
    for profile, action, rest in commands:
        assert not profile or profile.split()[1] in SERVICES["prometheus"]["profiles"]
        if action in ("kill", "exec"):
            assert rest.split()[0] in SERVICES
    for variable in re.findall(r"`(\w*(?:UMAB|PG)\w*)`", page):
        known = {*EXAMPLE, *(name for each in SERVERS.values() for name in each["environment"])}
        assert variable in known | {each.removesuffix("_FILE") for each in known}, variable
    (volume,) = re.findall(r"--volume umab:(\S+)", page)
    assert volume == only(stages()[1], "VOLUME").text
    assert all(each in page for each in (f"--tag {SERVICES['umab-1']['image']} ", "--file deploy/Containerfile"))
